// Closed-loop clients on llama.cpp, without a server's HTTP: prints a list of what `benchServe` returns, one per phase.
// usage: node llama_cpp_serving.mjs '{"model", "threads", "batch", "answer", "phases": [{"clients", "promptTokens": [...]}]}'
//
// The batching is done here, on node-llama-cpp's binding of llama.cpp, and as a server does it. The library's own does
// the peer injustice: a sequence that ended waits until all others have, and rows are put in order of arrival, while
// llama.cpp computes rows of several sequences at once only where the sequences' numbers follow each other.
import { percentile, randomWords } from '../common.mjs';
import { openLlamaCpp } from './llama_cpp_open.mjs';

const { model: modelPath, threads, batch, answer, phases } = JSON.parse(process.argv[2]);
const sequencesMax = 16;
const contextTokens = Math.max(2048, answer + Math.max(...phases.flatMap(({ promptTokens }) => promptTokens)));
const { model, native, samplers } = await openLlamaCpp({ model: modelPath, threads, sequences: sequencesMax, contextTokens, batch });

// A word is a token at least.
const prompt = (tokens) => model.tokenize(randomWords(tokens)).slice(0, tokens);

function begin(sequence, tokens) {
  native.disposeSequence(sequence);  // what it held
  return { sequence, todo: tokens, position: 0, sent: performance.now(), times: [] };
}

// One step: a row of every answer, then prompts in the order of their arrival, as far as the batch reaches.
async function step(requests) {
  const answers = requests.filter((request) => request.times.length > 0);
  const rows = new Map(answers.map((request) => [request, 1]));
  let left = batch - answers.length;
  for (const request of requests.filter((one) => !rows.has(one)).sort((a, b) => a.sent - b.sent)) {
    rows.set(request, Math.min(left, request.todo.length));
    left -= rows.get(request);
  }
  native.initBatch(batch - left);
  const sampled = [];
  for (const request of requests) {
    const tokens = request.todo.slice(0, rows.get(request));
    if (tokens.length === 0) continue;
    request.todo = request.todo.slice(tokens.length);
    const outputs = request.todo.length === 0 ? [tokens.length - 1] : [];
    const indices = native.addToBatch(request.sequence, request.position, Uint32Array.from(tokens), Uint32Array.from(outputs));
    request.position += tokens.length;
    if (outputs.length > 0) sampled.push([request, indices[0]]);
  }
  await native.decodeBatch();
  await Promise.all(sampled.map(async ([request, index]) => {
    request.todo = [await native.sampleToken(index, samplers[request.sequence])];
    request.times.push(performance.now());
  }));
}

async function measure({ clients, promptTokens }) {
  const prompts = promptTokens.map(prompt);
  const done = [];
  const start = performance.now();
  let active = prompts.splice(0, clients).map((tokens, sequence) => begin(sequence, tokens));
  while (active.length > 0) {
    await step(active);
    const next = [];
    for (const request of active) {
      if (request.times.length < answer) {
        next.push(request);
        continue;
      }
      done.push(request);
      if (prompts.length > 0) next.push(begin(request.sequence, prompts.shift()));
    }
    active = next;
  }
  const seconds = (performance.now() - start) / 1000;
  const first = done.map(({ times, sent }) => times[0] - sent);
  const gaps = done.flatMap(({ times }) => times.slice(1).map((time, i) => time - times[i]));
  return {
    tokensPerSecond: (done.length * answer) / seconds,
    first: { mean: first.reduce((a, b) => a + b) / first.length, worst: Math.max(...first) },
    gap: { p50: percentile(gaps, 50), p99: percentile(gaps, 99), worst: Math.max(...gaps) },
    promptTokens,
  };
}

await measure({ clients: 1, promptTokens: phases[0].promptTokens.slice(0, 1) });  // reads the file into memory
const results = [];
for (const phase of phases) results.push(await measure(phase));
console.log(JSON.stringify(results));
process.exit(0);
