// Anthropic's library.
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { z } from 'zod';
import { DOT, HELLO, JSON_ANSWER, MODEL as model, SUNNY, URL_OF_CAIRN, WEATHER_SCHEMA, assertCut, oddTests, runTests, tooLong } from './check.mjs';

const client = new Anthropic({ baseURL: URL_OF_CAIRN, apiKey: 'any', maxRetries: 0 });
const user = (content) => [{ role: 'user', content }];
const tool = { name: 'get_weather', description: 'The weather', input_schema: WEATHER_SCHEMA };
const base = { model, max_tokens: 200, messages: user('hi') };
const text = ({ content }) => content.filter(({ type }) => type === 'text').map((block) => block.text).join('');
const create = (more) => client.messages.create({ ...base, ...more });
const result = (content) => [...user('w'), { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { city: 'Oslo' } }] },
  { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content }] }];

await runTests({
  models: async () => assert.equal((await client.models.list()).data[0].id, model),
  create: async () => assert.equal(text(await create({})), HELLO),
  stream: async () => assert.equal(await client.messages.stream(base).finalText(), HELLO),
  count: async () => assert.ok((await client.messages.countTokens({ model, messages: user('hi') })).input_tokens > 0),
  'another model': async () => assert.equal(text(await create({ model: 'claude-haiku-5-5' })), HELLO),
  tools: async () => {
    const first = await create({ messages: user('[script weather]'), tools: [tool] });
    const call = first.content.find(({ type }) => type === 'tool_use');
    assert.deepEqual(call.input, { city: 'Oslo' });
    const messages = [...user('[script weather]'), { role: 'assistant', content: first.content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: '20 degrees' }, { type: 'text', text: 'A reminder.' }] }];
    assert.equal(text(await create({ messages, tools: [tool] })), SUNNY);
  },
  'tool runner': async () => {
    const runnable = betaZodTool({ name: 'get_weather', description: 'The weather', inputSchema: z.object({ city: z.string() }), run: ({ city }) => `20 in ${city}` });
    const last = await client.beta.messages.toolRunner({ ...base, messages: user('[script weather]'), tools: [runnable] }).runUntilDone();
    assert.equal(text(last), SUNNY);
  },
  any: async () => assert.ok((await create({ tools: [tool], tool_choice: { type: 'any' } })).content.some(({ type }) => type === 'tool_use')),
  parse: async () => assert.deepEqual((await client.messages.parse({ ...base, messages: user('[script json]'),
    output_config: { format: zodOutputFormat(z.object({ city: z.string(), degrees: z.number(), sunny: z.boolean() })) } })).parsed_output, JSON_ANSWER),
  'thinking updates': async () => assert.equal(text(await create({ thinking: { type: 'adaptive', display: 'updates' } })), HELLO),
  'context edits': async () => assert.equal(text(await client.beta.messages.create({ ...base, betas: ['context-management-2025-06-27'],
    context_management: { edits: [{ type: 'clear_tool_uses_20250919' }, { type: 'clear_thinking_20251015', keep: { type: 'thinking_turns', value: 2 } }] } })), HELLO),
  ...oddTests('', async (odd) => assert.equal(text(await create({ messages: result(odd), tools: [tool] })), HELLO)),
  image: async () => assert.equal(text(await create({ messages: result([{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: DOT } }]), tools: [tool] })), HELLO),
  pdf: async () => assert.equal(text(await create({ messages: result([{ type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0xLjQK' } }]), tools: [tool] })), HELLO),
  cut: async () => {
    let json = '';
    for await (const event of await create({ stream: true, max_tokens: 12, messages: user('[script cut]'), tools: [tool] })) {
      if (event.delta?.type === 'input_json_delta') json += event.delta.partial_json;
    }
    assertCut([json]);
  },
  full: async () => assert.rejects(create({ messages: user(tooLong()) }), /prompt is too long: \d+ tokens > \d+ maximum/),
  abort: async () => {
    const stream = await create({ messages: user('[script story]'), max_tokens: 4000, stream: true });
    let pieces = 0;
    for await (const piece of stream) if (piece && ++pieces === 5) stream.controller.abort();
  },
});
