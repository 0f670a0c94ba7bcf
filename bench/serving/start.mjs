// How long from the start of `cairn serve` until it is ready, that is until /health says 200: the server is started and
// stopped a few times.
// usage: node bench/serving/start.mjs [--runs 4] -- MODEL.gguf [flags of `cairn serve`]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { load, median, program } from '../common.mjs';

const { values, positionals: args } = parseArgs({ allowPositionals: true, options: { runs: { type: 'string', default: '4' } } });
if (args.length === 0) throw new Error('which model? node bench/serving/start.mjs -- MODEL.gguf');
const triesMax = 10_000;  // 3 ms or more each

async function start() {
  const begin = performance.now();
  const server = spawn(program, ['serve', ...args, '--port', '0'], { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '', url;
  server.stderr.on('data', (data) => {
    log += data;
    url ??= log.match(/http:\/\/[\d.]+:\d+/)?.[0];
  });
  for (let tries = 0; tries < triesMax && server.exitCode === null; ++tries) {
    const ready = url !== undefined && (await fetch(`${url}/health`).then((reply) => reply.ok, () => false));
    if (ready) {
      const ms = performance.now() - begin;
      server.kill('SIGKILL');
      await once(server, 'exit');
      return ms;
    }
    await new Promise((resolve) => { setTimeout(resolve, 3); });
  }
  server.kill('SIGKILL');
  throw new Error(`the server did not become ready:\n${log}`);
}

const runs = [];
for (let i = 0; i < Number(values.runs); ++i) {
  const before = load();
  runs.push(await start());
  console.log(`ready after ${runs.at(-1).toFixed(0)} ms (load ${before})`);
}
console.log(`median: ${median(runs).toFixed(0)} ms`);
