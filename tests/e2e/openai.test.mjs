// The real `openai` client from npm against the real server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import OpenAI from 'openai';
import { logged, serve, story } from './server.mjs';

let server, client;
const name = 'stories260K-f32';
const guide = fileURLToPath(new URL('../../models/guide/guide.gguf', import.meta.url));
before(async () => {
  server = await serve(story, ['--queue-max', '64']);
  client = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'none', maxRetries: 0 });
});
after(async () => {
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

const messages = [{ role: 'user', content: 'Tell me a story.' }];

test('models are listed with their context and quantisation', async () => {
  const models = await client.models.list();
  assert.deepEqual(models.data.map((m) => m.id), [name]);
  assert.equal(models.data[0].context_length, 512);
  assert.equal(models.data[0].quantization, 'F32');
  assert.equal((await client.models.retrieve(name)).id, name);
  await assert.rejects(client.models.retrieve('other'), OpenAI.NotFoundError);
});

test('every answer has a request id; the client may name its request too', async () => {
  const ask = (headers) => client.chat.completions.create({ model: name, messages, max_tokens: 2 }, { headers });
  const named = await ask({ 'X-Client-Request-Id': 'my request {1}' });
  const { data, request_id } = await client.chat.completions.create({ model: name, messages, max_tokens: 2, stream: true }).withResponse();
  for await (const chunk of data) assert.ok(chunk.id);
  const failed = await client.models.retrieve('other').catch((error) => error);
  const proxied = await ask({ 'X-Request-Id': 'proxy-1' });
  const ids = [named._request_id, request_id, failed.requestID, proxied._request_id];
  for (const id of ids) assert.match(id, /^req_[0-9a-f]{32}$/);
  assert.equal(new Set(ids).size, 4);
  await logged(server, new RegExp(`${named._request_id.slice(0, 12)} \\(its client's id: "my request \\{1\\}"\\)`));
  await logged(server, new RegExp(`${proxied._request_id.slice(0, 12)} \\(its client's id: "proxy-1"\\)`));

  const refused = await ask({ 'X-Client-Request-Id': 'x'.repeat(513) }).catch((error) => error);
  assert.ok(refused instanceof OpenAI.BadRequestError);
  assert.equal(refused.param, 'X-Client-Request-Id');
  assert.match(refused.requestID, /^req_/);
});

test('a chat completion has text, usage and a finish reason', async () => {
  const answer = await client.chat.completions.create({ model: name, messages, max_tokens: 16, temperature: 0 });
  assert.equal(answer.object, 'chat.completion');
  assert.equal(answer.choices[0].message.role, 'assistant');
  assert.ok(answer.choices[0].message.content.length > 0);
  assert.equal(answer.choices[0].finish_reason, 'length');
  assert.equal(answer.usage.completion_tokens, 16);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + 16);
});

test('a last message of the assistant is continued, unless the request says otherwise', async () => {
  const begun = { role: 'assistant', content: 'Once upon a time, there was a little' };
  const render = async (more) => (await (await server.post('/apply-template', { messages: [...messages, begun], ...more })).json()).prompt;
  const plain = (await (await server.post('/apply-template', { messages })).json()).prompt;
  assert.equal(await render({}), plain + begun.content);
  assert.equal(await render({ continue_final_message: true, add_generation_prompt: false }), plain + begun.content);
  const closed = await render({ add_generation_prompt: false });
  assert.ok(closed.startsWith(plain + begun.content) && closed.length > plain.length + begun.content.length);
  const next = await render({ continue_final_message: false });
  assert.ok(next.startsWith(closed) && next.length > closed.length);

  const answer = await client.chat.completions.create({ model: name, messages: [...messages, begun], max_tokens: 24, temperature: 0 });
  const { tokens: whole } = await (await server.post('/tokenize', { content: plain + begun.content, add_special: true })).json();
  const completion = await client.completions.create({ model: name, prompt: whole, max_tokens: 24, temperature: 0 });
  assert.equal(answer.choices[0].message.content.trim(), completion.choices[0].text.trim());
  assert.equal(answer.usage.prompt_tokens, whole.length);
});

test('a stream gives the same text as the whole answer, then usage', async () => {
  const whole = await client.chat.completions.create({ model: name, messages, max_tokens: 40, temperature: 0 });
  const stream = await client.chat.completions.create({
    model: name, messages, max_completion_tokens: 40, temperature: 0, stream: true, stream_options: { include_usage: true },
  });
  let text = '', role, finish, usage, chunks = 0;
  for await (const chunk of stream) {
    if (chunk.usage) usage = chunk.usage;
    const choice = chunk.choices[0];
    if (!choice) continue;
    ++chunks;
    role ??= choice.delta.role;
    text += choice.delta.content ?? '';
    finish ??= choice.finish_reason ?? undefined;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(role, 'assistant');
  assert.equal(finish, 'length');
  assert.ok(chunks > 10);
  const counts = ({ prompt_tokens, completion_tokens, total_tokens }) => ({ prompt_tokens, completion_tokens, total_tokens });
  assert.deepEqual(counts(usage), counts(whole.usage));
});

test('the same seed gives the same bytes, alone and among others; n gives different choices', async () => {
  const ask = (seed) => client.completions.create({ model: name, prompt: 'Once upon a time', max_tokens: 40, seed, temperature: 1 });
  const alone = (await ask(7)).choices[0].text;
  const many = await Promise.all(Array.from({ length: 16 }, (_, i) => ask(i)));
  assert.equal(many[7].choices[0].text, alone);
  assert.ok(new Set(many.map((m) => m.choices[0].text)).size > 10);
  const choices = (await client.completions.create({ model: name, prompt: 'Once upon a time', max_tokens: 20, seed: 7, n: 3 })).choices;
  assert.deepEqual(choices.map((c) => c.index), [0, 1, 2]);
  assert.equal(new Set(choices.map((c) => c.text)).size, 3);
});

test('completions take text, several texts and token ids', async () => {
  const one = await client.completions.create({ model: name, prompt: 'Once upon a time', max_tokens: 12, temperature: 0 });
  const { tokens } = await (await server.post('/tokenize', { content: 'Once upon a time', add_special: true })).json();
  const ids = await client.completions.create({ model: name, prompt: tokens, max_tokens: 12, temperature: 0 });
  assert.equal(ids.choices[0].text, one.choices[0].text);
  const two = await client.completions.create({ model: name, prompt: ['Once upon a time', 'The dog'], max_tokens: 12, temperature: 0 });
  assert.equal(two.choices.length, 2);
  assert.equal(two.choices[0].text, one.choices[0].text);
  assert.notEqual(two.choices[1].text, one.choices[0].text);
});

test('a stop string ends the answer before it, also where it spans tokens', async () => {
  const free = (await client.completions.create({ model: name, prompt: 'Once upon a time', max_tokens: 60, temperature: 0 })).choices[0].text;
  for (let length = 3; length < 12; length += 2) {
    const at = 20 + length;
    const stop = free.slice(at, at + length);
    const cut = free.slice(0, free.indexOf(stop));
    const stopped = await client.completions.create({ model: name, prompt: 'Once upon a time', max_tokens: 60, temperature: 0, stop: [stop, 'never this'] });
    assert.equal(stopped.choices[0].text, cut);
    assert.equal(stopped.choices[0].finish_reason, 'stop');
    let streamed = '';
    for await (const chunk of await client.completions.create({ model: name, prompt: 'Once upon a time', max_tokens: 60, temperature: 0, stop, stream: true })) {
      streamed += chunk.choices[0]?.text ?? '';
    }
    assert.equal(streamed, cut);
  }
});

test('256 stop strings are fine, also beside the fallback template\'s own; 257 are not', async () => {
  const ask = (count) => client.chat.completions.create({ model: name, messages, max_tokens: 2, stop: Array.from({ length: count }, (_, i) => `never ${i}`) });
  assert.equal((await ask(256)).object, 'chat.completion');
  await assert.rejects(ask(257), OpenAI.BadRequestError);
});

test('log-probabilities name the chosen token and the most likely ones', async () => {
  const answer = await client.chat.completions.create({ model: name, messages, max_tokens: 5, temperature: 0, logprobs: true, top_logprobs: 3 });
  const { content } = answer.choices[0].logprobs;
  assert.equal(content.length, 5);
  for (const entry of content) {
    assert.equal(entry.top_logprobs.length, 3);
    assert.equal(entry.top_logprobs[0].token, entry.token);  // temperature 0 takes the most likely
    assert.ok(entry.logprob <= 0 && entry.logprob === entry.top_logprobs[0].logprob);
    assert.equal(Buffer.from(entry.bytes).toString('utf8'), entry.token);
  }
  const completion = await client.completions.create({ model: name, prompt: 'Once', max_tokens: 4, logprobs: 2, temperature: 0 });
  assert.equal(completion.choices[0].logprobs.tokens.length, 4);
  assert.equal(Object.keys(completion.choices[0].logprobs.top_logprobs[0]).length, 2);
});

test('an aborted stream stops the work', async () => {
  const controller = new AbortController();
  const stream = await client.chat.completions.create({ model: name, messages, max_tokens: 400, ignore_eos: true, stream: true }, { signal: controller.signal });
  let chunks = 0;
  try {
    for await (const _ of stream) if (++chunks === 5) controller.abort();
  } catch (error) {
    assert.ok(error instanceof OpenAI.APIUserAbortError, error);
  }
  assert.ok(chunks >= 5 && chunks < 400);
  const answer = await client.chat.completions.create({ model: name, messages, max_tokens: 4 });
  assert.equal(answer.usage.completion_tokens, 4);
});

test('fields without effect are taken and told, and one model answers every name', async () => {
  const ask = (more) => client.chat.completions.create({ model: 'gpt-9', messages, max_tokens: 4, verbosity: 'low', store: true, user: 'u', frobnicate: 1, ...more });
  const quiet = await ask({});
  assert.equal(quiet.model, name);
  assert.equal(quiet.warnings, undefined);
  const { warnings } = await ask({ warnings: true });
  for (const field of ['verbosity', 'store', 'user', 'frobnicate']) assert.ok(warnings.some((warning) => warning.startsWith(`${field} `)), `${field}: ${warnings}`);
  const chunks = [];
  for await (const chunk of await ask({ warnings: true, stream: true })) chunks.push(chunk);
  assert.deepEqual(chunks[0].warnings, warnings);
  assert.ok(chunks.slice(1).every((chunk) => chunk.warnings === undefined));
  await logged(server, /frobnicate is not a field/);
  assert.equal(server.log().match(/frobnicate is not a field/g).length, 1, 'the log is told once');
  const vectors = await (await server.post('/v1/embeddings', { input: 'x', frobnicate: 1, warnings: true })).json();
  assert.match(vectors.warnings[0], /^frobnicate/);
  assert.deepEqual((await (await server.post('/v1/completions', { prompt: 'x', max_tokens: 1, warnings: true })).json()).warnings, []);
});

test('functions are tools whose one call is function_call, whole and streamed, and goes back into the conversation', async () => {
  const own = await serve(guide);
  const { chat } = new OpenAI({ baseURL: own.url + '/v1', apiKey: 'none', maxRetries: 0 });
  const functions = [{ name: 'look', parameters: { type: 'object', properties: {}, additionalProperties: false } }, { name: 'wait', parameters: { type: 'object', properties: {} } }];
  const ask = (more) => chat.completions.create({ model: 'guide', messages, functions, function_call: { name: 'look' }, temperature: 0, max_tokens: 60, ...more });
  const { message, finish_reason: finish } = (await ask({})).choices[0];
  assert.equal(message.function_call.name, 'look');
  assert.equal(message.tool_calls, undefined);
  let called, end, streamedArguments = '';
  for await (const { choices: [choice] } of await ask({ stream: true })) {
    assert.equal(choice?.delta.tool_calls, undefined);
    called ??= choice?.delta.function_call?.name;
    streamedArguments += choice?.delta.function_call?.arguments ?? '';
    end = choice?.finish_reason ?? end;
  }
  assert.deepEqual([called, streamedArguments, end], ['look', message.function_call.arguments, finish]);
  assert.equal(finish, 'function_call');
  const next = await ask({ messages: [...messages, message, { role: 'function', name: 'look', content: 'a cat' }], function_call: 'none', max_tokens: 4 });
  assert.equal(next.choices[0].message.function_call, undefined);
  await own.stop();
});

test('calls of custom tools are custom calls, whole and streamed, and go back into the conversation', async () => {
  const own = await serve(guide);
  const { chat } = new OpenAI({ baseURL: own.url + '/v1', apiKey: 'none', maxRetries: 0 });
  const tools = [{ type: 'custom', custom: { name: 'code', description: 'Runs code' } }, { type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }];
  const ask = (more) => chat.completions.create({ model: 'guide', messages, tools, tool_choice: { type: 'custom', custom: { name: 'code' } }, temperature: 0, max_tokens: 60, ...more });
  const { message } = (await ask({})).choices[0];
  const [call] = message.tool_calls;
  assert.deepEqual([call.type, call.custom.name, typeof call.custom.input, call.function], ['custom', 'code', 'string', undefined]);
  let streamed;
  for await (const { choices: [choice] } of await ask({ stream: true })) {
    for (const delta of choice?.delta.tool_calls ?? []) {
      if (delta.index !== 0) continue;
      streamed ??= { type: delta.type, name: delta.custom.name, input: '' };
      streamed.input += delta.custom.input;
    }
  }
  assert.deepEqual(streamed, { type: 'custom', name: 'code', input: call.custom.input });
  const results = message.tool_calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'done' }));
  assert.ok(await ask({ messages: [...messages, message, ...results], tool_choice: 'none', max_tokens: 4 }));
  const only = await ask({ tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'look' } }] } } });
  assert.equal(only.choices[0].message.tool_calls[0].function.name, 'look');
  await own.stop();
});

test('--strict-fields refuses unknown fields, and --alias names a model', async () => {
  const strict = await serve(story, ['--strict-fields', '--alias', 'one,two']);
  const reply = await strict.post('/v1/completions', { model: 'two', prompt: 'x', max_tokens: 1, frobnicate: 1 });
  assert.equal(reply.status, 400);
  assert.equal((await reply.json()).error.message, 'frobnicate is not a known field of this endpoint');
  const known = await (await strict.post('/v1/completions', { model: 'two', prompt: 'x', max_tokens: 1, user: 'u' })).json();
  assert.equal(known.model, 'one');
  const { data } = await (await fetch(`${strict.url}/v1/models`)).json();
  assert.deepEqual([data[0].id, data[0].aliases], ['one', ['one', 'two']]);
  assert.equal((await fetch(`${strict.url}/v1/models/two`)).status, 200);
  await strict.stop();
});

test('errors arrive as the client\'s own classes, with what is wrong', async () => {
  const ask = (more) => client.chat.completions.create({ model: name, messages, max_tokens: 4, ...more });
  const rejects = (promise, kind, pattern, param) =>
    assert.rejects(promise, (error) => {
      assert.ok(error instanceof kind, `${error.constructor.name}: ${error.message}`);
      assert.match(error.message, pattern);
      if (param) assert.equal(error.param, param);
      return true;
    });
  await rejects(client.models.retrieve('gpt-9'), OpenAI.NotFoundError, /stories260K-f32/, 'model');
  await rejects(ask({ temperature: 9000 }), OpenAI.BadRequestError, /temperature must be from 0 to 1000/, 'temperature');
  await rejects(ask({ messages: [] }), OpenAI.BadRequestError, /messages/, 'messages');
  await rejects(ask({ messages: [{ role: 5, content: 'x' }] }), OpenAI.BadRequestError, /role/, 'messages[0].role');
  await rejects(ask({ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] }), OpenAI.BadRequestError, /image_url/, 'messages[0].content[0].type');
  await rejects(ask({ tools: [{ type: 'web_search' }] }), OpenAI.BadRequestError, /"function"/, 'tools[0].type');
  await rejects(ask({ tool_choice: 'required' }), OpenAI.BadRequestError, /no tools/, 'tool_choice');
  const schema = { type: 'object', properties: { a: { not: { pattern: '(a)\\1' } } } };
  await rejects(ask({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } }), OpenAI.BadRequestError,
    /properties\/a\/not\/pattern: a backreference/, 'response_format.json_schema.schema');
  await rejects(ask({ response_format: { type: 5 } }), OpenAI.BadRequestError, /response_format/, 'response_format.type');
  await rejects(ask({ reasoning_effort: 'much' }), OpenAI.BadRequestError, /medium/, 'reasoning_effort');
  const full = await ask({ messages: [{ role: 'user', content: 'word '.repeat(2000) }] }).catch((error) => error);
  assert.match(full.message, /This model's maximum context length is 512 tokens\. However, your messages resulted in \d{4,} tokens\. Please reduce/);
  assert.deepEqual([full.status, full.code, full.type, full.error.n_ctx, full.error.n_prompt_tokens > 512], [400, 'context_length_exceeded', 'invalid_request_error', 512, true]);
  await rejects(client.completions.create({ model: name, prompt: 'x', suffix: 'y' }), OpenAI.BadRequestError, /cannot fill in the middle/, 'model');
  await rejects(client.completions.create({ model: name, prompt: [1, 99999999] }), OpenAI.BadRequestError, /99999999/);
});
