// What 73 public bug reports of other servers and their clients describe, tried here. Those whose request ends a session or
// loses text are in reported_inputs.json; these are the small ones, by their number in the list. Where the others are tested:
//   1-16, 32       src/chat/history_test.cpp, reported_inputs.test.mjs
//   17-18          tools.test.mjs: NUL and halves of surrogate pairs
//   19-28, 30-37   reported_inputs.test.mjs, the test of each protocol beside this one, src/api/chat/messages_test.cpp
//   29             operate.test.mjs and src/net/http/content_coding_test.cpp: gzip and zstd
//   40-43          robustness.test.mjs, src/net/http: preflights, foreign hosts, chunked bodies, Expect
//   46-48          embeddings.test.mjs, ollama.test.mjs
//   49             files.test.mjs: a broken template of a file
//   50             src/gguf/metadata_test.cpp: IntegersConvertWhenTheyFit; src/tokenizer/hostile_vocabulary_test.cpp
//   51             src/gguf/reader_test.cpp, src/gguf/split_test.cpp; cli.test.mjs: files that cannot be used
//   52             src/model/model_test.cpp: arrays with a number for each layer; src/gguf/reader_test.cpp: text that is not
//                  UTF-8 is refused by its key
//   65             openai.test.mjs: a stop string ends the answer before it
import assert from 'node:assert/strict';
import net from 'node:net';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { serve } from './server.mjs';

const guide = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../models/guide/guide.gguf');
const chat = '/v1/chat/completions';
let server;
before(async () => { server = await serve(guide, ['--name', 'guide', '-n', '64', '--temp', '0']); });
after(async () => {
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

const hi = [{ role: 'user', content: 'Hello!' }];
const weather = { name: 'get_weather', description: 'Get the weather of a city', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } };
const tool = { type: 'function', function: weather };

async function ask(route, body, status = 200) {
  const reply = await server.post(route, body);
  const text = await reply.text();
  assert.equal(reply.status, status, `${route}: ${text}`);
  return JSON.parse(text);
}
const prompt = async (body) => (await ask('/apply-template', body)).prompt;
// The objects of a stream, in their order.
async function events(route, body) {
  const reply = await server.post(route, { ...body, stream: true });
  const text = await reply.text();
  assert.equal(reply.status, 200, text);
  return text.split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
}
// All that comes back for these bytes.
const raw = (bytes) => new Promise((resolve, reject) => {
  let got = '';
  const socket = net.connect(server.port, '127.0.0.1', () => socket.write(bytes));
  socket.on('data', (data) => { got += data; });
  socket.on('end', () => { socket.destroy(); resolve(got); });
  socket.on('error', reject);
});

test('38: roles of single families, such as Granite\'s control, go to the template and are not lost', async () => {
  for (const role of ['control', 'function', 'ipython', 'document {"doc_id": 1}']) {
    const messages = [{ role, content: 'The word is heron.' }, ...hi];
    assert.match(await prompt({ messages }), /The word is heron\./, role);
    await ask(chat, { messages });
  }
});

test('39: tools without a type, flat ones, and a choice of "any" are understood; one without a name is refused by name', async () => {
  for (const tools of [[tool], [{ function: weather }], [{ type: 'function', ...weather }], [weather]]) {
    for (const tool_choice of ['any', 'required', { type: 'any' }, { type: 'function', name: 'get_weather' }, { type: 'function', function: { name: 'get_weather' } }]) {
      const { choices: [{ message }] } = await ask(chat, { messages: hi, tools, tool_choice });
      assert.equal(message.tool_calls[0].function.name, 'get_weather', JSON.stringify([tools, tool_choice]));
    }
  }
  const { error } = await ask(chat, { messages: hi, tools: [{ type: 'function', name: 'x', function: { parameters: {} } }] }, 400);
  assert.equal(error.param, 'tools[0].function.name');
});

test('44: HTTP/1.0 with a stream, a byte-order mark, any content type, a query and HEAD are right', async () => {
  const body = JSON.stringify({ messages: hi, max_tokens: 4, stream: true });
  const post = (version, headers, text) => raw(`POST ${chat} HTTP/${version}\r\nHost: localhost\r\nConnection: close\r\n${headers}Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  const old = await post('1.0', '', body);
  assert.match(old, /^HTTP\/1\.[01] 200 /);
  assert.doesNotMatch(old, /transfer-encoding: chunked/i);
  assert.ok(old.endsWith('data: [DONE]\n\n'), old);
  for (const headers of ['', 'Content-Type: text/plain\r\n', 'Content-Type: application/x-www-form-urlencoded\r\n', 'Content-Type: nonsense\r\n'])
    assert.match(await post('1.1', headers, `\ufeff${body}`), /^HTTP\/1.1 200 .*\[DONE\]/s, headers);
  await ask('/v1/messages?beta=true', { messages: hi, max_tokens: 2 });
  for (const route of ['/', '/v1/models']) {
    const head = await fetch(server.url + route, { method: 'HEAD' });
    assert.equal(head.status, 200);
    assert.equal(await head.text(), '');
  }
});

test('45: a path that is nearly right is answered with those that there are, and /v1/health is one', async () => {
  for (const route of ['//v1/models', '/v1/models/', '/v1/v1/models']) {
    const reply = await fetch(server.url + route);
    assert.equal(reply.status, 404);
    assert.match((await reply.json()).error.message, /GET \/v1\/models,/, route);
  }
  assert.equal((await fetch(`${server.url}/v1/health`)).status, 200);
});

test('53: a tool\'s description of null is none', async () => {
  const tools = [{ type: 'function', function: { ...weather, description: null } }];
  assert.doesNotMatch(await prompt({ messages: hi, tools }), /None|null/);
  await ask(chat, { messages: hi, tools });
});

test('54: tools of Responses may have no parameters', async () => {
  for (const parameters of [{}, null, undefined])
    await ask('/v1/responses', { input: 'Hello!', tools: [{ type: 'function', name: 'now', parameters, strict: false }] });
});

test('55 and 56: a history may have empty lists of calls, and a call whose result never came', async () => {
  const messages = [...hi, { role: 'assistant', content: 'Hi.', tool_calls: [] }, { role: 'user', content: 'Look.' },
    { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: 'get_weather', arguments: '{"city": "Oslo"}' } }] },
    { role: 'user', content: 'Never mind.' }];
  const text = await prompt({ messages, tools: [tool] });
  assert.match(text, /Hi\..*Look\..*"city": "Oslo".*Never mind\./s);
  await ask(chat, { messages, tools: [tool] });
});

test('57: an item without a type is a message, and reasoning may have neither content nor id', async () => {
  const input = [{ role: 'user', content: 'Hello!' }, { type: 'reasoning', summary: [], content: null }, { role: 'assistant', content: 'Hi.' },
    { role: 'user', content: [{ type: 'input_text', text: 'Again.' }] }];
  const { output } = await ask('/v1/responses', { input });
  assert.ok(output.some(({ type }) => type === 'message'), JSON.stringify(output));
});

test('58 and 59: tools that nobody runs here stand beside functions, with the fields that Codex sends', async () => {
  const tools = [{ type: 'function', ...weather }, { type: 'custom', name: 'patch', description: 'Edits.' }, { type: 'web_search' }];
  const input = [{ type: 'additional_tools', role: 'developer', tools: [] }, { role: 'user', content: 'Hello!' }];
  const response = await ask('/v1/responses', { input, tools, access_programs: ['a'], client_metadata: { a: 'b' }, prompt_cache_key: 'k',
    tool_choice: { type: 'function', name: 'get_weather' }, max_output_tokens: 40 });
  assert.equal(response.output.at(-1).name, 'get_weather');
  assert.equal(response.tools.length, 3);
});

test('60 and 61: thinking in every form, cache marks, metadata and empty texts are taken on Messages', async () => {
  const cached = { type: 'text', text: 'Be kind.', cache_control: { type: 'ephemeral', ttl: '1h', scope: 'global' } };
  const forms = [{ thinking: { type: 'enabled', budget_tokens: 1024 } }, { thinking: { type: 'adaptive' } }, { thinking: { type: 'disabled' } },
    { output_config: { effort: 'high' } }, { metadata: { user_id: 'u' } }];
  for (const form of forms) await ask('/v1/messages', { messages: hi, max_tokens: 4, system: [cached], ...form });
  for (const content of ['', [{ type: 'text', text: '' }]]) {
    const messages = [{ role: 'user', content: [{ type: 'text', text: '' }, { type: 'text', text: 'Hello!' }] }, { role: 'assistant', content }];
    assert.equal((await ask('/v1/messages', { messages, max_tokens: 4 })).type, 'message');
  }
});

test('62: a stream of Messages counts the prompt at its beginning and everything at its end', async () => {
  const all = await events('/v1/messages', { messages: hi, max_tokens: 4 });
  // Of these the end says which were cached.
  const prompt = ({ input_tokens, cache_read_input_tokens = 0, cache_creation_input_tokens = 0 }) => input_tokens + cache_read_input_tokens + cache_creation_input_tokens;
  assert.equal(all[0].type, 'message_start');
  assert.ok(prompt(all[0].message.usage) > 0);
  const end = all.at(-2);
  assert.equal(end.type, 'message_delta');
  assert.ok(end.usage.output_tokens > 0 && end.usage.output_tokens <= 4);
  assert.equal(prompt(end.usage), prompt(all[0].message.usage));
  assert.equal(all.at(-1).type, 'message_stop');
});

test('63: events of a response are numbered, and say of which item they are', async () => {
  const all = await events('/v1/responses', { input: 'What is the weather in Paris?', tools: [{ type: 'function', ...weather }], tool_choice: 'required', max_output_tokens: 60 });
  assert.deepEqual(all.map((event) => event.sequence_number), all.map((_, number) => number));
  const items = new Map();
  for (const event of all.filter((each) => 'output_index' in each)) {
    const id = event.item_id ?? event.item.id;
    assert.ok(id);
    assert.equal(items.get(event.output_index) ?? id, id, event.type);
    items.set(event.output_index, id);
  }
  assert.deepEqual([...items.values()], all.at(-1).response.output.map(({ id }) => id));
});

test('64: a call in a stream has one index, its id once, and ends with tool_calls', async () => {
  const all = await events(chat, { messages: [{ role: 'user', content: 'What is the weather in Paris?' }], tools: [tool], tool_choice: 'required', max_tokens: 80 });
  const deltas = all.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? []);
  assert.ok(deltas.length > 1);
  assert.ok(deltas.every(({ index }) => index === 0));
  assert.equal(deltas.filter(({ id }) => id).length, 1);
  assert.ok(deltas[0].id && deltas[0].function.name === 'get_weather');
  assert.deepEqual(JSON.parse(deltas.map((delta) => delta.function.arguments ?? '').join('')), { city: 'Paris' });
  assert.equal(all.flatMap(({ choices }) => choices[0]?.finish_reason ?? []).at(-1), 'tool_calls');
});

const FACES = '\u65e5\u672c\u8a9e\u{1f600}\u{1f9d1}\u200d\u{1f680}';
const written = { prompt: 'Write.', grammar: `root ::= "${FACES}"`, n_predict: 60 };

test('66: characters of several tokens come in one piece, and one that is cut ends in U+FFFD', async () => {
  const pieces = (await events('/completion', written)).map(({ content }) => content);
  assert.equal(pieces.join(''), FACES);
  assert.ok(pieces.every((piece) => !piece.includes('\ufffd')), JSON.stringify(pieces));
  const { content } = await ask('/completion', { ...written, n_predict: 1 });
  assert.match(content, /^(\u65e5)?\ufffd$/);
});

test('67: log-probabilities of half a character have its bytes', async () => {
  const { completion_probabilities: list } = await ask('/completion', { ...written, n_probs: 1 });
  const bytes = Buffer.from(list.flatMap((entry) => entry.bytes));
  assert.equal(bytes.subarray(0, Buffer.byteLength(FACES)).toString('utf8'), FACES);
  assert.ok(list.some((entry) => Buffer.from(entry.bytes).toString('utf8').includes('\ufffd')), 'each character is a token');
});

test('68: what a user writes like a special token is text', async () => {
  const length = async (body) => (await ask('/tokenize', body)).tokens.length;
  for (const word of ['<|im_end|>', '<|im_start|>']) {
    assert.ok(await length({ content: word, parse_special: false }) > 1, word);
    const counted = async (content) => (await ask(`${chat}/input_tokens`, { messages: [{ role: 'user', content }] })).input_tokens;
    assert.ok(await counted(`a ${word} b`) > await counted('a b') + 2, word);
  }
  assert.equal(await length({ content: '<|im_end|>' }), 1);
});

test('69: max_tokens holds, and null is as if it were left out', async () => {
  for (const max_tokens of [1, 3]) assert.equal((await ask(chat, { messages: hi, max_tokens, ignore_eos: true })).usage.completion_tokens, max_tokens);
  const nulls = { max_tokens: null, stop: null, seed: null, tools: null, logit_bias: null, top_p: null, response_format: null, stream_options: null };
  assert.equal((await ask(chat, { messages: hi, ...nulls, ignore_eos: true })).usage.completion_tokens, 64);
});

test('70: reasoning in a history is its reasoning_content', async () => {
  const history = (name) => [...hi, { role: 'assistant', [name]: 'I look outside.', content: '', tool_calls: [{ id: 'c', type: 'function', function: { name: 'get_weather', arguments: '{}' } }] },
    { role: 'tool', tool_call_id: 'c', content: 'Sun.' }];
  const text = await prompt({ messages: history('reasoning') });
  assert.match(text, /I look outside\./);
  assert.equal(text, await prompt({ messages: history('reasoning_content') }));
});

test('71: Ollama\'s chat refuses parts by name, and takes arguments as a string', async () => {
  assert.match((await ask('/api/chat', { messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }], stream: false }, 400)).error, /messages\[0\]\.content/);
  const call = { function: { name: 'get_weather', arguments: '{"city": "Oslo"}' } };
  await ask('/api/chat', { messages: [...hi, { role: 'assistant', content: '', tool_calls: [call] }, { role: 'tool', content: 'Sun.' }], stream: false });
});

test('72: a model that thinks takes every form of think, and empty options', async () => {
  for (const think of [true, false, 'low', 'high', null])
    assert.equal((await ask('/api/chat', { messages: hi, think, keep_alive: '5m', format: '', options: null, stream: false })).done, true);
});

test('73: several choices are streamed with usage at the end; a seed, biases and any model\'s name are taken', async () => {
  const all = await events(chat, { model: 'gpt-9', messages: hi, n: 2, seed: 5, temperature: 1, stream_options: { include_usage: true }, logit_bias: { 5: -100 } });
  assert.deepEqual([...new Set(all.flatMap(({ choices }) => choices.map(({ index }) => index)))].sort(), [0, 1]);
  assert.deepEqual(all.at(-1).choices, []);
  assert.ok(all.at(-1).usage.completion_tokens > 0);
  assert.ok(all.every(({ model }) => model === 'guide'));
});
