// Every curl and `cairn synth` command of the documents, run: the former against a real server.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { program, serve, story, withoutHoles } from './server.mjs';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const documents = ['README.md', ...fs.readdirSync(path.join(root, 'docs')).map((name) => path.join('docs', name))].filter((name) => name.endsWith('.md'));

let server;
before(async () => { server = await serve(story); });
after(() => server.stop());
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-docs-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));

const synth = 'build/release/cairn synth ';

// One a line, or more lines where one ends with a backslash or within quotes.
function commandsOf(block) {
  const lines = [];
  for (const line of block.replaceAll('\\\n', ' ').split('\n')) {
    const within = lines.length > 0 && lines.at(-1).split("'").length % 2 === 0;
    within ? (lines[lines.length - 1] += '\n' + line) : lines.push(line);
  }
  return lines.filter((line) => line.startsWith('curl ') || line.startsWith(synth));
}

let commands = 0;
for (const name of documents) {
  const text = fs.readFileSync(path.join(root, name), 'utf8');
  for (const [, block] of text.matchAll(/^```sh\n([\s\S]*?)^```/gm)) {
    for (const command of commandsOf(block)) {
      ++commands;
      test(`${name}: ${command.slice(0, 80)}`, { skip: /--hollow|--preset/.test(command) && withoutHoles(folder) }, () => {
        // Large shapes without their weights: gigabytes are not what is tested.
        const hollow = command.includes('--preset') && !command.includes('--hollow') ? ' --hollow' : '';
        const here = command.replaceAll('http://127.0.0.1:8080', server.url).replace(synth, `'${program}' synth `) + hollow;
        const run = spawnSync('bash', ['-c', here], { cwd: folder, encoding: 'utf8', timeout: 60_000 });
        assert.equal(run.status, 0, run.stderr);
        assert.doesNotMatch(run.stdout, /"error": ?["{]/);
        assert.ok(run.stdout.length > 0);
      });
    }
  }
}
test('there are examples', () => assert.ok(commands >= 3));
