// OpenAI's library: chat, Responses, embeddings, models.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { DOT, HELLO, JSON_ANSWER, MODEL as model, SUNNY, URL_OF_CAIRN, WEATHER_SCHEMA, assertCut, oddTests, runTests, tooLong } from './check.mjs';

const client = new OpenAI({ baseURL: `${URL_OF_CAIRN}/v1`, apiKey: 'any', maxRetries: 0 });
const user = (content) => [{ role: 'user', content }];
const tool = { type: 'function', function: { name: 'get_weather', description: 'The weather', parameters: WEATHER_SCHEMA } };
const flat = { type: 'function', name: 'get_weather', description: 'The weather', parameters: WEATHER_SCHEMA, strict: false };
const answer = z.object({ city: z.string(), degrees: z.number(), sunny: z.boolean() });
const runnable = (seen) => ({ type: 'function', function: { ...tool.function, parse: JSON.parse,
  function: ({ city }) => (seen.push(city), `20 degrees in ${city}`) } });
const called = (text) => [
  ...user('w'),
  { role: 'assistant', content: null, tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } }] },
  { role: 'tool', tool_call_id: 'call_1', content: text },
];
const calledInput = (output) => [
  { role: 'user', content: 'w' }, { type: 'function_call', call_id: 'call_1', name: 'get_weather', arguments: '{"city":"Oslo"}' },
  { type: 'function_call_output', call_id: 'call_1', output },
];
const chat = async (more) => (await client.chat.completions.create({ model, messages: user('hi'), ...more })).choices[0];
const respond = (more) => client.responses.create({ model, input: 'hi', ...more });

await runTests({
  models: async () => assert.deepEqual((await client.models.list()).data.map(({ id }) => id), [model]),
  chat: async () => assert.equal((await chat({})).message.content, HELLO),
  'chat stream': async () => assert.equal(await client.chat.completions.stream({ model, messages: user('hi') }).finalContent(), HELLO),
  'chat fields': async () => assert.equal((await chat({ verbosity: 'medium', reasoning_effort: 'low', service_tier: 'flex',
    safety_identifier: 's', prompt_cache_key: 'k', prompt_cache_retention: '24h', store: true, metadata: { a: 'b' } })).message.content, HELLO),
  'chat tools': async () => {
    const seen = [];
    const runner = client.chat.completions.runTools({ model, messages: user('[script weather]'), tools: [runnable(seen)] });
    assert.equal(await runner.finalContent(), SUNNY);
    assert.deepEqual(seen, ['Oslo']);
  },
  'chat tools stream': async () => {
    const seen = [];
    const runner = client.chat.completions.runTools({ stream: true, model, messages: user('[script two]'), tools: [runnable(seen)] });
    assert.equal(await runner.finalContent(), 'Oslo and Rome are sunny.');
    assert.deepEqual(seen, ['Oslo', 'Rome']);
  },
  'chat required': async () => assert.equal((await chat({ tools: [tool], tool_choice: 'required' })).message.tool_calls.length, 1),
  'chat allowed tools': async () => assert.equal((await chat({ messages: user('[script weather]'), tools: [tool], tool_choice: { type: 'allowed_tools',
    allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'get_weather' } }] } } })).message.tool_calls.length, 1),
  'chat parse': async () => assert.deepEqual((await client.chat.completions.parse({ model, messages: user('[script json]'),
    response_format: zodResponseFormat(answer, 'answer') })).choices[0].message.parsed, JSON_ANSWER),
  'chat parse tools': async () => assert.equal((await client.chat.completions.parse({ model, messages: user('[script weather]'),
    tools: [zodFunction({ name: 'get_weather', parameters: z.object({ city: z.string() }) })] })).choices[0].message.tool_calls[0].function.parsed_arguments.city, 'Oslo'),
  'chat json mode': async () => assert.deepEqual(JSON.parse((await chat({ messages: user('[script json]'), response_format: { type: 'json_object' } })).message.content), JSON_ANSWER),
  'chat custom tool': async () => chat({ tools: [{ type: 'custom', custom: { name: 'code', description: 'c' } }, tool] }),
  ...oddTests('chat ', async (odd) => assert.equal((await chat({ messages: called(odd), tools: [tool] })).message.content, HELLO)),
  'chat cut': async () => {
    const { message, finish_reason } = await chat({ messages: user('[script cut]'), tools: [tool], max_tokens: 12 });
    assert.equal(finish_reason, 'length');
    assertCut((message.tool_calls ?? []).map((call) => call.function.arguments));
  },
  'chat cut stream': async () => {
    const calls = [];
    for await (const { choices: [choice] } of await client.chat.completions.create({ model, stream: true, messages: user('[script cut]'), tools: [tool], max_tokens: 12 })) {
      for (const call of choice?.delta.tool_calls ?? []) calls[call.index] = (calls[call.index] ?? '') + (call.function.arguments ?? '');
    }
    assertCut(calls);
  },
  'chat full': async () => assert.rejects(chat({ messages: user(tooLong()) }), (error) => {
    assert.equal(error.code, 'context_length_exceeded');
    assert.match(error.message, /maximum context length is \d+ tokens/);
    return true;
  }),
  'chat abort': async () => {
    const stream = await client.chat.completions.create({ model, messages: user('[script story]'), stream: true });
    let pieces = 0;
    for await (const piece of stream) if (piece && ++pieces === 5) stream.controller.abort();
  },
  responses: async () => assert.equal((await respond({})).output_text, HELLO),
  'responses stream': async () => assert.equal((await client.responses.stream({ model, input: 'hi' }).finalResponse()).output_text, HELLO),
  'responses thinking': async () => {
    let thought = '';
    for await (const event of await respond({ stream: true, reasoning: { effort: 'low', summary: 'auto' } })) {
      if (event.type === 'response.reasoning_summary_text.delta') thought += event.delta;
    }
    assert.equal(thought.trim(), 'A short hello will do here.');
  },
  'responses tools': async () => {
    const first = await respond({ input: '[script weather]', tools: [flat] });
    const call = first.output.find(({ type }) => type === 'function_call');
    const second = await respond({ tools: [flat], input: [{ role: 'user', content: '[script weather]' }, ...first.output,
      { type: 'function_call_output', call_id: call.call_id, output: '20 degrees' }] });
    assert.equal(second.output_text, SUNNY);
  },
  'responses references': async () => {
    const first = await respond({ input: '[script weather]', tools: [flat] });
    const call = first.output.find(({ type }) => type === 'function_call');
    const second = await respond({ tools: [flat], input: [{ role: 'user', content: '[script weather]' },
      ...first.output.map(({ id }) => ({ type: 'item_reference', id })), { type: 'function_call_output', call_id: call.call_id, output: '20 degrees' }] });
    assert.equal(second.output_text, SUNNY);
  },
  'responses previous': async () => {
    const first = await respond({ input: 'hi' });
    assert.equal((await respond({ input: 'hi', previous_response_id: first.id })).output_text, HELLO);
  },
  'responses parse': async () => assert.deepEqual((await client.responses.parse({ model, input: '[script json]', text: { format: zodTextFormat(answer, 'answer') } })).output_parsed, JSON_ANSWER),
  ...oddTests('responses ', async (odd) => assert.equal((await respond({ input: calledInput(odd), tools: [flat] })).output_text, HELLO)),
  'responses image': async () => assert.equal((await respond({ tools: [flat], input: calledInput([
    { type: 'input_image', image_url: `data:image/png;base64,${DOT}`, detail: 'auto' }]) })).output_text, HELLO),
  'responses cut': async () => {
    const { output, status } = await respond({ input: '[script cut]', tools: [flat], max_output_tokens: 12 });
    assert.equal(status, 'incomplete');
    assertCut(output.filter(({ type }) => type === 'function_call').map((call) => call.arguments));
  },
  'responses counts': async () => assert.ok((await client.responses.inputTokens.count({ model, input: 'hi' })).input_tokens > 0),
  'responses compact': async () => assert.ok((await client.responses.compact({ model, input: 'hi' })).output.length > 0),
  embeddings: async () => assert.equal((await client.embeddings.create({ model, input: ['a', 'b'] })).data.length, 2),
  completions: async () => client.completions.create({ model, prompt: 'Say', max_tokens: 5, echo: true }),
});
