// A long prompt arrives while a stream decodes: how long does the stream stand still, and how much longer than alone does
// the prompt take? Any OpenAI-compatible server.
// usage: node bench/serving/gap.mjs --url http://127.0.0.1:8080 [--words 4500] [--step-ms N] [--max-tokens 4000]
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { load, percentile, randomWords } from '../common.mjs';

const { values } = parseArgs({
  options: {
    url: { type: 'string' },
    words: { type: 'string', default: '4500' },
    'step-ms': { type: 'string' },  // of the server, if it was given one: the bound is counted from it
    'max-tokens': { type: 'string', default: '4000' },  // of the stream, which must outlast the long prompt
  },
});
if (!values.url) throw new Error('which server? node bench/serving/gap.mjs --url http://127.0.0.1:8080');
const base = values.url.replace(/\/(v1\/?)?$/, '');
const aloneMs = 4000;

async function request(path, init) {
  const reply = await fetch(`${base}/v1/${path}`, init);
  if (!reply.ok) throw new Error(`${path}: status ${reply.status}: ${await reply.text()}`);
  return reply;
}
const model = (await (await request('models')).json()).data[0].id;

// Sends a streamed completion and hands over each event with the time of its arrival.
async function complete(fields, signal, onEvent) {
  const reply = await request('completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, temperature: 0, stream: true, ...fields }),
    signal,
  });
  let rest = '';
  for await (const text of reply.body.pipeThrough(new TextDecoderStream())) {
    const now = performance.now();
    const lines = (rest + text).split('\n');
    rest = lines.pop();
    for (const line of lines) if (line.startsWith('data: {')) onEvent(JSON.parse(line.slice(6)), now);
  }
}

// Milliseconds that a host has taken from this machine's processors so far (proc(5), "steal", in ticks of 10 ms).
const stolenMs = () => existsSync('/proc/stat') ? 10 * Number(readFileSync('/proc/stat', 'utf8').split('\n', 1)[0].split(/ +/)[8]) : 0;

const loadBefore = load();
// Seconds until the only token that is asked for behind a prompt of random words.
let usage = {};
const readPrompt = async () => {
  const begin = performance.now();
  await complete({ prompt: randomWords(Number(values.words)), max_tokens: 1, stream_options: { include_usage: true } }, undefined, (event) => { usage = event.usage ?? usage; });
  return (performance.now() - begin) / 1000;
};
const quietSeconds = await readPrompt();
const times = [];  // of the stream's chunks
const stolen = [];  // until each of them
const abort = new AbortController();
let ended = false;
// With "logprobs" there is a chunk even for a token whose text is held back, half a character say.
const stream = complete({ prompt: randomWords(8), max_tokens: Number(values['max-tokens']), ignore_eos: true, logprobs: 0 }, abort.signal, (_, now) => { times.push(now); stolen.push(stolenMs()); })
  .catch((error) => { if (!abort.signal.aborted) throw error; })
  .finally(() => { ended = true; });
stream.catch(() => {});  // thrown where it is awaited, in the end
const until = async (holds) => { while (!holds() && !ended) await sleep(2); };
await until(() => times.length > 0);
await sleep(aloneMs);

const begin = performance.now();
const seconds = await readPrompt();
const end = performance.now();
await until(() => times.at(-1) > end);
const outlasted = !ended;
abort.abort();
await stream;
if (!outlasted) throw new Error('the stream ended before the long prompt was read: more --max-tokens, or fewer --words');

// Gaps that overlap with the time from `from` to `to`, and what the host stole in each: a step waits for its slowest thread.
const gaps = (from, to) => times.slice(1).map((time, i) => ({ ms: time - times[i], stolen: stolen[i + 1] - stolen[i], from: times[i], to: time })).filter((gap) => gap.to > from && gap.from < to);
const lengths = (list) => list.map((gap) => gap.ms);
const aloneGaps = gaps(times[0], begin).slice(0, -1);  // the last one is the long prompt's already
const duringGaps = gaps(begin, end);
const alone = lengths(aloneGaps), during = lengths(duringGaps);
const ms = (value) => value.toFixed(0);
const worstAlone = Math.max(...alone);
const bound = values['step-ms'] ? 2 * Number(values['step-ms']) + worstAlone : Math.max(200, 2 * worstAlone), worst = Math.max(...during);
console.log(`${model}, load ${loadBefore} to ${load()}`);
console.log(`alone: p50 ${ms(percentile(alone, 50))}, worst ${ms(Math.max(...alone))} ms, ${alone.length} gaps`);
console.log(`while a prompt of ${usage.prompt_tokens} tokens (${usage.prompt_tokens_details?.cached_tokens ?? 0} cached) was read, ${seconds.toFixed(1)} s, ` +
  `${(seconds / quietSeconds).toFixed(2)} times as long as without the stream: ` +
  `p50 ${ms(percentile(during, 50))}, p99 ${ms(percentile(during, 99))}, worst ${ms(worst)} ms, ${during.length} gaps`);
const stolenShare = 100 * duringGaps.reduce((sum, gap) => sum + gap.stolen, 0) / during.reduce((sum, gap) => sum + gap, 0);
const own = duringGaps.map((gap) => gap.ms - gap.stolen);
console.log(`the host stole ${stolenShare.toFixed(0)} % of one processor; without that: worst ${ms(Math.max(...own))} ms; ` +
  `gaps over the bound: ${during.filter((gap) => gap > bound).length}, without what was stolen ${own.filter((gap) => gap > bound).length}`);
const rule = values['step-ms'] ? `2 x ${values['step-ms']} ms and the worst gap alone` : '200 ms, or twice the worst gap alone';
console.log(`${rule}: ${ms(bound)} ms, ${worst <= bound ? 'kept' : 'exceeded'}`);
