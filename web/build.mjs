// Builds the page: node build.mjs [FOLDER]. The same sources and package-lock.json give the same bytes.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const root = path.dirname(fileURLToPath(import.meta.url));
const out = path.resolve(process.argv[2] ?? path.join(root, 'dist'));
const kCompressedBytesMax = 300 * 1024;

fs.rmSync(out, { recursive: true, force: true });
fs.mkdirSync(out, { recursive: true });

const common = {
  absWorkingDir: root,
  outdir: path.join(out, 'assets'),
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  assetNames: '[name]-[hash]',
  bundle: true,
  format: 'esm',
  minify: true,
  charset: 'utf8',
  legalComments: 'none',
  target: ['chrome110', 'firefox115', 'safari16.4'],
  metafile: true,
  logLevel: 'warning',
};
const namesOf = ({ metafile }) => Object.keys(metafile.outputs).map((file) => path.basename(file));
const worker = await build({ ...common, entryPoints: ['src/highlight_worker.ts'] });
const result = await build({
  ...common,
  entryPoints: ['src/main.tsx'],
  splitting: true,
  jsx: 'automatic',
  jsxImportSource: 'preact',
  define: { 'process.env.NODE_ENV': '"production"', HIGHLIGHT_WORKER: JSON.stringify(`./${namesOf(worker)[0]}`) },
});

const outputs = namesOf(result);
const script = outputs.find((file) => /^main-.*\.js$/.test(file));
const style = outputs.find((file) => /^main-.*\.css$/.test(file));

function hashed(file) {
  const bytes = fs.readFileSync(path.join(root, 'src', file));
  const { name, ext } = path.parse(file);
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 8).toUpperCase();
  fs.writeFileSync(path.join(out, 'assets', `${name}-${hash}${ext}`), bytes);
  return `${name}-${hash}${ext}`;
}

const page = fs.readFileSync(path.join(root, 'src', 'index.html'), 'utf8')
  .replace('{icon}', `assets/${hashed('icon.svg')}`)
  .replace('{style}', `assets/${style}`)
  .replace('{script}', `assets/${script}`);
fs.writeFileSync(path.join(out, 'index.html'), page);

// The licences of what the page is made of.
const packages = new Set();
for (const input of [worker, result].flatMap(({ metafile }) => Object.keys(metafile.inputs))) {
  const found = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
  if (found) packages.add(found[1]);
}
const licences = [...packages].sort().map((name) => {
  const folder = path.join(root, 'node_modules', name);
  const { version, license } = JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8'));
  const file = fs.readdirSync(folder).sort().find((each) => /^licen[cs]e/i.test(each));
  const text = file ? fs.readFileSync(path.join(folder, file), 'utf8').trim() : '';
  return `${name} ${version} (${license})\n\n${text}\n`;
});
fs.writeFileSync(path.join(out, 'assets', 'licences.txt'), licences.join(`\n${'-'.repeat(72)}\n\n`));

let sum = 0;
const files = ['index.html', ...fs.readdirSync(path.join(out, 'assets')).sort().map((file) => `assets/${file}`)];
for (const file of files) {
  const bytes = fs.readFileSync(path.join(out, file));
  const compressed = gzipSync(bytes, { level: 9 }).length;
  sum += compressed;
  console.log(`${String(bytes.length).padStart(8)} B  ${String(compressed).padStart(7)} B gzipped  ${file}`);
}
console.log(`${' '.repeat(12)}${String(sum).padStart(7)} B gzipped in all, of at most ${kCompressedBytesMax}`);
if (sum > kCompressedBytesMax) {
  console.error('the page is too large');
  process.exit(1);
}
