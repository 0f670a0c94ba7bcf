// How much of its speed does a server keep while another process is busy on one core? Needs Linux's `taskset`.
// usage: node bench/serving/busy.mjs --url http://127.0.0.1:8080 [--core 0] [--rounds 3] [--answer 64]
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { benchServe, load, median } from '../common.mjs';

const { values } = parseArgs({
  options: {
    url: { type: 'string' },
    core: { type: 'string', default: '0' },
    rounds: { type: 'string', default: '3' },
    answer: { type: 'string', default: '64' },
  },
});
if (!values.url) throw new Error('which server? node bench/serving/busy.mjs --url http://127.0.0.1:8080');

// Tokens/s of one client whose prompts are short, so that nearly all of the time is decoding.
let seed = 0;
async function speed() {
  const { tokensPerSecond } = await benchServe(values.url, [
    '--clients', '1', '--requests', '4', '--words', '4', '--max-tokens', values.answer, '--endpoint', 'completions',
    '--extra', '{"ignore_eos":true}', '--seed', String(++seed), '--warmup', '1',
  ]);
  return tokensPerSecond;
}

async function disturbed() {
  const other = spawn('taskset', ['-c', values.core, process.execPath, '-e', 'for(;;){}'], { stdio: 'inherit' });
  const failed = new Promise((_, reject) => {
    other.on('error', reject);
    other.on('exit', (code) => reject(new Error(`the busy process ended with ${code}`)));
  });
  failed.catch(() => {});
  try {
    await Promise.race([sleep(500), failed]);  // until it is busy
    return await Promise.race([speed(), failed]);
  } finally {
    other.kill('SIGKILL');
  }
}

const ratios = [];
for (let round = 1; round <= Number(values.rounds); ++round) {
  const before = load(), quiet = await speed(), busy = await disturbed();
  ratios.push(busy / quiet);
  console.log(`round ${round}, load ${before} to ${load()}: ${quiet.toFixed(1)} tokens/s quiet, ${busy.toFixed(1)} with core ${values.core} busy`);
}
console.log(`kept: ${median(ratios).toFixed(2)} of the speed (median)`);
