// The model in the box through every chat protocol: it talks, calls tools, and agents' turns are never computed twice.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { cairn, serve } from './server.mjs';

const guide = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../models/guide/guide.gguf');
let server, openai, anthropic;
before(async () => {
  server = await serve(guide);
  openai = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'none', maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
});
after(async () => {
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

const signatures = [
  { name: 'get_weather', description: 'Get the weather of a city', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } },
  { name: 'read_file', description: 'Read a file', parameters: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] } },
];
const turns = [
  ['What is the weather in Paris?', 'get_weather', '{"weather": "sunny"}'],
  ['Read the file notes.txt.', 'read_file', '{"content": "buy milk"}'],
  ['How is the weather in Rome?', 'get_weather', '{"weather": "rain"}'],
  ['Show me the file data.csv.', 'read_file', '{"content": "1, 2, 3"}'],
  ['What is the weather in Berlin?', 'get_weather', '{"weather": "cloudy"}'],
];
const limits = { temperature: 0, seed: 1 };

// Each protocol: ask(user's text, tool), answer(call, result) -> {calls, text, prompt, cached, output}.
function overChat() {
  const messages = [];
  const send = async (tool_choice) => {
    const tools = signatures.map((signature) => ({ type: 'function', function: signature }));
    const { choices: [{ message }], usage } = await openai.chat.completions.create({ model: 'guide', messages, tools, tool_choice, max_tokens: 80, ...limits });
    // As a client writes it that has parsed it.
    const calls = (message.tool_calls ?? []).map((call) => ({ id: call.id, name: call.function.name, input: JSON.parse(call.function.arguments) }));
    for (const [i, call] of (message.tool_calls ?? []).entries()) call.function.arguments = JSON.stringify(calls[i].input, null, 1);
    messages.push(message);
    return { calls, text: message.content ?? '', prompt: usage.prompt_tokens, cached: usage.prompt_tokens_details.cached_tokens, output: usage.completion_tokens };
  };
  return {
    ask: (content, name) => (messages.push({ role: 'user', content }), send({ type: 'function', function: { name } })),
    answer: (call, content) => (messages.push({ role: 'tool', tool_call_id: call.id, content }), send('auto')),
  };
}
function overResponses() {
  const input = [];
  const send = async (tool_choice) => {
    const tools = signatures.map((signature) => ({ type: 'function', ...signature }));
    const { output, usage } = await openai.responses.create({ model: 'guide', input, tools, tool_choice, max_output_tokens: 80, temperature: 0 });
    input.push(...output);
    const calls = output.filter((item) => item.type === 'function_call').map((item) => ({ id: item.call_id, name: item.name, input: JSON.parse(item.arguments) }));
    const text = output.filter((item) => item.type === 'message').map((item) => item.content.map((part) => part.text).join('')).join('');
    return { calls, text, prompt: usage.input_tokens, cached: usage.input_tokens_details.cached_tokens, output: usage.output_tokens };
  };
  return {
    ask: (content, name) => (input.push({ role: 'user', content }), send({ type: 'function', name })),
    answer: (call, output) => (input.push({ type: 'function_call_output', call_id: call.id, output }), send('auto')),
  };
}
function overMessages() {
  const messages = [];
  const send = async (tool_choice) => {
    const tools = signatures.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters }));
    const { content, usage } = await anthropic.messages.create({ model: 'guide', messages, tools, tool_choice, max_tokens: 80, temperature: 0 });
    messages.push({ role: 'assistant', content });
    const calls = content.filter((block) => block.type === 'tool_use').map(({ id, name, input }) => ({ id, name, input }));
    const text = content.filter((block) => block.type === 'text').map((block) => block.text).join('');
    return { calls, text, prompt: usage.input_tokens + usage.cache_read_input_tokens, cached: usage.cache_read_input_tokens, output: usage.output_tokens };
  };
  return {
    ask: (content, name) => (messages.push({ role: 'user', content }), send({ type: 'tool', name })),
    answer: (call, content) => (messages.push({ role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content }] }), send({ type: 'auto' })),
  };
}

test('five turns with tools give the same calls over chat, Responses and Messages, and compute nothing twice', async () => {
  const seen = {};
  for (const [name, protocol] of Object.entries({ chat: overChat(), responses: overResponses(), messages: overMessages() })) {
    seen[name] = [];
    let last;
    const check = (now) => {
      // All that was computed for the request before: its prompt and its answer, but for the last token, which was
      // sampled and not fed.
      if (last) assert.ok(now.cached >= last.prompt + last.output - 2, `${name}: ${now.cached} of ${last.prompt} + ${last.output}`);
      last = now;
    };
    for (const [question, tool, result] of turns) {
      const asked = await protocol.ask(question, tool);
      check(asked);
      assert.equal(asked.calls.length, 1);
      assert.equal(asked.calls[0].name, tool);
      const answered = await protocol.answer(asked.calls[0], result);
      check(answered);
      seen[name].push({ name: tool, input: asked.calls[0].input, text: answered.text });
    }
  }
  assert.deepEqual(seen.responses, seen.chat);
  assert.deepEqual(seen.messages, seen.chat);
});

test('cairn chat without a model talks to it', () => {
  const run = cairn(['chat', '--temp', '0', '-n', '40'], { input: 'Hello!\n' });
  assert.equal(run.status, 0, run.stderr);
  assert.ok(run.stdout.trim().length > 0);
});
