// LlamaIndex with OpenAI's two protocols and Ollama's.
import assert from 'node:assert/strict';
import { Ollama } from '@llamaindex/ollama';
import { OpenAI, OpenAIResponses } from '@llamaindex/openai';
import { tool } from 'llamaindex';
import { z } from 'zod';
import { HELLO, JSON_ANSWER, MODEL as model, URL_OF_CAIRN, runTests } from './check.mjs';

const openai = { model, apiKey: 'any', baseURL: `${URL_OF_CAIRN}/v1`, maxRetries: 0 };
const MODELS = { openai: new OpenAI(openai), responses: new OpenAIResponses(openai), ollama: new Ollama({ model, config: { host: URL_OF_CAIRN } }) };
const weather = tool({ name: 'get_weather', description: 'The weather', parameters: z.object({ city: z.string() }), execute: ({ city }) => `20 in ${city}` });
const user = (content) => [{ role: 'user', content }];
const history = [...user('[script weather]'),
  { role: 'assistant', content: '', options: { toolCall: [{ id: 'call_1', name: 'get_weather', input: { city: 'Oslo' } }] } },
  { role: 'user', content: '20 degrees', options: { toolResult: { id: 'call_1', result: '20 degrees', isError: false } } }];

const testsOf = (llm) => ({
  chat: async () => assert.equal((await llm.chat({ messages: user('hi') })).message.content, HELLO),
  stream: async () => {
    let text = '';
    for await (const piece of await llm.chat({ messages: user('hi'), stream: true })) text += piece.delta;
    // Over Responses it repeats the last piece at each event that is no piece.
    assert.equal(text.slice(0, HELLO.length), HELLO);
  },
  tools: async () => assert.equal((await llm.chat({ messages: user('[script weather]'), tools: [weather] })).message.options.toolCall[0].name, 'get_weather'),
  'tool history': async () => llm.chat({ messages: history, tools: [weather] }),
  structured: async () => assert.deepEqual(JSON.parse((await llm.chat({ messages: user('[script json]'),
    responseFormat: z.object({ city: z.string(), degrees: z.number(), sunny: z.boolean() }) })).message.content), JSON_ANSWER),
});
await runTests(Object.fromEntries(Object.entries(MODELS).flatMap(([name, llm]) =>
  Object.entries(testsOf(llm)).map(([test, body]) => [`${name}: ${test}`, body]))));
