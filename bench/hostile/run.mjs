// Running streams beside a client that sends the worst of each kind (tests/e2e/attacks.mjs) in a loop: the longest gap
// between two events of a stream, quiet and under attack; how long /health takes; the server's memory before, at its
// highest and afterwards. Prints a table; ends with 1 if the server has ended.
// usage: node bench/hostile/run.mjs [--seconds 300] [--quiet-seconds 60] [--streams 8] [--only NAME]... [--flag=--request-bytes=256MiB]... MODEL.gguf
// The attacker runs niced. The server has one thread of computation (-t 1), so that on two cores it has one to be attacked on.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { load, machine, percentile, startCairn } from '../common.mjs';

const { values, positionals: [model] } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '300' },
    'quiet-seconds': { type: 'string', default: '60' },
    streams: { type: 'string', default: '8' },
    only: { type: 'string', multiple: true, default: [] },
    flag: { type: 'string', multiple: true, default: [] },
  },
});
if (!model) throw new Error('see the usage at the head of bench/hostile/run.mjs');
const attacker = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../tests/e2e/attacks.mjs');
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
const longest = (list) => list.reduce((most, one) => Math.max(most, one), 0);
const mib = (kib) => Math.round(kib / 1024);

const server = await startCairn(model, ['-t', '1', ...values.flag]);
const memory = () => Number(fs.readFileSync(`/proc/${server.pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]);

// Of one answer: eight fit into the default KV cache of the demonstration model beside each other. Otherwise a stream that
// waits for room would have the longest gap, attack or none.
const kAnswerTokens = 900;

// Gaps between events of one stream after the other, in ms, put into `into.gaps`.
async function stream(id, into, until) {
  for (let round = 0; performance.now() < until; ++round) {
    const response = await fetch(`${server.url}/v1/completions`, {
      method: 'POST',
      body: JSON.stringify({ prompt: `Stream ${id}, ${round}: once upon a time`, max_tokens: kAnswerTokens, ignore_eos: true, stream: true }),
      headers: { 'content-type': 'application/json', authorization: `Bearer reader-${id}` },
    });
    if (response.status !== 200) { into.refused += 1; await pause(100); continue; }
    let last = null;
    for await (const bytes of response.body) {
      if (bytes[0] === 0x3a) continue;  // a comment
      const now = performance.now();
      if (last !== null) into.gaps.push(now - last);
      last = now;
      if (now > until) break;
    }
  }
}
async function health(into, until) {
  while (performance.now() < until) {
    const begin = performance.now();
    await (await fetch(`${server.url}/health`)).text();
    into.health.push(performance.now() - begin);
    into.memory = Math.max(into.memory, memory());
    await pause(50);
  }
}
async function measure(seconds) {
  const into = { gaps: [], health: [], refused: 0, memory: 0 };
  const until = performance.now() + 1000 * seconds;
  await Promise.all([...Array.from({ length: Number(values.streams) }, (_, i) => stream(i, into, until)), health(into, until)]);
  return into;
}

const begin = memory();
const quiet = await measure(Number(values['quiet-seconds']));
const rested = memory();
const child = spawn('nice', ['-n', '19', process.execPath, attacker, new URL(server.url).port, ...values.only], { stdio: ['ignore', 'pipe', 'inherit'] });
let done = 0;
child.stdout.on('data', (bytes) => { done += bytes.toString().split('\n').length - 1; });
const attacked = await measure(Number(values.seconds));
child.kill('SIGKILL');
await pause(10_000);
const after = server.alive() ? memory() : 0;

console.log(`${machine}; ${values.streams} streams, ${values.seconds} s, ${done} attacks; load ${load()}\n`);
console.log('| | longest gap, ms | 99.9 % | median | /health 99 %, ms | longest | events | refused | memory, MiB |\n|---|---|---|---|---|---|---|---|---|');
for (const [name, is] of [['quiet', quiet], ['attacked', attacked]]) {
  const figures = [longest(is.gaps), percentile(is.gaps, 99.9), percentile(is.gaps, 50), percentile(is.health, 99), longest(is.health)];
  console.log(`| ${name} | ${figures.map((ms) => ms.toFixed(1)).join(' | ')} | ${is.gaps.length} | ${is.refused} | at most ${mib(is.memory)} |`);
}
console.log(`\nmemory: ${mib(begin)} MiB at start, ${mib(rested)} before the attack, ${mib(after)} 10 s after it`);
if (!server.alive()) { console.error('the server has ended'); process.exit(1); }
await server.stop();
