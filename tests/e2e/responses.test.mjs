// The real `openai` client speaks /v1/responses with the real server, with and without --store.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import OpenAI, { BadRequestError, NotFoundError } from 'openai';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { cairn, logged, serve, story, storyTrainedFor } from './server.mjs';

const name = 'story';
const clientOf = (server, apiKey = 'key') => new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
const tools = [{
  type: 'function', name: 'get_weather', description: 'Weather of a place.', strict: false,
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}];
const input = 'Tell me a story.';
const bytesOf = (value) => JSON.stringify(value);

// Raw events of a stream: name, data. Names and numbers are checked.
function eventsOf(text) {
  return text.split('\n\n').filter((event) => event && !event.startsWith(':')).map((event, number) => {
    const [, type, data] = event.match(/^event: (\S+)\ndata: (.*)$/);
    const parsed = JSON.parse(data);
    assert.equal(parsed.type, type);
    assert.equal(parsed.sequence_number, number);
    return parsed;
  });
}
const namesOf = (events) => events.map(({ type }) => type.replace('response.', ''));
// Without what comes several times in a row.
const squeezed = (names) => names.filter((name, i) => name !== names[i - 1]);

describe('recent responses are kept in memory', () => {
  let server, client;
  before(async () => {
    server = await serve(storyTrainedFor(4096), ['--name', name]);
    client = clientOf(server);
  });
  after(async () => {
    const end = await server.stop();
    assert.equal(end.code, 0, end.log);
  });
  const ask = (more) => client.responses.create({ model: name, input, max_output_tokens: 16, temperature: 0, ...more });

  test('a response has output, usage and why it is incomplete', async () => {
    const response = await ask({ instructions: 'You tell stories.', metadata: { purpose: 'test' } });
    assert.match(response.id, /^resp_/);
    assert.equal(response.object, 'response');
    assert.equal(response.model, name);
    assert.equal(response.status, 'incomplete');
    assert.deepEqual(response.incomplete_details, { reason: 'max_output_tokens' });
    assert.equal(response.error, null);
    assert.deepEqual(response.output.map(({ type }) => type), ['message']);
    assert.match(response.output[0].id, /^msg_/);
    assert.ok(response.output_text.length > 0);
    assert.equal(response.usage.output_tokens, 16);
    assert.equal(response.usage.total_tokens, response.usage.input_tokens + 16);
    assert.equal(response.store, true);
    assert.equal(response.instructions, 'You tell stories.');
    assert.deepEqual(response.metadata, { purpose: 'test' });
    assert.equal(response.timings.predicted_n, 16);
    // The words of a chat with the same messages.
    const chat = await client.chat.completions.create({
      model: name, max_tokens: 16, temperature: 0,
      messages: [{ role: 'system', content: 'You tell stories.' }, { role: 'user', content: input }],
    });
    assert.equal(response.output_text, chat.choices[0].message.content);
  });

  test('a stream gives the same response, in events of the documented order', async () => {
    const whole = await ask({ max_output_tokens: 40 });
    const stream = client.responses.stream({ model: name, input, max_output_tokens: 40, temperature: 0 });
    let text = '';
    stream.on('response.output_text.delta', ({ delta }) => { text += delta; });
    const response = await stream.finalResponse();
    assert.equal(text, whole.output_text);
    assert.equal(response.output_text, whole.output_text);
    assert.equal(response.status, whole.status);
    assert.equal(response.usage.output_tokens, whole.usage.output_tokens);

    const reply = await server.post('/v1/responses', { input, max_output_tokens: 8, temperature: 0, stream: true });
    assert.match(reply.headers.get('content-type'), /text\/event-stream/);
    const events = eventsOf(await reply.text());
    assert.deepEqual(squeezed(namesOf(events)), [
      'created', 'in_progress', 'output_item.added', 'content_part.added', 'output_text.delta', 'output_text.done',
      'content_part.done', 'output_item.done', 'incomplete']);
    assert.equal(events[0].response.status, 'in_progress');
    assert.deepEqual(events.at(-1).response.output, [events.at(-2).item]);
  });

  test('log-probabilities come with the text', async () => {
    const whole = await ask({ top_logprobs: 2, include: ['message.output_text.logprobs'] });
    assert.equal(whole.top_logprobs, 2);
    const [{ logprobs, text }] = whole.output[0].content;
    assert.equal(logprobs.length, 16);
    assert.equal(logprobs.map(({ token }) => token).join('').trim(), text.trim());
    for (const { token, logprob, bytes, top_logprobs } of logprobs) {
      assert.deepEqual(bytes, [...Buffer.from(token)]);
      assert.equal(top_logprobs.length, 2);
      assert.equal(top_logprobs[0].token, token);  // temperature 0 takes the most likely
      assert.ok(logprob <= 0 && logprob === top_logprobs[0].logprob && logprob >= top_logprobs[1].logprob);
    }
    const chat = await client.chat.completions.create({
      model: name, max_tokens: 16, temperature: 0, logprobs: true, top_logprobs: 2, messages: [{ role: 'user', content: input }],
    });
    assert.deepEqual(logprobs, chat.choices[0].logprobs.content);

    const stream = client.responses.stream({ model: name, input, max_output_tokens: 16, temperature: 0, top_logprobs: 2 });
    const told = [];
    let done;
    stream.on('response.output_text.delta', ({ delta, logprobs }) => {
      assert.equal(logprobs.map(({ token }) => token).join('').trim(), delta.trim());
      told.push(...logprobs);
    });
    stream.on('event', (event) => { if (event.type === 'response.output_text.done') done = event; });
    const response = await stream.finalResponse();
    assert.deepEqual(told, logprobs);
    assert.deepEqual(done.logprobs, logprobs);
    assert.deepEqual(response.output[0].content[0].logprobs, logprobs);

    const bare = await ask({ include: ['message.output_text.logprobs'] });
    assert.deepEqual(bare.output[0].content[0].logprobs, logprobs.map((entry) => ({ ...entry, top_logprobs: [] })));
    assert.deepEqual((await ask()).output[0].content[0].logprobs, []);
  });

  test('a forced function is called, and its output goes back', async () => {
    const call = { tools, tool_choice: { type: 'function', name: 'get_weather' }, max_output_tokens: 24 };
    const called = await ask(call);
    const item = called.output.find(({ type }) => type === 'function_call');
    assert.equal(item.name, 'get_weather');
    assert.match(item.id, /^fc_/);
    // The arguments follow the tool's schema.
    JSON.parse(item.arguments);
    assert.deepEqual(called.tools, tools);

    const stream = client.responses.stream({ model: name, input, temperature: 0, ...call });
    let told = '';
    stream.on('response.function_call_arguments.delta', ({ delta }) => { told += delta; });
    const streamed = (await stream.finalResponse()).output.find(({ type }) => type === 'function_call');
    assert.equal(told, streamed.arguments);
    assert.equal(streamed.arguments, item.arguments);

    const next = await ask({
      tools,
      input: [{ role: 'user', content: input }, ...called.output,
        { type: 'function_call_output', call_id: item.call_id, output: '{"degrees": 21}' },
        { role: 'user', content: 'And tomorrow?' }],
    });
    assert.equal(next.output[0].type, 'message');
    assert.ok(next.usage.input_tokens > called.usage.input_tokens);
  });

  test('a whole conversation sent again finds what was computed', async () => {
    const system = 'You tell stories about a little dog who lived in a big house near the sea. '.repeat(20);
    const items = [{ role: 'developer', content: [{ type: 'input_text', text: system }] }];
    let last;
    for (const question of ['What did the dog do?', 'And then?', 'And in the evening?']) {
      items.push({ type: 'message', role: 'user', content: [{ type: 'input_text', text: question }] });
      const now = await ask({ input: items, store: false, include: ['reasoning.encrypted_content'] });
      if (last) assert.ok(now.usage.input_tokens_details.cached_tokens >= 0.99 * last.usage.input_tokens, bytesOf(now.usage));
      items.push(...now.output);
      last = now;
    }
  });

  test("what Codex sends is taken, with tools that nobody runs here", async () => {
    const stream = await client.responses.create({
      model: name,
      instructions: 'You are a coding agent.',
      input: [
        { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Sandbox: read-only.' }] },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'List the files.' }] },
        { type: 'reasoning', summary: [], content: null, encrypted_content: 'gAAAAA' },
        { type: 'function_call', name: 'shell', arguments: '{"command":["ls"]}', call_id: 'call_1' },
        { type: 'function_call_output', call_id: 'call_1', output: 'a.txt' },
        { type: 'web_search_call', status: 'completed', action: { type: 'search', query: 'a' } },
        { type: 'custom_tool_call', call_id: 'call_2', name: 'apply_patch', input: '*** Begin Patch' },
        { type: 'custom_tool_call_output', call_id: 'call_2', output: 'done' },
      ],
      tools: [
        { type: 'function', name: 'shell', description: 'Runs a command.', strict: false,
          parameters: { type: 'object', properties: { command: { type: 'array', items: { type: 'string' } } }, required: ['command'] } },
        { type: 'local_shell' }, { type: 'web_search', external_web_access: false },
        { type: 'custom', name: 'apply_patch', description: 'Edits files.', format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' } },
      ],
      tool_choice: 'auto', parallel_tool_calls: false, reasoning: { effort: 'low', summary: 'auto' }, store: false,
      stream: true, include: ['reasoning.encrypted_content'], prompt_cache_key: 'a', client_metadata: { 'x-id': 'a' },
      max_output_tokens: 12,
    });
    const names = [];
    for await (const event of stream) names.push(event.type);
    assert.equal(names[0], 'response.created');
    assert.match(names.at(-1), /^response\.(in)?complete/);  // as the dice fall
    await logged(server, /left out what this server does not run: local_shell, web_search, web_search_call/);
  });

  test('a conversation goes on by ids, without a file', async () => {
    const first = await ask();
    const second = await ask({ previous_response_id: first.id, input: 'And then?' });
    // As the AI SDK sends the next step.
    const referring = await ask({
      input: [{ role: 'user', content: input }, ...first.output.map(({ id }) => ({ type: 'item_reference', id })),
        { role: 'user', content: 'And then?' }],
    });
    const whole = await ask({ input: [{ role: 'user', content: input }, ...first.output, { role: 'user', content: 'And then?' }], store: false });
    assert.equal(second.output_text, whole.output_text);
    assert.equal(referring.output_text, whole.output_text);
    assert.equal(second.usage.input_tokens, whole.usage.input_tokens);
    assert.equal(whole.store, false);
    assert.equal((await client.responses.retrieve(first.id)).output_text, first.output_text);
    // Neither of another key, nor what was not to be stored, nor what was deleted.
    await assert.rejects(clientOf(server, 'other').responses.retrieve(first.id), NotFoundError);
    await assert.rejects(client.responses.retrieve(whole.id), NotFoundError);
    await assert.rejects(ask({ input: [{ type: 'item_reference', id: whole.output[0].id }] }), NotFoundError);
    await client.responses.delete(first.id);
    await assert.rejects(ask({ previous_response_id: first.id }), NotFoundError);
  });

  test('tokens are counted, and a conversation is compacted', async () => {
    const first = await ask({ instructions: 'You tell stories.' });
    assert.deepEqual(await client.responses.inputTokens.count({ model: name, input, instructions: 'You tell stories.' }),
      { object: 'response.input_tokens', input_tokens: first.usage.input_tokens });
    for (const path of ['/v1/chat/completions/input_tokens', '/chat/completions/input_tokens']) {
      const reply = await server.post(path, { messages: [{ role: 'system', content: 'You tell stories.' }, { role: 'user', content: input }] });
      assert.deepEqual(await reply.json(), { input_tokens: first.usage.input_tokens });
    }
    const compacted = await client.responses.compact({ model: name, previous_response_id: first.id });
    assert.equal(compacted.object, 'response.compaction');
    assert.equal(compacted.output[0].content[0].text, input);
    assert.match(compacted.output.at(-1).encrypted_content, /^cairn-summary:/);
    assert.ok(compacted.usage.input_tokens > first.usage.input_tokens);
    const next = await ask({ input: [...compacted.output, { role: 'user', content: 'And then?' }] });
    assert.ok(next.usage.input_tokens > 16);
  });

  test('a tool of a namespace is called by both names', async () => {
    const request = {
      tools: [{ type: 'namespace', name: 'mcp__note', description: 'Notes', tools: [{ ...tools[0], name: 'add' }] }],
      tool_choice: { type: 'function', namespace: 'mcp__note', name: 'add' }, max_output_tokens: 24,
    };
    const called = await ask(request);
    const item = called.output.find(({ type }) => type === 'function_call');
    assert.equal(item.namespace, 'mcp__note');
    assert.equal(item.name, 'add');
    const next = await ask({ ...request, tool_choice: 'auto', previous_response_id: called.id,
      input: [{ type: 'function_call_output', call_id: item.call_id,
        output: [{ type: 'input_text', text: 'added' }, { type: 'input_image', image_url: 'data:image/png;base64,iVBORw0KGgo=' }] }] });
    assert.ok(next.output.length > 0);
    await logged(server, /left out what this server does not run: input_image/);
  });

  test('a custom tool is called with text', async () => {
    const stream = client.responses.stream({ model: name, input, temperature: 0, max_output_tokens: 24,
      tools: [{ type: 'custom', name: 'apply_patch', description: 'Edits files.' }], tool_choice: { type: 'custom', name: 'apply_patch' } });
    let told = '';
    stream.on('event', (event) => { if (event.type === 'response.custom_tool_call_input.delta') told += event.delta; });
    const item = (await stream.finalResponse()).output.find(({ type }) => type === 'custom_tool_call');
    assert.equal(item.name, 'apply_patch');
    assert.match(item.id, /^ctc_/);
    assert.equal(item.input, told);
  });

  test('a response that runs can be cancelled, by its owner', async () => {
    const stream = await client.responses.create({ model: name, input, max_output_tokens: 3000, ignore_eos: true, stream: true });
    const events = [];
    let cancelled, stranger;
    for await (const event of stream) {
      events.push(event);
      if (events.length !== 8) continue;
      stranger = await clientOf(server, 'other').responses.cancel(events[0].response.id).catch((error) => error);
      cancelled = await client.responses.cancel(events[0].response.id);
    }
    assert.ok(stranger instanceof NotFoundError);
    assert.equal(cancelled.status, 'cancelled');
    assert.equal(cancelled.output[0].status, 'incomplete');
    assert.deepEqual(namesOf(events).slice(-4), ['output_text.done', 'content_part.done', 'output_item.done', 'incomplete']);
    assert.deepEqual(events.at(-1).response.output, cancelled.output);
    assert.ok(events.length < 2000, `${events.length} events`);
    for (let i = 0; i < 50; ++i) {
      if ((await (await fetch(`${server.url}/stats`)).json()).active_requests === 0) return;
      await sleep(20);
    }
    assert.fail('it still runs');
  });

  test('errors name the field', async () => {
    for (const [more, at, words] of [
      [{ background: true }, 'background', /not supported/],
      [{ input: [{ type: 'message', role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] }, 'input[0].content[0].type', /input_image/],
      [{ store: 'yes' }, 'store', /true or false/],
      [{ top_logprobs: 1001 }, 'top_logprobs', /from 0 to 1000/],
      [{ text: { format: { type: 'xml' } } }, 'text.format.type', /must be text, json_object or json_schema/],
    ]) {
      const error = await ask(more).catch((caught) => caught);
      assert.ok(error instanceof BadRequestError, bytesOf(more));
      assert.equal(error.param, at);
      assert.match(error.message, words);
    }
    const gone = await client.responses.retrieve('resp_1').catch((caught) => caught);
    assert.ok(gone instanceof NotFoundError);
    assert.match(gone.message, /without --store only recent ones/);
    assert.equal((await fetch(`${server.url}/v1/responses/resp_1/cancel`)).status, 405);
    assert.equal((await fetch(`${server.url}/v1/responses/resp_1/other`)).status, 404);
  });
});

describe('responses are stored', () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-responses-'));
  process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
  const file = path.join(folder, 'responses.db');
  const model = storyTrainedFor(4096);
  let server, client;
  const start = async () => {
    server = await serve(model, ['--name', name, '--store', file]);
    client = clientOf(server);
  };
  before(start);
  after(async () => {
    const end = await server.stop();
    assert.equal(end.code, 0, end.log);
  });
  const ask = (more) => client.responses.create({ model: name, input, max_output_tokens: 16, temperature: 0, ...more });

  test('a conversation goes on by id, also after kill -9', async () => {
    const first = await ask({ instructions: 'You tell stories.' });
    assert.equal(first.store, true);
    process.kill(server.pid, 'SIGKILL');
    while (server.alive()) await sleep(10);
    await start();
    assert.equal(bytesOf(await client.responses.retrieve(first.id)), bytesOf(first));
    const second = await ask({ previous_response_id: first.id, input: 'And then?' });
    assert.equal(second.previous_response_id, first.id);
    const third = await ask({ previous_response_id: second.id, input: [{ role: 'user', content: 'And then?' }] });
    // The same as all of it sent at once; instructions belong to one response.
    const whole = await ask({
      store: false,
      input: [{ role: 'user', content: input }, ...first.output, { role: 'user', content: 'And then?' }, ...second.output,
        { role: 'user', content: 'And then?' }],
    });
    assert.equal(third.output_text, whole.output_text);
    assert.equal(third.usage.input_tokens, whole.usage.input_tokens);
    assert.equal(whole.store, false);
    await assert.rejects(client.responses.retrieve(whole.id), NotFoundError);
    const referring = await ask({ input: [{ type: 'item_reference', id: first.output[0].id }, { role: 'user', content: 'And?' }] });
    assert.ok(referring.usage.input_tokens > 16);
  });

  test('a stored response is read, listed and deleted by its owner alone', async () => {
    const response = await ask({
      input: [{ role: 'user', content: 'One.' }, { role: 'assistant', content: 'Two.' }, { role: 'user', content: 'Three.' }],
    });
    const stranger = clientOf(server, 'other');
    for (const ask of [
      () => stranger.responses.retrieve(response.id),
      () => stranger.responses.delete(response.id),
      () => stranger.responses.inputItems.list(response.id),
      () => stranger.responses.cancel(response.id),
      () => stranger.responses.create({ model: name, input, previous_response_id: response.id }),
    ]) await assert.rejects(ask, NotFoundError);

    const texts = [];
    for await (const item of client.responses.inputItems.list(response.id, { limit: 2, order: 'asc' })) texts.push(item.content[0].text);
    assert.deepEqual(texts, ['One.', 'Two.', 'Three.']);
    const newest = await client.responses.inputItems.list(response.id, { limit: 1 });
    assert.equal(newest.data[0].content[0].text, 'Three.');
    assert.equal(newest.has_more, true);

    assert.deepEqual((await client.responses.cancel(response.id)).output, response.output);  // it is over
    await client.responses.delete(response.id);
    await assert.rejects(client.responses.retrieve(response.id), NotFoundError);
    await assert.rejects(client.responses.delete(response.id), NotFoundError);
    const error = await ask({ previous_response_id: response.id }).catch((caught) => caught);
    assert.ok(error instanceof NotFoundError);
    assert.equal(error.param, 'previous_response_id');
  });

  test('a cancelled response is stored as such, and one that runs is shown', async () => {
    const stream = await client.responses.create({ model: name, input, max_output_tokens: 3000, ignore_eos: true, stream: true });
    let id, running, refused;
    for await (const event of stream) {
      if (id) continue;
      ({ id } = event.response);
      running = await client.responses.retrieve(id);
      refused = await client.responses.delete(id).catch((caught) => caught);
      await client.responses.cancel(id);
    }
    assert.equal(running.status, 'in_progress');
    assert.ok(refused instanceof BadRequestError);
    assert.equal((await client.responses.retrieve(id)).status, 'cancelled');
  });

  test('a file that is no store is refused in words', () => {
    const other = path.join(folder, 'other.txt');
    fs.writeFileSync(other, 'x'.repeat(10_000));
    const end = cairn(['serve', story, '--port', '0', '--store', other]);
    assert.notEqual(end.status, 0);
    assert.match(end.stderr, /other\.txt is damaged or no store of responses/);
    assert.equal(fs.readFileSync(other, 'utf8'), 'x'.repeat(10_000));
  });
});
