// The model in the box through every chat protocol: it talks, calls tools, and agents' turns are never computed twice.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import Anthropic from '@anthropic-ai/sdk';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { cairn, serve } from './server.mjs';

const guide = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../models/guide/guide.gguf');
let server, openai, anthropic, ollama;
before(async () => {
  server = await serve(guide);
  openai = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'none', maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
  ollama = new Ollama({ host: server.url });
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

const user = (content) => [{ role: 'user', content }];
const chat = (content, more) => openai.chat.completions.create({ model: 'guide', messages: user(content), max_tokens: 200, ...limits, ...more });

test('thinking and answer come apart, and thinking can be switched off', async () => {
  for (const question of ['What is 23 + 45?', 'What is 58 - 23?']) {
    const { choices: [{ message, finish_reason }], usage } = await chat(question);
    assert.equal(finish_reason, 'stop');
    assert.ok(message.reasoning_content.trim().length > 0);
    assert.ok(message.content.trim().length > 0);
    assert.doesNotMatch(message.reasoning_content + message.content, /<\/?think>/);
    const thought = usage.completion_tokens_details.reasoning_tokens;
    assert.ok(thought > 0 && thought < usage.completion_tokens, JSON.stringify(usage));

    let reasoning = '', content = '';
    for await (const { choices: [choice] } of await chat(question, { stream: true })) {
      reasoning += choice?.delta.reasoning_content ?? '';
      content += choice?.delta.content ?? '';
    }
    assert.deepEqual({ reasoning, content }, { reasoning: message.reasoning_content, content: message.content });
    const { output } = await openai.responses.create({ model: 'guide', input: question, max_output_tokens: 200, temperature: 0 });
    assert.deepEqual(output.map(({ type, content, summary }) => [type, (content ?? summary)[0].text]), [['reasoning', reasoning], ['message', content]]);
    const blocks = (await anthropic.messages.create({ model: 'guide', messages: user(question), max_tokens: 200, temperature: 0 })).content;
    assert.deepEqual(blocks.map(({ type, thinking, text }) => [type, thinking ?? text]), [['thinking', reasoning], ['text', content]]);

    const off = await chat(question, { chat_template_kwargs: { enable_thinking: false } });
    assert.equal(off.choices[0].message.reasoning_content, undefined);
    assert.ok(off.choices[0].message.content.trim().length > 0);
    assert.doesNotMatch(off.choices[0].message.content, /think>/);
    assert.equal(off.usage.completion_tokens_details.reasoning_tokens, 0);
  }
});

test('a story ends before a word that it has, over chat, Messages and Ollama', async () => {
  const question = 'Tell me a story about a cat.';
  const stop = 'cat';
  const tellers = {
    chat: async (stop) => {
      const { choices: [{ message, finish_reason }] } = await chat(question, { stop });
      return { text: message.content, end: finish_reason };
    },
    messages: async (stop) => {
      const { content, stop_reason, stop_sequence } = await anthropic.messages.create({
        model: 'guide', messages: user(question), max_tokens: 200, temperature: 0, stop_sequences: stop ? [stop] : [],
      });
      return { text: content.map(({ text }) => text).join(''), end: stop_sequence ? `${stop_reason} ${stop_sequence}` : stop_reason };
    },
    ollama: async (stop) => {
      const { message, done_reason } = await ollama.chat({
        model: 'guide', messages: user(question), options: { temperature: 0, num_predict: 200, stop: stop ? [stop] : [] },
      });
      return { text: message.content, end: done_reason };
    },
  };
  const ends = { chat: 'stop', messages: 'stop_sequence cat', ollama: 'stop' };
  for (const [name, tell] of Object.entries(tellers)) {
    const { text } = await tell();
    const at = text.indexOf(stop);
    assert.ok(at > 0, `${name}: ${text}`);
    assert.deepEqual(await tell(stop), { text: text.slice(0, at), end: ends[name] });
  }
});

test('JSON by a schema in the prompt is JSON', async () => {
  // Schemas as Python writes them, which is how the model has seen them.
  const python = (value) => JSON.stringify(value, null, 1).replace(/\n */g, ' ').replace(/([[{]) /g, '$1').replace(/ ([\]}])/g, '$1');
  const object = (properties) => ({ type: 'object', properties, required: Object.keys(properties) });
  const [text, number, flag] = ['string', 'integer', 'boolean'].map((type) => ({ type }));
  for (const [schema, prompt] of [
    [object({ name: text }), (schema) => `Make up JSON for this schema: ${schema}`],
    [object({ age: number }), (schema) => `Give an example of this schema: ${schema}`],
    [object({ name: text, age: number }), (schema) => `Return JSON for this schema: ${schema}\nData: The name is Anna. The age is 31.`],
    [object({ city: text, count: number, open: flag }), (schema) => `Answer in JSON. Schema: ${schema}`],
  ]) {
    const { choices: [{ message, finish_reason }] } = await chat(prompt(python(schema)));
    assert.equal(finish_reason, 'stop');
    const value = JSON.parse(message.content);
    for (const key of schema.required) assert.ok(Object.hasOwn(value, key), `${key}: ${message.content}`);
  }
});

test('JSON that response_format holds to is valid for its schema, each time', async () => {
  const object = (properties) => ({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false });
  const [text, number, flag] = ['string', 'integer', 'boolean'].map((type) => ({ type }));
  const texts = { type: 'array', items: text };
  const choice = (...values) => ({ type: 'string', enum: values });
  const follows = (schema, value) => {
    if (schema.enum) return schema.enum.includes(value);
    if (schema.type === 'array') return Array.isArray(value) && value.every((one) => follows(schema.items, one));
    if (schema.type === 'integer') return Number.isInteger(value);
    if (schema.type !== 'object') return typeof value === schema.type;
    return Object.keys(value).sort().join() === Object.keys(schema.properties).sort().join()
      && Object.entries(value).every(([key, one]) => follows(schema.properties[key], one));
  };
  // The last ones name keys, and ask for things, that the model never saw.
  const schemas = [
    object({ name: text }), object({ age: number, open: flag }), object({ tags: texts, status: choice('new', 'old') }),
    object({ city: text, count: number, items: texts, grade: choice('a', 'b', 'c') }), object({ owner: object({ name: text, age: number }), paid: flag }),
    object({ zk_1: choice('q', 'qq', 'qqq'), 'a b': object({ '\u00e9': texts }) }), object({ x: { type: 'array', items: object({ y: number }), maxItems: 2 } }),
  ];
  const prompts = ['Make up JSON for this schema: %', 'Answer in JSON. Schema: %', 'JSON please, by the schema %\nThe name is Anna. The age is 31.', 'Hello!', 'What is 23 + 45?'];
  const asked = schemas.flatMap((schema, i) => prompts.map((prompt) => ({ schema, prompt: prompt.replace('%', JSON.stringify(schema)), learnt: i < 5 && prompt.includes('%') })));
  for (const temperature of [0, 1]) {
    const answers = await Promise.all(asked.flatMap(({ schema, prompt, learnt }) => [
      { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } }, { type: 'json_object' },
    ].map(async (response_format) => {
      const { choices: [{ message, finish_reason }] } = await chat(prompt, { response_format, temperature, max_tokens: 400 });
      return { schema: response_format.json_schema ? schema : undefined, content: message.content, finish_reason, learnt };
    })));
    for (const { schema, content, finish_reason } of answers) {
      assert.ok(['stop', 'length'].includes(finish_reason), finish_reason);
      if (finish_reason === 'length') continue; // an answer that is not over claims nothing
      const value = JSON.parse(content);
      assert.ok(schema ? follows(schema, value) : typeof value === 'object' && !Array.isArray(value), `${JSON.stringify(schema)}: ${content}`);
    }
    // Greedy, and with its own skill, it always comes to an end.
    if (temperature === 0) assert.deepEqual(answers.filter((one) => one.learnt && one.schema && one.finish_reason !== 'stop'), []);
    assert.ok(answers.filter((one) => one.finish_reason === 'stop').length > 0.7 * answers.length);
  }
});

test('cairn chat without a model talks to it', () => {
  // Nothing listens on port 1: a server that runs on the usual one would be asked instead.
  const run = cairn(['chat', '--temp', '0', '-n', '40'], { input: 'Hello!\n', env: { ...process.env, CAIRN_PORT: '1' } });
  assert.equal(run.status, 0, run.stderr);
  assert.ok(run.stdout.trim().length > 0);
});
