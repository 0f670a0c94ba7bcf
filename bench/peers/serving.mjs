// Closed-loop clients on Cairn and on llama.cpp, taking turns in one run; medians, their ratio, the load while measuring.
// usage: (cd bench/peers && npm install) && node bench/peers/serving.mjs [--clients 1,4,8,16] [--rounds 3] [--burst] MODEL.gguf
//   --burst  on one server: 1 client, then 16, then 1 again, which should be as fast as before
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { benchServe, load, median, run, startCairn } from '../common.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    clients: { type: 'string', default: '1,4,8,16' },
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: '2' },
    words: { type: 'string', default: '60' },
    answer: { type: 'string', default: '48' },
    batch: { type: 'string', default: '512' },  // of the peer
    burst: { type: 'boolean', default: false },
  },
});
const [model] = positionals;
if (!model) throw new Error('which model? node bench/peers/serving.mjs MODEL.gguf');

let seed = 0;  // another one each time: a prompt that was sent before would be found in the cache
async function cairn(phases) {
  const server = await startCairn(model, ['--threads', values.threads, '--parallel-max', '16']);
  try {
    const results = [];
    for (const clients of phases) {
      const result = await benchServe(server.url, [
        '--clients', String(clients), '--requests', String(Math.max(3 * clients, 4)), '--max-tokens', values.answer,
        '--words', values.words, '--mix', 'chat', '--endpoint', 'completions', '--extra', '{"ignore_eos":true}',
        '--seed', String(++seed), '--warmup', results.length === 0 ? '1' : '0',
      ]);
      if (result.cachedPercent > 10) throw new Error(`${result.cachedPercent} % of the prompts were cached, llama.cpp reads all of them`);
      results.push(result);
    }
    return results;
  } finally {
    await server.stop();
  }
}

async function llamaCpp(phases, ours) {
  const plan = {
    model, threads: Number(values.threads), batch: Number(values.batch), answer: Number(values.answer),
    phases: phases.map((clients, i) => ({ clients, promptTokens: ours[i].promptTokens })),
  };
  return JSON.parse((await run('node', [path.join(here, 'llama_cpp_serving.mjs'), JSON.stringify(plan)])).stdout);
}

async function measured(name, measure) {
  const before = load();
  const results = await measure();
  for (const { tokensPerSecond, first, gap, promptTokens } of results) {
    console.error(`  ${name}, load ${before} to ${load()}: ${promptTokens.length} requests, ${tokensPerSecond.toFixed(1)} tokens/s, ` +
      `first token ${first.mean.toFixed(0)} (worst ${first.worst.toFixed(0)}), gaps p50 ${gap.p50.toFixed(0)} p99 ${gap.p99.toFixed(0)} worst ${gap.worst.toFixed(0)} ms`);
  }
  return results;
}

// Each session is one life of the server; each phase of it a number of clients.
const sessions = values.burst ? [[1, 16, 1]] : values.clients.split(',').map((clients) => [Number(clients)]);
if (sessions.flat().some((clients) => !(clients >= 1 && clients <= 16))) throw new Error('--clients: from 1 to 16 each, as in 1,4,8,16');
const rounds = sessions.map(() => []);
for (let round = 1; round <= Number(values.rounds); ++round) {
  for (const [i, phases] of sessions.entries()) {
    console.error(`round ${round}, clients: ${phases.join(', then ')}`);
    const ours = await measured('Cairn', () => cairn(phases));
    rounds[i].push({ ours, theirs: await measured('llama.cpp', () => llamaCpp(phases, ours)) });
  }
}

const measures = [['tokens/s', (result) => result.tokensPerSecond, 1], ['first token, mean ms', (result) => result.first.mean, 0], ['worst gap ms', (result) => result.gap.worst, 0]];
console.log(`${path.basename(model)}, ${values.threads} threads, ${values.answer} tokens per answer, medians of ${values.rounds}\n`);
console.log(`| clients |${measures.map(([name]) => ` ${name}: Cairn | llama.cpp | ratio |`).join('')}`);
console.log(`|---|${measures.map(() => '---|---|---|').join('')}`);
for (const [i, phases] of sessions.entries()) {
  for (const [phase, clients] of phases.entries()) {
    const cells = measures.map(([, of, digits]) => {
      const typical = (who) => median(rounds[i].map((round) => of(round[who][phase]))).toFixed(digits);
      return ` ${typical('ours')} | ${typical('theirs')} | ${median(rounds[i].map(({ ours, theirs }) => of(ours[phase]) / of(theirs[phase]))).toFixed(2)} |`;
    });
    console.log(`| ${clients} |${cells.join('')}`);
  }
}
if (values.burst) {
  const kept = (who) => median(rounds[0].map((round) => round[who][2].tokensPerSecond / round[who][0].tokensPerSecond)).toFixed(2);
  console.log(`\nafter the burst as fast as before it: Cairn ${kept('ours')}, llama.cpp ${kept('theirs')} times`);
}
