// Many streams, many clients that go, and far more requests than can be served: nothing stays behind and nothing is
// lost. CAIRN_SOAK=1 runs all 1,000 streams, 10,000 connections and 100,000 requests (minutes with a release build);
// tests run a part of them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { serve, story } from './server.mjs';

const scale = Number(process.env.CAIRN_SOAK ?? 0.02);
const streams = Math.round(1_000 * scale), connections = Math.round(10_000 * scale), atOnce = 100;
const requests = Math.round(100_000 * scale), socketsAtOnce = 500;

let server;
before(async () => { server = await serve(story, ['--queue-max', '2000']); });
after(async () => assert.equal((await server.stop()).code, 0));

let seed = 7;
const random = (below) => { seed = (seed * 48271) % 2147483647; return seed % below; };
const stats = async (from = server) => (await fetch(`${from.url}/stats`)).json();
const residentMib = (from = server) => Number(fs.readFileSync(`/proc/${from.pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) / 1024;

async function idle(from = server) {
  const end = Date.now() + 120_000;
  for (;;) {
    const now = await stats(from);
    if (now.active_requests + now.waiting_requests + now.pages_used === 0) return now;
    assert.ok(Date.now() < end, JSON.stringify(now));
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const send = (body) => new Promise((resolve, reject) => {
  const text = JSON.stringify(body);
  const socket = net.connect(server.port, '127.0.0.1', () => {
    socket.write(`POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
    resolve(socket);
  });
  socket.once('error', reject);
});
const request = (i) => ({ prompt: `Story ${i}: once upon a time ${'there was a dog '.repeat(i % 20)}`, max_tokens: 200, ignore_eos: true, stream: i % 2 === 0 });

// Opens connections and drops each at a moment of its own: before, in and after the request, while it waits and runs.
async function dropConnections(count) {
  let next = 0;
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, async () => {
    while (next < count) {
      const i = next++;
      const socket = i % 10 === 0 ? net.connect(server.port, '127.0.0.1') : await send(request(i));
      socket.on('data', () => {}).on('error', () => {});
      await new Promise((resolve) => setTimeout(resolve, random(120)));
      socket.destroy();
    }
  }));
}

test(`${streams} streams at once`, async () => {
  const sockets = [];
  for (let i = 0; i < streams; ++i) {
    const socket = await send({ ...request(0), prompt: `Stream ${i}` });
    socket.on('data', () => {}).on('error', () => {});
    sockets.push(socket);
  }
  const busy = await stats();
  assert.ok(busy.active_requests + busy.waiting_requests > streams / 2, JSON.stringify(busy));
  for (const socket of sockets) socket.destroy();
  await idle();
});

test(`${connections} connections opened and dropped at random moments`, async () => {
  await dropConnections(Math.round(connections / 10));  // what is allocated once is allocated now
  await idle();
  const before = residentMib();
  await dropConnections(connections);
  const end = await idle();
  const grown = residentMib() - before;
  console.log(`${end.total_requests} requests, ${end.cancelled_requests} cancelled; resident memory grew by ${grown.toFixed(1)} MiB from ${before.toFixed(1)}`);
  // Sanitizers keep freed memory for a while.
  if (scale === 1) assert.ok(grown < 16, `${grown} MiB`);
});

// One request to its end: {status, retry, text}. Most share the agent's connections, some bring their own.
const ask = (to, i, agent) => new Promise((resolve, reject) => {
  const body = JSON.stringify({ prompt: `Story ${i % 50}`, max_tokens: 4, temperature: 0, ignore_eos: true, stream: i % 5 === 0 });
  const options = {
    port: to.port, host: '127.0.0.1', method: 'POST', path: '/v1/completions', agent: i % 10 === 0 ? false : agent, timeout: 120_000,
    headers: { 'content-type': 'application/json', 'content-length': body.length },
  };
  const outgoing = http.request(options, (reply) => {
    let text = '';
    reply.setEncoding('utf8').on('data', (part) => { text += part; }).on('error', reject)
      .on('end', () => resolve({ status: reply.statusCode, retry: reply.headers['retry-after'], text }));
  });
  outgoing.on('error', reject).on('timeout', () => outgoing.destroy(new Error(`request ${i} got no answer in 120 s`)));
  outgoing.end(body);
});

// As fast as the sockets allow, without waiting when told to. Counts of each status; throws if an answer is not whole.
async function fire(to, count) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: socketsAtOnce });
  const counts = { 200: 0, 429: 0, 503: 0 };
  const texts = new Map();
  let next = 0;
  await Promise.all(Array.from({ length: Math.min(socketsAtOnce, count) }, async () => {
    while (next < count) {
      const i = next++;
      const { status, retry, text } = await ask(to, i, agent);
      assert.ok(status in counts, `${status}: ${text}`);
      ++counts[status];
      if (status !== 200) {
        assert.ok(Number(retry) >= 1, `${status} with Retry-After ${retry}`);
        assert.ok(JSON.parse(text).error.message.length > 0);
      } else if (i % 5 === 0) {
        assert.match(text, /"finish_reason":"length".*data: \[DONE\]\s*$/s);
      } else {
        const answer = JSON.parse(text);
        assert.equal(answer.usage.completion_tokens, 4);
        const before = texts.get(i % 50) ?? answer.choices[0].text;
        assert.equal(answer.choices[0].text, before);  // everyone gets their own prompt's answer
        texts.set(i % 50, before);
      }
    }
  }));
  agent.destroy();
  return counts;
}

test(`${requests} requests, ${socketsAtOnce} at a time: each is answered or told when to try again`, async (t) => {
  const small = await serve(story, ['--queue-max', '8', '--parallel-max', '4']);
  t.after(async () => assert.equal((await small.stop()).code, 0));
  const warm = await fire(small, Math.max(socketsAtOnce, requests / 10));  // what is allocated once is allocated now
  await idle(small);
  const before = residentMib(small);
  const counts = await fire(small, requests);
  const end = await idle(small);
  const grown = residentMib(small) - before;
  console.log(`${JSON.stringify(counts)}; resident memory grew by ${grown.toFixed(1)} MiB from ${before.toFixed(1)}`);
  assert.equal(counts[200] + counts[429] + counts[503], requests);
  assert.ok(counts[200] >= 8 && counts[429] > 0, JSON.stringify(counts));
  assert.equal(end.total_requests, warm[200] + counts[200]);
  assert.equal(end.cancelled_requests, 0);
  assert.equal(end.tokens_generated, 4 * (warm[200] + counts[200]));
  if (scale === 1) assert.ok(grown < 16, `${grown} MiB`);
});
