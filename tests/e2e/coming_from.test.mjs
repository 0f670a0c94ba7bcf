// Every new command of docs/coming-from.md is run as it stands: servers until they answer, other commands to their end.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { makeHuggingFaceFolder } from './hf_folder.mjs';
import { program, serve } from './server.mjs';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const guide = path.join(root, 'models/guide/guide.gguf');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-coming-'));
const write = (name, content) => fs.writeFileSync(path.join(folder, name), content, { mode: 0o600 });
write('TEXT.txt', fs.readFileSync(path.join(root, 'README.md'), 'utf8').slice(0, 5000));
write('TEMPLATE.jinja', '{% for message in messages %}{{ message.content }}\n{% endfor %}');
write('KEYS.txt', 'sk-0123456789abcdef\n');
write('cairn.toml', 'model-file = "MODEL.gguf"\n');
write('NOTES.txt', 'The ferry leaves at nine.\n');
write('ADAPTER.gguf', adapterOf(256, 256));
makeHuggingFaceFolder(path.join(folder, 'FOLDER'));
for (const name of ['MODEL.gguf', 'SMALL.gguf', 'FOLDER/model.gguf']) fs.symlinkSync(guide, path.join(folder, name));
spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=localhost',
  '-keyout', 'key.pem', '-out', 'chain.pem'], { cwd: folder });

// A LoRA adapter of rank 1 for the first layer's queries.
function adapterOf(columns, rows) {
  const u32 = (value) => Buffer.from(Uint32Array.of(value).buffer);
  const u64 = (value) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
  const text = (value) => Buffer.concat([u64(value.length), Buffer.from(value)]);
  const entry = (key, type, value) => Buffer.concat([text(key), u32(type), value]);
  const tensor = (name, shape, offset) => Buffer.concat([text(`blk.0.attn_q.weight.lora_${name}`), u32(2), ...shape.map(u64), u32(0), u64(offset)]);
  const head = Buffer.concat([
    Buffer.from('GGUF'), u32(3), u64(2), u64(4), entry('general.type', 8, text('adapter')), entry('general.architecture', 8, text('qwen3')),
    entry('adapter.type', 8, text('lora')), entry('adapter.lora.alpha', 6, Buffer.from(Float32Array.of(1).buffer)),
    tensor('a', [columns, 1], 0), tensor('b', [1, rows], 4 * columns)]);
  const weights = Float32Array.from({ length: columns + rows }, (_, index) => ((index % 7) - 3) / 100);
  return Buffer.concat([head, Buffer.alloc(-head.length & 31), Buffer.from(weights.buffer)]);
}

// Nothing of whoever runs the tests, and a hub that has the demonstration model under every name.
for (const name of Object.keys(process.env)) if (/^(XDG_|HF_|LLAMA_|OLLAMA_|CAIRN_(?!PROGRAM|TEST_DATA))/.test(name)) delete process.env[name];
process.env.HOME = folder;
let server, hub;
before(async () => {
  hub = spawn(process.execPath, [path.join(root, 'tests/e2e/hub_server.mjs'), guide], { stdio: ['ignore', 'pipe', 'inherit'] });
  const url = await new Promise((resolve) => hub.stdout.once('data', (bytes) => resolve(String(bytes).trim())));
  Object.assign(process.env, { HF_ENDPOINT: url, CAIRN_OLLAMA_REGISTRY: url, NO_PROXY: '127.0.0.1' });
  server = await serve(null);
});
after(async () => {
  await server.stop();
  hub.kill();
  fs.rmSync(folder, { recursive: true, force: true });
});

const rows = fs.readFileSync(path.join(root, 'docs/coming-from.md'), 'utf8').split('\n')
  .map((line) => line.match(/^\| .+ \| `([^`]+)` \|$/)).filter(Boolean).map(([, command]) => command);

// The command with this program. Servers take a free port, which they tell.
function here(command) {
  const free = /\bcairn serve\b/.test(command) ? command.replace(/ --port \d+/, '').replace(/\bcairn serve\b/, 'cairn serve --port 0') : command;
  return free.replaceAll('http://127.0.0.1:8080', server.url).replace(/\bcairn (?=[a-z-])/g, `'${program}' `);
}

const statusOf = (url) => new Promise((resolve, reject) => {
  if (url.startsWith('https:')) https.get(url, { rejectUnauthorized: false }, (reply) => resolve(reply.resume().statusCode)).on('error', reject);
  else fetch(url).then((reply) => resolve(reply.status), reject);
});

async function answers(command) {
  const child = spawn('bash', ['-c', `exec env ${here(command)}`], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  let written = '';
  child.stderr.on('data', (bytes) => { written += bytes; });
  const log = () => command.includes('2> LOG.txt') ? fs.readFileSync(path.join(folder, 'LOG.txt'), 'utf8') : written;
  const exited = new Promise((resolve) => { child.on('exit', resolve); });
  try {
    // With --log-level error the log does not say the address: then the end alone is looked at.
    const quiet = command.includes('--log-level error');
    const ready = /serving .+ on (https?:[^\s"]+)/;
    for (let tries = 0; tries < 1200 && child.exitCode === null; ++tries) {
      await new Promise((done) => { setTimeout(done, 25); });
      if (quiet ? tries === 60 : ready.test(log())) break;
    }
    assert.equal(child.exitCode, null, log());
    if (quiet) return;
    assert.equal(await statusOf(`${log().match(ready)[1].replace('0.0.0.0', '127.0.0.1')}/ready`), 200);
  } finally {
    child.kill('SIGTERM');
  }
  assert.equal(await exited, 0, log());
}

// The server finds what a command has pulled.
async function found() {
  const count = async () => (await (await fetch(`${server.url}/v1/models`)).json()).data.length;
  process.kill(server.pid, 'SIGHUP');
  for (let tries = 0; tries < 200 && await count() === 0; ++tries) await new Promise((done) => { setTimeout(done, 25); });
  assert.notEqual(await count(), 0);
}

test('the tables have rows', () => assert.ok(rows.length > 70));
for (const command of rows) {
  test(command, async () => {
    if (/\bcairn serve\b/.test(command)) return answers(command);
    const env = { ...process.env, CAIRN_PORT: String(server.port) };  // where `cairn ps` and `cairn stop` look for it
    const done = spawnSync('bash', ['-c', here(command).replace(/^curl /, 'curl -sf ')], { cwd: folder, input: 'Hello!\n', encoding: 'utf8', timeout: 120_000, env });
    assert.equal(done.status, 0, done.stderr);
    assert.doesNotMatch(done.stdout, /"error": ?["{]/);
    if (command.startsWith('cairn pull ')) await found();
  });
}
