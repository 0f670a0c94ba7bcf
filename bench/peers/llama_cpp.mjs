// One measurement of llama.cpp (through node-llama-cpp's CPU build): prints {"prefill", "decode"} in tokens/s.
// usage: node llama_cpp.mjs MODEL PROMPT_TOKENS ANSWER_TOKENS THREADS
import { getLlama } from 'node-llama-cpp';

const [, , modelPath, promptTokens, answerTokens, threads] = process.argv;
const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: Number(threads), progressLogs: false });
const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
const context = await model.createContext({ contextSize: 2048, batchSize: 512, threads: Number(threads) });
const sequence = context.getSequence();
const prompt = Array.from({ length: Number(promptTokens) }, (_, i) => ((i * 7919) % 20000) + 100);

await sequence.evaluateWithoutGeneratingNewTokens(prompt.slice(0, 32));  // reads the file into memory
await sequence.clearHistory();
const begin = performance.now();
await sequence.evaluateWithoutGeneratingNewTokens(prompt);
const prefilled = performance.now();
let count = -1, first = 0;
for await (const _ of sequence.evaluate([100], { temperature: 0, yieldEogToken: true })) {
  if (++count === 0) first = performance.now();
  if (count >= Number(answerTokens)) break;
}
const seconds = (from, to) => (to - from) / 1000;
console.log(JSON.stringify({ prefill: prompt.length / seconds(begin, prefilled), decode: count / seconds(first, performance.now()) }));
process.exit(0);
