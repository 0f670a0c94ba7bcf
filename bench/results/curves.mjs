// Curves of several `cairn bench context --csv` files in one picture: reading, writing and the time to the first token
// against the context, a curve for each file, such as one for each number of threads.
// usage: node bench/results/curves.mjs [--title TEXT] [--out curves.svg] NAME=FILE.csv...
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { readCsv } from '../common.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { title: { type: 'string', default: '' }, out: { type: 'string', default: 'curves.svg' } },
});
const colours = ['#1f5fa8', '#b4501e', '#2e7d4f', '#7a3fa0', '#8a6d00', '#a03048', '#3a7f8c', '#555555'];
if (positionals.length === 0 || positionals.length > colours.length)
  throw new Error(`give 1 to ${colours.length} files: node bench/results/curves.mjs "1 thread=t1.csv" "2 threads=t2.csv"`);

const curves = positionals.map((given, i) => {
  const at = given.lastIndexOf('=');
  const file = given.slice(at + 1);
  const rows = readCsv(file);
  if (rows.length === 0 || !('prefill_tokens_per_s' in rows[0])) throw new Error(`${file} is no CSV of cairn bench context`);
  let seconds = 0;  // what was read so far
  return {
    name: at < 0 ? path.basename(file, '.csv') : given.slice(0, at),
    colour: colours[i],
    points: rows.map((row) => {
      seconds += Number(row.new_tokens) / Number(row.prefill_tokens_per_s);
      return { x: Number(row.context_tokens), prefill: Number(row.prefill_tokens_per_s), decode: Number(row.decode_tokens_per_s),
        first: seconds + 1 / Number(row.decode_tokens_per_s) };
    }),
  };
});
const panels = [['prefill', 'Reading the new part, tokens/s'], ['decode', 'Writing, tokens/s'], ['first', 'Seconds to the first token']];
const escape = (text) => text.replace(/[&<>]/g, (sign) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[sign]);

// Sizes in pixels.
const width = 360, height = 220, left = 58, gap = 34, top = 92, bottom = 56;
const depths = [...new Set(curves.flatMap(({ points }) => points.map(({ x }) => x)))].sort((a, b) => a - b);
const across = (x) => depths.length < 2 ? 0.5 : Math.log2(x / depths[0]) / Math.log2(depths.at(-1) / depths[0]);

// The distance between two ticks: 1, 2 or 5 times a power of ten, for about five of them.
function tickDistance(most) {
  const power = 10 ** Math.floor(Math.log10(most / 5));
  return [1, 2, 5, 10].map((factor) => factor * power).find((distance) => distance >= most / 5);
}

function drawPanel([what, title], index) {
  const begin = left + index * (width + left + gap), base = top + height;
  const most = Math.max(...curves.flatMap(({ points }) => points.map((point) => point[what])));
  const distance = tickDistance(most), ticks = Math.max(1, Math.ceil(most / distance - 1e-9));
  const x = (value) => (begin + across(value) * width).toFixed(1), y = (value) => (base - (value / (ticks * distance)) * height).toFixed(1);
  const parts = [`<text class="title" x="${begin}" y="${top - 14}">${title}</text>`];
  for (let tick = 0; tick <= ticks; ++tick) {
    const value = Number((tick * distance).toPrecision(6));
    parts.push(`<line class="grid" x1="${begin}" y1="${y(value)}" x2="${begin + width}" y2="${y(value)}"/>`,
      `<text x="${begin - 8}" y="${Number(y(value)) + 4}" text-anchor="end">${value}</text>`);
  }
  let labelled = -Infinity;
  for (const depth of depths) {
    if (Number(x(depth)) - labelled < 40) continue;
    labelled = Number(x(depth));
    parts.push(`<text x="${x(depth)}" y="${base + 18}" text-anchor="middle">${depth}</text>`);
  }
  parts.push(`<text x="${begin + width / 2}" y="${base + 40}" text-anchor="middle">tokens of context</text>`);
  for (const { colour, points } of curves) {
    parts.push(`<polyline fill="none" stroke="${colour}" stroke-width="2" points="${points.map((point) => `${x(point.x)},${y(point[what])}`).join(' ')}"/>`);
    for (const point of points) parts.push(`<circle cx="${x(point.x)}" cy="${y(point[what])}" r="3" fill="${colour}"/>`);
  }
  return parts.join('\n');
}

let legendAt = left;
const legend = curves.map(({ name, colour }) => {
  const text = `<rect x="${legendAt}" y="44" width="12" height="12" fill="${colour}"/><text x="${legendAt + 18}" y="54">${escape(name)}</text>`;
  legendAt += 34 + 8 * name.length;
  return text;
}).join('\n');
const total = { width: panels.length * (width + left + gap), height: top + height + bottom };
fs.writeFileSync(values.out, `<svg xmlns="http://www.w3.org/2000/svg" width="${total.width}" height="${total.height}" viewBox="0 0 ${total.width} ${total.height}" font-family="sans-serif" font-size="12" fill="#222">
<style>.title { font-weight: 600; } .grid { stroke: #e4e4e4; }</style>
<rect width="${total.width}" height="${total.height}" fill="#fff"/>
<text x="${left}" y="26" font-size="15">${escape(values.title || 'Speed against the context')}</text>
${legend}
${panels.map(drawPanel).join('\n')}
</svg>
`);
console.log(values.out);
