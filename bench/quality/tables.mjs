// Makes the tables of docs/quality.md from a results file of bench/quality/run.mjs.
// usage: node bench/quality/tables.mjs bench/results/quality-....csv
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { readCsv } from '../common.mjs';

const [file] = process.argv.slice(2);
if (!file) throw new Error('which results? node bench/quality/tables.mjs CSV');
const page = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../docs/quality.md');
const [begin, end] = ['<!-- tables: begin -->', '<!-- tables: end -->'];
const rows = readCsv(file);
const unique = (list) => [...new Set(list)];
const titles = { original: 'distance from the model before quantisation', own: "distance from exact arithmetic on the type's own weights" };

const parts = [];
for (const model of unique(rows.map((row) => row.model))) {
  for (const base of Object.keys(titles)) {
    const here = rows.filter((row) => row.model === model && row.base === base);
    if (here.length === 0) continue;
    parts.push(`### ${model}: ${titles[base]}`, '',
      `Perplexity of the base ${here[0].base_perplexity}; ${here[0].windows} windows of 512 tokens. Cairn is on the left, llama.cpp on the right.`, '',
      '| type | mean KL divergence, Cairn | llama.cpp | median | 99 % | same first token, % | RMS change of probability, % | perplexity | tokens/s |',
      '|---|---|---|---|---|---|---|---|---|');
    for (const type of unique(here.map((row) => row.type))) {
      const of = (engine) => here.find((row) => row.type === type && row.engine === engine);
      const [ours, theirs] = [of('cairn'), of('llama.cpp')];
      const both = (name, digits) => [ours, theirs].map((row) => Number(row[name]).toFixed(digits)).join(' / ');
      const mean = (row) => `${Number(row.kl_mean).toFixed(5)} ± ${Number(row.kl_error).toFixed(5)}`;
      parts.push(`| ${type} | ${mean(ours)} | ${mean(theirs)} | ${both('kl_median', 5)} | ${both('kl_p99', 4)} | ${both('same_first_percent', 2)} | ${both('rms_change_percent', 2)} | ${both('perplexity', 3)} | ${both('tokens_per_s', 0)} |`);
    }
    parts.push('');
  }
}
const text = fs.readFileSync(page, 'utf8');
if (!text.includes(begin) || !text.includes(end)) throw new Error(`${page} lacks the lines ${begin} and ${end}`);
const source = `From bench/results/${path.basename(file)}, ${rows.map((row) => row.date).sort().at(-1)}.`;
fs.writeFileSync(page, `${text.slice(0, text.indexOf(begin) + begin.length)}\n${source}\n\n${parts.join('\n')}${text.slice(text.indexOf(end))}`);
console.log(`${parts.filter((line) => line.startsWith('###')).length} tables in docs/quality.md`);
