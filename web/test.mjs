// Bundles the unit tests for Node.js and runs them.
import { build } from 'esbuild';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-web-'));
const tests = fs.readdirSync('test').filter((file) => file.endsWith('.test.ts'));
await build({
  entryPoints: tests.map((file) => `test/${file}`),
  outdir: folder,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  platform: 'node',
  format: 'esm',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  logLevel: 'warning',
});
const files = fs.readdirSync(folder).map((file) => path.join(folder, file));
const { status } = spawnSync(process.execPath, ['--test', ...files], { stdio: 'inherit' });
fs.rmSync(folder, { recursive: true });
process.exit(status ?? 1);
