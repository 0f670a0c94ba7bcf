// The worst that a client can send, in bounded amounts: it is refused in words, and nobody else waits for it.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { logged, serve, storyTrainedFor } from './server.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-hostile-'));
const store = path.join(folder, 'store.db');
const healthMsMax = 250;  // other processes have cores, too
let server;
before(async () => { server = await serve(storyTrainedFor(2048), ['--threads', '1', '--store', store, '--request-bytes', '1GiB']); });
after(async () => {
  const end = await server.stop();
  fs.rmSync(folder, { recursive: true, force: true });
  assert.equal(end.code, 0, end.log);
});

const cpuSeconds = () => {
  const fields = fs.readFileSync(`/proc/${server.pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
};
const rssMiB = () => Number(fs.readFileSync(`/proc/${server.pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) / 1024;

// Asks /health again and again on a thread of its own, which what the test itself computes does not hold up.
const askHealth = `
  const { parentPort, workerData } = require('node:worker_threads');
  let over = false;
  parentPort.once('message', () => { over = true; });
  (async () => {
    let slowest = 0;
    while (!over) {
      const begin = performance.now();
      const reply = await fetch(workerData + '/health');
      if (reply.status !== 200) throw new Error('/health: ' + reply.status);
      await reply.text();
      slowest = Math.max(slowest, performance.now() - begin);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    parentPort.postMessage(slowest);
  })();`;

// Runs `work` while /health is asked; returns its result and the slowest answer in ms.
async function beside(work) {
  const asker = new Worker(askHealth, { eval: true, workerData: server.url });
  const slowest = new Promise((resolve, reject) => asker.once('message', resolve).once('error', reject));
  const result = await work().finally(() => asker.postMessage('over'));
  return { result, slowest: await slowest };
}

const keys = (count) => Array.from({ length: count }, (_, i) => `"k${i}":1`).join(',');
async function refused(route, body, status, code, pattern) {
  const reply = await server.post(route, body);
  const text = await reply.text();
  assert.equal(reply.status, status, text.slice(0, 500));
  const { error } = JSON.parse(text);
  assert.equal(error.code, code);
  assert.match(error.message, pattern);
  assert.ok(text.length < 2000, `${text.length} bytes`);
}

test('objects of any size cost what their bytes cost', async () => {
  const before = cpuSeconds();
  const { slowest } = await beside(async () => {
    await refused('/v1/completions', `{"prompt":"a",${keys(300_000)}}`, 400, 'too_large', /more than 65536 members/);
    const unknown = await server.post('/v1/completions', `{"prompt":"a","max_tokens":1,"warnings":true,${keys(60_000)}}`);
    assert.equal((await unknown.json()).warnings.length, 65, 'they are taken, and the warnings are bounded');
    await logged(server, /(?:is not a field that this endpoint knows[^]*){16}/);
    assert.equal(server.log().match(/is not a field that this endpoint knows/g).length, 16, 'and so are the lines of the log');
    await refused('/v1/completions', `{"prompt":"a","logit_bias":{${keys(60_000)}}}`, 400, 'invalid_value', /at most 1024/);
    await refused('/v1/completions', `{"prompt":"a","user":[${'{},'.repeat(5_000_000)}{}]}`, 400, 'too_large', /4194304 values/);
    const parameters = `{"type":"object","properties":{${keys(60_000)}}}`;
    await refused('/v1/chat/completions', `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":${parameters}}}]}`,
      400, 'context_length_exceeded', /2048/);
    const members = await server.post('/v1/completions', `{"prompt":"a","max_tokens":1,"metadata":{${keys(60_000)}}}`);
    assert.equal(members.status, 200, await members.text());
  });
  const seconds = cpuSeconds() - before;
  assert.ok(seconds < 15, `${seconds} s of processor time`);
  assert.ok(slowest < healthMsMax, `/health took ${slowest} ms`);
});

test('the last of two members of one name counts, and a NUL is no end', async () => {
  const twice = await (await server.post('/v1/completions', '{"prompt":"Once","max_tokens":9,"max_tokens":2}')).json();
  assert.equal(twice.usage.completion_tokens, 2);
  await refused('/v1/completions', '{"prompt":"Once"}\0\0', 400, 'invalid_value', /NUL byte at byte 17/);
});

test('a prompt whose length alone refuses it holds up no stream', async () => {
  const reply = await server.post('/v1/completions', { prompt: 'Once', max_tokens: 1500, ignore_eos: true, stream: true });
  let last = performance.now();
  let silence = 0;
  let events = 0;
  const streaming = (async () => {
    for await (const chunk of reply.body) {
      silence = Math.max(silence, performance.now() - last);
      last = performance.now();
      events += Buffer.from(chunk).toString().split('data: ').length - 1;
    }
  })();
  const prompt = 'hello world '.repeat((31 << 20) / 12);
  const { slowest } = await beside(async () => {
    await refused('/v1/completions', { prompt }, 400, 'context_length_exceeded', /context length is 2048 tokens.*resulted in \d+ tokens/);
    await refused('/v1/chat/completions', { messages: [{ role: 'user', content: prompt }] }, 400, 'context_length_exceeded', /2048/);
  });
  await streaming;
  assert.ok(events > 1000, `${events} events`);
  assert.ok(silence < 1000, `the stream was silent for ${silence} ms`);
  assert.ok(slowest < healthMsMax, `/health took ${slowest} ms`);
});

test('memory that a large answer took is given back', async () => {
  const before = rssMiB();
  const content = 'hello world '.repeat((4 << 20) / 12);
  const { result } = await beside(async () => {
    const reply = await server.post('/tokenize', { content, with_pieces: true });
    assert.equal(reply.status, 200);
    return reply.json();
  });
  assert.equal(result.tokens.length, result.count);
  assert.equal(result.tokens.map((token) => token.piece).join('').trim(), content.trim());
  let rss = rssMiB();
  for (let i = 0; i < 50 && rss > before + 64; ++i) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    rss = rssMiB();
  }
  assert.ok(rss < before + 64, `${before} MiB before, ${rss} MiB afterwards`);
});

test('what does not fit into --request-bytes is refused, and others are served', async () => {
  const small = await serve(storyTrainedFor(2048), ['--threads', '1', '--request-bytes', '8MiB']);
  try {
    const large = await small.post('/tokenize', { content: 'hello world '.repeat(200_000) });
    assert.equal(large.status, 503);
    assert.equal((await large.json()).error.code, 'out_of_memory');
    assert.equal(large.headers.get('retry-after'), '1');
    const whole = await small.post('/v1/completions', { prompt: 'Once', n: 64, max_tokens: 1000, ignore_eos: true, logprobs: 20 });
    assert.equal(whole.status, 503);
    assert.equal((await whole.json()).error.code, 'out_of_memory');
    const reply = await small.post('/v1/completions', { prompt: 'Once', max_tokens: 2 });
    assert.equal(reply.status, 200);
  } finally {
    assert.equal((await small.stop()).code, 0);
  }
});

test('names that the server sets are none of the client\'s', async () => {
  for (const name of ['messages', 'tools', 'add_generation_prompt', 'bos_token', 'eos_token']) {
    await refused('/apply-template', { messages: [{ role: 'user', content: 'x' }], chat_template_kwargs: { [name]: [] } }, 400,
      'invalid_value', new RegExp(`chat_template_kwargs\\.${name} is a variable that the server sets`));
  }
});

test('a store that another process has locked holds up nobody else', async () => {
  const lock = `
import sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute('BEGIN IMMEDIATE')
print('locked', flush=True)
sys.stdin.readline()
`;
  assert.equal(spawnSync('python3', ['-c', 'import sqlite3']).status, 0);
  const holder = spawn('python3', ['-c', lock, store], { stdio: ['pipe', 'pipe', 'inherit'] });
  await new Promise((resolve) => holder.stdout.once('data', resolve));
  const { result, slowest } = await beside(async () => {
    const reply = await server.post('/v1/responses', { input: 'Hello', max_output_tokens: 2 });
    return reply.json();
  });
  holder.stdin.end('\n');
  await new Promise((resolve) => holder.on('exit', resolve));
  assert.equal(result.store, false, 'and it says so');
  assert.ok(slowest < healthMsMax, `/health took ${slowest} ms`);
  const stored = await (await server.post('/v1/responses', { input: 'Hello', max_output_tokens: 2 })).json();
  assert.equal(stored.store, true);
  assert.equal((await fetch(`${server.url}/v1/responses/${stored.id}`)).status, 200);
});

test('requests of one connection are answered in their order, whatever they cost', async () => {
  const body = (prompt) => JSON.stringify({ prompt, max_tokens: 1 });
  const post = (text) => `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
  const text = await new Promise((resolve, reject) => {
    const socket = net.connect(server.port, '127.0.0.1', () => {
      socket.write(post(body('hello world '.repeat(100_000))) + post(body('Once')) + 'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
    });
    let got = '';
    socket.on('data', (bytes) => { got += bytes; }).on('close', () => resolve(got)).on('error', reject);
  });
  assert.deepEqual(text.match(/context_length_exceeded|text_completion|"status":"ok"/g), ['context_length_exceeded', 'text_completion', '"status":"ok"']);
});
