// The AI SDK with four providers (five, for OpenAI's speaks two protocols).
import assert from 'node:assert/strict';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { Output, generateText, stepCountIs, streamText, tool } from 'ai';
import { createOllama } from 'ollama-ai-provider-v2';
import { z } from 'zod';
import { DOT, HELLO, JSON_ANSWER, MODEL, SUNNY, URL_OF_CAIRN, oddTests, runTests } from './check.mjs';

const options = { baseURL: `${URL_OF_CAIRN}/v1`, apiKey: 'any' };
const openai = createOpenAI(options);
const MODELS = {
  compatible: createOpenAICompatible({ ...options, name: 'cairn', includeUsage: true, supportsStructuredOutputs: true })(MODEL),
  'openai chat': openai.chat(MODEL),
  'openai responses': openai(MODEL),
  anthropic: createAnthropic(options)(MODEL),
  ollama: createOllama({ baseURL: `${URL_OF_CAIRN}/api` })(MODEL),
};
const weather = (output, seen = []) => ({ get_weather: tool({ description: 'The weather', inputSchema: z.object({ city: z.string() }),
  execute: ({ city }) => (seen.push(city), output(city)) }) });
const degrees = (city) => ({ city, degrees: 20 });
const stopWhen = stepCountIs(5);
const schema = z.object({ city: z.string(), degrees: z.number(), sunny: z.boolean() });

const testsOf = (name, model) => ({
  text: async () => assert.equal((await generateText({ model, prompt: 'hi', system: 'Be kind', maxRetries: 0 })).text, HELLO),
  stream: async () => {
    let text = '', thought = '';
    for await (const part of streamText({ model, prompt: 'hi', maxRetries: 0, onError() {} }).fullStream) {
      if (part.type === 'error') throw part.error;
      if (part.type === 'text-delta') text += part.text;
      if (part.type === 'reasoning-delta') thought += part.text;
    }
    assert.equal(text, HELLO);
    // OpenAI's chat has no thinking for this provider, and Ollama's is asked to have none.
    if (!['openai chat', 'ollama'].includes(name)) assert.equal(thought.trim(), 'A short hello will do here.', 'the thinking is shown');
  },
  tools: async () => {
    const seen = [];
    assert.equal((await generateText({ model, prompt: '[script weather]', tools: weather(degrees, seen), stopWhen, maxRetries: 0 })).text, SUNNY);
    assert.deepEqual(seen, ['Oslo']);
  },
  'tools stream': async () => {
    let text = '';
    for await (const part of streamText({ model, prompt: '[script two]', tools: weather(degrees), stopWhen, maxRetries: 0, onError() {} }).fullStream) {
      if (part.type === 'error') throw part.error;
      if (part.type === 'text-delta') text += part.text;
    }
    assert.match(text, /Oslo and Rome are sunny/);
  },
  required: async () => assert.equal((await generateText({ model, prompt: 'hi', tools: weather(degrees), toolChoice: 'required', maxRetries: 0 })).toolCalls.length, 1),
  object: async () => assert.deepEqual((await generateText({ model, prompt: '[script json]', output: Output.object({ schema }), maxRetries: 0 })).output, JSON_ANSWER),
  options: async () => assert.equal((await generateText({ model, prompt: 'hi', temperature: 0.5, topP: 0.9, seed: 1, maxOutputTokens: 100, maxRetries: 0, providerOptions: {
    openai: { reasoningEffort: 'low', reasoningSummary: 'auto', textVerbosity: 'low', parallelToolCalls: false, serviceTier: 'auto', promptCacheKey: 'k' },
    anthropic: { sendReasoning: true }, cairn: { reasoningEffort: 'low', textVerbosity: 'low' }, ollama: { think: true, options: { num_ctx: 4096 } } } })).text, HELLO),
  ...oddTests('', async (odd) => assert.equal((await generateText({ model, prompt: '[script weather]', tools: weather(() => odd), stopWhen, maxRetries: 0 })).text, SUNNY)),
  image: async () => {
    const picture = tool({ description: 'The weather', inputSchema: z.object({ city: z.string() }), execute: () => 'dot',
      toModelOutput: () => ({ type: 'content', value: [{ type: 'file', data: { type: 'data', data: DOT }, mediaType: 'image/png' }] }) });
    assert.equal((await generateText({ model, prompt: '[script weather]', tools: { get_weather: picture }, stopWhen, maxRetries: 0 })).text, SUNNY);
  },
  cut: async () => {
    const seen = [];
    await generateText({ model, prompt: '[script cut]', tools: weather(degrees, seen), maxOutputTokens: 12, maxRetries: 0 });
    assert.deepEqual(seen, [], 'a cut call is not run');
  },
  abort: async () => {
    const control = new AbortController();
    let pieces = 0;
    for await (const part of streamText({ model, prompt: '[script story]', abortSignal: control.signal, maxRetries: 0, onError() {} }).fullStream) {
      if (part.type === 'text-delta' && ++pieces === 5) control.abort();
    }
    assert.ok(pieces >= 5);
  },
});
await runTests(Object.fromEntries(Object.entries(MODELS).flatMap(([name, model]) =>
  Object.entries(testsOf(name, model)).map(([test, body]) => [`${name}: ${test}`, body]))));
