// One measurement of llama.cpp, as `cairn bench model` does it: prints {"prefill", "decode"} in tokens/s and "variant", its
// library of kernels.
// usage: node llama_cpp.mjs '{"model", "threads", "sequences", "prompt", "answer"}'
import { openLlamaCpp } from './llama_cpp_open.mjs';

const { model, threads, sequences, prompt, answer } = JSON.parse(process.argv[2]);
const batch = 512;
const { native, samplers, variant } = await openLlamaCpp({ model, threads, sequences, contextTokens: prompt + answer + 32, batch });

// Rows of several sequences, in the order of their numbers. Returns the token sampled after each one's last row, of
// those that `sample` names.
async function step(rows) {
  native.initBatch(rows.reduce((sum, { tokens }) => sum + tokens.length, 0));
  const wanted = rows.map(({ sequence, position, tokens, sample }) => {
    const outputs = sample ? [tokens.length - 1] : [];
    return native.addToBatch(sequence, position, Uint32Array.from(tokens), Uint32Array.from(outputs))[0];
  });
  await native.decodeBatch();
  return Promise.all(rows.map(({ sequence, sample }, i) => (sample ? native.sampleToken(wanted[i], samplers[sequence]) : null)));
}

// The prompts in whole batches, one sequence after the other. Returns the first token of each answer.
async function prefill(count, length) {
  const first = [];
  let rows = [], left = batch;
  const flush = async () => {
    const tokens = await step(rows);
    for (const [i, { sequence, sample }] of rows.entries()) if (sample) first[sequence] = tokens[i];
    rows = [];
    left = batch;
  };
  for (let sequence = 0; sequence < count; ++sequence) {
    for (let position = 0; position < length;) {
      const take = Math.min(left, length - position);
      const tokens = Array.from({ length: take }, (_, i) => (((position + i) * 7919 + sequence * 104_729) % 20_000) + 100);
      rows.push({ sequence, position, tokens, sample: position + take === length });
      position += take;
      left -= take;
      if (left === 0) await flush();
    }
  }
  if (rows.length > 0) await flush();
  return first;
}

async function decode(last, position, count) {
  for (let i = 0; i < count; ++i) {
    last = await step(last.map((token, sequence) => ({ sequence, position: position + i, tokens: [token], sample: true })));
  }
}

const warmup = Math.min(prompt, batch);
await decode(await prefill(1, warmup), warmup, 2);  // takes memory from the system; reads the file into it
native.disposeSequence(0);  // what it held
const begin = performance.now();
const first = await prefill(sequences, prompt);
const prefilled = performance.now();
await decode(first, prompt, answer);
const rate = (tokens, from, to) => (sequences * tokens * 1000) / (to - from);
console.log(JSON.stringify({ prefill: rate(prompt, begin, prefilled), decode: rate(answer, prefilled, performance.now()), variant }));
process.exit(0);
