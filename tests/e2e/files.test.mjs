// Files that change, are slow, damaged or no files at all, what the log says of it, and in what words.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { gzipSync } from 'node:zlib';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { cairn, program, serve as start, story, tiny } from './server.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-files-'));
const stops = [];  // of what a failed test left running
after(() => {
  for (const stop of stops) stop();
  fs.rmSync(folder, { recursive: true, force: true });
});
async function serve(...args) {
  const server = await start(...args);
  stops.push(() => { if (server.alive()) process.kill(server.pid, 'SIGKILL'); });
  return server;
}
function run(args, stderr, ...more) {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', stderr, ...more] });
  stops.push(() => child.kill('SIGKILL'));
  return child;
}

const guide = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../models/guide/guide.gguf');
const once = { prompt: 'Once upon a time', max_tokens: 8, temperature: 0 };

function copyOf(model, name) {
  const copy = path.join(folder, name);
  fs.copyFileSync(model, copy);
  return copy;
}
function pipeNamed(name) {
  const pipe = path.join(folder, name);
  assert.equal(spawnSync('mkfifo', [pipe]).status, 0);
  return pipe;
}
const freePort = () => new Promise((resolve) => {
  const server = net.createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});
async function eventually(what, holds) {
  const end = Date.now() + 30_000;
  for (;;) {
    const found = await holds();
    if (found) return found;
    assert.ok(Date.now() < end, `not within 30 s: ${what}`);
    await sleep(20);
  }
}

// A server whose loading waits for `template`, a pipe that it has as a shell would hand it over, to be written.
async function serveSlowly(template, flags = []) {
  const port = await freePort();
  const pipe = fs.openSync(template, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  const child = run(['serve', story, '--port', String(port), '--chat-template', '/dev/fd/3', ...flags], 'pipe', pipe);
  fs.closeSync(pipe);
  let log = '';
  child.stderr.on('data', (bytes) => { log += bytes; });
  const ended = new Promise((resolve) => child.on('exit', (code, signal) => resolve({ code, signal, at: Date.now() })));
  const url = `http://127.0.0.1:${port}`;
  await eventually('an answer', async () => fetch(`${url}/health`).catch(() => null));
  return { child, url, ended, log: () => log };
}

test('while a model loads the server says so, in the words of each protocol', async () => {
  const template = pipeNamed('template');
  const { child, url, ended, log } = await serveSlowly(template);
  const health = await fetch(`${url}/health`);
  assert.equal(health.status, 503);
  assert.equal(health.headers.get('retry-after'), '1');
  assert.deepEqual(await health.json(), { error: { code: 503, message: 'Loading model', type: 'unavailable_error' }, model_loaded: false });
  const ask = async (route, body) => {
    const reply = await fetch(url + route, body && { method: 'POST', body: JSON.stringify(body) });
    assert.equal(reply.status, 503, route);
    assert.equal(reply.headers.get('retry-after'), '1');
    return reply.json();
  };
  const openai = await ask('/v1/completions', once);
  assert.equal(openai.error.code, 'unavailable');
  assert.match(openai.error.message, /still being loaded/);
  assert.match((await ask('/v1/models')).error.message, /still being loaded/);
  assert.equal((await ask('/v1/messages', { max_tokens: 1, messages: [] })).error.type, 'overloaded_error');
  assert.match((await ask('/api/chat', {})).error, /still being loaded/);
  assert.doesNotMatch(log(), /serving|error/);

  fs.writeFileSync(template, "{% for m in messages %}{{ m['content'] }}{% endfor %}");
  await eventually('ready', async () => (await fetch(`${url}/health`)).status === 200);
  await eventually('the line', () => /serving \S+ on http:/.test(log()));
  const reply = await fetch(`${url}/v1/completions`, { method: 'POST', body: JSON.stringify(once) });
  assert.equal(reply.status, 200);
  child.kill('SIGTERM');
  assert.equal((await ended).code, 0);
});

test('SIGINT and SIGTERM end a program that loads, and leave no socket behind', async () => {
  for (const [signal, code] of [['SIGINT', 130], ['SIGTERM', 143]]) {
    const socket = path.join(folder, `${signal}.sock`);
    const { child, ended, log } = await serveSlowly(pipeNamed(`template-${signal}`), ['--frames', socket]);
    assert.ok(fs.existsSync(socket));
    const begin = Date.now();
    child.kill(signal);
    const end = await ended;
    assert.equal(end.code, code, log());
    assert.ok(end.at - begin < 5_000, `${end.at - begin} ms`);
    assert.ok(!fs.existsSync(socket));
  }
});

test('a model that cannot be loaded ends the program with its error', () => {
  const cut = copyOf(story, 'cut.gguf');
  fs.truncateSync(cut, fs.statSync(cut).size / 2);
  const done = cairn(['serve', cut, '--port', '0']);
  assert.equal(done.status, 1);
  assert.match(done.stderr, /cairn: the file is cut short/);
});

test('pipes and devices are refused as models and as texts, and not waited for', () => {
  const pipe = pipeNamed('model.gguf');
  for (const args of [['serve', pipe, '--port', '0'], ['generate', pipe, '-p', 'x'], ['inspect', pipe], ['inspect', '/dev/zero']]) {
    const done = cairn(args, { timeout: 20_000 });
    assert.equal(done.status, 1, `${args}: ${done.stderr}`);
    assert.match(done.stderr, /is not a regular file/);
  }
});

const changed = /model's file live\.gguf has changed on disk since it was loaded; restart the server or unload the model/;

test('a model that is cut short while it is served is a named error, and the server lives', async () => {
  const live = copyOf(story, 'live.gguf');
  const server = await serve(live);
  assert.equal((await server.post('/v1/completions', once)).status, 200);
  // One stream is being written meanwhile.
  const stream = await server.post('/v1/completions', { ...once, max_tokens: 400, n: 8, stream: true, ignore_eos: true });
  fs.truncateSync(live, 0);
  const streamed = await stream.text();
  assert.ok(/"error"/.test(streamed) ? changed.test(streamed) : streamed.endsWith('data: [DONE]\n\n'), streamed.slice(-500));
  await eventually('the error', async () => {
    const reply = await server.post('/v1/completions', once);
    const text = await reply.text();
    if (reply.status === 200) return false;
    assert.equal(reply.status, 500, text);
    assert.match(JSON.parse(text).error.message, changed);
    const id = reply.headers.get('x-request-id').slice(0, 12);  // as much of it as the log shows
    return eventually('its line', () => server.log().includes(`error ${id} was answered 500: `));
  });
  assert.match(server.log(), /error \S*live\.gguf has changed on disk since it was loaded/);
  const show = await server.post('/api/show', { verbose: true });
  assert.equal(show.status, 500);
  assert.match((await show.json()).error, changed);
  assert.equal((await fetch(`${server.url}/health`)).status, 200);
  assert.equal((await fetch(`${server.url}/v1/models`)).status, 200);
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

test('a model that is overwritten in place is a named error; one that is replaced is the old one still', async () => {
  const live = copyOf(story, 'live.gguf');
  const server = await serve(live);
  const answer = async () => {
    const reply = await server.post('/v1/completions', once);
    return { status: reply.status, body: await reply.json() };
  };
  const { text } = (await answer()).body.choices[0];
  fs.writeFileSync(`${live}.new`, 'another model');
  fs.renameSync(`${live}.new`, live);
  await sleep(1_200);  // the file is looked at once a second
  assert.equal((await answer()).body.choices[0].text, text);
  await server.stop();

  fs.copyFileSync(story, live);
  const other = await serve(live);
  const bytes = fs.readFileSync(live);
  const file = fs.openSync(live, 'r+');
  fs.writeSync(file, Buffer.alloc(bytes.length / 2 | 0, 0x3f), 0, bytes.length / 2 | 0, bytes.length / 2 | 0);
  fs.closeSync(file);
  await eventually('the error', async () => {
    const reply = await other.post('/v1/completions', once);
    const body = await reply.text();
    if (reply.status === 200) return false;
    assert.equal(reply.status, 500, body);
    return changed.test(body);
  });
  assert.equal((await other.stop()).code, 0);
});

test('what --store makes is for its owner alone; a damaged row and a deleted file are named', async () => {
  const store = path.join(folder, 'store.db');
  let server = await serve(story, ['--store', store]);
  const respond = async (input) => (await server.post('/v1/responses', { input, max_output_tokens: 2 })).json();
  const marked = await respond('a marked question');
  const other = await respond('another one');
  for (const suffix of ['', '-wal', '-shm']) assert.equal(fs.statSync(store + suffix).mode & 0o777, 0o600, suffix);
  await server.stop();

  // One letter of a row, which SQLite does not notice.
  const bytes = fs.readFileSync(store);
  const at = bytes.indexOf('a marked question');
  assert.ok(at > 0);
  for (let i = at; i >= 0; i = bytes.indexOf('a marked question', i + 1)) bytes[i] = 'A'.charCodeAt(0);
  fs.writeFileSync(store, bytes);
  fs.chmodSync(store, 0o644);
  server = await serve(story, ['--store', store]);
  assert.match(server.log(), /warning \S*store\.db can be used by others than its owner \(mode 0644\)/);
  for (const below of ['', '/input_items']) {
    const reply = await fetch(`${server.url}/v1/responses/${marked.id}${below}`);
    assert.equal(reply.status, 500);
    assert.match((await reply.json()).error.message, /store\.db holds a damaged response: "resp_/);
    await eventually('its line', () => server.log().includes(`error ${reply.headers.get('x-request-id').slice(0, 12)} was answered 500: `));
  }
  const goesOn = await server.post('/v1/responses', { input: 'x', max_output_tokens: 2, previous_response_id: marked.id });
  assert.equal(goesOn.status, 500);
  assert.equal((await fetch(`${server.url}/v1/responses/${other.id}`)).status, 200);
  assert.equal((await respond('one more')).store, true);

  fs.rmSync(store);
  assert.equal((await respond('lost')).store, false);
  assert.match(server.log(), /error a response was not stored: \S*store\.db has been deleted or replaced/);
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

test('an empty value never means the default', () => {
  for (const [flags, words] of [
    [['--store', ''], /--store/], [['--frames', ''], /--frames/], [['--name', ''], /--name/], [['--kv-bytes', '0'], /--kv-bytes/],
  ]) {
    const done = cairn(['serve', tiny, '--port', '0', ...flags]);
    assert.equal(done.status, 2, done.stderr);
    assert.match(done.stderr, words);
  }
  const memory = cairn(['serve', tiny, '--port', '0', '--store', ':memory:']);
  assert.equal(memory.status, 1);
  assert.match(memory.stderr, /":memory:" names no file for --store/);
});

test('a log that nobody reads holds nobody up, and tells later what is missing', async () => {
  const pipe = pipeNamed('log');
  const reader = fs.openSync(pipe, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  const writer = fs.openSync(pipe, 'w');
  const port = await freePort();
  const child = run(['serve', story, '--port', String(port)], writer);
  const ended = new Promise((resolve) => child.on('exit', (code) => resolve(code)));
  fs.closeSync(writer);
  let log = '';
  const read = () => {
    const bytes = Buffer.alloc(1 << 16);
    try {
      for (let got; (got = fs.readSync(reader, bytes)) > 0;) log += bytes.subarray(0, got);
    } catch (error) {
      assert.equal(error.code, 'EAGAIN');
    }
  };
  const ask = async () => {
    const reply = await fetch(`http://127.0.0.1:${port}/lora-adapters`, { headers: { 'x-client-request-id': 'c'.repeat(500) } });
    assert.equal(reply.status, 200);
    await reply.arrayBuffer();
  };
  await eventually('ready', () => { read(); return /serving/.test(log); });
  const requests = 300;  // 180 KB of lines; a pipe holds 64 KiB
  for (let i = 0; i < requests; ++i) await ask();
  read();
  await ask();
  await eventually('the last line', () => { read(); return / lines of this log were lost/.test(log) && /c{500}"\)\n$/.test(log); });
  const lines = log.split('\n').filter((line) => /its client's id: /.test(line)).length;
  const lost = Number(log.match(/warning (\d+) lines of this log were lost/)[1]);
  assert.ok(lines > 10 && lost > 10, `${lines} lines, ${lost} lost`);
  assert.equal(lines + lost, requests + 1);
  child.kill('SIGTERM');
  assert.equal(await ended, 0);
  fs.closeSync(reader);
});

test('what a client wrote cannot feign a line of the log', async () => {
  const server = await serve(story);
  const types = Array.from({ length: 100 }, (_, i) => `t${String(i).padStart(3, '0')}`);
  const tools = ['a\n07:00:00.000 error forged \u001b[31m\u202e', ...types].map((type) => ({ type }));
  const reply = await server.post('/v1/responses', { input: 'a', max_output_tokens: 1, tools });
  assert.equal(reply.status, 200);
  await eventually('the line', () => /left out/.test(server.log()));
  assert.match(server.log(), /left out what this server does not run: a\\n07:00:00\.000 error forged \\x1b\[31m\\xe2\\x80\\xae, t000, t001, t002, t003 and 96 more \(told once\)\n/);
  assert.doesNotMatch(server.log(), /^07:00:00\.000 error forged/m);
  assert.ok(!server.log().includes('\u001b[31m'));
  await server.stop();
});

test('errors name cause and remedy, and repeat little of what was sent', async () => {
  const server = await serve(story);
  const refused = async (route, body, status, words, headers = {}) => {
    const reply = await server.post(route, body, { headers: { 'content-type': 'application/json', ...headers } });
    const text = await reply.text();
    assert.equal(reply.status, status, text.slice(0, 500));
    assert.match(text, words);
    assert.ok(text.length < 4_000, `${text.length} bytes`);
    return JSON.parse(text);
  };
  const coding = (name) => ({ 'content-encoding': name });
  const taken = /Content-Encoding br are not taken; gzip, zstd, identity are/;
  assert.equal((await refused('/v1/messages', new Uint8Array([0x1f, 0x8b, 8]), 415, taken, coding('br'))).type, 'error');
  await refused('/v1/chat/completions', '{}', 415, taken, coding('br'));
  await refused('/api/chat', '{}', 400, /not valid gzip, which Content-Encoding says/, coding('gzip'));
  await refused('/v1/chat/completions', '{}', 400, /not valid zstd, which Content-Encoding says/, coding('zstd'));
  await refused('/v1/chat/completions', gzipSync(' '.repeat(40 << 20)), 400, /more than 33554432 bytes once it is decompressed/, coding('gzip'));
  const zipped = await server.post('/v1/completions', gzipSync(JSON.stringify(once)), { headers: { 'content-type': 'application/json', ...coding('gzip') } });
  assert.equal(zipped.status, 200, await zipped.text());
  await refused('/v1/completions', { ...once, repeat_penalty: 0 }, 400, /"repeat_penalty must be above 0/);
  await refused('/v1/completions', { ...once, repetition_penalty: 0 }, 400, /"repetition_penalty must be above 0/);
  const long = 'x'.repeat(1 << 20);
  await refused('/v1/completions', `{"prompt": ${'1'.repeat(1 << 20)}e99999}`, 400, /not valid JSON/);
  await refused('/v1/completions', { ...once, [long]: 1, '': 1, 'a\nb': 1, warnings: true }, 200, /x{9}\.\.\. is not a field.*\\"\\" is not a field/);
  await refused('/v1/completions', { ...once, model: long }, 200, /"model":"stories/);
  await refused('/v1/completions', { ...once, priority: long }, 400, /priority/);
  await refused('/v1/completions', { ...once, logit_bias: { [long]: 1 } }, 400, /logit_bias/);
  await refused(`/${long.slice(0, 30_000)}`, {}, 404, /there is no POST/);
  await refused(`/v1/responses/${long.slice(0, 30_000)}/x`, {}, 404, /there is no/);
  await server.stop();
});

test('a broken template of a file is named, with the remedy, and ChatML takes its place', async () => {
  const bytes = fs.readFileSync(guide);
  const at = bytes.indexOf('{%- macro', bytes.indexOf('tokenizer.chat_template'));
  bytes.write('{{- \u001b[3m', at);
  const broken = path.join(folder, 'broken.gguf');
  fs.writeFileSync(broken, bytes);
  const server = await start(broken);
  const { prompt } = await (await server.post('/apply-template', { messages: [{ role: 'user', content: 'Hi' }] })).json();
  assert.equal(prompt, '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n');
  const { log } = await server.stop();
  assert.match(log, /warning the chat template of broken\.gguf cannot be read: .*ChatML.*--chat-template FILE/);
  assert.ok(!log.includes('\u001b'));
  const done = cairn(['generate', broken, '-p', 'Once', '-n', '2', '-t', '1']);
  assert.equal(done.status, 0, done.stderr);
  assert.match(done.stderr, /warning the chat template of broken\.gguf cannot be read/);
  const given = path.join(folder, 'broken.jinja');
  fs.writeFileSync(given, '{% for');
  assert.match(cairn(['serve', story, '--port', '0', '--chat-template', given]).stderr, /the chat template that --chat-template gives: /);
});

test('a template that cannot render a conversation is named, with its line and what it was given', async () => {
  const strict = path.join(folder, 'strict.jinja');
  fs.writeFileSync(strict, "{% for m in messages %}{% if 'x' in m.content %}\n{{ raise_exception('no x') }}{% endif %}{{ m.content }}{% endfor %}{{ word }}{{ enable_thinking }}");
  const server = await start(story, ['--chat-template', strict, '--chat-template-kwargs', '{"word": "W"}', '--reasoning', 'off']);
  const render = async (content) => (await server.post('/apply-template', { messages: [{ role: 'user', content }] })).json();
  assert.equal((await render('a')).prompt, 'aWFalse');
  const { error } = await render('x');
  assert.equal(error.param, 'messages');
  assert.match(error.message, /chat template cannot render this conversation: line 2: no x\. It was given 1 messages \(user\) and 0 tools\..*--chat-template FILE/);
  await server.stop();
});

test('a limit on memory that leaves no room for threads is named', (context) => {
  const limited = (args) => spawnSync('bash', ['-c', 'ulimit -v 1000000; exec "$@"', '-', program, ...args], { encoding: 'utf8', timeout: 60_000 });
  if (limited(['--version']).status !== 0) return context.skip('a build with sanitizers needs more addresses than that');
  const done = limited(['generate', story, '-p', 'x', '-n', '1', '-t', '1000']);
  assert.equal(done.status, 1, done.stderr);
  assert.match(done.stderr, /cairn: (cannot start a thread: .*ulimit -v.*-t|out of memory)/);
});
