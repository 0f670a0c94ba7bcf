// Every kernel's products beside what the machine can do at most, measured in the same run: a table, and a CSV file in
// bench/results/. See README.md here.
// usage: node bench/kernels/run.mjs [--quick] [--types Q4_0,Q8_0] [--isa avx2] [--rounds 3]
import path from 'node:path';
import { parseArgs } from 'node:util';
import { load, machine, median, program, quiet, resultsFile, run, today, updateCsv } from '../common.mjs';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    types: { type: 'string' },
    isa: { type: 'string' },
    rounds: { type: 'string' },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
const seconds = values.quick ? '0.015' : '0.03';  // of each figure, in each round
const bench = path.join(path.dirname(program), 'src/kernels/kernels_bench');

const known = (await run(bench, ['--benchmark_list_tests'])).stdout.match(/^Gemv\/.*$/gm).map((name) => name.split('/'));
const isa = values.isa ?? known[0][2];  // the best one comes first
const types = values.types?.toUpperCase().split(',') ?? [...new Set(known.map(([, type]) => type))];
const missing = types.filter((type) => !known.some((name) => name[1].toUpperCase() === type.toUpperCase() && name[2] === isa));
if (missing.length > 0) throw new Error(`no kernels for ${missing} with ${isa}; there are: ${[...new Set(known.map((name) => name.slice(1, 3).join('/')))]}`);

// One round of a type: {arithmetic, roof: Map('read 1' -> GB/s, 'int8 1' -> GMAC/s), figures: Map('decode 1' -> ...)}.
async function measure(type) {
  const filter = `^(Roof/(read|(int8|float32|bf16)/${isa})|(Gemv|Gemm[0-9]+)/${type}/${isa})/`;
  const { stdout } = await run(bench, [`--benchmark_filter=${filter}`, `--benchmark_min_time=${seconds}`, '--benchmark_format=json']);
  const found = { roof: new Map(), figures: new Map() };
  for (const entry of JSON.parse(stdout).benchmarks) {
    const [group, name] = entry.name.split('/');
    const threads = entry.name.match(/threads:(\d+)/)[1];
    if (group === 'Roof') {
      found.roof.set(`${name} ${threads}`, name === 'read' ? entry['GB/s'] : entry['GMAC/s']);
      continue;
    }
    found.arithmetic = entry.label;
    found.figures.set(`${group === 'Gemv' ? 'decode' : group.replace('Gemm', 'rows ')} ${threads}`, { read: entry['GB/s'], macs: entry['GMAC/s'] });
  }
  return found;
}

// Types take turns, so that a slow minute of the machine does not fall on one of them alone.
const others = await quiet();
const begin = `load ${load()} (others ${others} % of the cores)`;
const measured = new Map(types.map((type) => [type, []]));
for (let round = 1; round <= rounds; ++round) {
  for (const [i, type] of types.entries()) {
    if (process.stderr.isTTY) process.stderr.write(`\rround ${round} of ${rounds}: ${type}, ${i + 1} of ${types.length}  `);
    measured.get(type).push(await measure(type));
  }
}
if (process.stderr.isTTY) process.stderr.write('\n');

const all = [...measured.values()].flat();
const threads = [...new Set([...all[0].figures.keys()].map((name) => name.split(' ').at(-1)))];
const typical = (list, digits = 1) => median(list).toFixed(digits);
const rows = [];
const row = (type, arithmetic, what, n, rest) => rows.push({ type, isa, arithmetic, what, threads: n, gb_per_s: '', gmac_per_s: '', percent_of_read: '', percent_of_peak: '', ...rest, date: today() });
for (const n of threads) {
  for (const name of [...new Set(all.flatMap(({ roof }) => [...roof.keys()]))].filter((key) => key.endsWith(` ${n}`))) {
    const what = name.split(' ')[0];
    const speed = typical(all.map(({ roof }) => roof.get(name)));
    row('roof', what === 'read' ? '' : what, what, n, what === 'read' ? { gb_per_s: speed } : { gmac_per_s: speed });
  }
}
for (const [type, list] of measured) {
  const { arithmetic } = list[0];
  for (const name of list[0].figures.keys()) {
    const n = name.split(' ').at(-1);
    const speeds = (of) => list.map(({ figures }) => figures.get(name)[of]);
    const what = name.slice(0, -n.length - 1);
    // Of what the machine could do in the same round: its clock and its memory change with the neighbours.
    const share = (of, limit) => {
      if (!list[0].roof.has(limit)) return '';
      return typical(speeds(of).map((speed, i) => (100 * speed) / list[i].roof.get(limit)), 0);
    };
    row(type, arithmetic, what, n, {
      gb_per_s: typical(speeds('read')),
      gmac_per_s: typical(speeds('macs')),
      percent_of_read: what === 'decode' ? share('read', `read ${n}`) : '',
      percent_of_peak: share('macs', `${arithmetic} ${n}`),
    });
  }
}
const file = resultsFile('kernels', isa);
updateCsv(file, ['type', 'isa', 'what', 'threads'], rows);

const cell = (type, what, n) => rows.find((one) => one.type === type && one.what === what && one.threads === n);
const withShare = (speed, percent) => (percent === '' ? speed : `${speed} (${percent} %)`);
const products = [...new Set(rows.map(({ what }) => what))].filter((what) => what.startsWith('rows '));
console.log(`${machine}, ${isa}; ${begin} before, ${load()} after; medians of ${rounds}\n`);
for (const n of threads) {
  const peaks = ['int8', 'bf16', 'float32'].map((what) => [what, cell('roof', what, n)]).filter(([, one]) => one !== undefined);
  console.log(`${n} thread${n === '1' ? '' : 's'} at most: ${cell('roof', 'read', n).gb_per_s} GB/s read` +
    peaks.map(([what, one]) => `, ${one.gmac_per_s} GMAC/s ${what}`).join(''));
}
const table = [
  ['type', 'arithmetic', 'threads', 'decode GB/s', ...products.map((what) => `${what.slice(5)} row${what === 'rows 1' ? '' : 's'} GMAC/s`)],
  ...types.flatMap((type) => threads.map((n) => {
    const decode = cell(type, 'decode', n);
    const cells = products.map((what) => cell(type, what, n)).map((one) => withShare(one.gmac_per_s, one.percent_of_peak));
    return [type, decode.arithmetic, n, withShare(decode.gb_per_s, decode.percent_of_read), ...cells];
  })),
];
const widths = table[0].map((_, i) => Math.max(...table.map((line) => line[i].length)));
table.splice(1, 0, widths.map((width) => '-'.repeat(width)));
console.log(`\n${table.map((line) => `| ${line.map((text, i) => text.padEnd(widths[i])).join(' | ')} |`).join('\n')}`);
console.error(`\nwritten: ${path.relative(process.cwd(), file)}`);
