// The real `@anthropic-ai/sdk` client from npm against the real server.
import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { logged, serve, storyTrainedFor } from './server.mjs';

let server, client;
const name = 'story';
before(async () => {
  server = await serve(storyTrainedFor(4096), ['--name', name]);
  client = new Anthropic({ baseURL: server.url, apiKey: 'key', authToken: null, maxRetries: 0 });
});
after(async () => {
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

const messages = [{ role: 'user', content: 'Tell me a story.' }];
const ask = (more) => client.messages.create({ model: name, messages, max_tokens: 16, temperature: 0, ...more });
const inputTokens = ({ usage }) => usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens;
const tools = [{
  name: 'get_weather', description: 'Weather of a place.',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}];

test('a message has content, usage and why it stopped', async () => {
  const message = await ask({ metadata: { user_id: 'me' }, system: 'You tell stories.' });
  assert.match(message.id, /^msg_/);
  assert.equal(message.type, 'message');
  assert.equal(message.role, 'assistant');
  assert.equal(message.model, name);
  assert.deepEqual(message.content.map((block) => block.type), ['text']);
  assert.ok(message.content[0].text.length > 0);
  assert.equal(message.stop_reason, 'max_tokens');
  assert.equal(message.stop_sequence, null);
  assert.equal(message.usage.output_tokens, 16);
  assert.ok(inputTokens(message) > 5);
});

test('a stream gives the same message, in events of the documented order', async () => {
  const whole = await ask({ max_tokens: 40 });
  const stream = client.messages.stream({ model: name, messages, max_tokens: 40, temperature: 0 });
  let text = '';
  stream.on('text', (delta) => { text += delta; });
  const message = await stream.finalMessage();
  assert.equal(text, whole.content[0].text);
  assert.deepEqual(message.content.map(({ type, text }) => ({ type, text })), [{ type: 'text', text }]);
  assert.equal(message.stop_reason, whole.stop_reason);
  assert.equal(message.usage.output_tokens, whole.usage.output_tokens);
  assert.equal(inputTokens(message), inputTokens(whole));

  const reply = await server.post('/v1/messages', { messages, max_tokens: 8, temperature: 0, stream: true });
  assert.match(reply.headers.get('content-type'), /text\/event-stream/);
  const events = (await reply.text()).split('\n\n').filter(Boolean).map((event) => {
    const [, type, data] = event.match(/^event: (\w+)\ndata: (.*)$/);
    assert.equal(JSON.parse(data).type, type);
    return type;
  });
  assert.deepEqual(events.slice(0, 3), ['message_start', 'ping', 'content_block_start']);
  assert.deepEqual(events.slice(-3), ['content_block_stop', 'message_delta', 'message_stop']);
  assert.deepEqual(new Set(events.slice(3, -3)), new Set(['content_block_delta']));
});

test('a stop sequence ends the message and is named', async () => {
  const { text } = (await ask({ max_tokens: 60 })).content[0];
  const stop = text.slice(30, 36);
  const message = await ask({ max_tokens: 60, stop_sequences: ['never this', stop] });
  assert.equal(message.stop_reason, 'stop_sequence');
  assert.equal(message.stop_sequence, stop);
  assert.equal(message.content[0].text, text.slice(0, text.indexOf(stop)));
});

test('a forced tool is called, and its result goes back', async () => {
  const first = { tools, tool_choice: { type: 'tool', name: 'get_weather' }, max_tokens: 24 };
  // The call is whole, for its arguments follow the schema; behind it this model writes a story.
  const called = await ask(first);
  assert.equal(called.content[0].type, 'tool_use');
  assert.equal(called.content[0].name, 'get_weather');
  assert.match(called.content[0].id, /^toolu_\w{24}$/);
  const city = { type: 'object', properties: { city: { enum: ['Oslo', 'Bergen'] } }, required: ['city'], additionalProperties: false };
  for (const choice of [first.tool_choice, { type: 'any' }]) {
    const whole = await ask({ tools: [{ ...tools[0], strict: true, input_schema: city }], tool_choice: { ...choice, disable_parallel_tool_use: true }, max_tokens: 200 });
    assert.equal(whole.stop_reason, 'tool_use');
    assert.ok(['Oslo', 'Bergen'].includes(whole.content[0].input.city));
  }

  let json = '', header;
  for await (const { content_block, delta } of await client.messages.create({ model: name, messages, temperature: 0, stream: true, ...first })) {
    header ??= content_block;
    json += delta?.partial_json ?? '';
  }
  assert.equal(header.type, 'tool_use');
  assert.equal(header.name, 'get_weather');
  assert.match(header.id, /^toolu_\w{24}$/);
  assert.ok(json.startsWith('{'), json);

  const call = { type: 'tool_use', id: header.id, name: 'get_weather', input: { city: 'Oslo' } };
  const answered = await ask({
    tools,
    messages: [...messages, { role: 'assistant', content: [call] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'Rain.' }, { type: 'text', text: 'And now?' }] }],
  });
  assert.ok(inputTokens(answered) > inputTokens(called));
  assert.ok(answered.usage.cache_read_input_tokens >= 0.9 * inputTokens(called), JSON.stringify(answered.usage));
  // In the history ids may have any form, and results are found by them.
  const counted = async (id) => inputTokens(await ask({ tools, messages: [...messages, { role: 'assistant', content: [{ ...call, id }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'Rain.' }] }] }));
  const tokens = await counted(call.id);
  for (const id of ['toolu_1', 'call_1', 'chatcmpl-tool-5', 'a', 'x'.repeat(300)]) assert.equal(await counted(id), tokens, id);
  const none = await ask({ tools, tool_choice: { type: 'none' } });
  assert.ok(none.content.every((block) => block.type !== 'tool_use'));
});

test('thinking is accepted in every form, also in what comes back', async () => {
  for (const thinking of [{ type: 'enabled', budget_tokens: 1024 }, { type: 'adaptive' }, { type: 'disabled' }]) {
    assert.equal((await ask({ thinking })).usage.output_tokens, 16);
  }
  const turn = [{ type: 'thinking', thinking: 'A dog?', signature: 'x' }, { type: 'text', text: 'A dog ran.' }];
  const message = await ask({ messages: [...messages, { role: 'assistant', content: turn }, { role: 'user', content: 'More!' }] });
  assert.equal(message.usage.output_tokens, 16);
});

test('tokens are counted as they are used', async () => {
  const bodies = [{ messages }, { messages, system: [{ type: 'text', text: 'Be kind.' }], tools },
    { messages: [...messages, { role: 'assistant', content: 'Once upon a time' }] }];
  const count = async (body) => (await client.messages.countTokens({ model: name, ...body })).input_tokens;
  for (const body of bodies) assert.equal(await count(body), inputTokens(await ask(body)));
  // A forced call begins in the prompt.
  const free = await count({ messages, tools });
  for (const [choice, forced] of [
    [{ type: 'auto' }, false], [{ type: 'none' }, false], [{ type: 'any' }, true], [{ type: 'tool', name: 'get_weather' }, true],
  ]) {
    const body = { messages, tools, tool_choice: choice };
    const counted = await count(body);
    assert.equal(counted, inputTokens(await ask(body)), choice.type);
    assert.equal(counted > free, forced, choice.type);
  }
});

test('a last message of the assistant is continued', async () => {
  const begun = 'Once upon a time, there was a little';
  const message = await ask({ messages: [...messages, { role: 'assistant', content: begun }], max_tokens: 24 });
  const { prompt } = await (await server.post('/apply-template', { messages })).json();
  const { tokens: whole } = await (await server.post('/tokenize', { content: prompt + begun, add_special: true })).json();
  const completion = await (await server.post('/v1/completions', { prompt: whole, max_tokens: 24, temperature: 0 })).json();
  assert.equal(message.content[0].text.trim(), completion.choices[0].text.trim());
  assert.equal(inputTokens(message), whole.length);
});

test('pictures in results, blocks of other servers and results to nobody end no session', async () => {
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } };
  const pdf = { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' } };
  const conversation = (content) => ({ messages: [...messages,
    { role: 'assistant', content: [{ type: 'server_tool_use', id: 's', name: 'web_search', input: {} }, { type: 'tool_use', id: 't', name: 'look', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content }, { type: 'tool_result', tool_use_id: 'nobody', content: 'x' }] }] });
  const count = async (content) => (await client.messages.countTokens({ model: name, ...conversation(content) })).input_tokens;
  const noted = await count([{ type: 'text', text: '[image: image/png, this model reads text only]' }]);
  assert.equal(await count([image]), noted);
  assert.ok(await count([image, pdf]) > noted);
  assert.equal((await ask({ ...conversation([image, pdf]), max_tokens: 4 })).usage.output_tokens, 4);
});

test('requests that differ in the billing line share their whole prefix', async () => {
  const system = (cch) => [
    { type: 'text', text: `x-anthropic-billing-header: cc_version=2.1; cch=${cch};` },
    { type: 'text', text: 'The dog lived in a big house near the sea. '.repeat(40), cache_control: { type: 'ephemeral' } }];
  const first = await ask({ system: system('00000') });
  const second = await ask({ system: system('fa690') });
  assert.ok(inputTokens(first) > 200);
  assert.equal(inputTokens(second), inputTokens(first));
  assert.equal(second.usage.cache_read_input_tokens, inputTokens(first) - 1);  // the last token's logits are wanted
  assert.equal(second.content[0].text, first.content[0].text);
});

test('max_tokens 0 caches the prompt and answers nothing', async () => {
  const prompt = { messages: [{ role: 'user', content: 'The cat sat on the mat and looked at the birds. '.repeat(10) }] };
  const warm = await ask({ ...prompt, max_tokens: 0 });
  assert.deepEqual(warm.content, []);
  assert.equal(warm.usage.output_tokens, 0);
  assert.equal((await ask(prompt)).usage.cache_read_input_tokens, inputTokens(warm) - 1);
});

test('another API key finds nothing in the cache', async () => {
  const prompt = { messages: [{ role: 'user', content: 'A bird flew over the lake and sang a song. '.repeat(10) }] };
  await ask(prompt);
  assert.ok((await ask(prompt)).usage.cache_read_input_tokens > 100);
  const other = new Anthropic({ baseURL: server.url, apiKey: 'other', authToken: null, maxRetries: 0 });
  const message = await other.messages.create({ model: name, max_tokens: 4, ...prompt });
  assert.equal(message.usage.cache_read_input_tokens, 0);
});

test('models are listed in pages, and found by id', async () => {
  const page = await client.models.list({ limit: 1 });
  assert.deepEqual(page.data.map(({ type, id, display_name }) => ({ type, id, display_name })), [{ type: 'model', id: name, display_name: page.data[0].display_name }]);
  assert.ok(page.data[0].display_name.length > 0);
  assert.ok(Date.parse(page.data[0].created_at) > Date.parse('2020-01-01'));
  assert.equal(page.data[0].max_input_tokens, 4096);
  assert.deepEqual([page.first_id, page.last_id, page.has_more], [name, name, false]);
  const all = [];
  for await (const model of client.models.list()) all.push(model.id);
  assert.deepEqual(all, [name]);
  for (const rest of [{ after_id: name }, { before_id: name }]) {
    const { data, first_id, last_id, has_more } = await client.models.list(rest);
    assert.deepEqual({ data, first_id, last_id, has_more }, { data: [], first_id: null, last_id: null, has_more: false });
  }
  assert.deepEqual(await client.models.retrieve(name), page.data[0]);
  await assert.rejects(client.models.retrieve('claude-9'), Anthropic.NotFoundError);
  await assert.rejects(client.models.list({ after_id: 'claude-9' }), Anthropic.NotFoundError);
  await assert.rejects(client.models.list({ limit: 1001 }), Anthropic.BadRequestError);
  assert.equal((await (await fetch(`${server.url}/v1/models`)).json()).object, 'list');  // others get OpenAI's
});

test('what is not there has an error in Anthropic\'s shape', async () => {
  for (const [method, route, status, type, headers] of [
    ['POST', '/v1/messages/batches', 404, 'not_found_error'],
    ['GET', '/v1/messages', 405, 'invalid_request_error'],
    ['GET', '/v1/messages/count_tokens', 405, 'invalid_request_error'],
    ['GET', '/v1/files', 404, 'not_found_error', { 'anthropic-version': '2023-06-01' }],
  ]) {
    const reply = await fetch(server.url + route, { method, headers });
    assert.equal(reply.status, status);
    const { type: kind, error } = await reply.json();
    assert.deepEqual([kind, error.type], ['error', type]);
    assert.match(error.message, new RegExp(route));
  }
  for (const route of ['/v1/messagesandmore', '/v1/files']) {
    assert.equal((await (await fetch(server.url + route)).json()).error.type, 'invalid_request_error');
  }
});

test('every answer has a request id that the client shows', async () => {
  const ids = [];
  const ok = await ask();
  ids.push(ok._request_id);
  ids.push((await client.models.list())._request_id ?? (await client.models.list().withResponse()).request_id);
  ids.push((await client.messages.countTokens({ model: name, messages }))._request_id);
  const { request_id, data } = await client.messages.create({ model: name, messages, max_tokens: 2, stream: true }).withResponse();
  for await (const event of data) assert.ok(event.type);
  ids.push(request_id);
  ids.push((await ask({ max_tokens: undefined }).catch((error) => error)).requestID);
  for (const id of ids) assert.match(id, /^req_[0-9a-f]{32}$/);
  assert.equal(new Set(ids).size, ids.length);
});

test('an aborted stream frees its pages', async () => {
  const stats = async () => (await fetch(`${server.url}/stats`)).json();
  const { cancelled_requests: before } = await stats();
  const stream = client.messages.stream({ model: name, messages, max_tokens: 3000, stop_sequences: ['never this'], ignore_eos: true });
  stream.on('text', () => stream.abort());
  await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
  let now;
  for (let i = 0; i < 100; ++i) {
    now = await stats();
    if (now.active_requests === 0 && now.pages_used === 0) break;
    await sleep(50);
  }
  assert.equal(now.active_requests, 0);
  assert.equal(now.pages_used, 0);
  assert.ok(now.cancelled_requests >= before + 1);
});

test('fields that Anthropic\'s clients cannot leave out are taken, under any model\'s name', async () => {
  const taken = await ask({ model: 'claude-haiku-5-5', max_tokens: 4, thinking: { type: 'adaptive', display: 'updates' }, frobnicate: 1, warnings: true,
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }, { type: 'clear_tool_uses_20250919' }] },
    output_config: { effort: 'high', format: { type: 'json_schema', schema: { type: 'object' } } } });
  assert.equal(taken.model, name);
  for (const field of ['thinking.display', 'context_management.edits[1]', 'frobnicate'])
    assert.ok(taken.warnings.some((warning) => warning.startsWith(`${field} `)), `${field}: ${taken.warnings}`);
  await logged(server, /requests for the model "claude-haiku-5-5" are answered by/);
  await logged(server, /frobnicate is not a field that this endpoint knows/);
  const thread = await ask({ thread: { type: 'create' } }).catch((error) => error);
  assert.deepEqual(thread.error.error.details, { error_code: 'thread_unsupported_request', unsupported: ['thread'] });
  await assert.rejects(client.models.retrieve('claude-haiku-5-5'), Anthropic.NotFoundError);
});

test('errors arrive as the client\'s own classes, with what is wrong', async () => {
  const rejects = (more, kind, type, pattern) =>
    assert.rejects(ask(more), (error) => {
      assert.ok(error instanceof kind, `${error.constructor.name}: ${error.message}`);
      assert.equal(error.error.type, 'error');
      assert.equal(error.error.error.type, type);
      assert.match(error.error.error.message, pattern);
      return true;
    });
  const bad = (more, pattern) => rejects(more, Anthropic.BadRequestError, 'invalid_request_error', pattern);
  await bad({ max_tokens: undefined }, /^max_tokens is missing/);
  await bad({ messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'url', url: 'x' } }] }] },
    /^messages\[0\]\.content\[0\]\.type is not supported: Could not process image/);
  await bad({ tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, /^tools\[0\]\.type is not supported/);
  await bad({ tool_choice: { type: 'any' } }, /^tool_choice\.type/);
  await bad({ messages: [{ role: 'user', content: 'word '.repeat(9000) }] }, /^prompt is too long: \d{4,} tokens > 4096 maximum$/);
  const reply = await server.post('/v1/messages', '{"messages": ');
  assert.equal(reply.status, 400);
  assert.equal((await reply.json()).error.type, 'invalid_request_error');
});
