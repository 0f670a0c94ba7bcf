// Two builds of kernels_bench in turns: for each benchmark the median of the turns' own ratios, their quartiles, and
// the best of each. What a busy host does to one build it soon does to the other.
// usage: node bench/kernels/turns.mjs [--turns 9] [--core 1] OLD NEW FILTER...   (a process for each filter)
import { parseArgs } from 'node:util';
import { load, machine, median, percentile, quiet, run } from '../common.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { turns: { type: 'string', default: '9' }, core: { type: 'string', default: '1' } },
});
const [before, after, ...filters] = positionals;
if (filters.length === 0) throw new Error('usage: node bench/kernels/turns.mjs [--turns 9] [--core 1] OLD NEW FILTER...');

async function speeds(bench, filter) {
  const { stdout } = await run('taskset', ['-c', values.core, bench, `--benchmark_filter=${filter}`, '--benchmark_min_time=0.1', '--benchmark_format=json']);
  if (stdout === '') return new Map();  // none fits
  return new Map(JSON.parse(stdout).benchmarks.map((entry) => [entry.name.replace('/real_time', ''), entry['GMAC/s']]));
}

const others = await quiet();
const begin = load();
const found = new Map();  // name -> [[old, new], one pair a turn]
for (let turn = 0; turn < Number(values.turns); ++turn) {
  for (const filter of filters) {
    const pair = [];
    for (const i of turn % 2 === 0 ? [0, 1] : [1, 0]) pair[i] = await speeds([before, after][i], filter);
    for (const [name, speed] of pair[0]) {
      if (!pair[1].has(name)) continue;
      if (!found.has(name)) found.set(name, []);
      found.get(name).push([speed, pair[1].get(name)]);
    }
  }
}
if (found.size === 0) throw new Error(`no benchmark of both builds fits ${filters.join(' ')}`);

console.log(`${machine}; core ${values.core}, ${values.turns} turns; load ${begin} (others ${others} % of the cores) before, ${load()} after\n`);
console.log('| benchmark | new / old | quartiles | best GMAC/s: old | new |\n|---|---|---|---|---|');
for (const [name, pairs] of found) {
  const ratios = pairs.map(([old, now]) => now / old);
  const best = (i) => Math.max(...pairs.map((pair) => pair[i])).toFixed(0);
  console.log(`| ${name} | ${median(ratios).toFixed(2)} | ${percentile(ratios, 25).toFixed(2)} to ${percentile(ratios, 75).toFixed(2)} | ${best(0)} | ${best(1)} |`);
}
