// Whether the time of a refusal depends on how much of a key is right (docs/access.md): medians of the time to the
// answer for keys that share more and more of their beginning with the right one, asked in turn on one connection.
//
// usage: node bench/access/timing.mjs [--rounds N] MODEL.gguf
import { spawn } from 'node:child_process';
import net from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({ options: { rounds: { type: 'string', default: '5000' } }, allowPositionals: true });
const program = process.env.CAIRN_PROGRAM ?? path.join(path.dirname(fileURLToPath(import.meta.url)), '../../build/release/cairn');
const right = 'sk-0123456789abcdef0123456789abcdef';
const server = spawn(program, ['serve', positionals[0], '--port', '0', '--name', 'm'],
  { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, CAIRN_API_KEY: right } });
process.on('exit', () => server.kill('SIGKILL'));
let log = '';
const port = await new Promise((resolve, reject) => {
  server.stderr.on('data', (bytes) => {
    log += bytes;
    const found = log.match(/serving \S+ on http:\S+:(\d+)/);
    if (found) resolve(Number(found[1]));
  });
  server.on('exit', () => reject(new Error(log)));
});

// As long as the right one, with so many characters of its beginning.
const wrong = (shared) => right.slice(0, shared) + 'z'.repeat(right.length - shared);
const candidates = [0, 8, 16, 24, 34].map((shared) => ({ shared, key: wrong(shared), times: [] }));
const socket = net.connect(port, '127.0.0.1');
socket.setNoDelay(true);
const ask = (key) => new Promise((resolve) => {
  const begin = process.hrtime.bigint();
  socket.once('data', () => resolve(Number(process.hrtime.bigint() - begin) / 1000));
  socket.write(`GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\n\r\n`);
});
for (let round = 0; round < Number(values.rounds); ++round) {
  for (let i = 0; i < candidates.length; ++i) {
    const each = candidates[(i + round) % candidates.length];
    each.times.push(await ask(each.key));
  }
}
socket.destroy();
const at = (times, share) => times[Math.floor(times.length * share)];
for (const { shared, times } of candidates) {
  times.sort((a, b) => a - b);
  // The middle half, so that pauses of the machine count little.
  const half = times.slice(Math.floor(times.length / 4), Math.floor(times.length * 3 / 4));
  const mean = half.reduce((sum, each) => sum + each, 0) / half.length;
  const deviation = Math.sqrt(half.reduce((sum, each) => sum + (each - mean) ** 2, 0) / half.length);
  console.log(`${String(shared).padStart(2)} of ${right.length} characters right: median ${at(times, 0.5).toFixed(2)} us, ` +
    `mean of the middle half ${mean.toFixed(2)} +- ${(deviation / Math.sqrt(half.length)).toFixed(2)} us`);
}
server.kill('SIGTERM');
await new Promise((resolve) => { server.on('exit', resolve); });
