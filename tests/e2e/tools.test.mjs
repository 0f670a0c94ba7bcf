// Tools through the real `openai` client, with a model that knows nothing of them: what the server alone guarantees.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import OpenAI from 'openai';
import { writeScriptedModel } from '../clients/scripted.mjs';
import { logged, serve, storyTrainedFor } from './server.mjs';

let server, client;
before(async () => {
  server = await serve(storyTrainedFor(1024), ['--name', 'stories260K-f32']);
  client = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'none', maxRetries: 0 });
});
after(async () => {
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

const tool = (name) => ({ type: 'function', function: { name, description: 'Reads one.', parameters: { type: 'object', properties: { a: { type: 'integer' } } } } });
const base = { model: 'stories260K-f32', messages: [{ role: 'user', content: 'Hi.' }], tools: [tool('read'), tool('write')], temperature: 0, max_tokens: 24 };
const ask = (more) => client.chat.completions.create({ ...base, ...more });
const named = (name) => ({ type: 'function', function: { name } });

test('a named tool is what the answer begins with', async () => {
  for (const name of ['read', 'write']) {
    const answer = await ask({ tool_choice: named(name) });
    assert.equal(answer.choices[0].message.tool_calls[0].function.name, name);
    assert.match(answer.choices[0].message.tool_calls[0].id, /^call_\w{24}$/);
    // The arguments follow the tool's schema, as far as the tokens last.
    const { arguments: text } = answer.choices[0].message.tool_calls[0].function;
    assert.match(text, /^\{/);
    // What this model writes behind a whole call is a story.
    if (answer.choices[0].message.content) JSON.parse(text);
  }
});

test('a stream has the call\'s header first, and its pieces make the whole answer', async () => {
  const whole = await ask({ tool_choice: named('read') });
  const stream = await ask({ tool_choice: named('read'), stream: true });
  const calls = [];
  let content = '', finish;
  for await (const chunk of stream) {
    const { delta, finish_reason } = chunk.choices[0];
    finish ??= finish_reason ?? undefined;
    content += delta.content ?? '';
    for (const call of delta.tool_calls ?? []) {
      calls[call.index] ??= { name: call.function.name, arguments: '', id: call.id };
      assert.ok(calls[call.index].id);
      calls[call.index].arguments += call.function.arguments ?? '';
    }
  }
  const message = whole.choices[0].message;
  assert.deepEqual(calls.map(({ name, arguments: text }) => ({ name, arguments: text })), message.tool_calls.map((call) => call.function));
  assert.equal(content, message.content ?? '');
  assert.equal(finish, whole.choices[0].finish_reason);
});

test('a required call names a tool', async () => {
  const { message, finish_reason } = (await ask({ tool_choice: 'required' })).choices[0];
  assert.ok(message.tool_calls.length === 1 && ['read', 'write'].includes(message.tool_calls[0].function.name));
  assert.notEqual(finish_reason, 'tool_calls');
  const only = (await ask({ tool_choice: 'required', tools: [tool('read')] })).choices[0].message;
  assert.equal(only.tool_calls[0].function.name, 'read');
});

test('several choices have calls of their own', async () => {
  const answer = await ask({ tool_choice: named('read'), n: 3, temperature: 1, seed: 5 });
  assert.equal(new Set(answer.choices.map((choice) => choice.message.tool_calls[0].id)).size, 3);
});

test('with none no call can begin, whatever the model would like', async () => {
  // Every token that could go on to <tool_call> is as likely as can be.
  const { tokens } = await (await server.post('/tokenize', { content: '<tool_call>', add_special: false })).json();
  const logit_bias = Object.fromEntries(tokens.map((token) => [token, 100]));
  const free = await ask({ logit_bias, tool_choice: 'auto' });
  const none = await ask({ logit_bias, tool_choice: 'none' });
  assert.ok(!none.choices[0].message.tool_calls);
  assert.ok(!none.choices[0].message.content.includes('<tool_call>'));
  assert.equal(free.usage.prompt_tokens, none.usage.prompt_tokens);  // the tools are in both prompts
});

test('a round trip: the result goes back with the call, and what was before it is found', async () => {
  const { usage } = await ask({ max_tokens: 1 });
  const first = await ask({ tool_choice: named('read') });
  const message = first.choices[0].message;
  const result = { role: 'tool', tool_call_id: message.tool_calls[0].id, content: '42' };
  const second = await ask({ messages: [...base.messages, message, result] });
  assert.ok(second.usage.prompt_tokens_details.cached_tokens >= usage.prompt_tokens - 1);
  assert.equal(typeof second.choices[0].message.content, 'string');
});

test('arguments in history that are no JSON do not end the session', async () => {
  const call = { id: 'call_1', type: 'function', function: { name: 'read', arguments: '{"a": ' } };
  const answer = await ask({ messages: [...base.messages, { role: 'assistant', content: null, tool_calls: [call] }, { role: 'tool', tool_call_id: 'call_1', content: 'error' }] });
  assert.equal(answer.choices.length, 1);
  const { prompt } = await (await server.post('/apply-template', { messages: [...base.messages, { role: 'assistant', tool_calls: [call] }] })).json();
  assert.match(prompt, /"arguments": \{"a": \}/);
});

test('thinking: a budget of nothing leaves none, and usage counts it', async () => {
  const answer = await ask({ tools: undefined, thinking_budget: 0 });
  assert.equal(answer.usage.completion_tokens_details.reasoning_tokens, 0);
  assert.equal(answer.choices[0].message.reasoning_content, undefined);
});

test('an assistant\'s turn comes back token for token though its text would be cut into others', async () => {
  const history = [{ role: 'user', content: 'Tell me a story.' }];
  const plain = { tools: undefined, temperature: 1.5, max_tokens: 60, stop: undefined };
  for (let seed = 0; seed < 4; ++seed) {
    const first = await ask({ ...plain, messages: history, seed });
    if (first.choices[0].finish_reason !== 'stop') continue;
    const second = await ask({ ...plain, messages: [...history, first.choices[0].message, { role: 'user', content: 'More.' }], seed });
    // All but the last sampled token, which was not fed.
    assert.ok(second.usage.prompt_tokens_details.cached_tokens >= first.usage.total_tokens - 2);
  }
});

test('NUL and halves of surrogate pairs in what comes in are read as U+FFFD, on every endpoint', async () => {
  const odd = '"a\\u0000b\\ud83d \\ude00c"';
  const mended = 'a\ufffdb\ufffd \ufffdc';
  const rendered = await server.post('/apply-template', `{"messages": [{"role": "user", "content": ${odd}}]}`);
  assert.ok((await rendered.json()).prompt.includes(mended));
  const call = '{"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}';
  const bodies = {
    '/v1/chat/completions': `{"max_tokens": 1, "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [${call}]}, {"role": "tool", "tool_call_id": "c", "content": ${odd}}]}`,
    '/v1/messages': `{"max_tokens": 1, "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "weather", "input": {}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": ${odd}}]}]}`,
    '/v1/responses': `{"max_output_tokens": 1, "input": [{"role": "user", "content": "x"}, {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": ${odd}}]}`,
    '/api/chat': `{"stream": false, "options": {"num_predict": 1}, "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {}}}]}, {"role": "tool", "content": ${odd}}]}`,
    '/api/generate': `{"stream": false, "options": {"num_predict": 1}, "prompt": ${odd}}`,
    '/v1/completions': `{"max_tokens": 1, "prompt": ${odd}}`,
  };
  for (const [path, body] of Object.entries(bodies)) {
    const reply = await server.post(path, body);
    assert.equal(reply.status, 200, `${path}: ${await reply.text()}`);
  }
});

test('bad histories and huge ones are refused by name, and the next request is fine', async () => {
  const post = async (body) => {
    const reply = await server.post('/v1/chat/completions', body);
    const { error } = await reply.json();
    return [reply.status, error?.param, error?.message];
  };
  const deep = '['.repeat(100_000) + ']'.repeat(100_000);
  const cases = [
    [`{"messages": ${deep}}`, null],
    [{ messages: Array(20_000).fill({ role: 'user', content: 'x' }) }, 'messages'],
    [{ ...base, tools: Array.from({ length: 2_000 }, (_, i) => tool(`t${i}`)) }, 'tools'],
    [{ ...base, tools: [tool('a'), tool('a')] }, 'tools[1].function.name'],
    [{ ...base, tool_choice: named('c') }, 'tool_choice.function.name'],
    [{ ...base, tool_choice: 'sometimes' }, 'tool_choice'],
    [{ ...base, parallel_tool_calls: 'no' }, 'parallel_tool_calls'],
    [{ ...base, messages: [{ role: 'assistant', tool_calls: [{ id: 'a', function: { name: 5 } }] }] }, 'messages[0].tool_calls[0].function.name'],
  ];
  for (const [body, param] of cases) {
    const [status, at, message] = await post(body);
    assert.equal(status, 400, message);
    if (param) assert.equal(at, param, message);
  }
  assert.equal((await ask({})).choices.length, 1);
});

test('with --store a call is replayed as it was sampled after kill -9, by its owner alone', async (t) => {
  const guide = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../models/guide/guide.gguf');
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-turns-'));
  let own;
  const start = async () => { own = await serve(guide, ['--store', path.join(folder, 'store.db')]); };
  t.after(async () => {
    if (own?.alive()) await own.stop();
    fs.rmSync(folder, { recursive: true, force: true });
  });
  const request = { model: 'guide', tools: [tool('read')], messages: [{ role: 'user', content: 'Read the file notes.txt.' }] };
  const create = (body, apiKey) => new OpenAI({ baseURL: own.url + '/v1', apiKey, maxRetries: 0 }).chat.completions.create({ ...request, ...body });
  // The prompt in which a turn comes back, its arguments written by the client.
  const usage = async ({ tool_calls: [call], ...message }, apiKey) => {
    const back = { ...call, function: { ...call.function, arguments: JSON.stringify(JSON.parse(call.function.arguments), null, 1) } };
    const messages = [...request.messages, { ...message, tool_calls: [back] }, { role: 'tool', tool_call_id: call.id, content: '42' }];
    return (await create({ messages, max_tokens: 1, temperature: 0 }, apiKey)).usage;
  };
  const count = async (message, apiKey) => (await usage(message, apiKey)).prompt_tokens;

  await start();
  // Calls in tokens that nobody would cut their text into: to a stranger the same call has another number of tokens.
  const kept = [], unkept = [];
  for (let seed = 0; seed < 300 && (kept.length < 2 || unkept.length < 1); ++seed) {
    const store = seed % 3 === 0 ? false : undefined;
    const { message, finish_reason } = (await create({ tool_choice: named('read'), temperature: 1.5 + 0.1 * (seed % 6), seed, max_tokens: 60, store }, 'owner')).choices[0];
    if (finish_reason !== 'tool_calls' || message.tool_calls.length !== 1) continue;
    const turn = { message, sampled: await count(message, 'owner'), rendered: await count(message, 'stranger') };
    if (turn.sampled !== turn.rendered) (store === false ? unkept : kept).push(turn);
  }
  assert.ok(kept.length >= 2 && unkept.length >= 1);

  process.kill(own.pid, 'SIGKILL');
  while (own.alive()) await sleep(10);
  await start();
  assert.equal((await usage(kept[0].message, 'owner')).prompt_tokens_details.cached_tokens, 0);  // all else is gone
  for (const { message, sampled, rendered } of kept) {
    assert.equal(await count(message, 'stranger'), rendered);
    assert.equal(await count(message, 'owner'), sampled);
  }
  for (const { message, rendered } of unkept) assert.equal(await count(message, 'owner'), rendered);
});

// A model that answers by scripts: calls that are cut, broken, or in another dress, in every protocol.
const command = '{"command": "ls -la"}';
const scripts = {
  hello: { text: 'Hello.' },
  summary: { text: 'A summary.' },
  long: { text: 'I write.', calls: [{ name: 'shell', args: { command: 'echo one two three four five six seven eight nine ten' } }] },
  ended: { text: 'I look.\n<tool_call>\n{"name": "shell", "arguments": {"command": "rm -r' },
  broken: { text: 'I try.', calls: [{ name: 'shell', raw: '{"command": "ls -la", "cmd": "ls", broken}' }] },
  fence: { text: 'I look.\n\n```json\n{"name": "shell", "arguments": ' + command + '}\n```' },
  bare: { text: '{"function": "shell", "parameters": ' + command + '}' },
  tags: { text: '<tools> {"name": "shell", "arguments": ' + command + '} </tool' },
  prose: { text: 'It is written so:\n{"name": "shell", "arguments": ' + command + '}\nand then it runs.' },
  other: { text: '```json\n{"name": "shell", "arguments": {"cmd": 5}}\n```' },
};
const schema = { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] };
// Each gives {text, calls: [{name, arguments: JSON as text}], finish}.
const protocols = {
  async chat(scripted, script, stream, more) {
    const tools = [{ type: 'function', function: { name: 'shell', parameters: schema } }];
    const events = await talk(scripted, '/v1/chat/completions', { messages: said(script), tools, stream, ...more });
    const calls = [];
    let text = '', finish;
    for (const { choices: [choice] } of events) {
      const part = choice.delta ?? choice.message;
      text += part.content ?? '';
      finish = choice.finish_reason ?? finish;
      for (const [at, call] of (part.tool_calls ?? []).entries()) {
        const sum = calls[call.index ?? at] ??= { name: call.function.name, arguments: '' };
        sum.arguments += call.function.arguments ?? '';
      }
    }
    return { text, calls, finish };
  },
  async messages(scripted, script, stream, more) {
    const tools = [{ name: 'shell', input_schema: schema }];
    const body = { messages: said(script), tools, stream, max_tokens: 400, ...more };
    const events = await talk(scripted, '/v1/messages', body);
    const blocks = events[0].content ?? [];
    let finish = events[0].stop_reason;
    for (const { type, index, content_block, delta } of events) {
      if (type === 'content_block_start') blocks[index] = { ...content_block, json: '' };
      if (type === 'content_block_delta') {
        blocks[index].text += delta.text ?? '';
        blocks[index].json += delta.partial_json ?? '';
      }
      if (type === 'message_delta') finish = delta.stop_reason;
    }
    const calls = blocks.filter(({ type }) => type === 'tool_use')
      .map(({ name, input, json }) => ({ name, arguments: json ?? JSON.stringify(input).replace('":"', '": "') }));
    return { text: blocks.filter(({ type }) => type === 'text').map(({ text }) => text).join('\n'), calls, finish };
  },
  async responses(scripted, script, stream, { max_tokens, ...more }) {
    const tools = [{ type: 'function', name: 'shell', parameters: schema }];
    const events = await talk(scripted, '/v1/responses', { input: said(script), tools, stream, max_output_tokens: max_tokens, ...more });
    const response = stream ? events.at(-1).response : events[0];
    for (const { type, item } of events) {
      if (type === 'response.output_item.done') assert.deepEqual(item, response.output.find(({ id }) => id === item.id));
    }
    const calls = response.output.filter(({ type }) => type === 'function_call');
    for (const { status, arguments: text } of calls) assert.equal(status, isJson(text) ? 'completed' : 'incomplete');
    const text = response.output.filter(({ type }) => type === 'message').map(({ content: [{ text }] }) => text).join('');
    return { text, calls: calls.map(({ name, arguments: text }) => ({ name, arguments: text })), finish: response.status };
  },
};
const said = (script) => [{ role: 'user', content: `Do it. [script ${script}]` }];
const isJson = (text) => { try { return JSON.parse(text) !== undefined; } catch { return false; } };
async function talk(scripted, route, body) {
  const text = await (await scripted.post(route, { ...body, temperature: 0 })).text();
  if (!body.stream) return [JSON.parse(text)];
  const lines = text.split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
  return lines.filter((line) => !line.choices || line.choices.length > 0);
}

test('calls that are cut, held or in another dress, in every protocol, in a stream and whole', async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-scripted-'));
  const file = path.join(folder, 'scripted.gguf');
  const guide = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../models/guide');
  writeScriptedModel(file, guide, Object.entries(scripts).map(([name, step]) => ({ name, steps: [step] })), 4096);
  const scripted = await serve(file);
  t.after(async () => {
    await scripted.stop();
    fs.rmSync(folder, { recursive: true, force: true });
  });
  const ends = {
    chat: { calls: 'tool_calls', cut: 'length', stop: 'stop' },
    messages: { calls: 'tool_use', cut: 'max_tokens', stop: 'end_turn' },
    responses: { calls: 'completed', cut: 'incomplete', stop: 'completed' },
  };
  for (const [name, ask] of Object.entries(protocols)) {
    for (const stream of [false, true]) {
      const about = `${name}${stream ? ', streamed' : ''}`;
      const whole = async (script, text, more = {}) =>
        assert.deepEqual(await ask(scripted, script, stream, more), { text, calls: [{ name: 'shell', arguments: command }], finish: ends[name].calls }, `${about}: ${script}`);
      // Without a stream Anthropic's form has no place for arguments that are no JSON.
      const partly = async (script, before, call, text, finish, more = {}) => {
        const whole = name === 'messages' && !stream;
        const answer = await ask(scripted, script, stream, more);
        assert.equal(answer.finish, finish, `${about}: ${script}`);
        if (whole) {
          assert.deepEqual(answer.calls, []);
          assert.ok((before + '\n' + call).startsWith(answer.text) && answer.text.length > before.length + 20, answer.text);
        } else {
          assert.equal(answer.text, before, `${about}: ${script}`);
          assert.equal(answer.calls.length, 1);
          assert.ok(text.startsWith(answer.calls[0].arguments) && answer.calls[0].arguments.length > 5, answer.calls[0].arguments);
          assert.ok(!isJson(answer.calls[0].arguments));
        }
      };
      const header = '<tool_call>\n{"name": "shell", "arguments": ';
      const long = JSON.stringify(scripts.long.calls[0].args);
      await partly('long', 'I write.', `${header}${long}`, long, ends[name].cut, { max_tokens: 15 });
      // A call that the model would end goes on, and one that it would break is whole.
      const ended = await ask(scripted, 'ended', stream, { max_tokens: 60 });
      assert.equal(ended.finish, ends[name].cut);
      const [given, from] = name === 'messages' && !stream ? [ended.text, `I look.\n${header}`] : [ended.calls[0].arguments, ''];
      assert.ok(given.startsWith(from + '{"command": "rm -r'), given);
      const { text, calls: [mended], finish } = await ask(scripted, 'broken', stream, { max_tokens: 400 });
      assert.equal(finish, ends[name].calls, `${about}: broken`);
      assert.ok(text.startsWith('I try.') && isJson(mended.arguments), mended.arguments);
      assert.match(mended.arguments, /^\{"command": ?"ls -la", ?"cmd": ?"ls"/);
      await whole('fence', 'I look.');
      await whole('bare', '');
      await whole('tags', '');
      for (const script of ['prose', 'other']) assert.deepEqual(await ask(scripted, script, stream, {}), { text: scripts[script].text, calls: [], finish: ends[name].stop });
      const strict = await ask(scripted, 'bare', stream, { tool_call_parsing: 'strict' });
      assert.deepEqual(strict, { text: scripts.bare.text, calls: [], finish: ends[name].stop });
    }
  }
  const ollama = async (script, more) => {
    const tools = [{ type: 'function', function: { name: 'shell', parameters: schema } }];
    return (await (await scripted.post('/api/chat', { model: 'scripted', messages: said(script), tools, stream: false, ...more })).json());
  };
  assert.deepEqual((await ollama('fence')).message.tool_calls[0].function, { index: 0, name: 'shell', arguments: JSON.parse(command) });
  const cut = await ollama('ended', { options: { num_predict: 60, temperature: 0 } });
  assert.match(cut.message.content, /shell \{"command": "rm -r/);
  assert.equal(cut.done_reason, 'length');
  assert.equal((await ollama('fence', { tool_call_parsing: 'strict' })).message.content, scripts.fence.text);
  await logged(scripted, /calls that are not in the model's own format are read/);
  assert.equal(scripted.log().match(/calls that are not in the model's own format are read/g).length, 1);
});
