// LM Studio's REST API: its lists of models, and OpenAI's answers with its members beside.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fixtures, serve, story } from './server.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-lmstudio-'));
let server, several;
const get = async (of, route, init) => {
  const response = await fetch(of.url + route, init);
  return { status: response.status, body: await response.json() };
};
before(async () => {
  const repository = path.join(folder, 'huggingface.co', 'some-org', 'Stories-GGUF');
  fs.mkdirSync(repository, { recursive: true });
  fs.symlinkSync(story, path.join(repository, 'stories-F32.gguf'));
  fs.symlinkSync(path.join(fixtures, 'models', 'bert.gguf'), path.join(folder, 'bert.gguf'));
  server = await serve(story, ['--name', 'local', '--ctx', '256']);
  several = await serve(null, ['--models', folder, '-t', '1', '--ctx', '256']);
});
after(async () => {
  await server.stop();
  await several.stop();
  fs.rmSync(folder, { recursive: true });
});

test('a model that is loaded, in the list and alone', async () => {
  const { status, body } = await get(server, '/api/v0/models');
  assert.equal(status, 200);
  const [model] = body.data;
  assert.deepEqual(body, { object: 'list', data: [model] });
  assert.deepEqual(model, {
    id: 'local', object: 'model', type: 'llm', publisher: '', arch: 'llama', compatibility_type: 'gguf', quantization: 'F32',
    state: 'loaded', max_context_length: 512, loaded_context_length: 256, capabilities: ['tool_use'],
  });
  assert.deepEqual((await get(server, '/api/v0/models/local')).body, model);
  const unknown = await get(server, '/api/v0/models/nobody');
  assert.deepEqual([unknown.status, unknown.body.error.code], [404, 'not_found']);
});

test('models of a folder, before and after one is loaded', async () => {
  const all = async () => Object.fromEntries((await get(several, '/api/v0/models')).body.data.map((model) => [model.id, model]));
  const before = await all();
  const name = 'some-org/Stories-GGUF:F32';
  assert.deepEqual(Object.keys(before).sort(), ['bert', name]);
  assert.deepEqual(before[name], {
    id: name, object: 'model', type: 'llm', publisher: 'some-org', arch: 'llama', compatibility_type: 'gguf', quantization: 'F32',
    state: 'not-loaded', max_context_length: 512, capabilities: ['tool_use'],
  });
  assert.deepEqual([before.bert.type, before.bert.capabilities, before.bert.state], ['embeddings', [], 'not-loaded']);
  assert.deepEqual((await get(several, '/health')).body, { status: 'ok', model_loaded: false });
  const answer = await several.post('/api/v0/embeddings', { model: 'bert', input: 'A cat.' });
  assert.equal((await answer.json()).data[0].embedding.length, 64);
  assert.equal((await several.post('/api/v0/chat/completions', { model: name, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 2 })).status, 200);
  assert.deepEqual((await get(several, '/health')).body, { status: 'ok', model_loaded: true });
  const loaded = await all();
  const { loaded_context_length: context, ...rest } = loaded[name];
  assert.equal(context, 256);
  assert.deepEqual(rest, { ...before[name], state: 'loaded' });
  assert.equal(loaded.bert.state, 'loaded');
  assert.deepEqual((await get(several, `/api/v0/models/${name}`)).body, loaded[name]);
});

test('the later version\'s list', async () => {
  const { models } = (await get(server, '/api/v1/models')).body;
  const [{ size_bytes: size, params_string: parameters, quantization, ...model }] = models;
  assert.deepEqual(model, {
    type: 'llm', publisher: '', key: 'local', display_name: 'local', architecture: 'llama',
    loaded_instances: [{ id: 'local', config: { context_length: 256 } }], max_context_length: 512, format: 'gguf',
    capabilities: { vision: false, trained_for_tool_use: true }, description: null,
  });
  assert.equal(size, fs.statSync(story).size);
  assert.match(parameters, /^\d+(?:\.\d)?K$/);
  assert.equal(quantization.name, 'F32');
  assert.ok(quantization.bits_per_weight > 31 && quantization.bits_per_weight < 45, `${quantization.bits_per_weight}`);
  const bert = (await get(several, '/api/v1/models')).body.models.find(({ key }) => key === 'bert');
  assert.deepEqual([bert.type, 'capabilities' in bert, 'description' in bert], ['embedding', false, false]);
});

const chat = { messages: [{ role: 'user', content: 'Tell me a story.' }], temperature: 0, max_tokens: 6 };
function hasMembers({ stats, model_info: info, runtime, timings }, reason) {
  assert.equal(stats.stop_reason, reason);
  assert.ok(stats.time_to_first_token > 0 && stats.generation_time >= stats.time_to_first_token, JSON.stringify(stats));
  assert.ok(stats.tokens_per_second > 0);
  assert.ok(Math.abs(stats.time_to_first_token * 1000 - timings.queue_ms - timings.prompt_ms) < 1e-6);
  assert.deepEqual(info, { arch: 'llama', quant: 'F32', format: 'gguf', context_length: 256 });
  assert.deepEqual([runtime.name, runtime.supported_formats], ['cairn', ['gguf']]);
}

test('a whole answer is OpenAI\'s with stats, model_info and runtime', async () => {
  const openai = await (await server.post('/v1/chat/completions', chat)).json();
  const answer = await (await server.post('/api/v0/chat/completions', chat)).json();
  assert.deepEqual(answer.choices, openai.choices);
  hasMembers(answer, 'maxPredictedTokensReached');
  for (const name of ['stats', 'model_info', 'runtime']) assert.ok(!(name in openai), name);
  assert.deepEqual(Object.keys(answer).filter((name) => !(name in openai)), ['stats', 'model_info', 'runtime']);
  const text = await (await server.post('/api/v0/completions', { prompt: 'Once upon a time', temperature: 0, max_tokens: 40, stop: ['.'] })).json();
  hasMembers(text, 'stopStringFound');
  const full = await (await server.post('/api/v0/completions', { prompt: 'Once upon a time', temperature: 0, max_tokens: -1, ignore_eos: true })).json();
  hasMembers(full, 'contextLengthReached');
});

test('a stream has them once, in the last chunk with timings', async () => {
  const chunks = async (route, body) => (await (await server.post(route, { ...body, stream: true })).text())
    .split('\n\n').filter((event) => event.startsWith('data: {')).map((event) => JSON.parse(event.slice(6)));
  for (const options of [undefined, { include_usage: true }]) {
    for (const [route, body] of [['/api/v0/chat/completions', chat], ['/api/v0/completions', { prompt: 'Once', temperature: 0, max_tokens: 6 }]]) {
      const seen = await chunks(route, { ...body, stream_options: options });
      assert.equal(seen.filter((chunk) => 'stats' in chunk).length, 1);
      hasMembers(seen.at(-1), 'maxPredictedTokensReached');
    }
  }
});

test('what is not there is told in OpenAI\'s shape, with the nearest paths', async () => {
  for (const [method, route] of [['GET', '/api/v0/model'], ['POST', '/api/v0/responses'], ['POST', '/api/v1/chat'], ['GET', '/api/v0']]) {
    const { status, body } = await get(server, route, { method });
    assert.equal(status, 404, route);
    assert.equal(body.error.type, 'invalid_request_error');
    assert.ok(body.error.message.match(/(?:GET|POST|DELETE) \//g).length <= 4, body.error.message);
  }
  assert.match((await get(server, '/api/v0/model')).body.error.message, /the nearest are GET \/api\/v0\/models/);
  const wrong = await get(server, '/api/v0/chat/completions');
  assert.deepEqual([wrong.status, typeof wrong.body.error.message], [405, 'string']);
  const invalid = await (await server.post('/api/v0/chat/completions', { ...chat, temperature: 9000 })).json();
  assert.equal(invalid.error.param, 'temperature');
  // Ollama's stay Ollama's.
  assert.equal(typeof (await get(server, '/api/v2/models')).body.error, 'string');
});

test('metrics count the protocol by its name', async () => {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  assert.match(text, /cairn_requests_total\{[^}]*protocol="lmstudio"[^}]*\} [1-9]/);
});
