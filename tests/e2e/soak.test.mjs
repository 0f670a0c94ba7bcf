// Many streams and many clients that go: nothing stays behind. CAIRN_SOAK=1 runs all 1,000 streams and 10,000
// connections (a few minutes with a release build); tests run a part of them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { serve, story } from './server.mjs';

const scale = Number(process.env.CAIRN_SOAK ?? 0.02);
const streams = Math.round(1_000 * scale), connections = Math.round(10_000 * scale), atOnce = 100;

let server;
before(async () => { server = await serve(story, ['--queue-max', '2000']); });
after(async () => assert.equal((await server.stop()).code, 0));

let seed = 7;
const random = (below) => { seed = (seed * 48271) % 2147483647; return seed % below; };
const stats = async () => (await fetch(`${server.url}/stats`)).json();
const residentMib = () => Number(fs.readFileSync(`/proc/${server.pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) / 1024;

async function idle() {
  const end = Date.now() + 120_000;
  for (;;) {
    const now = await stats();
    if (now.active_requests + now.waiting_requests + now.pages_used === 0) return now;
    assert.ok(Date.now() < end, JSON.stringify(now));
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const send = (body) => new Promise((resolve, reject) => {
  const text = JSON.stringify(body);
  const socket = net.connect(server.port, '127.0.0.1', () => {
    socket.write(`POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
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
