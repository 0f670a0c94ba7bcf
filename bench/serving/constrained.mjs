// What does structured output cost others? As many streams at once as asked for: all free, or half of them held to a
// JSON Schema of their own each. In turns; prints tokens/s and the median of the ratios.
// usage: node bench/serving/constrained.mjs --url http://127.0.0.1:8080 [--streams 64] [--rounds 3] [--answer 64]
import { parseArgs } from 'node:util';
import { load, median, percentile, randomWords } from '../common.mjs';

const { values } = parseArgs({
  options: {
    url: { type: 'string' },
    streams: { type: 'string', default: '64' },
    rounds: { type: 'string', default: '3' },
    answer: { type: 'string', default: '64' },
  },
});
if (!values.url) throw new Error('which server? node bench/serving/constrained.mjs --url http://127.0.0.1:8080');
const streams = Number(values.streams), answer = Number(values.answer);

// A list that no answer completes, so that all answers have the same length.
const schema = (i) => ({
  type: 'array', minItems: 1000,
  items: {
    type: 'object', additionalProperties: false, required: [`name${i}`, 'size', 'kind'],
    properties: { [`name${i}`]: { type: 'string', maxLength: 20 + i }, size: { type: 'number', minimum: i }, kind: { enum: ['a', 'b', `c${i}`] } },
  },
});

async function stream(i, constrained) {
  const body = { prompt: randomWords(32), max_tokens: answer, stream: true, ignore_eos: true, temperature: 1 };
  if (constrained) body.structured_outputs = { json: schema(i) };
  const response = await fetch(`${values.url}/v1/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  if (response.status !== 200) throw new Error(await response.text());
  const gaps = [];
  let before = 0;
  for await (const chunk of response.body) {
    const now = performance.now();
    if (before > 0 && chunk.length > 0) gaps.push(now - before);
    before = now;
  }
  return gaps;
}

async function turn(held) {
  const begin = performance.now();
  const gaps = (await Promise.all(Array.from({ length: streams }, (_, i) => stream(i, i % 2 === 1 && held)))).flat();
  const seconds = (performance.now() - begin) / 1000;
  return { speed: (streams * answer) / seconds, worst: Math.max(...gaps), p99: percentile(gaps, 99) };
}

await turn(true);  // compiles the grammars and keeps their masks, as a server has them that has run for a while
const ratios = [];
for (let round = 1; round <= Number(values.rounds); ++round) {
  const before = load(), free = await turn(false), held = await turn(true);
  ratios.push(held.speed / free.speed);
  console.log(`round ${round}, load ${before} to ${load()}: ${free.speed.toFixed(1)} tokens/s free, ${held.speed.toFixed(1)} with ${streams / 2} held; ` +
    `gaps p99 ${free.p99.toFixed(0)} and ${held.p99.toFixed(0)} ms, worst ${free.worst.toFixed(0)} and ${held.worst.toFixed(0)} ms`);
}
console.log(`kept: ${median(ratios).toFixed(3)} of the speed (median)`);
