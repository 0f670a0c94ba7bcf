// Every new command of docs/coming-from.md is run as it stands: servers until they answer, other commands to their end.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { program, serve } from './server.mjs';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const guide = path.join(root, 'models/guide/guide.gguf');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-coming-'));
fs.writeFileSync(path.join(folder, 'TEXT.txt'), fs.readFileSync(path.join(root, 'README.md'), 'utf8').slice(0, 5000));
fs.writeFileSync(path.join(folder, 'TEMPLATE.jinja'), '{% for message in messages %}{{ message.content }}\n{% endfor %}');
for (const name of ['MODEL.gguf', 'SMALL.gguf']) fs.symlinkSync(guide, path.join(folder, name));

let server;
before(async () => { server = await serve(guide); });
after(async () => {
  await server.stop();
  fs.rmSync(folder, { recursive: true, force: true });
});

const rows = fs.readFileSync(path.join(root, 'docs/coming-from.md'), 'utf8').split('\n')
  .map((line) => line.match(/^\| .+ \| `([^`]+)` \|$/)).filter(Boolean).map(([, command]) => command);

// The command with this program. Servers take a free port, which they tell.
function here(command) {
  const free = command.includes(' serve ') ? `${command.replace(/ --port \d+/, '')} --port 0` : command;
  return free.replaceAll('http://127.0.0.1:8080', server.url).replace(/\bcairn /, `'${program}' `);
}

async function answers(command) {
  const child = spawn('bash', ['-c', `exec env ${here(command)}`], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  child.stderr.on('data', (bytes) => { log += bytes; });
  const exited = new Promise((resolve) => { child.on('exit', resolve); });
  try {
    // With --log-level error the log does not say the address: then the end alone is looked at.
    const quiet = command.includes('--log-level error');
    for (let tries = 0; tries < 600 && !/serving \S+ on http/.test(log) && child.exitCode === null; ++tries) {
      if (quiet && tries === 40) break;
      await new Promise((done) => { setTimeout(done, 50); });
    }
    assert.equal(child.exitCode, null, log);
    if (quiet) return;
    const url = log.match(/serving \S+ on (http:\S+)/)[1].replace('0.0.0.0', '127.0.0.1');
    assert.equal((await fetch(`${url}/ready`)).status, 200);
  } finally {
    child.kill('SIGTERM');
  }
  assert.equal(await exited, 0, log);
}

test('the tables have rows', () => assert.ok(rows.length > 30));
for (const command of rows) {
  test(command, async () => {
    if (command.includes('cairn serve ')) return answers(command);
    const done = spawnSync('bash', ['-c', here(command).replace(/^curl /, 'curl -sf ')], { cwd: folder, encoding: 'utf8', timeout: 120_000 });
    assert.equal(done.status, 0, done.stderr);
    assert.doesNotMatch(done.stdout, /"error": ?["{]/);
  });
}
