// A model in llama.cpp, through node-llama-cpp's CPU build: its binding and a greedy sampler for each sequence.
import fs from 'node:fs';
import path from 'node:path';
import { getLlama } from 'node-llama-cpp';

// Which of the CPU variants that it brings along it has loaded: "libggml-cpu-zen4.so". Empty where there is no /proc.
function loadedVariant() {
  if (!fs.existsSync('/proc/self/maps')) return '';
  return path.basename(fs.readFileSync('/proc/self/maps', 'utf8').match(/\S*libggml-cpu\S*/)?.[0] ?? '');
}

// `batch` rows at most in a step. Returns {model, native, samplers, variant}.
export async function openLlamaCpp({ model: modelPath, threads, sequences, contextTokens, batch }) {
  const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: threads, progressLogs: false });
  const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
  const context = await model.createContext({ sequences, contextSize: contextTokens, batchSize: batch, threads });
  const samplers = Array.from({ length: sequences }, () => {
    const sampler = new llama._bindings.AddonSampler(model._model);
    sampler.applyConfig({ temperature: 0 });
    return sampler;
  });
  return { model, native: context._ctx, samplers, variant: loadedVariant() };
}
