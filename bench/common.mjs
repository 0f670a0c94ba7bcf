// What the scripts of bench/ share: where the program is, medians, random text, results files, one `cairn bench serve`
// and its figures.
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const program = process.env.CAIRN_PROGRAM ?? path.join(path.dirname(fileURLToPath(import.meta.url)), '../build/release/cairn');

// Nearest rank, as `cairn bench serve` counts it: the smallest value that at least `percent` % do not exceed.
export function percentile(list, percent) {
  const sorted = [...list].sort((a, b) => a - b);
  return sorted[Math.max(Math.ceil((percent / 100) * sorted.length), 1) - 1];
}
export function median(list) {
  const sorted = [...list].sort((a, b) => a - b);
  return (sorted[Math.floor((sorted.length - 1) / 2)] + sorted[Math.floor(sorted.length / 2)]) / 2;
}

// Words that are one token in most vocabularies of English; others each time, so that no cache has a text made of them.
const words = ('time year people way day thing world life hand part child eye place work week case point home water room ' +
  'area money story fact month study book word side kind head house page night line end city name team').split(' ');
export const randomWords = (count) => Array.from({ length: count }, () => words[Math.floor(Math.random() * words.length)]).join(' ');

export const load = () => os.loadavg()[0].toFixed(2);
// What others take of all cores while nothing is measured, in percent: the load also counts what was measured before.
async function othersPercent() {
  const sum = () => os.cpus().reduce(([busy, all], { times: { user, nice, sys, idle, irq } }) => [busy + user + nice + sys + irq, all + user + nice + sys + irq + idle], [0, 0]);
  const before = sum();
  await new Promise((resolve) => { setTimeout(resolve, 500); });
  const after = sum();
  return Math.round((100 * (after[0] - before[0])) / (after[1] - before[1]));
}
// Waits until others take less than a tenth, some minutes at most. Returns what they take.
export async function quiet() {
  let others = await othersPercent();
  for (let tries = 0; others >= 10 && tries < 600; ++tries) {
    if (tries === 0) console.error(`  other processes take ${others} % of the cores: waiting for them`);
    others = await othersPercent();
  }
  return others;
}

// What the machine is, for tables and for the name of bench/results/KIND-CPU-CORES-ISA.csv. Never what it is called.
// Virtual machines often say no more than "AMD EPYC": the generation is added where the name has none.
function generation() {
  const info = process.platform === 'linux' ? fs.readFileSync('/proc/cpuinfo', 'utf8') : '';
  if (!/^vendor_id\s*: AuthenticAMD$/m.test(info)) return '';
  const zen = { 23: '2', 25: / avx512f /.test(info) ? '4' : '3', 26: '5' }[info.match(/^cpu family\s*: (\d+)$/m)?.[1]];
  return zen ? ` Zen ${zen}` : '';
}
const cpu = os.cpus()[0].model.replace(/\((R|TM)\)/gi, '').replace(/ +/g, ' ').trim() + generation();
export const machine = `${cpu}, ${os.availableParallelism()} cores`;
export function resultsFile(kind, isa) {
  const name = `${kind} ${cpu} ${os.availableParallelism()} cores ${isa}`.toLowerCase().replace(/[^a-z0-9]+/g, '-');
  return path.join(path.dirname(fileURLToPath(import.meta.url)), 'results', `${name}.csv`);
}

// A results file as a list of objects. No value has a comma in it.
export function readCsv(file) {
  const [head, ...lines] = fs.readFileSync(file, 'utf8').trim().split('\n');
  const columns = head.split(',');
  return lines.map((line) => Object.fromEntries(line.split(',').map((value, i) => [columns[i], value])));
}
// Puts `rows` into the file. Those that it has already stay, but for those of the same `keys`, which are out of date.
export function updateCsv(file, keys, rows) {
  const key = (row) => keys.map((name) => String(row[name])).join();
  const fresh = new Set(rows.map(key));
  const kept = fs.existsSync(file) ? readCsv(file).filter((row) => !fresh.has(key(row))) : [];
  const columns = Object.keys(rows[0]);
  const line = (row) => columns.map((name) => String(row[name] ?? '').replaceAll(',', ' ')).join();
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, `${[columns.join(), ...[...kept, ...rows].map(line)].join('\n')}\n`);
}
export const today = () => new Date().toISOString().slice(0, 10);

// Starts `cairn serve` on a free port. Returns {url, pid, alive, stop}.
export async function startCairn(model, flags = []) {
  const child = spawn(program, ['serve', model, '--port', '0', ...flags], { stdio: ['ignore', 'ignore', 'pipe'] });
  const exited = new Promise((resolve) => child.on('close', resolve));
  let log = '';
  const url = await new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => reject(new Error(`cairn serve ended with ${code}: ${log}`)));
    child.stderr.on('data', (bytes) => {
      log += bytes;
      const found = log.match(/serving \S+ on (http:\S+)/);
      if (found) resolve(found[1]);
    });
  });
  return { url, pid: child.pid, alive: () => child.exitCode === null && child.signalCode === null, stop: () => { child.kill('SIGTERM'); return exited; } };
}

// Runs a command to its end and returns what it printed; the caller's event loop goes on.
export function run(command, args) {
  return new Promise((resolve, reject) => {
    execFile(command, args, { encoding: 'utf8', maxBuffer: 1 << 24 }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${command} ${args.join(' ')}: ${stderr || error.message}`));
      else resolve({ stdout, stderr });
    });
  });
}

// One `cairn bench serve`. Times in ms: {tokensPerSecond, first: {mean, worst}, gap: {p50, p99, worst}, promptTokens: [...]}.
export async function benchServe(url, flags) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-bench-'));
  const csv = path.join(folder, 'out.csv');
  try {
    const { stdout } = await run(program, ['bench', 'serve', '--url', url, '--csv', csv, ...flags]);
    const [, failed] = stdout.match(/(\d+) failed/);
    if (failed !== '0') throw new Error(`requests failed:\n${stdout}`);
    const row = (name) => {
      const found = stdout.match(new RegExp(`  ${name} +(\\S+) +(\\S+) +(\\S+) +(\\S+) +(\\S+)\n`));
      if (!found) throw new Error(`no figures for "${name}":\n${stdout}`);
      const [mean, p50, p95, p99, worst] = found.slice(1).map(Number);
      return { mean, p50, p95, p99, worst };
    };
    const [head, ...lines] = fs.readFileSync(csv, 'utf8').trim().split('\n');
    const column = head.split(',').indexOf('prompt_tokens');
    return {
      tokensPerSecond: Number(stdout.match(/(\S+) tokens\/s/)[1]),
      cachedPercent: Number(stdout.match(/cached \((\S+) %\)/)[1]),
      first: row('to first token'),
      gap: row('between tokens'),
      promptTokens: lines.map((line) => Number(line.split(',')[column])),
    };
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}
