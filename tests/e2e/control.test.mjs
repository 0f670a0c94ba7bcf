// Text of others never becomes a control token of the running server: each place is charged for the letters of the name.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fixtures, serve, tiny } from './server.mjs';

let server, control, letters;
const json = async (route, body) => {
  const response = await server.post(route, body);
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return JSON.parse(text);
};
const tokenCount = async (content, parse_special) => (await json('/tokenize', { content, parse_special })).count;

before(async () => {
  server = await serve(tiny);
  control = (await (await fetch(server.url + '/props')).json()).eos_token;
  assert.equal(await tokenCount(control, true), 1);
  letters = await tokenCount(control, false);
  assert.ok(letters > 4, control);
});
after(async () => {
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

const user = (content) => ({ role: 'user', content });
const tool = (description, name = 'f', properties = {}) =>
  ({ type: 'function', function: { name, description, parameters: { type: 'object', properties } } });
const called = (text, id = '1', result = 'r') => [
  user('a'),
  { role: 'assistant', content: 'b', tool_calls: [{ id, type: 'function', function: { name: 'f', arguments: JSON.stringify({ text }) } }] },
  { role: 'tool', tool_call_id: id, content: result }];

// What a text adds to a prompt of /v1/chat/completions.
const chat = {
  'user': (t) => ({ messages: [user(t)] }),
  'system': (t) => ({ messages: [{ role: 'system', content: t }, user('a')] }),
  'assistant history': (t) => ({ messages: [user('a'), { role: 'assistant', content: t }, user('b')] }),
  'text part': (t) => ({ messages: [user([{ type: 'text', text: t }])] }),
  'tool result': (t) => ({ messages: called('x', '1', t) }),
  'call argument': (t) => ({ messages: called(t) }),
  'tool description': (t) => ({ messages: [user('a')], tools: [tool(t)] }),
  'schema key': (t) => ({ messages: [user('a')], tools: [tool('d', 'f', { [t]: { type: 'string' } })] }),
  'schema description': (t) => ({ messages: [user('a')], tools: [tool('d', 'f', { k: { type: 'string', description: t } })] }),
};
for (const [place, make] of Object.entries(chat)) {
  test(`chat, ${place}`, async () => {
    const tokens = async (text) => (await json('/v1/chat/completions', { ...make(text), max_tokens: 1 })).usage.prompt_tokens;
    const added = (await tokens(`x${control}`)) - (await tokens('x'));
    assert.ok(added >= letters - 1 && added <= letters + 1, `${added} tokens for ${control}, which has ${letters} as text`);
  });
}

test('a control token is no name of a tool, and so no beginning of an answer', async () => {
  const name = `x${control}`;
  const bodies = [{}, { tool_choice: { type: 'function', function: { name } } }];
  for (const fields of bodies) {
    const response = await server.post('/v1/chat/completions', { messages: [user('a')], tools: [tool('d', name)], ...fields });
    assert.equal(response.status, 400);
    assert.match((await response.json()).error.message, /tools\[0\]\.function\.name may have no quotes, backslashes, angle brackets/);
  }
});

const messages = {
  'system': (t) => ({ system: t, messages: [user('a')] }),
  'the beginning of the answer': (t) => ({ messages: [user('a'), { role: 'assistant', content: t }] }),
  'tool result': (t) => ({ messages: [user('a'),
    { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }] },
    user([{ type: 'tool_result', tool_use_id: 'toolu_1', content: t }])] }),
};
for (const [place, make] of Object.entries(messages)) {
  test(`Anthropic, ${place}`, async () => {
    const tokens = async (text) => (await json('/v1/messages/count_tokens', { model: '', ...make(text) })).input_tokens;
    const added = (await tokens(`x${control}`)) - (await tokens('x'));
    assert.ok(added >= letters - 1 && added <= letters + 1, `${added}`);
  });
}

test('a completion parses names of control tokens, as documented', async () => {
  const tokens = async (prompt) => (await json('/v1/completions', { prompt, max_tokens: 1 })).usage.prompt_tokens;
  assert.equal((await tokens(`x${control}`)) - (await tokens('x')), 1);
});

test('an input of embeddings', async () => {
  const tokens = async (input) => (await json('/v1/embeddings', { input })).usage.prompt_tokens;
  const added = (await tokens(`x${control}`)) - (await tokens('x'));
  assert.ok(added >= letters - 1, `${added}`);
});

test('queries and documents in the template of a decoder that ranks', async (t) => {
  const ranker = await serve(path.join(fixtures, 'converted', 'qwen3-reranker.gguf'));
  t.after(() => ranker.stop());
  const post = async (route, body) => (await ranker.post(route, body)).json();
  const name = '<mask>';  // a control token of its small vocabulary
  assert.deepEqual((await post('/tokenize', { content: name })).tokens, [3]);
  const { tokens: letters } = await post('/tokenize', { content: name, parse_special: false });
  const tokens = async (query, document) => (await post('/v1/rerank', { query, documents: [document] })).usage.prompt_tokens;
  const bare = await tokens('x', 'x');
  for (const [query, document] of [['x' + name, 'x'], ['x', 'x' + name]]) {
    const added = (await tokens(query, document)) - bare;
    assert.ok(letters.length > 2 && added >= letters.length - 1, `${added} of ${letters.length}`);
  }
});
