// Clients that never read their streams delay nobody who does.
import assert from 'node:assert/strict';
import net from 'node:net';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { serve } from './server.mjs';

const guide = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../models/guide/guide.gguf');
const clients = 60;
const sockets = [];
let server;
before(async () => { server = await serve(guide); });
after(async () => {
  for (const socket of sockets) socket.destroy();
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

const stats = async () => (await fetch(`${server.url}/stats`)).json();

function openUnread(i) {
  const body = JSON.stringify({ prompt: `${i} Once upon a time`, max_tokens: 1_500, ignore_eos: true, stream: true, logprobs: 20 });
  const socket = net.connect(server.port, '127.0.0.1');  // nobody asks for its data, so it stops reading soon
  socket.on('error', () => {});
  socket.write(`POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  sockets.push(socket);
}

// Milliseconds to the whole answer of a few tokens.
async function ask(prompt, headers = {}) {
  const begin = performance.now();
  const reply = await server.post('/v1/completions', { prompt, max_tokens: 4, temperature: 0, ignore_eos: true },
    { headers: { 'content-type': 'application/json', ...headers } });
  assert.equal(reply.status, 200);
  assert.equal((await reply.json()).usage.completion_tokens, 4);
  return performance.now() - begin;
}
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

test(`${clients} streams that nobody reads`, { timeout: 300_000 }, async () => {
  const alone = [];
  for (let i = 0; i < 5; ++i) alone.push(await ask(`alone ${i}`));

  for (let i = 0; i < clients; ++i) openUnread(i);
  while ((await stats()).total_requests < clients + alone.length) await sleep(10);
  // They all want tokens still; who has another key has its share at once.
  const keyed = await ask('beside all of them', { authorization: 'Bearer honest' });
  assert.ok(keyed < 5_000, `${keyed} ms beside ${clients} that run`);

  // Until all have what may wait for them.
  for (let before = -1; ;) {
    const { tokens_generated: tokens } = await stats();
    if (tokens === before) break;
    before = tokens;
    await sleep(500);
  }
  assert.ok((await stats()).active_requests + (await stats()).waiting_requests >= clients, 'they are all still there');
  const beside = [];
  for (let i = 0; i < 9; ++i) beside.push(await ask(`beside ${i}`));
  const bound = 2 * median(alone) + 250;  // a busy machine's noise
  assert.ok(median(beside) < bound, `${median(beside)} ms beside ${clients}, ${median(alone)} ms alone`);

  for (const socket of sockets) socket.destroy();
  for (let left = clients; left > 0; await sleep(20)) {
    const now = await stats();
    left = now.active_requests + now.waiting_requests + now.pages_used;
  }
});
