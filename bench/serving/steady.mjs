// How steady this machine is: the same arithmetic again and again, in as many processes as asked for. What its tail is,
// the tails of gap.mjs cannot be better.
// usage: node bench/serving/steady.mjs [--ms 30] [--turns 1000] [--processes 2]
import { fork } from 'node:child_process';
import { parseArgs } from 'node:util';
import { load, percentile } from '../common.mjs';

const { values } = parseArgs({
  options: { ms: { type: 'string', default: '30' }, turns: { type: 'string', default: '1000' }, processes: { type: 'string', default: '2' } },
});
const processes = Number(values.processes), wanted = Number(values.ms), ms = (value) => value.toFixed(0);
for (let i = 1; i < processes; ++i) fork(process.argv[1], ['--ms', values.ms, '--turns', values.turns, '--processes', '1']);

function work(count) {
  let x = 1.0001, sum = 0;
  for (let i = 0; i < count; ++i) {
    sum += x * i;
    x = x * 1.0000001 + 1e-9;
  }
  return sum;
}
function timed(count) {
  const begin = performance.now();
  work(count);
  return performance.now() - begin;
}
let count = 1e6, took = timed(count);
for (; took < wanted * 0.9; took = timed(count)) count = Math.ceil(count * Math.min(2, wanted / took));
const times = Array.from({ length: Number(values.turns) }, () => timed(count));
console.log(`p50 ${ms(percentile(times, 50))}, p99 ${ms(percentile(times, 99))}, worst ${ms(Math.max(...times))} ms, ${times.length} turns, load ${load()}`);
