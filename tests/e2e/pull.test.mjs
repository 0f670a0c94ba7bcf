// Models from a hub of the test's own: cairn pull, run and rm, and the real `ollama` client from npm.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Ollama } from 'ollama';
import { startHub } from './hub_server.mjs';
import { logged, program, serve, story } from './server.mjs';

const bytes = fs.readFileSync(story);
const other = Buffer.from(bytes);
other[other.length - 5] ^= 1;  // a weight
const repositories = {
  'org/repo': {
    'm-F16.gguf': bytes, 'm-Q8_0.gguf': bytes, 'm-Q4_K_M.gguf': other, 'mmproj-F16.gguf': other,
    'sub/m-Q6_K-00001-of-00002.gguf': bytes, 'sub/m-Q6_K-00002-of-00002.gguf': other,
  },
  'org/half': { 'm-Q8_0-00001-of-00002.gguf': bytes, 'm-Q4_0.gguf': other },
};
let hub, folder, models;
before(async () => { hub = await startHub({ repositories, models: { 'library/story': { latest: bytes, tiny: other } } }); });
after(() => hub.stop());
beforeEach(() => {
  hub.reset();
  fs.rmSync(folder ?? '/nonexistent/', { recursive: true, force: true });
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-pull-'));
  models = path.join(folder, 'models');
});
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));

// Runs `cairn` beside this process, whose hub it asks. Returns {code, stdout, stderr}.
function cairn(args, { command = [], onChild = () => {}, env = {}, ...options } = {}) {
  const [file, ...rest] = [...command, program, ...args];
  const environment = { ...process.env, ...hub.environment, HF_TOKEN_PATH: path.join(folder, 'token'), ...env };
  return new Promise((resolve) => {
    const child = execFile(file, rest, { env: environment, timeout: 60_000, ...options }, (error, stdout, stderr) =>
      resolve({ code: child.exitCode, signal: child.signalCode, stdout, stderr }));
    child.stdin.end();
    onChild(child);
  });
}
const pull = (name, more = [], options = {}) => cairn(['pull', name, '--models', models, ...more], options);
const at = (...parts) => path.join(models, ...parts);
const same = (file, content) => assert.ok(fs.readFileSync(file).equals(content), `${file} differs`);
const left = () => fs.existsSync(models) ? fs.readdirSync(models, { recursive: true }).filter((name) => fs.statSync(at(name)).isFile()) : [];

async function fails(running, pattern) {
  const done = await running;
  assert.equal(done.code, 1, done.stderr);
  assert.match(done.stderr, pattern);
  return done;
}

test('Hugging Face: a tag chooses the file, and the list is all that a second pull asks for', async () => {
  const done = await pull('org/repo:q4_k_m');
  assert.equal(done.code, 0, done.stderr);
  const file = at('huggingface.co/org/repo/m-Q4_K_M.gguf');
  assert.equal(done.stdout, file + '\n');
  same(file, other);
  assert.match(done.stderr, /^pulling manifest\n/);
  assert.match(done.stderr, /the vision projector mmproj-F16.gguf is left out/);
  assert.match(done.stderr, /pulling [0-9a-f]{12}: 100 % of 1.1 MiB\n/);
  assert.match(done.stderr, /verifying sha256 digest\n/);
  assert.deepEqual(left(), [path.relative(models, file)]);
  hub.requests.length = 0;
  assert.equal((await pull('https://huggingface.co/org/repo/blob/main/m-Q4_K_M.gguf')).code, 0);
  assert.deepEqual(hub.requests.map((request) => request.place), ['hub', 'hub']);
});

test('Hugging Face: without a tag the best that fits is taken, with a line that says why', async () => {
  const most = await pull('org/repo', ['--memory', '1GiB']);
  assert.match(most.stderr, /Q8_0 \(1.1 MiB\) is taken of 4 in org\/repo: the best that takes at most half of the 1.0 GiB/);
  assert.equal(most.stdout, at('huggingface.co/org/repo/m-Q8_0.gguf') + '\n');
  await fails(pull('org/repo', ['--memory', '1MiB']), /none of 4 in org\/repo fits into the 1.0 MiB of memory/);
});

test('Hugging Face: all parts of a split file come, and the projector where it is asked for', async () => {
  const done = await pull('hf.co/org/repo:Q6_K', ['--mmproj']);
  assert.equal(done.code, 0, done.stderr);
  const parts = ['sub/m-Q6_K-00001-of-00002.gguf', 'sub/m-Q6_K-00002-of-00002.gguf', 'mmproj-F16.gguf'].map((name) => at('huggingface.co/org/repo', name));
  assert.equal(done.stdout, parts.join('\n') + '\n');
  same(parts[0], bytes);
  same(parts[1], other);
});

test('Hugging Face: a split file that lacks parts makes way for a whole one, also among what is here', async () => {
  const done = await pull('org/half');
  assert.equal(done.code, 0, done.stderr);
  assert.match(done.stderr, /m-Q8_0-00001-of-00002\.gguf is left out: 1 of its 2 parts are there/);
  const whole = at('huggingface.co/org/half/m-Q4_0.gguf');
  assert.equal(done.stdout, `${whole}\n`);
  await fails(pull('org/half:Q8_0'), /has 1 of its 2 parts/);
  fs.writeFileSync(at('huggingface.co/org/half/m-Q8_0-00001-of-00002.gguf'), bytes);
  const removed = await cairn(['rm', 'org/half', '--models', models]);
  assert.equal(removed.code, 0, removed.stderr);
  assert.ok(!fs.existsSync(whole));
});

test('Hugging Face: the token goes to the hub, and never to where it redirects', async () => {
  hub.token = 'hf_secret';
  await fails(pull('org/repo:Q8_0'), /answered 401: Invalid credentials.*set HF_TOKEN.*ollama.com\/org\/repo/);
  assert.deepEqual(left(), []);
  hub.requests.length = 0;
  assert.equal((await pull('org/repo:Q8_0', [], { env: { HF_TOKEN: 'hf_secret' } })).code, 0);
  assert.ok(hub.stored().length > 0);
  for (const request of hub.stored()) assert.equal(request.headers.authorization, undefined);
  fs.writeFileSync(path.join(folder, 'token'), 'hf_secret\n');
  assert.equal((await pull('org/repo:Q4_K_M')).code, 0);
  await fails(pull('org/repo', [], { env: { HF_TOKEN: 'a b' } }), /HF_TOKEN holds no token/);
});

test('Ollama: a model comes by its manifest, runs, and goes', async () => {
  const done = await pull('story');
  assert.equal(done.code, 0, done.stderr);
  const file = at('registry.ollama.ai/library/story/latest.gguf');
  assert.equal(done.stdout, file + '\n');
  same(file, bytes);
  assert.match(done.stderr, /the model's params of Ollama is left out/);
  hub.requests.length = 0;
  const flags = ['-n', '12', '--temp', '0', '--log-level', 'error'];
  const told = await cairn(['run', 'story', 'Once upon a time', '--models', models, ...flags]);
  assert.equal(told.code, 0, told.stderr);
  assert.ok(told.stdout.length > 12);
  assert.equal(hub.requests.length, 0);
  const byFile = await cairn(['run', file, 'Once upon a time', ...flags]);
  assert.equal(byFile.stdout, told.stdout);
  const removed = await cairn(['rm', 'story:latest', '--models', models]);
  assert.equal(removed.stdout, `deleted ${file}\n1.1 MiB are free again\n`);
  assert.deepEqual(fs.readdirSync(models), []);
  await fails(cairn(['rm', 'story', '--models', models]), /story:latest is not in \S+models/);
});

test('run pulls what is not there', async () => {
  const run = await cairn(['run', 'org/repo:Q8_0', 'Once upon a time', '--models', models, '-n', '8', '--temp', '0']);
  assert.equal(run.code, 0, run.stderr);
  assert.match(run.stderr, /verifying sha256 digest/);
  assert.ok(run.stdout.length > 8);
  await fails(cairn(['run', 'no/such/file', 'Hi', '--models', models]), /there is neither a file nor a model no\/such\/file; .*ORG\/REPO/);
});

test('a pull survives five cuts', async () => {
  hub.cuts = 5;
  const done = await pull('story');
  assert.equal(done.code, 0, done.stderr);
  same(at('registry.ollama.ai/library/story/latest.gguf'), bytes);
  const begins = hub.stored().map((request) => Number(request.headers.range.match(/\d+/)[0]));
  assert.equal(begins.length, 6);
  for (let i = 1; i < begins.length; ++i) assert.ok(begins[i] > begins[i - 1], `${begins}`);
});

test('a pull that Ctrl-C ends goes on where it stopped', async () => {
  hub.slow = 100;
  const stopped = await pull('story', [], {
    onChild: async (child) => {
      while (hub.stored().length === 0) await sleep(20);
      await sleep(700);
      child.kill('SIGINT');
    },
  });
  assert.equal(stopped.code, 1);
  assert.match(stopped.stderr, /what is loaded stays, and cairn pull story:latest goes on/);
  assert.deepEqual(left().map((name) => path.basename(name)).sort(), ['latest.gguf.part', 'latest.gguf.part.json']);
  hub.reset();
  const done = await pull('story');
  assert.equal(done.code, 0, done.stderr);
  assert.match(done.stderr, /of 1.1 MiB are there/);
  assert.ok(Number(hub.stored()[0].headers.range.match(/\d+/)[0]) > 0);
  same(at('registry.ollama.ai/library/story/latest.gguf'), bytes);
});

test('two pulls of a model load it once', async () => {
  hub.slow = 100;
  const both = await Promise.all([pull('story'), pull('story')]);
  for (const done of both) assert.equal(done.code, 0, done.stderr);
  assert.equal(hub.stored().length, 1);
  assert.ok(both.some((done) => /waiting for another pull/.test(done.stderr)));
});

test('what is wrong is refused, and nothing is left', async () => {
  for (const [fault, pattern] of [
    [{ flip: true }, /has the SHA-256 [0-9a-f]{64} where the hub says/],
    [{ more: 3 }, /has 1185379 bytes, where the hub says 1185376/],
    [{ more: 3, ranges: false }, /has 1185379 bytes, where the hub says 1185376/],
    [{ page: true }, /sends a web page instead of a file/],
    [{ loop: true }, /redirects/],
    [{ store_status: 403 }, /is answered 403: out of order/],
  ]) {
    hub.reset();
    Object.assign(hub, fault);
    await fails(pull('org/repo:Q8_0'), pattern);
    assert.deepEqual(fs.existsSync(models) ? fs.readdirSync(models) : [], [], JSON.stringify(fault));
  }
});

test('names that no hub has are errors that say what else they could mean', async () => {
  await fails(pull('nobody/nothing'), /answered 404: Repository not found; the model nobody\/nothing of Ollama's registry would be ollama.com\/nobody\/nothing/);
  await fails(pull('nothing:4b'), /answered 404: manifest unknown; Ollama's registry has no nothing:4b/);
  await fails(pull('org/repo:Q2_K'), /org\/repo has no Q2_K; it has F16, Q4_K_M, Q6_K, Q8_0/);
  await fails(pull('../../etc'), /is no model's name/);
  await fails(pull('story', [], { env: { CAIRN_OLLAMA_REGISTRY: 'nowhere' } }), /CAIRN_OLLAMA_REGISTRY is "nowhere", which is no URL/);
});

test('a folder that cannot be written to is named', async () => {
  fs.mkdirSync(models);
  fs.chmodSync(models, 0o555);
  fs.chmodSync(folder, 0o755);
  const root = process.getuid() === 0;  // whom permissions do not stop
  const command = root ? ['setpriv', '--bounding-set=-all', '--inh-caps=-all', '--securebits=+noroot'] : [];
  await fails(pull('story', [], { command }), /models\S* cannot be (?:written to|.*)\(Permission denied\): choose another folder with --models/);
  fs.chmodSync(models, 0o755);
  assert.deepEqual(left(), []);
});

test('a full disk is named, and the rest goes on when there is room', async () => {
  const limited = await pull('story', [], { command: ['bash', '-c', 'ulimit -f 600; exec "$@"', 'bash'] });
  assert.equal(limited.code, 1, limited.stderr);
  assert.match(limited.stderr, /latest.gguf.part may not become so large \(File too large\): raise the limit/);
  hub.requests.length = 0;
  assert.equal((await pull('story')).code, 0);
  assert.ok(Number(hub.stored()[0].headers.range.match(/\d+/)[0]) > 0);
  same(at('registry.ollama.ai/library/story/latest.gguf'), bytes);
});

test('a disk without room for the model is named before anything is loaded', async (context) => {
  fs.mkdirSync(models);
  const small = ['unshare', '--mount', 'bash', '-c', `mount -t tmpfs -o size=600k tmpfs '${models}' || exit 77; exec "$@"`, 'bash'];
  const done = await pull('story', [], { command: small });
  if (/unshare|mount/.test(done.stderr)) return context.skip('no small disk can be mounted here');
  assert.equal(done.code, 1, done.stderr);
  assert.match(done.stderr, /the disk of \S+ has 600.0 KiB free, and the model needs 1.1 MiB more/);
  assert.equal(hub.stored().length, 0);
});

test('the real client of Ollama pulls with progress, and deletes', async () => {
  const server = await serve(story, ['--name', 'served', '--models', models], ['env', ...Object.entries(hub.environment).map(([name, value]) => `${name}=${value}`)]);
  try {
    const ollama = new Ollama({ host: server.url });
    hub.slow = 30;
    const lines = [];
    for await (const line of await ollama.pull({ model: 'story:tiny', stream: true, insecure: true })) lines.push(line);
    assert.equal(lines[0].status, 'pulling manifest');
    const loading = lines.filter((line) => line.status === `pulling ${line.digest?.slice(7, 19)}`);
    assert.ok(loading.length > 2);
    assert.ok(loading.every((line) => line.total === bytes.length && line.completed <= line.total && /^sha256:[0-9a-f]{64}$/.test(line.digest)));
    assert.equal(loading.at(-1).completed, bytes.length);
    assert.deepEqual([...new Set(lines.map((line) => line.status))].slice(-3), ['verifying sha256 digest', 'writing manifest', 'success']);
    same(at('registry.ollama.ai/library/story/tiny.gguf'), other);
    hub.reset();
    assert.equal((await ollama.pull({ model: 'org/repo:Q8_0' })).status, 'success');
    assert.equal((await ollama.pull({ model: 'served' })).status, 'success');
    await assert.rejects(ollama.pull({ model: 'nothing' }), /Ollama's registry has no nothing:latest/);
    await assert.rejects(ollama.pull({ model: '../x' }), /is no model's name/);
    await assert.rejects((async () => { for await (const _ of await ollama.pull({ model: 'nothing', stream: true })); })(), /manifest unknown/);
    assert.equal((await ollama.delete({ model: 'story:tiny' })).status, 'success');
    assert.deepEqual(left(), ['huggingface.co/org/repo/m-Q8_0.gguf']);
    await assert.rejects(ollama.delete({ model: 'story:tiny' }), (error) => error.status_code === 404 && /model 'story:tiny' not found/.test(error.message));
    await assert.rejects(ollama.delete({ model: 'served' }), (error) => error.status_code === 404);
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('a pull over HTTP ends with its client and goes on with the next; so many at once are the limit', async () => {
  const server = await serve(story, ['--name', 'served', '--models', models], ['env', ...Object.entries(hub.environment).map(([name, value]) => `${name}=${value}`)]);
  try {
    hub.slow = 200;
    const ask = (signal) => fetch(`${server.url}/api/pull`, { method: 'POST', body: '{"model": "story"}', signal });
    const leaving = new AbortController();
    const first = await ask(leaving.signal);
    const reader = first.body.getReader();
    for (let text = ''; !/"completed":[1-9]/.test(text);) text += new TextDecoder().decode((await reader.read()).value);
    const part = at('registry.ollama.ai/library/story/latest.gguf.part.json');
    leaving.abort();
    await logged(server, /has not pulled story:latest: stopped/);
    assert.ok(JSON.parse(fs.readFileSync(part, 'utf8')).loaded.length > 0);
    await sleep(300);  // its thread ends
    const pulls = await Promise.all(Array.from({ length: 4 }, () => ask()));
    assert.deepEqual(pulls.map((reply) => reply.status), [200, 200, 200, 200]);
    const refused = await ask();
    assert.equal(refused.status, 429);
    assert.match((await refused.json()).error, /4 models are being pulled, which is the limit/);
    hub.slow = 0;
    for (const reply of pulls) assert.match(await reply.text(), /"success"/);
    assert.ok(Number(hub.stored()[1].headers.range.match(/\d+/)[0]) > 0);
    same(at('registry.ollama.ai/library/story/latest.gguf'), bytes);
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('clients pull and delete only where the server lets them', async () => {
  for (const flags of [['--no-pull'], ['--host', '0.0.0.0']]) {
    const server = await serve(story, ['--models', models, ...flags]);
    const url = server.url.replace('0.0.0.0', '127.0.0.1');
    const pulled = await fetch(`${url}/api/pull`, { method: 'POST', body: '{"model": "story"}' });
    assert.equal(pulled.status, 403);
    assert.match((await pulled.json()).error, /does not let clients pull models/);
    assert.equal((await fetch(`${url}/api/delete`, { method: 'DELETE', body: '{"model": "story"}' })).status, 403);
    await server.stop();
  }
  assert.equal(hub.requests.length, 0);
});
