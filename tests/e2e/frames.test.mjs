// The frames socket of the real program, with clients of Node's own and with `cairn frames`.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { cairn, parameters, program, serve, story } from './server.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-frames-'));
const socketPath = path.join(folder, 'cairn.sock');
const frameBytesMax = 1 << 20;

let server;
before(async () => { server = await serve(story, ['--frames', socketPath]); });
after(async () => {
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
  assert.ok(!fs.existsSync(socketPath), 'the socket is removed at exit');
  fs.rmSync(folder, { recursive: true, force: true });
});

const frame = (text) => {
  const body = Buffer.from(text);
  const head = Buffer.alloc(4);
  head.writeUInt32LE(body.length);
  return Buffer.concat([head, body]);
};

// A client whose events are taken one after the other with next(), or up to the end of a request with answer(id).
function connect(at = socketPath) {
  const socket = net.connect({ path: at, allowHalfOpen: true });
  const events = [];
  let bytes = Buffer.alloc(0);
  let closed = false;
  let waiting = [];
  const wake = () => {
    const woken = waiting;
    waiting = [];
    for (const resolve of woken) resolve();
  };
  socket.on('data', (more) => {
    bytes = Buffer.concat([bytes, more]);
    while (bytes.length >= 4 && bytes.length >= 4 + bytes.readUInt32LE()) {
      const length = bytes.readUInt32LE();
      assert.ok(length > 0 && length <= frameBytesMax);
      events.push(JSON.parse(bytes.subarray(4, 4 + length).toString()));
      bytes = bytes.subarray(4 + length);
    }
    wake();
  });
  socket.on('end', () => { closed = true; socket.end(); wake(); });
  socket.on('error', () => { closed = true; wake(); });
  const client = {
    socket,
    write: (data) => socket.write(data),
    send: (message) => socket.write(frame(JSON.stringify(message))),
    // The next event that fits, or null at the end of the connection.
    next: async (fits = () => true) => {
      const late = setTimeout(() => socket.destroy(new Error('no such event within 60 s')), 60_000);
      try {
        while (true) {
          const at = events.findIndex(fits);
          if (at >= 0) return events.splice(at, 1)[0];
          if (closed) return null;
          await new Promise((resolve) => waiting.push(resolve));
        }
      } finally {
        clearTimeout(late);
      }
    },
    // {text, tokens, end} of a request; `end` is its last event.
    answer: async (id) => {
      let text = '';
      const tokens = [];
      while (true) {
        const event = await client.next((one) => one.id === id);
        assert.ok(event, `the connection ended before ${id}`);
        if (event.event !== 'token') return { text: text + (event.text ?? ''), tokens, end: event };
        text += event.text;
        tokens.push(event.token_id);
      }
    },
    close: () => socket.destroy(),
  };
  return client;
}

const stats = async () => (await fetch(server.url + '/stats')).json();

async function settles() {
  const deadline = Date.now() + 20_000;
  let now = await stats();
  while (Date.now() < deadline && (now.active_requests || now.waiting_requests || now.pages_used)) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    now = await stats();
  }
  assert.deepEqual([now.active_requests, now.waiting_requests, now.pages_used], [0, 0, 0]);
  assert.ok(server.alive());
}

async function overHttp(body) {
  const reply = await server.post('/v1/completions', body);
  return (await reply.json()).choices[0].text;
}

const greedy = { temperature: 0, max_tokens: 40 };

test('requests of one connection run side by side and say what HTTP says', async () => {
  const client = connect();
  client.send({ id: 'a', prompt: 'Once upon a time', ...greedy });
  client.send({ id: 'b', prompt: 'The little dog', ...greedy, stream: false });
  client.send({ id: 'c', messages: [{ role: 'user', content: 'Tell me a story.' }], ...greedy });
  const [a, b, c] = await Promise.all([client.answer('a'), client.answer('b'), client.answer('c')]);
  assert.equal(a.text, await overHttp({ prompt: 'Once upon a time', ...greedy }));
  assert.equal(b.text, await overHttp({ prompt: 'The little dog', ...greedy }));
  const reply = await server.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'Tell me a story.' }], ...greedy });
  assert.equal(c.text, (await reply.json()).choices[0].message.content);
  assert.equal(a.tokens.length, 40);
  assert.equal(a.end.event, 'eos');
  assert.equal(a.end.reason, 'length');
  assert.equal(a.end.usage.completion_tokens, 40);
  assert.ok(a.end.timings.prompt_ms > 0);
  assert.equal(b.tokens.length, 0);
  client.close();
  await settles();
});

// The model in the box: it thinks, and calls tools.
async function withGuide(work) {
  const at = path.join(folder, 'guide.sock');
  const guide = await serve(path.join(path.dirname(fileURLToPath(import.meta.url)), '../../models/guide/guide.gguf'), ['--frames', at]);
  const client = connect(at);
  // All events of a request, put together: what one eos event has without `stream`.
  const whole = async (request) => {
    client.send({ temperature: 0, max_tokens: 200, ...request });
    const made = { text: '', reasoning: '', calls: [], tokens: 0 };
    while (true) {
      const event = await client.next((one) => one.id === request.id);
      made.text += event.text ?? '';
      made.reasoning += event.reasoning ?? '';
      if (event.event === 'token') made.tokens++;
      if (event.event === 'tool_call' && event.name) made.calls[event.index] = { call_id: event.call_id, name: event.name, arguments: '' };
      if (event.event === 'tool_call') made.calls[event.index].arguments += event.arguments ?? '';
      if (event.event === 'eos') return { ...made, calls: [...made.calls, ...event.tool_calls ?? []], end: event };
      assert.ok(['token', 'tool_call'].includes(event.event), JSON.stringify(event));
    }
  };
  await work(whole, guide);
  client.close();
  const end = await guide.stop();
  assert.equal(end.code, 0, end.log);
}

test('thinking, tool calls and the turns of a conversation are as over HTTP', async () => {
  const messages = [{ role: 'user', content: 'What is 23 + 45?' }];
  const tools = [{ type: 'function', function: { name: 'get_weather', description: 'Get the weather of a city', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } }];
  await withGuide(async (whole, guide) => {
    const http = async (body) => (await (await guide.post('/v1/chat/completions', { temperature: 0, max_tokens: 200, ...body })).json()).choices[0].message;
    const message = await http({ messages });
    const thought = await whole({ id: 'a', messages });
    assert.ok(thought.reasoning.length > 0);
    assert.deepEqual([thought.text, thought.reasoning], [message.content, message.reasoning_content]);
    assert.equal(thought.end.reason, 'stop');
    assert.ok(thought.end.usage.reasoning_tokens > 0);
    const once = await whole({ id: 'a', messages, stream: false });
    assert.deepEqual([once.text, once.reasoning, once.tokens], [thought.text, thought.reasoning, 0]);
    assert.equal((await whole({ id: 'a', messages, chat_template_kwargs: { enable_thinking: false } })).reasoning, '');
    assert.ok((await whole({ id: 'a', messages, thinking_budget: 3 })).end.usage.reasoning_tokens < thought.end.usage.reasoning_tokens);

    const asked = [{ role: 'user', content: 'What is the weather in Paris?' }];
    const tool_choice = { type: 'function', function: { name: 'get_weather' } };
    const called = await whole({ id: 'b', messages: asked, tools, tool_choice });
    assert.equal(called.end.reason, 'tool_calls');
    assert.deepEqual(called.calls.map((call) => call.name), ['get_weather']);
    const function_ = (await http({ messages: asked, tools, tool_choice })).tool_calls[0].function;
    assert.deepEqual(JSON.parse(called.calls[0].arguments), JSON.parse(function_.arguments));
    const atOnce = await whole({ id: 'b', messages: asked, tools, tool_choice, stream: false });
    assert.deepEqual(atOnce.calls.map(({ name, arguments: text }) => [name, text]), [['get_weather', called.calls[0].arguments]]);
    // The call goes back as it came, and all that was computed for it is found.
    const { call_id, name, arguments: text } = called.calls[0];
    const result = await whole({ id: 'c', tools, messages: [...asked,
      { role: 'assistant', content: '', tool_calls: [{ id: call_id, type: 'function', function: { name, arguments: text } }] },
      { role: 'tool', tool_call_id: call_id, content: '{"weather": "sunny"}' }] });
    const { prompt_tokens, completion_tokens } = called.end.usage;
    assert.ok(result.end.usage.cached_tokens >= prompt_tokens + completion_tokens - 2, JSON.stringify([called.end.usage, result.end.usage]));
    assert.ok(result.text.length > 0);
  });
});

test('stop strings, seeds and the end of the text', async () => {
  const client = connect();
  const sampled = { prompt: 'Once upon a time', max_tokens: 20, temperature: 1, seed: 7 };
  client.send({ id: '1', ...sampled });
  client.send({ id: '2', ...sampled });
  const [one, two] = await Promise.all([client.answer('1'), client.answer('2')]);
  assert.equal(one.text, two.text);
  client.send({ id: '3', prompt: 'Once upon a time', ...greedy, stop: [' a '] });
  const stopped = await client.answer('3');
  assert.equal(stopped.end.reason, 'stop');
  assert.equal(stopped.end.stop, ' a ');
  assert.ok(!stopped.text.includes(' a '));
  client.close();
});

test('cancel ends a request and no other', async () => {
  const client = connect();
  const long = { prompt: 'Once upon a time', max_tokens: 400, ignore_eos: true, temperature: 0 };
  client.send({ id: 'a', ...long });
  client.send({ id: 'b', ...long, max_tokens: 60 });
  await client.next((event) => event.id === 'a' && event.event === 'token');
  client.send({ id: 'a', event: 'cancel' });
  const [a, b] = await Promise.all([client.answer('a'), client.answer('b')]);
  assert.equal(a.end.reason, 'cancelled');
  assert.ok(a.tokens.length < 399, `${a.tokens.length} tokens`);
  assert.equal(b.end.reason, 'length');
  client.send({ id: 'a', event: 'cancel' });
  const unknown = await client.next();
  assert.deepEqual([unknown.id, unknown.event, unknown.code, unknown.at], ['a', 'error', 'not_found', 'id']);
  client.close();
  await settles();
});

test('metrics are those of /stats', async () => {
  const client = connect();
  client.send({ event: 'metrics', id: 'm' });
  const metrics = await client.next();
  assert.deepEqual([metrics.id, metrics.event], ['m', 'metrics']);
  assert.deepEqual(Object.keys(metrics).slice(2), Object.keys(await stats()));
  client.close();
});

test('bad frames are answered in words and the connection goes on', async () => {
  const client = connect();
  const refused = async (data, code, at, pattern) => {
    client.write(data);
    const event = await client.next();
    assert.deepEqual([event.event, event.code], ['error', code], JSON.stringify(event));
    assert.match(event.at, at);
    assert.match(event.message, pattern);
  };
  await refused(frame('{"id": '), 'invalid_value', /^frame 1$/, /not valid JSON.*line 1/);
  await refused(Buffer.alloc(4), 'invalid_value', /^frame 2, byte 11 of/, /length 0/);
  await refused(frame('[1]'), 'invalid_value', /^frame 3$/, /must be a JSON object/);
  await refused(frame(Buffer.from([0x7b, 0xff, 0x7d])), 'invalid_value', /^frame 4$/, /not valid UTF-8 at byte 1/);
  await refused(frame('['.repeat(500_000)), 'invalid_value', /^frame 5$/, /nested deeper/);
  await refused(frame('{"prompt": "x"}'), 'invalid_value', /^id$/, /id is missing/);
  await refused(frame('{"id": "a", "prompt": "x", "top_p": 2}'), 'invalid_value', /^top_p$/, /from 0 to 1/);
  await refused(frame('{"id": "a", "prompt": "x", "n": 2}'), 'unsupported', /^n$/, /n is not supported/);
  await refused(frame(JSON.stringify({ id: 'a', prompt: 'word '.repeat(5000) })), 'context_length_exceeded', /./, /\d{4,} tokens.*512/);
  client.send({ id: 'a', prompt: 'Once', ...greedy, max_tokens: 2 });
  assert.equal((await client.answer('a')).end.reason, 'length');
  client.close();
});

test('a frame that is too long ends the connection with a word about it', async () => {
  const client = connect();
  client.send({ id: 'a', prompt: 'Once', ...greedy, max_tokens: 2 });
  await client.answer('a');
  const head = Buffer.alloc(4);
  head.writeUInt32LE(frameBytesMax + 1);
  client.write(Buffer.concat([head, Buffer.alloc(2 * frameBytesMax, 'x')]));
  const event = await client.next();
  assert.equal(event.code, 'too_large');
  assert.match(event.message, /1048577 bytes is over the limit of 1048576/);
  assert.match(event.at, /^frame 2, byte \d+ of the connection/);
  assert.equal(await client.next(), null);
  await settles();
});

test('a running id is not taken twice', async () => {
  const client = connect();
  // In one write, and long, so that the first still runs when the second is read.
  const twice = ['Once', 'Twice'].map((prompt) => frame(JSON.stringify({ id: 'a', prompt, ...greedy, max_tokens: 400, ignore_eos: true })));
  client.write(Buffer.concat(twice));
  const refused = await client.next((event) => event.event === 'error');
  assert.equal(refused.id, undefined);
  assert.match(refused.message, /"a" is running already/);
  assert.equal((await client.answer('a')).end.reason, 'length');
  client.close();
});

test('a client that closes its side for writing gets all its answers', async () => {
  const client = connect();
  for (const id of ['a', 'b', 'c']) client.send({ id, prompt: 'Once', ...greedy });
  client.socket.end();
  const answers = await Promise.all(['a', 'b', 'c'].map((id) => client.answer(id)));
  assert.ok(answers.every((one) => one.end.reason === 'length'));
  assert.equal(await client.next(), null);
});

test('two hundred clients that leave at random moments leave nothing behind', async () => {
  const seed = Number(process.env.CAIRN_SEED ?? Date.now() % 1_000_000);
  console.log(`# seed ${seed}`);
  let state = seed;
  const random = (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return (state >> 8) % below;
  };
  const long = { prompt: 'Once upon a time there was a dog. '.repeat(10), max_tokens: 300, ignore_eos: true };
  await Promise.all(Array.from({ length: 200 }, async (_, i) => {
    const [wait, requests, cut, half] = [random(300), 1 + random(3), random(40), random(3) === 0];
    await new Promise((resolve) => setTimeout(resolve, random(1_000)));
    const client = connect();
    for (let k = 0; k < requests; ++k) client.send({ id: `${i}-${k}`, ...long, stream: k % 2 === 0 });
    client.write(frame(JSON.stringify({ id: 'last', ...long })).subarray(0, cut));
    if (half) client.socket.end();
    await new Promise((resolve) => setTimeout(resolve, wait));
    client.close();
  }));
  const alone = await overHttp({ prompt: 'Once upon a time', ...greedy });
  await settles();
  const client = connect();
  client.send({ id: 'a', prompt: 'Once upon a time', ...greedy });
  assert.equal((await client.answer('a')).text, alone);
  client.close();
});

test('a client that does not read holds up nobody, and loses nothing when it reads on', async () => {
  const [deaf, gone] = [connect(), connect()];
  // Far more bytes of events than the sockets and the server's bound on unsent bytes hold.
  const ids = Array.from({ length: 64 }, (_, i) => `${i}-`.padEnd(250, 'x'));
  for (const client of [deaf, gone]) {
    client.socket.pause();
    const wanted = client === deaf ? ids : ids.slice(0, 5);
    for (const id of wanted) client.send({ id, prompt: 'Once', temperature: 0, max_tokens: 40, ignore_eos: true });
  }
  const client = connect();
  for (let i = 0; i < 3; ++i) {
    client.send({ id: `${i}`, prompt: 'Once upon a time', ...greedy });
    assert.equal((await client.answer(`${i}`)).end.reason, 'length');
  }
  client.close();
  gone.close();
  await settles();
  deaf.socket.resume();
  const answers = await Promise.all(ids.map((id) => deaf.answer(id)));
  assert.ok(answers.every((one) => one.tokens.length === 40 && one.text === answers[0].text));
  deaf.close();
});

test('one person with a socket and lines of JSON', async () => {
  const socket = net.connect({ path: socketPath, allowHalfOpen: true });
  let text = '';
  socket.on('data', (bytes) => { text += bytes; });
  socket.write('\n{"id": "a", "prompt": "Once", "max_tokens": 3, "temperature": 0}\n{"id": \r\n');
  socket.end('{"event": "metrics"}');
  await new Promise((resolve) => socket.on('end', resolve));
  const events = text.trimEnd().split('\n').map((line) => JSON.parse(line));
  assert.equal(events.filter((event) => event.event === 'token').length, 3);
  assert.equal(events.find((event) => event.event === 'error').at, 'line 3');
  assert.ok(events.some((event) => event.event === 'metrics'));
  // The metrics, the next line's answer, may come before its tokens, between them or after them.
  assert.equal(events.filter((event) => event.id === 'a').at(-1).event, 'eos');
});

const run = (args, options) => cairn(['frames', socketPath, ...args], options);

test('cairn frames asks, counts and passes lines on', async () => {
  const flags = ['--temp', '0', '-n', '40'];
  const asked = run(['--prompt', 'Once upon a time', ...flags]);
  assert.equal(asked.status, 0, asked.stderr);
  assert.equal(asked.stdout, `${await overHttp({ prompt: 'Once upon a time', ...greedy })}\n`);
  const message = run(['--message', 'Tell me a story.', ...flags]);
  const reply = await server.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'Tell me a story.' }], ...greedy });
  assert.equal(message.stdout, `${(await reply.json()).choices[0].message.content}\n`);
  const metrics = run(['--metrics']);
  assert.equal(metrics.status, 0, metrics.stderr);
  assert.equal(JSON.parse(metrics.stdout).active_requests, 0);
  for (const more of [[], ['--lines']]) {
    const input = '{"id": "a", "prompt": "Once", "max_tokens": 3}\n\n{"id": "b", "prompt": "Once", "stream": false, "max_tokens": 3}\n';
    const passed = run(['-', ...more], { input });
    assert.equal(passed.status, 0, passed.stderr);
    const events = passed.stdout.trimEnd().split('\n').map((line) => JSON.parse(line));
    assert.equal(events.filter((event) => event.id === 'a' && event.event === 'token').length, 3);
    assert.deepEqual(events.filter((event) => event.event === 'eos').map((event) => event.id).sort(), ['a', 'b']);
  }
  const refused = run(['-'], { input: '{"id": "a", "prompt": 5}\n{"id": "b", "prompt": "Once", "max_tokens": 1}\n' });
  assert.equal(refused.status, 1);
  assert.match(refused.stdout, /"code":"invalid_value".*prompt must be a string/);
  assert.match(refused.stdout, /"id":"b","event":"eos"/);
});

test('cairn frames sends what was given, and nothing else', async () => {
  const at = path.join(folder, 'listener.sock');
  const asked = async (flags) => {
    let request;
    const listener = net.createServer((socket) => socket.once('data', (bytes) => {
      request = JSON.parse(bytes.subarray(4));
      socket.end(frame('{"id":"1","event":"eos"}'));
    }));
    await new Promise((done) => { listener.listen(at, done); });
    const child = spawn(program, ['frames', at, '-p', 'Once', ...flags], { stdio: ['ignore', 'ignore', 'inherit'] });
    assert.equal(await new Promise((done) => { child.on('exit', done); }), 0);
    await new Promise((done) => { listener.close(done); });
    return request;
  };
  assert.deepEqual(await asked([]), { id: '1', prompt: 'Once' });
  assert.deepEqual(await asked(['--seed', '7', ...parameters.flatMap(([, flag, value]) => [flag, value])]),
    { id: '1', prompt: 'Once', ...Object.fromEntries(parameters.map(([name, , value]) => [name, Number(value)])), seed: 7 });
});

test('cairn frames says what is wrong', () => {
  const fails = (args, status, pattern, options = { input: '' }) => {
    const done = cairn(['frames', ...args], options);
    assert.equal(done.status, status, done.stdout + done.stderr);
    assert.match(done.stderr, pattern);
  };
  fails([path.join(folder, 'none'), '--metrics'], 1, /there is no socket .*--frames/);
  fails([path.join(folder, 'x'.repeat(120)), '--metrics'], 1, /has \d+ bytes and the system takes 107/);
  fails([socketPath], 2, /./);
  const notFile = fs.openSync(folder, 'r');
  fails([socketPath, '-'], 1, /^cairn: standard input cannot be read: Is a directory\n$/, { stdio: [notFile, 'pipe', 'pipe'] });
  fs.closeSync(notFile);
  fails([socketPath, '--metrics', '-p', 'x'], 2, /./);
  fails([socketPath, '-p', 'word '.repeat(5000)], 1, /context_length_exceeded.*\d{4,} tokens/);
  const second = cairn(['serve', story, '--port', '0', '--frames', socketPath]);
  assert.equal(second.status, 1);
  assert.match(second.stderr, /another server does/);
  assert.equal(fs.statSync(socketPath).mode & 0o777, 0o600);
});

test('the socket of a killed server is taken over, and stopping tells who waits', async () => {
  const other = path.join(folder, 'other.sock');
  const first = spawn(program, ['serve', story, '--port', '0', '--frames', other], { stdio: ['ignore', 'ignore', 'pipe'] });
  await new Promise((resolve) => first.stderr.on('data', (bytes) => { if (String(bytes).includes('framed JSON at')) resolve(); }));
  first.kill('SIGKILL');
  await new Promise((resolve) => first.on('exit', resolve));
  assert.ok(fs.existsSync(other));
  const second = await serve(story, ['--frames', other]);
  const child = spawn(program, ['frames', other, '-'], { stdio: ['pipe', 'pipe', 'pipe'] });
  let out = '';
  const begun = new Promise((resolve) => child.stdout.on('data', (bytes) => { out += bytes; resolve(); }));
  child.stdin.write('{"id": "a", "prompt": "Once", "max_tokens": 100, "ignore_eos": true}\n');
  await begun;
  const exited = new Promise((resolve) => child.on('exit', resolve));
  const end = await second.stop();
  assert.equal(end.code, 0, end.log);
  assert.equal(await exited, 1);  // standard input is still open: there could have been more to answer
  assert.match(out, /"id":"a","event":"eos","reason":"length"/);
  assert.ok(!fs.existsSync(other));
});

test('the Python example of the documents', () => {
  const page = fs.readFileSync(path.join(path.dirname(fileURLToPath(import.meta.url)), '../../docs/api/frames.md'), 'utf8');
  const [, example] = page.match(/^```python\n([\s\S]*?)^```/m);
  const done = spawnSync('python3', ['-c', example.replaceAll('/tmp/cairn.sock', socketPath)], { encoding: 'utf8', timeout: 60_000 });
  assert.equal(done.status, 0, done.stderr);
  assert.ok(done.stdout.length > 20, done.stdout);
});
