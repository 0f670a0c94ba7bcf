// How a running stream fares while a client is refused thousands of times a second (docs/access.md).
//
// usage: node bench/access/refusals.mjs [--rate N] [--seconds N] MODEL.gguf
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';

// Sends requests that are refused, at an even rate. Resolves to how many answers came, by status.
function refuse({ port, connections, rate, time, head }) {
  const request = Buffer.from(`${head}\r\n\r\n`);
  const statuses = {};
  const sockets = Array.from({ length: connections }, () => {
    const socket = net.connect(port, '127.0.0.1');
    let rest = '';
    socket.on('data', (bytes) => {
      const text = rest + bytes.toString('latin1');
      const lines = text.match(/HTTP\/1\.1 \d{3}/g) ?? [];
      for (const line of lines) statuses[line.slice(9)] = (statuses[line.slice(9)] ?? 0) + 1;
      rest = text.slice(Math.max(text.lastIndexOf('HTTP/1.1') + 12, text.length - 12));
    });
    return socket;
  });
  return new Promise((resolve) => {
    const begin = performance.now();
    let sent = 0;
    const timer = setInterval(() => {
      const passed = performance.now() - begin;
      if (passed > time * 1000) {
        clearInterval(timer);
        return setTimeout(() => {
          sockets.forEach((socket) => socket.destroy());
          resolve({ sent, statuses });
        }, 500);
      }
      const due = Math.floor(passed / 1000 * rate);
      const each = Math.ceil((due - sent) / connections);
      if (each <= 0) return undefined;
      const several = Buffer.concat(Array(each).fill(request));
      for (const socket of sockets) socket.write(several);
      sent += each * connections;
      return undefined;
    }, 2);
  });
}

// In a thread of its own, so that it delays nobody who reads the stream.
if (!isMainThread) {
  parentPort.postMessage(await refuse(workerData));
  process.exit();
}
const refuseFor = (time, head) => new Promise((resolve, reject) => {
  const worker = new Worker(fileURLToPath(import.meta.url), { workerData: { port, connections, rate, time, head } });
  worker.on('message', resolve);
  worker.on('error', reject);
});

const { values, positionals } = parseArgs({
  options: { rate: { type: 'string', default: '10000' }, seconds: { type: 'string', default: '10' }, connections: { type: 'string', default: '16' } },
  allowPositionals: true,
});
const [model] = positionals;
const seconds = Number(values.seconds), rate = Number(values.rate), connections = Number(values.connections);
const program = process.env.CAIRN_PROGRAM ?? path.join(path.dirname(fileURLToPath(import.meta.url)), '../../build/release/cairn');
const keys = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-refusals-')), 'keys');
process.on('exit', () => fs.rmSync(path.dirname(keys), { recursive: true, force: true }));
fs.writeFileSync(keys, 'streamer sk-streamer-0123456789\nspent sk-spent-0123456789 rpm=1\n', { mode: 0o600 });

// Its log goes to a file, as that of a service would.
const log = path.join(path.dirname(keys), 'log');
const server = spawn(program, ['serve', model, '--port', '0', '--name', 'm', '--api-key-file', keys], { stdio: ['ignore', 'ignore', fs.openSync(log, 'w')] });
process.on('exit', () => server.kill('SIGKILL'));
let port;
for (let tries = 0; port === undefined && tries < 600; ++tries) {
  port = fs.readFileSync(log, 'utf8').match(/serving \S+ on http:\S+:(\d+)/)?.[1];
  if (server.exitCode !== null) throw new Error(fs.readFileSync(log, 'utf8'));
  await sleep(50);
}
port = Number(port);

// Processor time of the server in seconds.
function processorSeconds() {
  const kTicks = 100;  // a second, on every Linux that Node runs on
  const fields = fs.readFileSync(`/proc/${server.pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / kTicks;
}

// Reads a stream for so long. Resolves to tokens per second and the gaps between chunks in ms, sorted.
async function streamFor(time) {
  const end = performance.now() + time * 1000;
  const gaps = [];
  let last = performance.now(), tokens = 0;
  const begin = last;
  while (performance.now() < end) {
    const reply = await fetch(`http://127.0.0.1:${port}/v1/completions`, {
      method: 'POST',
      headers: { authorization: 'Bearer sk-streamer-0123456789' },
      body: JSON.stringify({ prompt: 'Once upon a time', max_tokens: 2000, ignore_eos: true, stream: true }),
    });
    if (reply.status !== 200) throw new Error(await reply.text());
    for await (const bytes of reply.body) {
      const now = performance.now();
      gaps.push(now - last);
      last = now;
      tokens += Buffer.from(bytes).toString().split('\n\n').length - 1;
      if (now > end) break;
    }
  }
  gaps.sort((a, b) => a - b);
  return { rate: tokens / ((last - begin) / 1000), gaps };
}

const show = (name, { rate: tokens, gaps }) => {
  const at = (share) => gaps[Math.min(gaps.length - 1, Math.floor(gaps.length * share))].toFixed(1);
  console.log(`${name.padEnd(34)} ${tokens.toFixed(0).padStart(6)} tokens/s, gaps: median ${at(0.5)} ms, 99 % ${at(0.99)} ms, longest ${at(1)} ms`);
};
await streamFor(2);
show('stream alone', await streamFor(seconds));
const ask = (key) => `GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}`;
await fetch(`http://127.0.0.1:${port}/v1/models`, { headers: { authorization: 'Bearer sk-spent-0123456789' } });
for (const [status, key] of [['401', 'sk-wrong'], ['429', 'sk-spent-0123456789']]) {
  const [stream, refused] = await Promise.all([streamFor(seconds), refuseFor(seconds, ask(key))]);
  show(`beside ${((refused.statuses[status] ?? 0) / seconds).toFixed(0)} times ${status} a second`, stream);
  if ((refused.statuses[status] ?? 0) < refused.sent * 0.9) console.log(`  sent ${refused.sent}: ${JSON.stringify(refused.statuses)}`);
  await sleep(500);
}
// What a refusal costs the server, with nothing else to do.
const before = processorSeconds();
const { statuses } = await refuseFor(seconds, ask('sk-wrong'));
console.log(`${((processorSeconds() - before) / (statuses['401'] ?? 0) * 1e6).toFixed(1)} us of the server's processors for a 401`);
server.kill('SIGTERM');
await new Promise((resolve) => { server.on('exit', resolve); });
