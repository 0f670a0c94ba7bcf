// Cairn and llama.cpp on the same files, taking turns in one run: reading a prompt, and decoding one and several sequences.
// Prints each pair with the load, medians and the medians of the pairs' ratios; writes them to a CSV file in bench/results/.
// Before each pair it waits, some minutes at most, for a quiet machine: where another process wants one of the cores,
// llama.cpp falls to a fraction of its speed.
// usage: (cd bench/peers && npm install) && node bench/peers/compare.mjs [--rounds 3] [--threads 1,2] [--sequences 8,16] [--deep] MODEL.gguf...
//   --deep  instead a prompt that fills a context of 8,192 tokens, and decoding after it: minutes for each model and round
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { load, machine, median, program, quiet, resultsFile, run, today, updateCsv } from '../common.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const { values, positionals: models } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: '2' },
    sequences: { type: 'string', default: '8,16' },
    prompt: { type: 'string', default: '512' },  // tokens
    answer: { type: 'string', default: '32' },
    deep: { type: 'boolean', default: false },
  },
});
if (models.length === 0) throw new Error('which models? node bench/peers/compare.mjs MODEL.gguf...');
const numbers = (list) => list.split(',').filter((text) => text !== '').map(Number);

// What is measured at once, and under which names.
const deep = { prompt: 8160, answer: 16 };  // in a context of 8,192: many models have no longer one
const cases = values.deep
  ? [{ sequences: 1, ...deep, names: { prefill: 'prefill-8k', decode: 'decode-at-8k' } }]
  : [
      { sequences: 1, prompt: Number(values.prompt), answer: Number(values.answer), names: { prefill: 'prefill', decode: 'decode' } },
      ...numbers(values.sequences).map((sequences) => ({ sequences, prompt: 64, answer: 16, names: { decode: `decode-${sequences}` } })),
    ];

async function cairn({ model, threads, sequences, prompt, answer }) {
  const { stdout } = await run(program, ['bench', 'model', model, '--threads', String(threads), '--sequences', String(sequences), '--prompt', String(prompt), '--answer', String(answer)]);
  const { prefill_tokens_per_s: prefill, decode_tokens_per_s: decode, backend } = JSON.parse(stdout);
  return { prefill, decode, isa: backend.match(/cpu (\w+)/)[1] };
}
// Null where llama.cpp ends by a fault or refuses the file, which is told.
async function llamaCpp(plan) {
  try {
    return JSON.parse((await run('node', [path.join(here, 'llama_cpp.mjs'), JSON.stringify(plan)])).stdout);
  } catch (error) {
    console.log(`  llama.cpp did not answer: ${error.message.split('\n').find((line) => line.startsWith('Error')) ?? 'it ended by a fault'}`);
    return null;
  }
}

// Rows of the results file: a line per pair, and one of medians.
function rowsOf(model, what, measure, threads, pairs) {
  const { variant } = pairs[0].theirs;
  const text = (number, digits) => (Number.isNaN(number) ? '' : number.toFixed(digits));  // empty where llama.cpp did not answer
  const row = (round, ours, theirs, ratio, noise) => ({
    model, what, threads, round, cairn: text(ours, 2), llama_cpp: text(theirs, 2), ratio: text(ratio, 3), ...noise, date: today(), llama_cpp_variant: variant,
  });
  const list = pairs.map(({ ours, theirs, noise }) => ({ ours: ours[measure], theirs: theirs[measure], ratio: ours[measure] / theirs[measure], noise }));
  const typical = (name) => median(list.map((pair) => pair[name]));
  return [
    ...list.map(({ ours, theirs, ratio, noise }, i) => row(i + 1, ours, theirs, ratio, noise)),
    row('median', typical('ours'), typical('theirs'), typical('ratio'), { load: '', others_percent: '' }),
  ];
}

console.log(machine);
const table = [];
for (const file of models) {
  const model = path.basename(file, '.gguf');
  fs.accessSync(file);
  for (const threads of numbers(values.threads)) {
    for (const { names, ...plan } of cases) {
      const pairs = [];
      for (let round = 1; round <= Number(values.rounds); ++round) {
        const others = await quiet();
        const ours = await cairn({ model: file, threads, ...plan });
        const theirs = await llamaCpp({ model: file, threads, ...plan }) ?? { prefill: NaN, decode: NaN, variant: 'none' };
        const noise = { load: load(), others_percent: others };
        pairs.push({ ours, theirs, noise });
        const speeds = Object.entries(names).map(([measure, what]) => `${what} ${ours[measure].toFixed(1)} / ${theirs[measure].toFixed(1)}`);
        console.log(`  ${model}, ${threads} threads, round ${round}, load ${noise.load}, others ${others} % before: ${speeds.join(', ')}`);
      }
      for (const [measure, what] of Object.entries(names)) {
        const rows = rowsOf(model, what, measure, threads, pairs);
        updateCsv(resultsFile('peers', pairs[0].ours.isa), ['model', 'what', 'threads'], rows);
        table.push(rows.at(-1));
      }
    }
  }
}
console.log(`\nllama.cpp's kernels: ${[...new Set(table.map((row) => row.llama_cpp_variant))].join(', ')}`);
console.log('\n| model | threads | what | Cairn, tokens/s | llama.cpp | ratio |\n|---|---|---|---|---|---|');
for (const row of table) {
  const [ours, theirs, ratio] = [[row.cairn, 1], [row.llama_cpp, 1], [row.ratio, 2]].map(([text, digits]) => (text === '' ? '-' : Number(text).toFixed(digits)));
  console.log(`| ${row.model} | ${row.threads} | ${row.what} | ${ours} | ${theirs} | ${ratio} |`);
}
