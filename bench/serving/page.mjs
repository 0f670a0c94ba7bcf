// Whether the machine page's numbers are those of the clients, and what it costs to watch.
// usage: CAIRN_PROGRAM=build/release/cairn node bench/serving/page.mjs [--clients 64] [--seconds 15] [--rounds 3] [--browser] MODEL.gguf
//   --browser  opens the page in Chromium (tests/web), and says what it shows
import { spawn } from 'node:child_process';
import path from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';

const { values, positionals: [model] } = parseArgs({
  allowPositionals: true,
  options: {
    clients: { type: 'string', default: '64' }, seconds: { type: 'string', default: '15' },
    rounds: { type: 'string', default: '3' }, browser: { type: 'boolean', default: false },
  },
});
const program = process.env.CAIRN_PROGRAM ?? 'build/release/cairn';
const server = spawn(program, ['serve', model, '--port', '0', '--parallel-max', values.clients], { stdio: ['ignore', 'ignore', 'pipe'] });
const url = await new Promise((resolve) => {
  let log = '';
  server.stderr.on('data', (bytes) => {
    log += bytes;
    const found = log.match(/serving \S+ on (http:\S+)/);
    if (found) resolve(found[1]);
  });
});

function bench() {
  const args = ['bench', 'serve', '--url', url, '--clients', values.clients, '--seconds', values.seconds, '--words', '20',
    '--max-tokens', '200', '--extra', '{"ignore_eos": true}'];
  return new Promise((resolve) => {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    let text = '';
    child.stdout.on('data', (bytes) => { text += bytes; });
    child.on('exit', () => resolve({ text, rate: Number(/([\d.]+) tokens\/s/.exec(text)?.[1]) }));
  });
}

// Reads the stream as the page does.
async function watch(readings, signal) {
  const response = await fetch(`${url}/v1/metrics/stream`, { signal });
  let rest = '';
  for await (const part of response.body) {
    const events = (rest + Buffer.from(part)).split('\n\n');
    rest = events.pop();
    for (const event of events) if (event.startsWith('data: ')) readings.push(JSON.parse(event.slice(6)));
  }
}

// As the clients count: all tokens, over the time from the first to the last reading in which there were some.
function rateOf(readings) {
  const tokens = (reading) => reading.models.reduce((sum, each) => sum + each.tokens_generated, 0);
  const moved = readings.filter((reading, at) => at > 0 && tokens(reading) > tokens(readings[at - 1]));
  const first = readings[readings.indexOf(moved[0]) - 1];
  const last = moved.at(-1);
  return (tokens(last) - tokens(first)) / (last.time - first.time);
}

await bench();  // warm
const quiet = [], watched = [];
for (let round = 0; round < Number(values.rounds); ++round) {
  quiet.push((await bench()).rate);
  const readings = [];
  const stop = new AbortController();
  const watching = watch(readings, stop.signal).catch(() => {});
  const { rate } = await bench();
  stop.abort();
  await watching;
  watched.push(rate);
  console.log(`round ${round + 1}: ${quiet.at(-1)} tokens/s unwatched, ${rate} watched, of which the stream says ${rateOf(readings).toFixed(1)}`);
}
const median = (list) => list.slice().sort((a, b) => a - b)[Math.floor(list.length / 2)];
console.log(`watching costs ${((1 - median(watched.map((rate, i) => rate / quiet[i]))) * 100).toFixed(2)} % (median of the rounds)`);
if (values.browser) {
  const { startBrowser, stopBrowser, visit } = await import(path.resolve('tests/web/browser.mjs'));
  await startBrowser();
  const { page } = await visit(`${url}/#/machine`);
  const running = bench();
  await page.waitForTimeout(Number(values.seconds) * 700);
  console.log(`the page: ${(await page.locator('.facts').innerText()).replaceAll('\n', ' ')}`);
  console.log((await running).text);
  await stopBrowser();
}
server.kill('SIGTERM');
