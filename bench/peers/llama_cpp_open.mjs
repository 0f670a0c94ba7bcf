// A model in llama.cpp, through node-llama-cpp's CPU build: its binding and a greedy sampler for each sequence.
import { getLlama } from 'node-llama-cpp';

// `batch` rows at most in a step. Returns {model, native, samplers}.
export async function openLlamaCpp({ model: modelPath, threads, sequences, contextTokens, batch }) {
  const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: threads, progressLogs: false });
  const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
  const context = await model.createContext({ sequences, contextSize: contextTokens, batchSize: batch, threads });
  const samplers = Array.from({ length: sequences }, () => {
    const sampler = new llama._bindings.AddonSampler(model._model);
    sampler.applyConfig({ temperature: 0 });
    return sampler;
  });
  return { model, native: context._ctx, samplers };
}
