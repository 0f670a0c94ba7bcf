// What HTTP costs beside frames: the same short answers over both, in turns, one at a time and several at once.
// usage: node bench/serving/frames.mjs [--rounds 200] [--tokens 16] [--at-once 8] [MODEL.gguf]
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { load, median, percentile, startCairn } from '../common.mjs';

const { values, positionals: [model = fileURLToPath(new URL('../../models/guide/guide.gguf', import.meta.url))] } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '200' },  // answers of each way
    tokens: { type: 'string', default: '16' },  // of each answer
    'at-once': { type: 'string', default: '8' },
  },
});
const rounds = Number(values.rounds), atOnce = Number(values['at-once']);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-frames-'));
const socket = path.join(folder, 'cairn.sock');
const server = await startCairn(model, ['--frames', socket]);
const prompt = 'Once upon a time';
const request = { prompt, max_tokens: Number(values.tokens), temperature: 0, ignore_eos: true };

// Answers over HTTP, on connections that are kept.
const agent = new http.Agent({ keepAlive: true, maxSockets: atOnce });
let httpBytes = 0;
async function overHttp(stream) {
  const body = JSON.stringify({ ...request, stream });
  const sent = http.request(`${server.url}/v1/completions`, {
    agent, method: 'POST', headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
  });
  sent.end(body);
  const [reply] = await once(sent, 'response');
  let text = '', rest = '';
  for await (const bytes of reply) {
    httpBytes += bytes.length;
    rest += bytes;
    if (!stream) continue;
    const lines = rest.split('\n');
    rest = lines.pop();
    for (const line of lines) if (line.startsWith('data: {')) text += JSON.parse(line.slice(6)).choices[0]?.text ?? '';
  }
  if (reply.statusCode !== 200) throw new Error(`status ${reply.statusCode}: ${rest}`);
  return stream ? text : JSON.parse(rest).choices[0].text;
}

// Answers over frames, all on one connection.
const connection = net.connect(socket);
await once(connection, 'connect');
const waiting = new Map();
let frameBytes = 0, unread = Buffer.alloc(0), frames = 0;
connection.on('data', (bytes) => {
  frameBytes += bytes.length;
  unread = Buffer.concat([unread, bytes]);
  while (unread.length >= 4 && unread.length >= 4 + unread.readUInt32LE(0)) {
    const end = 4 + unread.readUInt32LE(0);
    const event = JSON.parse(unread.subarray(4, end));
    unread = unread.subarray(end);
    const one = waiting.get(event.id);
    if (one === undefined) continue;
    if (event.event === 'error') one.reject(new Error(event.message));
    one.text += event.text ?? '';
    if (event.event !== 'eos') continue;
    waiting.delete(event.id);
    one.resolve(one.text);
  }
});
function overFrames(stream) {
  const id = String(frames += 1);
  const body = Buffer.from(JSON.stringify({ id, ...request, stream }));
  const head = Buffer.alloc(4);
  head.writeUInt32LE(body.length);
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject, text: '' });
    connection.write(Buffer.concat([head, body]));
  });
}

const ways = [['HTTP, streamed', () => overHttp(true)], ['frames, streamed', () => overFrames(true)],
  ['HTTP, whole', () => overHttp(false)], ['frames, whole', () => overFrames(false)]];
const cpuSeconds = () => fs.readFileSync(`/proc/${server.pid}/stat`, 'utf8').split(') ')[1].split(' ').slice(11, 13)
  .reduce((sum, ticks) => sum + Number(ticks) / 100, 0);

// The ways take turns, so that whatever else the machine does falls on all of them.
async function measure(count) {
  const times = ways.map(() => []), cpu = ways.map(() => 0), texts = new Set();
  for (let round = 0; round < rounds / count; ++round) {
    for (const [i, [, ask]] of ways.entries()) {
      const cpuBefore = cpuSeconds(), begin = performance.now();
      for (const text of await Promise.all(Array.from({ length: count }, ask))) texts.add(text);
      times[i].push(performance.now() - begin);
      cpu[i] += cpuSeconds() - cpuBefore;
    }
  }
  if (texts.size !== 1) throw new Error(`the answers differ: ${JSON.stringify([...texts])}`);
  console.log(`\n${count} at once, ${values.tokens} tokens each (load ${load()})`);
  for (const [i, [name]] of ways.entries()) {
    const answers = times[i].length * count;
    console.log(`  ${name.padEnd(18)} median ${median(times[i]).toFixed(2)} ms, p95 ${percentile(times[i], 95).toFixed(2)} ms, `
      + `${(1000 * cpu[i] / answers).toFixed(2)} ms of the server's processor per answer`);
  }
}

for (const [, ask] of ways) await ask();  // the first of each is not measured
httpBytes = frameBytes = 0;
await overHttp(true);
await overFrames(true);
console.log(`an answer of ${values.tokens} tokens, streamed: ${httpBytes} bytes in bodies over HTTP, ${frameBytes} bytes in frames`);
await measure(1);
await measure(atOnce);
connection.destroy();
agent.destroy();
await server.stop();
fs.rmSync(folder, { recursive: true, force: true });
