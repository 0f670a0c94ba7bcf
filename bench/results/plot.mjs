// A picture of the medians in a CSV file of bench/peers/compare.mjs: bars of Cairn and llama.cpp for each model.
// usage: node bench/results/plot.mjs [--threads 2] [--only llama1b-] [CSV]      writes speed.svg beside this file
//   --only  models whose names begin like this
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readCsv } from '../common.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const { values, positionals } = parseArgs({ allowPositionals: true, options: { threads: { type: 'string' }, only: { type: 'string', default: '' } } });
const found = fs.readdirSync(here).filter((name) => /^peers-.*\.csv$/.test(name));
if (positionals.length === 0 && found.length !== 1) throw new Error(`which one? node bench/results/plot.mjs CSV, of: ${found.join(' ')}`);
const file = positionals[0] ?? path.join(here, found[0]);

const medians = readCsv(file).filter(({ round }) => round === 'median');
const threads = values.threads ?? String(Math.max(...medians.map((row) => Number(row.threads))));
// One of every tensor type is too many for a picture: docs/speed.md has them as a table.
const rows = medians.filter((row) => row.threads === threads && row.model.startsWith(values.only) && !row.model.startsWith('type-'));
const models = [...new Set(rows.map(({ model }) => model))].sort();
const panels = [
  ['prefill', 'Reading a prompt'], ['decode', 'Decoding'], ['decode-8', 'Decoding 8 sequences'], ['decode-16', 'Decoding 16 sequences'],
  ['prefill-8k', 'Reading 8k tokens'], ['decode-at-8k', 'Decoding after 8k tokens'],
].filter(([what]) => rows.some((row) => row.what === what));

// What all names have in common says nothing: llama1b-q4_0 and llama1b-q8_0 are Q4_0 and Q8_0.
let common = models[0].lastIndexOf('-') + 1;
if (models.some((model) => model.slice(0, common) !== models[0].slice(0, common))) common = 0;
const escape = (text) => text.replace(/[&<>]/g, (sign) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[sign]);

// Sizes in pixels. Panels stand in rows of four at most; each has a scale of its own, from 0.
const bar = 26, gap = 22, pad = 18, height = 150, head = 62, foot = 30;
const across = Math.min(panels.length, 4);
const panelWidth = Math.max(models.length * (2 * bar + gap) + gap, 185);
const panelHeight = head + height + foot;
const top = 62;
const width = across * (panelWidth + pad) + pad;
const total = top + Math.ceil(panels.length / across) * panelHeight + 6;

function drawPanel([what, title], index) {
  const left = pad + (index % across) * (panelWidth + pad);
  const base = top + Math.floor(index / across) * panelHeight + head + height;
  const list = models.map((model) => rows.find((row) => row.model === model && row.what === what)).filter(Boolean);
  const most = Math.max(...list.flatMap((row) => [Number(row.cairn), Number(row.llama_cpp)]));
  const inset = (panelWidth - list.length * (2 * bar + gap) + gap) / 2;
  const parts = [`<text class="title" x="${left}" y="${base - height - 40}">${title}</text>`];
  for (const [i, row] of list.entries()) {
    const x = left + inset + i * (2 * bar + gap);
    const middle = x + bar;
    parts.push(`<text class="name" x="${middle}" y="${base + 18}">${escape(row.model.slice(common).toUpperCase())}</text>`);
    const tops = [['ours', row.cairn, x], ['theirs', row.llama_cpp, x + bar]].map(([who, speed, at]) => {
      const tall = (Number(speed) / most) * height;
      parts.push(`<rect class="${who}" x="${at}" y="${(base - tall).toFixed(1)}" width="${bar - 2}" height="${tall.toFixed(1)}"/>`);
      const digits = Number(speed) < 100 ? 1 : 0;
      parts.push(`<text class="value" x="${at + bar / 2 - 1}" y="${(base - tall - 4).toFixed(1)}">${Number(speed).toFixed(digits)}</text>`);
      return base - tall;
    });
    parts.push(`<text class="ratio" x="${middle}" y="${(Math.min(...tops) - 18).toFixed(1)}">${Number(row.ratio).toFixed(2)}×</text>`);
  }
  parts.push(`<line x1="${left}" y1="${base}" x2="${left + panelWidth}" y2="${base}"/>`);
  return parts.join('\n');
}

const dates = [...new Set(rows.map(({ date }) => date))].sort();
const source = path.basename(file, '.csv').replace(/^peers-/, '');
const legend = `<rect class="ours" x="${pad}" y="12" width="12" height="12"/><text x="${pad + 18}" y="23">Cairn</text>
<rect class="theirs" x="${pad + 74}" y="12" width="12" height="12"/><text x="${pad + 92}" y="23">llama.cpp</text>
<text class="note" x="${pad}" y="46">tokens/s, ${threads} thread${threads === '1' ? '' : 's'}, medians; ratio above. ${escape(source)}, ${dates.at(-1)}</text>`;
const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${total}" viewBox="0 0 ${width} ${total}" role="img" aria-label="Tokens per second of Cairn and llama.cpp">
<style>
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 13px; }
.name, .value, .ratio { text-anchor: middle; }
.value { font-size: 10px; }
.ratio { font-weight: 600; }
.note { fill: #59636e; }
.ours { fill: #2f6feb; }
.theirs { fill: #a8b0ba; }
line { stroke: #8c959f; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .note { fill: #9198a1; }
  .ours { fill: #6ea8fe; }
  .theirs { fill: #656d76; }
}
</style>
${legend}
${panels.map(drawPanel).join('\n')}
</svg>
`;
fs.writeFileSync(path.join(here, 'speed.svg'), svg);
console.log(`${models.length} models, ${panels.length} measures, ${threads} threads: bench/results/speed.svg`);
