// The real `ollama` client from npm against the real server.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Ollama } from 'ollama';
import { fixtures, serve, storyTrainedFor } from './server.mjs';

let server, ollama, thinker, thinking;
const name = 'story';
before(async () => {
  server = await serve(storyTrainedFor(4096), ['--name', name, '--models', fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-none-'))]);
  ollama = new Ollama({ host: server.url });
  const template = path.join(fixtures, 'chat-templates', 'Qwen-Qwen3-0.6B.jinja');
  thinking = await serve(storyTrainedFor(4096), ['--name', 'thinker', '--chat-template', template]);
  thinker = new Ollama({ host: thinking.url });
});
after(async () => {
  for (const each of [server, thinking]) {
    const end = await each.stop();
    assert.equal(end.code, 0, end.log);
  }
});

const messages = [{ role: 'user', content: 'Tell me a story.' }];
const greedy = (num_predict, more) => ({ temperature: 0, num_predict, ...more });
const chat = (more) => ollama.chat({ model: name, messages, options: greedy(16), ...more });
const tools = [{
  type: 'function',
  function: {
    name: 'get_weather', description: 'Weather of a place.',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}];

test('models are listed, shown, and running; the version is one', async () => {
  const { models } = await ollama.list();
  assert.deepEqual(models.map((m) => m.name), [name]);
  assert.equal(models[0].details.format, 'gguf');
  assert.equal(models[0].details.family, 'llama');
  assert.equal(models[0].details.quantization_level, 'F32');
  assert.equal(models[0].details.parameter_size, '293K');
  assert.ok(models[0].size > 1e6);
  assert.match(models[0].digest, /^[0-9a-f]{64}$/);
  assert.ok(Date.parse(models[0].modified_at) > Date.parse('2020-01-01'));
  const running = (await ollama.ps()).models[0];
  assert.equal(running.name, name);
  assert.equal(running.context_length, 4096);
  assert.ok(Date.parse(running.expires_at) > Date.now());
  assert.match((await ollama.version()).version, /^\d+\.\d+\.\d+$/);
});

test('the probes of Ollama\'s programs are answered', async () => {
  for (const method of ['GET', 'HEAD']) {
    const reply = await fetch(server.url, { method });
    assert.equal(reply.status, 200);
    assert.match(reply.headers.get('content-type'), /^text\/plain/);
    assert.equal(await reply.text(), method === 'GET' ? 'Cairn is running' : '');
  }
  // All that the client asks for before and between chats.
  const seen = [];
  const probing = new Ollama({
    host: server.url,
    fetch: async (url, init) => {
      const reply = await fetch(url, init);
      seen.push(`${init?.method ?? 'GET'} ${new URL(url).pathname} ${reply.status}`);
      return reply;
    },
  });
  await probing.list();
  await probing.ps();
  await probing.version();
  const stream = await probing.chat({ model: name, messages, stream: true, options: greedy(3000, { stop: ['never this'] }) });
  await assert.rejects(async () => {
    for await (const part of stream) if (part) probing.abort();
  }, { name: 'AbortError' });
  await probing.ps();
  assert.deepEqual(seen, ['GET /api/tags 200', 'GET /api/ps 200', 'GET /api/version 200', 'POST /api/chat 200', 'GET /api/ps 200']);
});

test('a model is shown with its metadata, and what it can do', async () => {
  const shown = await ollama.show({ model: name });
  assert.equal(shown.model_info['general.architecture'], 'llama');
  assert.equal(shown.model_info['llama.context_length'], 4096);
  assert.ok(shown.model_info['general.parameter_count'] > 290_000);
  assert.equal(shown.model_info['tokenizer.ggml.tokens'], null);
  assert.match(shown.parameters, /num_ctx 4096/);
  assert.ok(shown.capabilities.includes('completion'));
  assert.ok(!shown.capabilities.includes('thinking'));
  const verbose = await ollama.show({ model: name, verbose: true });
  assert.equal(verbose.model_info['tokenizer.ggml.tokens'].length, 512);
  assert.deepEqual((await thinker.show({ model: 'thinker' })).capabilities.slice(0, 3), ['completion', 'tools', 'thinking']);
  assert.match((await thinker.show({ model: 'thinker' })).template, /enable_thinking/);
});

test('a chat is answered in one piece, with counts and durations', async () => {
  const answer = await chat({ model: `${name}:latest` });
  assert.equal(answer.model, `${name}:latest`);
  assert.equal(answer.message.role, 'assistant');
  assert.ok(answer.message.content.length > 0);
  assert.equal(answer.done, true);
  assert.equal(answer.done_reason, 'length');
  assert.equal(answer.eval_count, 16);
  assert.ok(answer.prompt_eval_count > 5);
  assert.ok(Math.abs(Date.parse(answer.created_at) - Date.now()) < 60_000);
  assert.ok(answer.eval_duration > 0 && answer.prompt_eval_duration > 0);
  assert.ok(answer.total_duration >= answer.eval_duration + answer.prompt_eval_duration);
});

test('a stream gives the same text, a line per token', async () => {
  const whole = await chat({ options: greedy(40) });
  let text = '', lines = 0, last;
  for await (const part of await chat({ options: greedy(40), stream: true })) {
    text += part.message.content;
    ++lines;
    last = part;
  }
  assert.equal(text, whole.message.content);
  assert.ok(lines > 20);
  assert.equal(last.done, true);
  assert.equal(last.eval_count, 40);
  assert.equal(last.prompt_eval_count, whole.prompt_eval_count);
  const reply = await server.post('/api/chat', { messages, options: greedy(3) });  // streams unless told not to
  assert.equal(reply.headers.get('content-type'), 'application/x-ndjson');
  const objects = (await reply.text()).trimEnd().split('\n').map((line) => JSON.parse(line));
  assert.ok(objects.length > 1 && objects.at(-1).done);
});

test('a prompt goes through the template unless raw', async () => {
  const request = { model: name, prompt: 'Once upon a time', options: greedy(20) };
  const templated = await ollama.generate({ ...request, system: 'You tell stories.' });
  const raw = await ollama.generate({ ...request, raw: true });
  assert.ok(templated.prompt_eval_count > raw.prompt_eval_count);
  const same = await ollama.chat({
    model: name, options: greedy(20),
    messages: [{ role: 'system', content: 'You tell stories.' }, { role: 'user', content: 'Once upon a time' }],
  });
  assert.equal(templated.response, same.message.content);
  const completion = await (await server.post('/v1/completions', {
    prompt: 'Once upon a time', max_tokens: 20, temperature: 0, repeat_penalty: 1.1, top_k: 40, top_p: 0.9,
  })).json();
  assert.equal(raw.response, completion.choices[0].text);
  let text = '';
  for await (const part of await ollama.generate({ ...request, raw: true, stream: true })) text += part.response;
  assert.equal(text, raw.response);
  assert.equal((await ollama.generate({ model: name, prompt: '' })).done_reason, 'load');
  assert.equal((await chat({ messages: [] })).done_reason, 'load');
});

test('options are honoured', async () => {
  const ask = async (options) => (await chat({ options: { num_predict: 30, ...options } })).message.content;
  assert.equal(await ask({ seed: 7 }), await ask({ seed: 7 }));
  const seeds = await Promise.all([1, 2, 3, 4, 5].map((seed) => ask({ seed, temperature: 1.5 })));
  assert.ok(new Set(seeds).size > 1);
  const free = await ask({ temperature: 0 });
  const stop = free.slice(20, 24);
  const stopped = await chat({ options: greedy(30, { stop: [stop] }) });
  assert.equal(stopped.message.content, free.slice(0, free.indexOf(stop)));
  assert.equal(stopped.done_reason, 'stop');
  assert.equal(await ask({ temperature: 0, num_ctx: 2048, num_gpu: 99, use_mmap: true, num_thread: 3 }), free);
});

test('log-probabilities come with every token', async () => {
  const plain = { ...greedy(5), repeat_penalty: 1 };  // a penalty chooses others than the most likely
  const answer = await chat({ options: plain, logprobs: true, top_logprobs: 2 });
  assert.equal(answer.logprobs.length, 5);
  for (const entry of answer.logprobs) {
    assert.equal(entry.top_logprobs.length, 2);
    assert.equal(entry.top_logprobs[0].token, entry.token);
  }
  let count = 0;
  for await (const part of await chat({ options: greedy(5), logprobs: true, stream: true })) count += part.logprobs?.length ?? 0;
  assert.equal(count, 5);
});

test('calls and results of a history without ids are rendered', async () => {
  const history = [...messages,
    { role: 'assistant', content: '', thinking: 'Both.', tool_calls: [
      { function: { name: 'get_weather', arguments: { city: 'Paris' } } },
      { function: { name: 'get_weather', arguments: { city: 'Rome' } } }] },
    { role: 'tool', tool_name: 'get_weather', content: 'Rain.' },
    { role: 'tool', tool_name: 'get_weather', content: 'Sun.' }];
  const short = await thinker.chat({ model: 'thinker', messages, tools, options: greedy(4) });
  const long = await thinker.chat({ model: 'thinker', messages: history, tools, options: greedy(4) });
  assert.equal(long.message.role, 'assistant');
  assert.ok(long.prompt_eval_count > short.prompt_eval_count + 20);
  assert.ok((await chat({ messages: history, tools })).eval_count > 0);
});

test('a last message of the assistant is continued', async () => {
  const whole = await chat({ options: greedy(24) });
  const begun = whole.message.content.slice(0, 30);
  const answer = await chat({ messages: [...messages, { role: 'assistant', content: begun }], options: greedy(8) });
  assert.ok(answer.prompt_eval_count > whole.prompt_eval_count);
  assert.ok(!answer.message.content.startsWith(begun));
});

test('thinking is asked for only where it is known', async () => {
  const ask = (think) => thinker.chat({ model: 'thinker', messages, think, options: greedy(12) });
  const on = await ask(true);
  const off = await ask(false);
  assert.ok(off.prompt_eval_count > on.prompt_eval_count);  // the template closes the thinking
  assert.equal(off.message.thinking, undefined);
  assert.ok((await ask('low')).eval_count > 0);
  assert.ok((await chat({ think: false })).eval_count > 0);
  await assert.rejects(chat({ think: true }), { status_code: 400, message: /does not support thinking/ });
});

test('an aborted stream frees its pages', async () => {
  const stats = async () => (await fetch(`${server.url}/stats`)).json();
  const { cancelled_requests: before } = await stats();
  const own = new Ollama({ host: server.url });
  const stream = await own.chat({ model: name, messages, stream: true, options: greedy(3000, { stop: ['never this'] }) });
  await assert.rejects(async () => {
    for await (const part of stream) if (part) stream.abort();
  }, { name: 'AbortError' });
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

test('errors arrive as the client\'s own class, with what is wrong', async () => {
  const rejects = (promise, status, pattern) => assert.rejects(promise, (error) => {
    assert.equal(error.name, 'ResponseError');
    assert.equal(error.status_code, status);
    assert.match(error.message, pattern);
    return true;
  });
  assert.equal((await chat({ model: 'other', options: { num_predict: 1 } })).model, name, 'the one model answers every name');
  await rejects(ollama.show({ model: 'other' }), 404, /no model "other"/);
  await rejects(chat({ format: 'xml' }), 400, /^format must be "json" or a JSON Schema/);
  await rejects(chat({ options: { tfs_z: 0.5 } }), 400, /^options.tfs_z is not supported/);
  await rejects(chat({ options: { top_p: 7 } }), 400, /^options.top_p must be from 0 to 1/);
  await rejects(chat({ messages: [{ role: 'user', content: 'x', images: ['aGk='] }] }), 400, /^messages\[0\].images is not supported/);
  await rejects(chat({ messages: [{ role: 'user', content: 'word '.repeat(9000) }] }), 400, /^prompt too long; exceeded max context length by \d+ tokens/);
  await rejects(ollama.generate({ model: name, prompt: 'x', suffix: 'y' }), 400, /cannot fill in the middle/);
  await rejects(ollama.pull({ model: '../other' }), 400, /is no model's name/);
  assert.equal((await ollama.pull({ model: name })).status, 'success');
  const pulls = [];
  for await (const part of await ollama.pull({ model: name, stream: true })) pulls.push(part.status);
  assert.deepEqual(pulls, ['pulling manifest', 'success']);
  assert.match((await ollama.version()).version, /^0\.30\./);
  await rejects(ollama.delete({ model: name }), 404, /only models that were pulled or made are deleted/);
  await rejects(ollama.copy({ source: name, destination: 'x' }), 400, /this server serves the files that it was started with/);
  assert.equal((await ollama.embed({ model: 'other', input: 'x' })).model, name);
  const broken = await server.post('/api/chat', '{"messages": ');
  assert.equal(broken.status, 400);
  assert.match((await broken.json()).error, /not valid JSON/);
  const unknown = await fetch(`${server.url}/api/frobnicate`);
  assert.equal(unknown.status, 404);
  assert.match((await unknown.json()).error, /there is no GET \/api\/frobnicate/);
});

test('fields that clients send from habit are taken: Cline sends tool_choice, others sampling outside of options', async () => {
  const reply = await server.post('/api/chat', { model: name, messages: [{ role: 'user', content: 'Hi' }], tool_choice: 'auto', temperature: 0.5,
    options: { num_predict: 1, draft_num_predict: 3, num_ctx: 32768 }, stream: true, warnings: true });
  const lines = (await reply.text()).trim().split('\n').map((line) => JSON.parse(line));
  for (const field of ['options.draft_num_predict', 'options.num_ctx'])
    assert.ok(lines[0].warnings.some((warning) => warning.startsWith(`${field} `)), `${field}: ${lines[0].warnings}`);
  assert.equal(lines.at(-1).warnings, lines.length === 1 ? lines[0].warnings : undefined);
});

test('an array has as many vectors as texts, empty ones too', async () => {
  const { embeddings } = await ollama.embed({ model: name, input: ['first', '', 'third'] });
  assert.equal(embeddings.length, 3);
  assert.deepEqual(embeddings[2], (await ollama.embed({ model: name, input: 'third' })).embeddings[0]);
});

test('texts are embedded', async () => {
  const { embeddings, prompt_eval_count } = await ollama.embed({ model: name, input: ['A dog.', 'A cat.'] });
  assert.equal(embeddings.length, 2);
  const length = (vector) => Math.hypot(...vector);
  for (const vector of embeddings) assert.ok(Math.abs(length(vector) - 1) < 1e-4);
  assert.ok(prompt_eval_count >= 4);
  const one = await ollama.embed({ model: name, input: 'A dog.' });
  assert.deepEqual(one.embeddings, [embeddings[0]]);
  assert.deepEqual((await ollama.embed({ model: name, input: '' })).embeddings, []);
  const { embedding } = await ollama.embeddings({ model: name, prompt: 'A dog.' });
  embedding.forEach((value, i) => assert.ok(Math.abs(value / length(embedding) - embeddings[0][i]) < 1e-4));
});

test('texts that do not fit are cut at their end, unless the client says that they must not be', async () => {
  const long = 'word '.repeat(9000);
  assert.equal((await ollama.embed({ model: name, input: long })).embeddings.length, 1);
  const { embeddings } = await ollama.embed({ model: name, input: ['A dog.', long] });
  assert.deepEqual(embeddings[0], (await ollama.embed({ model: name, input: 'A dog.' })).embeddings[0]);
  assert.ok((await ollama.embeddings({ model: name, prompt: long })).embedding.length > 0);
  assert.match(server.log(), /input\[1\] of a request to embed has \d+ tokens, of which the first \d+ have a vector/);
  await assert.rejects(ollama.embed({ model: name, input: long, truncate: false }), { name: 'ResponseError', message: /tokens/ });
});
