// LangChain with four providers.
import assert from 'node:assert/strict';
import { ChatAnthropic } from '@langchain/anthropic';
import { HumanMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOllama } from '@langchain/ollama';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { z } from 'zod';
import { HELLO, JSON_ANSWER, MODEL as model, SUNNY, URL_OF_CAIRN, oddTests, runTests } from './check.mjs';

const openai = { model, apiKey: 'any', configuration: { baseURL: `${URL_OF_CAIRN}/v1` }, maxRetries: 0 };
const MODELS = {
  openai: (more) => new ChatOpenAI({ ...openai, ...more }),
  responses: (more) => new ChatOpenAI({ ...openai, useResponsesApi: true, ...more }),
  anthropic: (more) => new ChatAnthropic({ model, apiKey: 'any', anthropicApiUrl: URL_OF_CAIRN, maxRetries: 0, ...more }),
  ollama: (more) => new ChatOllama({ model, baseUrl: URL_OF_CAIRN, maxRetries: 0, ...more }),
};
const schema = z.object({ city: z.string(), degrees: z.number(), sunny: z.boolean() });
const weather = (output) => tool(() => output, { name: 'get_weather', description: 'The weather', schema: z.object({ city: z.string() }) });
async function toolLoop(make, output) {
  const bound = make().bindTools([weather(output)]);
  const history = [new HumanMessage('[script weather]')];
  const first = await bound.invoke(history);
  history.push(first);
  for (const call of first.tool_calls) history.push(await weather(output).invoke({ ...call, type: 'tool_call' }));
  return (await bound.invoke(history)).text;
}

const testsOf = (make) => ({
  invoke: async () => assert.equal((await make().invoke('hi')).text, HELLO),
  stream: async () => {
    let text = '';
    for await (const piece of await make().stream('hi')) text += piece.text;
    assert.equal(text, HELLO);
  },
  tools: async () => assert.equal(await toolLoop(make, '20 degrees'), SUNNY),
  any: async () => assert.equal((await make().bindTools([weather('20')], { tool_choice: 'any' }).invoke('hi')).tool_calls.length, 1),
  structured: async () => assert.deepEqual(await make().withStructuredOutput(schema).invoke('[script json]'), JSON_ANSWER),
  'json mode': async () => assert.deepEqual(await make().withStructuredOutput(schema, { method: 'jsonMode' }).invoke('[script json]'), JSON_ANSWER),
  ...oddTests('', async (odd) => assert.equal(await toolLoop(make, odd), SUNNY)),
  cut: async () => {
    const limit = { maxTokens: 12, numPredict: 12 };
    assert.deepEqual((await make(limit).bindTools([weather('20')]).invoke('[script cut]')).tool_calls ?? [], []);
  },
});
// Anthropic's provider has no such methods, and the other two leave tool_choice out.
const UNKNOWN_TO = { openai: [], responses: ['any'], anthropic: ['structured', 'json mode'], ollama: ['any'] };
await runTests({
  ...Object.fromEntries(Object.entries(MODELS).flatMap(([name, make]) =>
    Object.entries(testsOf(make)).filter(([test]) => !UNKNOWN_TO[name].includes(test)).map(([test, body]) => [`${name}: ${test}`, body]))),
  'anthropic: structured': async () => assert.deepEqual(await MODELS.anthropic().withStructuredOutput(schema, { method: 'jsonSchema' }).invoke('[script json]'), JSON_ANSWER),
  embeddings: async () => assert.equal((await new OpenAIEmbeddings(openai).embedDocuments(['a', 'b'])).length, 2),
});
