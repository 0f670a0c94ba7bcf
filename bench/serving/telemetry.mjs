// What the request log, metrics and traces cost of decode (docs/operating.md): the same load in turns on servers that tell
// nothing of requests, that log each one in JSON and are scraped once a second, and that write traces as well. Of each
// round: the ratio of tokens a second, and that of the server's processor time for a token, which is steadier.
//
// usage: node bench/serving/telemetry.mjs [--streams 64] [--rounds 11] [--tokens 48] MODEL.gguf
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { benchServe, machine, median, program, quiet } from '../common.mjs';

const { values, positionals } = parseArgs({
  options: { streams: { type: 'string', default: '64' }, rounds: { type: 'string', default: '11' }, tokens: { type: 'string', default: '48' } },
  allowPositionals: true,
});
const [model] = positionals;
const streams = Number(values.streams), tokens = Number(values.tokens);
const kScrapeMs = 1_000;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-telemetry-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));

const modes = [
  { name: 'nothing told', flags: ['--no-log-requests'], scraped: false },
  { name: 'log and metrics', flags: ['--log-format', 'json'], scraped: true },
  { name: 'and traces', flags: ['--log-format', 'json', '--trace', path.join(folder, 'traces')], scraped: true },
];

// Its log goes to a file, as that of a service would.
async function start(mode, number) {
  const log = path.join(folder, `log-${number}`);
  const child = spawn(program, ['serve', model, '--port', '0', ...mode.flags], { stdio: ['ignore', 'ignore', fs.openSync(log, 'w')] });
  process.on('exit', () => child.kill('SIGKILL'));
  for (let tries = 0; tries < 600; ++tries) {
    const found = fs.readFileSync(log, 'utf8').match(/serving \S+ on (http:[^\s"]+)/);
    if (found) return Object.assign(mode, { child, log, url: found[1], runs: [] });
    if (child.exitCode !== null) break;
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
  throw new Error(fs.readFileSync(log, 'utf8'));
}

// Processor time of a process in seconds.
function processorSeconds(pid) {
  const kTicks = 100;  // a second, on every Linux that Node runs on
  const fields = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / kTicks;
}

async function measure(mode) {
  const scraper = mode.scraped && setInterval(() => fetch(`${mode.url}/metrics`).then((reply) => reply.text()), kScrapeMs);
  const before = processorSeconds(mode.child.pid);
  const requests = streams * 4;
  const run = await benchServe(mode.url, ['--clients', String(streams), '--requests', String(requests), '--max-tokens', String(tokens),
    '--words', '8', '--endpoint', 'completions', '--extra', '{"ignore_eos": true}']);
  clearInterval(scraper);
  return { rate: run.tokensPerSecond, processor: (processorSeconds(mode.child.pid) - before) / (requests * tokens) };
}

await quiet();
for (const [number, mode] of modes.entries()) await start(mode, number);
for (const mode of modes) await measure(mode);  // warm
for (let round = 0; round < Number(values.rounds); ++round)
  for (let i = 0; i < modes.length; ++i) {
    const mode = modes[(i + round) % modes.length];
    mode.runs.push(await measure(mode));
  }
console.log(`${machine}, ${streams} streams of ${path.basename(model)}, ${values.rounds} rounds`);
for (const mode of modes) {
  const ratio = (of) => median(mode.runs.map((run, round) => of(run) / of(modes[0].runs[round])));
  console.log(`${mode.name.padEnd(16)} ${median(mode.runs.map((run) => run.rate)).toFixed(0).padStart(6)} tokens/s (${(100 * ratio((run) => run.rate)).toFixed(1)} %), ` +
    `processor time ${(1e6 * median(mode.runs.map((run) => run.processor))).toFixed(2)} us a token (${(100 * ratio((run) => run.processor)).toFixed(1)} %)`);
  mode.child.kill('SIGTERM');
}
