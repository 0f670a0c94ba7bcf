// What a client or a network may do to the server: it answers in words, loses nothing and goes on serving.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { serve, story } from './server.mjs';

let server;
before(async () => { server = await serve(story); });
after(async () => {
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

async function stillServes() {
  assert.ok(server.alive());
  const reply = await server.post('/v1/completions', { prompt: 'Once', max_tokens: 2, temperature: 0 });
  assert.equal(reply.status, 200);
  assert.equal((await reply.json()).usage.completion_tokens, 2);
}

async function refused(route, body, status, pattern) {
  const reply = await server.post(route, body);
  const text = await reply.text();
  assert.equal(reply.status, status, text);
  const { error } = JSON.parse(text);
  assert.match(error.message, pattern);
}

test('bodies that are not what they should be', async () => {
  const chat = '/v1/chat/completions';
  await refused(chat, '{"messages": [', 400, /not valid JSON.*line 1/);
  await refused(chat, '[1,2]', 400, /must be a JSON object, not an array/);
  await refused(chat, '', 400, /not valid JSON/);
  await refused(chat, '['.repeat(100_000), 400, /nested deeper/);
  await refused(chat, new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 400, /not valid UTF-8 at byte 2/);
  await refused(chat, { messages: 'hello' }, 400, /messages must be an array, not a string/);
  await refused(chat, { messages: [{ role: 'user', content: 5 }] }, 400, /messages\[0\]\.content/);
  await refused(chat, { messages: [{ role: 'user', content: 'x' }], max_tokens: 1.5 }, 400, /max_tokens must be an integer/);
  await refused(chat, { messages: [{ role: 'user', content: 'x' }], max_tokens: 'x' }, 400, /max_tokens must be an integer/);
  await refused(chat, { messages: [{ role: 'user', content: 'x' }], n: 1e9 }, 400, /n must be from 1 to 128/);
  await refused(chat, { messages: [{ role: 'user', content: 'x' }], stop: Array(300).fill('a') }, 400, /stop/);
  await refused(chat, { messages: [{ role: 'user', content: 'x' }], stream: 'yes' }, 400, /stream must be true or false/);
  await refused(chat, { messages: [{ role: 'user', content: 'x' }], logit_bias: 5 }, 400, /logit_bias/);
  await refused(chat, { messages: [{ role: 'user', content: 'x' }], logit_bias: { 999999: 1 } }, 400, /999999/);
  await refused(chat, { messages: [{ role: 'user', content: 'x' }], seed: 1e300 }, 400, /seed/);
  await refused('/v1/completions', { prompt: {} }, 400, /prompt/);
  await refused('/v1/completions', { prompt: [] }, 400, /prompt/);
  await refused('/v1/completions', { prompt: 'x', max_tokens: 0.5 }, 400, /max_tokens/);
  await refused('/detokenize', { tokens: [5000000] }, 400, /out of range: the vocabulary has 512/);
  await refused('/v1/nothing', {}, 404, /the nearest are ([A-Z]+ \/v1\/\w+(, )?){3}$/);
  await refused('/v1/models', {}, 405, /takes GET, not POST/);
  await stillServes();
});

test('a prompt longer than the context is refused with both counts', async () => {
  await refused('/v1/completions', { prompt: 'word '.repeat(5000) }, 400, /context length is 512 tokens.*\d{4,} tokens/);
  await stillServes();
});

test('a body over the limit is refused without being read whole', async () => {
  const reply = await new Promise((resolve, reject) => {
    const socket = net.connect(server.port, '127.0.0.1', () => {
      socket.write('POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n');
    });
    let text = '';
    socket.on('data', (bytes) => { text += bytes; });
    socket.on('close', () => resolve(text));
    socket.on('error', reject);
  });
  assert.match(reply, /^HTTP\/1.1 413 .*over the limit of \d+ bytes/s);
  await stillServes();
});

test('tokenize, detokenize and apply-template agree', async () => {
  const { tokens } = await (await server.post('/tokenize', { content: 'The little dog ran.' })).json();
  const { content } = await (await server.post('/detokenize', { tokens })).json();
  assert.equal(content.trim(), 'The little dog ran.');
  // As clients of vLLM ask.
  const again = await (await server.post('/v1/tokenize', { model: 'x', prompt: 'The little dog ran.', add_special_tokens: false })).json();
  assert.deepEqual([again.tokens, again.count], [tokens, tokens.length]);
  assert.equal((await (await server.post('/v1/detokenize', { tokens })).json()).prompt, content);
  const info = await (await fetch(`${server.url}/tokenizer_info`)).json();
  assert.deepEqual([info.bos_token, info.eos_token, info.pad_token, info.vocab_size], ['<s>', '</s>', null, 512]);
  const pieces = (await (await server.post('/tokenize', { content: 'dog', with_pieces: true })).json()).tokens;
  assert.ok(pieces.every((piece) => Number.isInteger(piece.id) && piece.piece !== undefined));
  const { prompt } = await (await server.post('/apply-template', { messages: [{ role: 'user', content: 'Hi' }] })).json();
  assert.equal(prompt, '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n');
  assert.match(server.log(), /no chat template.*ChatML/);
});

// Opens a request by hand and drops the connection after `wait` ms.
const drop = (body, wait) => new Promise((resolve) => {
  const text = JSON.stringify(body);
  const socket = net.connect(server.port, '127.0.0.1', () => {
    socket.write(`POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
    setTimeout(() => { socket.destroy(); resolve(); }, wait);
  });
  socket.on('error', () => {});
});

test('clients that leave in any phase cost nobody anything', async () => {
  const long = { prompt: 'Once upon a time there was a dog. '.repeat(20), max_tokens: 300, ignore_eos: true };
  const drops = [];
  for (let i = 0; i < 60; ++i) drops.push(drop({ ...long, stream: i % 2 === 0 }, (i * 7) % 100));
  const meanwhile = server.post('/v1/completions', { prompt: 'Once upon a time', max_tokens: 30, temperature: 0 });
  const alone = server.post('/v1/completions', { prompt: 'Once upon a time', max_tokens: 30, temperature: 0 });
  await Promise.all(drops);
  assert.equal((await (await meanwhile).json()).choices[0].text, (await (await alone).json()).choices[0].text);
  await stillServes();
});

test('requests cut off in the middle and pipelined ones', async () => {
  for (const text of ['POST /v1/chat', 'POST /v1/completions HTTP/1.1\r\nContent-Length: 50\r\n\r\n{"prompt":']) {
    await new Promise((resolve) => {
      const socket = net.connect(server.port, '127.0.0.1', () => socket.end(text));
      socket.on('close', resolve).on('error', () => {}).resume();
    });
  }
  const body = JSON.stringify({ prompt: 'Once', max_tokens: 3, temperature: 0 });
  const one = `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const text = await new Promise((resolve) => {
    let got = '';
    const socket = net.connect(server.port, '127.0.0.1', () => socket.write(one.repeat(3) + 'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'));
    socket.on('data', (bytes) => { got += bytes; });
    socket.on('close', () => resolve(got));
  });
  assert.equal(text.match(/"text_completion"/g)?.length, 3);
  assert.match(text, /"status":"ok"/);
  await stillServes();
});

// What comes back for these bytes, to the end of the connection; `end` closes the side for writing behind them.
const raw = (bytes, { end = false, port = server.port } = {}) => new Promise((resolve, reject) => {
  let got = '';
  const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true }, () => (end ? socket.end(bytes) : socket.write(bytes)));
  socket.on('data', (data) => { got += data; });
  socket.on('end', () => { socket.destroy(); resolve(got); });
  socket.on('error', reject);
});
const post = (headers, body) => `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n${body}`;

test('no trailer ends the process', async () => {
  for (const size of [60_000, 65_536, 300_000]) {
    const bytes = post('Connection: close\r\nTransfer-Encoding: chunked\r\n', `2\r\n{}\r\n0\r\nX-T: ${'v'.repeat(size)}\r\n\r\n`);
    assert.match(await raw(bytes), size < 65_000 ? /^HTTP\/1.1 400 .*prompt/s : /^HTTP\/1.1 431 /);
  }
  await stillServes();
});

test('a transfer coding that is not chunked does not make its body a request', async () => {
  const second = 'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n';
  for (const [coding, status] of [['xchunked', 501], ['chunked, identity', 400], ['gzip', 501], ['"chunked"', 400]]) {
    const got = await raw(post(`Transfer-Encoding: ${coding}\r\n`, second));
    assert.match(got, new RegExp(`^HTTP/1.1 ${status} `));
    assert.doesNotMatch(got, /"status":"ok"/);
  }
});

test('web pages and names of elsewhere are kept out, with the flag that lets them in', async () => {
  const get = (host, header = '') => `GET /health HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${header}\r\n`;
  assert.match(await raw(get('evil.example')), /^HTTP\/1.1 403 .*--allow-host evil\.example/s);
  assert.match(await raw(get('localhost', 'Origin: http://evil.example\r\n')), /^HTTP\/1.1 403 /);
  assert.match(await raw(get('localhost', 'Origin: null\r\n')), /^HTTP\/1.1 403 /);
  assert.match(await raw(get('127.0.0.1:1', 'Origin: http://localhost:3000\r\n')), /^HTTP\/1.1 200 /);
  assert.match(await raw(get('localhost', 'Origin: vscode-webview://1\r\nSec-Fetch-Site: cross-site\r\n')), /^HTTP\/1.1 200 /);
  assert.match(await raw('GET http://localhost/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'), /^HTTP\/1.1 200 /);
  const other = await serve(story, ['--allow-host', 'box.lan', '--allow-host', 'other.lan']);
  assert.match(await raw(get('box.lan'), { port: other.port }), /^HTTP\/1.1 200 /);
  assert.match(await raw(get('localhost', 'Origin: https://other.lan\r\n'), { port: other.port }), /^HTTP\/1.1 200 /);
  assert.equal((await other.stop()).code, 0);
});

test('a client that only stops sending gets its answer, one that goes ends its request', async () => {
  const body = JSON.stringify({ prompt: 'Once upon a time', max_tokens: 40, temperature: 0, ignore_eos: true });
  const streamed = JSON.stringify({ ...JSON.parse(body), stream: true });
  const headers = (text) => `Content-Type: application/json\r\nContent-Length: ${text.length}\r\n`;
  assert.match(await raw(post(headers(body), body), { end: true }), /HTTP\/1.1 200 .*"text_completion"/s);
  assert.match(await raw(post(headers(streamed), streamed), { end: true }), /data: \[DONE\]/);
  const stats = async () => (await fetch(`${server.url}/stats`)).json();
  const before = (await stats()).cancelled_requests;
  const endless = { prompt: 'Once upon a time', max_tokens: 490, ignore_eos: true };
  for (const stream of [false, true]) drop({ ...endless, stream }, 20);
  for (let i = 0; i < 500; ++i) {
    const now = await stats();
    if (now.cancelled_requests === before + 2 && now.active_requests === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.fail(`after 5 s: ${JSON.stringify(await stats())}`);
});

test('a request that has not come whole does not hold up the end', async () => {
  const other = await serve(story);
  const socket = net.connect(other.port, '127.0.0.1', () => socket.write('POST /v1/completions HTTP/1.1\r\nHost: loc'));
  socket.on('error', () => {});
  await new Promise((resolve) => setTimeout(resolve, 100));
  const begun = Date.now();
  assert.equal((await other.stop()).code, 0);
  assert.ok(Date.now() - begun < 5_000, 'the grace time is 10 s');
});
