// OpenAI's agents library over both of its protocols.
import assert from 'node:assert/strict';
import { Agent, MemorySession, run, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled, tool } from '@openai/agents';
import OpenAI from 'openai';
import { z } from 'zod';
import { HELLO, JSON_ANSWER, MODEL as model, SUNNY, URL_OF_CAIRN, oddTests, runTests } from './check.mjs';

setTracingDisabled(true);
setDefaultOpenAIClient(new OpenAI({ baseURL: `${URL_OF_CAIRN}/v1`, apiKey: 'any', maxRetries: 0 }));
const weather = (output) => tool({ name: 'get_weather', description: 'The weather', parameters: z.object({ city: z.string() }), execute: () => output });
const agent = (more) => new Agent({ name: 'A', instructions: 'Be kind', model, ...more });

const testsOf = (api) => Object.fromEntries(Object.entries({
  hello: async () => assert.equal((await run(agent(), 'hi')).finalOutput, HELLO),
  stream: async () => {
    const result = await run(agent({ tools: [weather('20')] }), '[script weather]', { stream: true });
    for await (const event of result) assert.ok(event);
    assert.equal(result.finalOutput, SUNNY);
  },
  tools: async () => assert.equal((await run(agent({ tools: [weather('20')] }), '[script weather]')).finalOutput, SUNNY),
  settings: async () => assert.equal((await run(agent({ tools: [weather('20')], modelSettings: { parallelToolCalls: false, truncation: 'auto', store: false,
    reasoning: { effort: 'low', summary: 'auto' }, text: { verbosity: 'low' }, promptCacheRetention: '24h' } }), '[script weather]')).finalOutput, SUNNY),
  output: async () => assert.deepEqual((await run(agent({ outputType: z.object({ city: z.string(), degrees: z.number(), sunny: z.boolean() }) }), '[script json]')).finalOutput, JSON_ANSWER),
  handoff: async () => assert.equal((await run(agent({ handoffs: [agent({ name: 'B' })] }), 'hi')).finalOutput, HELLO),
  session: async () => {
    const session = new MemorySession();
    await run(agent({ tools: [weather('20')] }), '[script weather]', { session });
    assert.equal((await run(agent({ tools: [weather('20')] }), '[script weather] again', { session })).finalOutput, SUNNY);
  },
  ...oddTests('', async (odd) => assert.equal((await run(agent({ tools: [weather(odd)] }), '[script weather]')).finalOutput, SUNNY)),
  ...(api === 'responses' ? { previous: async () => {
    const first = await run(agent(), 'hi');
    assert.equal((await run(agent(), 'hi', { previousResponseId: first.lastResponseId })).finalOutput, HELLO);
  } } : {}),
}).map(([test, body]) => [`${api}: ${test}`, async () => {
  setOpenAIAPI(api);
  await body();
}]));
await runTests({ ...testsOf('responses'), ...testsOf('chat_completions') });
