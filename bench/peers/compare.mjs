// Cairn and llama.cpp on the same files, taking turns in one run; medians, their ratio, and the load while measuring.
// usage: (cd bench/peers && npm install) && node bench/peers/compare.mjs [--rounds 3] [--threads 2] MODEL.gguf...
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { load, median, program, run } from '../common.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string', default: '3' }, threads: { type: 'string', default: '2' }, answer: { type: 'string', default: '32' } },
});
const promptWords = Array.from({ length: 250 }, (_, i) => `word${i % 97}`).join(' ');

async function cairn(model) {
  const { stderr } = await run(program, ['generate', model, '-p', promptWords, '-n', values.answer, '--temp', '0', '--ignore-eos', '--threads', values.threads, '--ctx', '2048']);
  const found = stderr.match(/prompt: (\d+) tokens, \S+ s \((\S+) tokens\/s\); answer: \d+ tokens, \S+ s \((\S+) tokens\/s\)/);
  return { promptTokens: Number(found[1]), prefill: Number(found[2]), decode: Number(found[3]) };
}

async function llamaCpp(model, promptTokens) {
  const args = [path.join(here, 'llama_cpp.mjs'), model, String(promptTokens), values.answer, values.threads];
  return JSON.parse((await run('node', args)).stdout);
}

for (const model of positionals) {
  const rounds = [];
  for (let i = 0; i < Number(values.rounds); ++i) {
    const ours = await cairn(model);
    const theirs = await llamaCpp(model, ours.promptTokens);
    rounds.push({ ours, theirs });
    console.log(`  round ${i + 1}, load ${load()}: prefill ${ours.prefill.toFixed(1)} / ${theirs.prefill.toFixed(1)}, decode ${ours.decode.toFixed(1)} / ${theirs.decode.toFixed(1)}`);
  }
  for (const what of ['prefill', 'decode']) {
    const of = (who) => median(rounds.map((round) => round[who][what])).toFixed(1);
    const ratio = median(rounds.map((round) => round.ours[what] / round.theirs[what])).toFixed(2);
    console.log(`${path.basename(model)} ${what}, ${values.threads} threads: Cairn ${of('ours')}, llama.cpp ${of('theirs')} tokens/s, ratio ${ratio}`);
  }
}
