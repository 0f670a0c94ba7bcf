// Makes the tables of docs/speed.md from the results files of bench/peers/compare.mjs and bench/kernels/run.mjs in this folder.
// usage: node bench/results/tables.mjs
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { readCsv } from '../common.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const page = path.join(here, '../../docs/speed.md');
// In order of the page: a results file ends with one of these, and the title is what people call the processor.
const machines = [
  ['amd-epyc-zen-4-2-cores-avx512bf16', 'Zen 4: AVX-512, VNNI, BF16'],
  ['amd-epyc-zen-5-2-cores-avx512bf16', 'Zen 5: AVX-512, VNNI, BF16'],
  ['amd-epyc-zen-3-2-cores-avx2', 'Zen 3: AVX2'],
];
const models = [['llama1b-', '1B'], ['qwen06-', '0.6B']];
const peerColumns = [['prefill', 'prompt of 512'], ['decode', 'decode'], ['decode-8', '8 sequences'], ['decode-16', '16 sequences']];
const deepColumns = [['prefill-8k', 'prompt of 8,160'], ['decode-at-8k', 'decode after it']];
const typeColumns = [['prefill', 'prompt of 128'], ['decode', 'decode'], ['decode-8', '8 sequences']];
const kernelColumns = [['decode', '1 token, % of read bandwidth', 'percent_of_read'], ['rows 512', '512 tokens, % of multiply peak', 'percent_of_peak']];

// Shapes of popular models, with as many layers as their files' names say: a results file of a machine that has no table of
// its own.
const shapes = { machine: 'intel-xeon-processor-2-cores-avx512bf16', title: 'Shapes of popular models', model: /^(.*)-(\d+)l$/ };

const speed = (value) => { const number = Number(value); return number < 100 ? number.toFixed(1) : String(Math.round(number)); };
const unique = (list) => [...new Set(list)];
const table = (head, rows) => (rows.length === 0 ? [] : [`| ${head.join(' | ')} |`, `|${'---|'.repeat(head.length)}`, ...rows.map((row) => `| ${row.join(' | ')} |`), '']);
const last = (rows) => rows.map(({ date }) => date).sort().at(-1);

// One line a model and number of threads: Cairn, llama.cpp and their ratio for each column that one of the lines has.
function peerTable(medians, columns, name) {
  const used = columns.filter(([what]) => medians.some((row) => row.what === what));
  const rows = [];
  for (const model of unique(medians.map((row) => row.model)).sort((a, b) => order(a) - order(b) || a.localeCompare(b))) {
    for (const threads of unique(medians.filter((row) => row.model === model).map((row) => row.threads)).sort()) {
      const cells = used.flatMap(([what]) => {
        const row = medians.find((one) => one.model === model && one.threads === threads && one.what === what);
        if (!row) return ['', ''];
        return row.ratio === '' ? [`${speed(row.cairn)} / none`, ''] : [`${speed(row.cairn)} / ${speed(row.llama_cpp)}`, Number(row.ratio).toFixed(1)];
      });
      if (cells.some((cell) => cell !== '')) rows.push([name(model), threads, ...cells]);
    }
  }
  return table(['file', 'threads', ...used.flatMap(([, title]) => [title, 'ratio'])], rows);
}

const isModel = (row) => models.some(([prefix, short]) => row.model.startsWith(prefix) && /-[A-Z]/.test(row.model) && short);
const order = (model) => models.findIndex(([prefix]) => model.startsWith(prefix));
const nameOf = (model) => { const [prefix, short] = models.find(([one]) => model.startsWith(one)); return `${short} ${model.slice(prefix.length)}`; };
const lines = [];
for (const [machine, title] of machines) {
  const peers = `peers-${machine}.csv`;
  const medians = readCsv(path.join(here, peers)).filter((row) => row.round === 'median');
  const real = medians.filter(isModel);
  lines.push(`### ${title}`, '', `Two virtual cores of an AMD EPYC, ${last(real)} ([${peers}](../bench/results/${peers})). Cairn / llama.cpp.`, '', ...peerTable(real, peerColumns, nameOf), ...peerTable(real, deepColumns, nameOf));
  const kernels = `kernels-${machine}.csv`;
  const all = readCsv(path.join(here, kernels)).filter((row) => row.type !== 'roof');
  const types = ['Q4_0', 'Q4_K', 'Q6_K', 'Q8_0', 'BF16'].filter((type) => all.some((row) => row.type === type));
  const rows = types.flatMap((type) => ['1', '2'].map((threads) => [type, threads, ...kernelColumns.map(([what, , figure]) => all.find((row) => row.type === type && row.what === what && row.threads === threads)?.[figure] ?? '')]));
  lines.push(`Matrix products compared with the machine's own limits, all from one run, ${last(all)} ([${kernels}](../bench/results/${kernels})).`, '', ...table(['type', 'threads', ...kernelColumns.map(([, name]) => name)], rows.filter((row) => row.slice(2).some((cell) => cell !== ''))));
}
const shapesFile = `peers-${shapes.machine}.csv`;
const ofShapes = readCsv(path.join(here, shapesFile)).filter((row) => row.round === 'median' && shapes.model.test(row.model));
const shapeName = (model) => model.replace(shapes.model, '$1, $2 layers');
lines.push(`### ${shapes.title}`, '', `Two virtual cores of an Intel Xeon with AVX-512, ${last(ofShapes)} ([${shapesFile}](../bench/results/${shapesFile})). Cairn / llama.cpp; "none" where llama.cpp crashes or rejects the file.`, '', ...peerTable(ofShapes, peerColumns, shapeName));
// One line a type, of each machine the ratios to llama.cpp.
const typed = machines.map(([machine, title]) => ({ title: title.split(':')[0], medians: readCsv(path.join(here, `peers-${machine}.csv`)).filter((row) => row.round === 'median' && row.model.startsWith('type-') && row.threads === '2') })).filter(({ medians }) => medians.length > 0);
const ratio = (medians, model, what) => { const row = medians.find((one) => one.model === model && one.what === what); return row ? Number(row.ratio).toFixed(1) : ''; };
const typeRows = unique(typed.flatMap(({ medians }) => medians.map((row) => row.model))).sort().map((model) => [model.slice('type-'.length).toUpperCase(), ...typed.flatMap(({ medians }) => typeColumns.map(([what]) => ratio(medians, model, what)))]);
lines.push('### Every tensor type', '', 'How many times faster than llama.cpp Cairn is (1.0: equal), with two threads: files with six layers of the 1B shape, each of a single type.', '', ...table(['type', ...typed.flatMap(({ title }) => typeColumns.map(([, name]) => `${title}: ${name}`))], typeRows));

const [begin, end] = ['<!-- tables: begin -->', '<!-- tables: end -->'];
const text = fs.readFileSync(page, 'utf8');
if (!text.includes(begin) || !text.includes(end)) throw new Error(`${page} lacks the lines ${begin} and ${end}`);
fs.writeFileSync(page, `${text.slice(0, text.indexOf(begin) + begin.length)}\n${lines.join('\n')}${text.slice(text.indexOf(end))}`);
