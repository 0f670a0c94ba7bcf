// Models that are made of others: POST /api/create and /api/copy, DELETE /api/delete, and what such models answer.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Ollama } from 'ollama';
import { cairn, serve, story, storyAdapter } from './server.mjs';

const guide = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../models/guide/guide.gguf');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-made-'));
process.env.HOME = folder;  // nothing of whoever runs the tests
for (const name of Object.keys(process.env)) if (/^(XDG_|HF_|LLAMA_CACHE|OLLAMA_MODELS)/.test(name)) delete process.env[name];
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
const models = path.join(folder, 'models');
const kFlags = ['-t', '1', '--parallel', '1', '--parallel-max', '4', '--own-models', '--models', models];

let server, ollama;
before(async () => {
  fs.mkdirSync(models);
  fs.copyFileSync(guide, path.join(models, 'guide.gguf'));
  fs.copyFileSync(story, path.join(models, 'story.gguf'));
  fs.copyFileSync(storyAdapter('words.gguf', 7), path.join(models, 'words.gguf'));
  server = await serve(null, kFlags);
  ollama = new Ollama({ host: server.url });
});
after(async () => assert.equal((await server.stop()).code, 0));

const create = (body) => server.post('/api/create', { stream: false, ...body });
const made = async (body) => {
  const response = await create(body);
  assert.equal(response.status, 200, await response.clone().text());
  assert.deepEqual(await response.json(), { status: 'success' });
};
const remove = (model) => fetch(`${server.url}/api/delete`, { method: 'DELETE', body: JSON.stringify({ model }) });
const show = async (model) => (await server.post('/api/show', { model })).json();
const promptOf = async (model, messages, more = {}) => (await (await server.post('/apply-template', { model, messages, ...more })).json()).prompt;
const user = (content) => ({ role: 'user', content });

test('a system message counts where a conversation has none, and messages stand in front', async () => {
  await made({ model: 'tutor', from: 'guide', system: 'You are a tutor.', messages: [user('Hi'), { role: 'assistant', content: 'Hello.' }] });
  const system = { role: 'system', content: 'You are a tutor.' };
  const turns = [user('Hi'), { role: 'assistant', content: 'Hello.' }];
  assert.equal(await promptOf('tutor', [user('Why?')]), await promptOf('guide', [system, ...turns, user('Why?')]));
  const other = { role: 'system', content: 'Be short.' };
  assert.equal(await promptOf('tutor', [other, user('Why?')]), await promptOf('guide', [other, ...turns, user('Why?')]));
  // In every protocol the model answers as the base does to the whole conversation.
  const greedy = { temperature: 0, max_tokens: 12 };
  const text = async (model, messages) => (await (await server.post('/v1/chat/completions', { model, messages, ...greedy })).json()).choices[0].message.content;
  const whole = await text('guide', [system, ...turns, user('Why?')]);
  assert.equal(await text('tutor', [user('Why?')]), whole);
  const chat = await (await server.post('/api/chat', { model: 'tutor', messages: [user('Why?')], stream: false, options: { temperature: 0, repeat_penalty: 1, num_predict: 12 } })).json();
  assert.equal(chat.message.content, whole);
  assert.equal(chat.model, 'tutor');
  const generated = await (await server.post('/api/generate', { model: 'tutor:latest', prompt: 'Why?', stream: false, options: { temperature: 0, repeat_penalty: 1, num_predict: 12 } })).json();
  assert.equal(generated.response, whole);
  const anthropic = await (await server.post('/v1/messages', { model: 'tutor', messages: [user('Why?')], ...greedy })).json();
  assert.equal(anthropic.content[0].text, whole);
});

test('parameters hold for requests that leave them out, and for those alone', async () => {
  await made({ model: 'ns/greedy:v1', from: 'story', parameters: { top_k: 1, num_predict: 6, num_ctx: 128, stop: ['zzz'], num_thread: 2 } });
  const complete = async (body) => (await (await server.post('/v1/completions', { model: 'ns/greedy:v1', prompt: 'Once upon a time', ...body })).json());
  const greedy = await (await server.post('/v1/completions', { model: 'story', prompt: 'Once upon a time', temperature: 0, max_tokens: 6 })).json();
  assert.equal((await complete({ seed: 5 })).choices[0].text, greedy.choices[0].text);
  assert.equal((await complete({ max_tokens: 3 })).usage.completion_tokens, 3);
  const stop = greedy.choices[0].text.slice(3, 6);
  await made({ model: 'ns/greedy:v1', from: 'ns/greedy:v1', parameters: { stop: [stop] } });
  assert.equal((await complete({})).choices[0].text, greedy.choices[0].text.slice(0, greedy.choices[0].text.indexOf(stop)));
  assert.equal((await complete({ stop: 'zzz' })).choices[0].text, greedy.choices[0].text);
  const { parameters, modelfile, details } = await show('ns/greedy:v1');
  assert.match(parameters, /^num_ctx 128\n[^]*top_k 1\n[^]*num_predict 6/);
  assert.match(modelfile, /^FROM story\n[^]*PARAMETER top_k 1\n/);
  const props = await (await fetch(`${server.url}/props?model=${encodeURIComponent('ns/greedy:v1')}`)).json();
  assert.deepEqual(props.default_generation_settings.params.stop, [stop]);
  assert.equal(details.parent_model, 'story');
  assert.equal((await (await fetch(`${server.url}/v1/models/ns/greedy:v1`)).json()).context_length, 128);
});

test('a template in Jinja and an adapter are taken, and what cannot be is refused by its name', async () => {
  await made({ model: 'plain', from: 'story', template: '{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}', adapters: ['words.gguf'], license: 'Free' });
  assert.equal(await promptOf('plain', [user('Hi')]), '<user>Hi');
  const shown = await show('plain');
  assert.match(shown.modelfile, /ADAPTER words\.gguf\nTEMPLATE /);
  assert.equal(shown.license, 'Free');
  const [adapter] = await (await fetch(`${server.url}/lora-adapters?model=plain`)).json();
  assert.equal(adapter.path, 'words.gguf');
  const text = async (model) => (await (await server.post('/v1/completions', { model, prompt: 'Once', temperature: 0, max_tokens: 24 })).json()).choices[0].text;
  assert.notEqual(await text('plain'), await text('story'));
  const refused = [
    [{ template: '{{ if .System }}{{ .System }}{{ end }}{{ .Prompt }}' }, /template is written in Go/],
    [{ template: '{% for' }, /template cannot be read/],
    [{ template: 'nothing' }, /template does not show/],
    [{ quantize: 'q4_K_M' }, /quantize/],
    [{ files: { 'm.gguf': 'sha256:00' } }, /files/],
    [{ adapters: { 'words.gguf': 'sha256:00' } }, /adapters has a file by its digest/],
    [{ adapters: ['../words.gguf'] }, /adapters/],
    [{ adapters: ['guide.gguf'] }, /guide\.gguf/],
    [{ modelfile: 'FROM story' }, /modelfile/],
    [{ parameters: { temperature: 'hot' } }, /parameters\.temperature/],
    [{ parameters: { top_p: 7 } }, /parameters\.top_p/],
    [{ messages: [{ role: 'tool', content: 'x' }] }, /messages\[0\]\.role/],
    [{ from: undefined }, /from/],
    [{ model: '../x' }, /no name for a model/],
    [{ model: 'a/b/c' }, /no name for a model/],
    [{ model: '.hidden' }, /no name for a model/],
    [{ model: 'guide' }, /a file of its own/],
  ];
  for (const [body, words] of refused) {
    const response = await create({ model: 'bad', from: 'story', ...body });
    assert.equal(response.status, 400, JSON.stringify(body));
    assert.match((await response.json()).error, words);
  }
  const missing = await create({ model: 'bad', from: 'nobody' });
  assert.equal(missing.status, 404);
  assert.match((await missing.json()).error, /no model "nobody".*pull it first/);
  assert.equal((await server.post('/api/show', { model: 'bad' })).status, 404);
});

test('copies are models of their own, lists have them, and they outlive the server', async () => {
  await made({ model: 'one', from: 'guide', system: 'First.' });
  assert.equal((await server.post('/api/copy', { source: 'one', destination: 'two:b' })).status, 200);
  assert.equal((await server.post('/api/copy', { source: 'nobody', destination: 'three' })).status, 404);
  assert.equal((await server.post('/api/copy', { source: 'one', destination: '../three' })).status, 400);
  await made({ model: 'one', from: 'one', system: 'Second.' });
  assert.equal((await show('two:b')).system, 'First.');
  assert.equal((await show('one')).system, 'Second.');
  assert.match(await promptOf('one', [user('x')]), /Second\./);
  const tags = (await (await fetch(`${server.url}/api/tags`)).json()).models.map(({ name }) => name);
  assert.ok(tags.includes('one') && tags.includes('two:b'), tags.join());
  const listed = JSON.parse(cairn(['list', '--json', '--models', models, '--own-models']).stdout).models.find(({ name }) => name === 'two:b');
  assert.equal(listed.base, 'guide');
  const again = await serve(null, kFlags);
  try {
    const value = await (await again.post('/api/show', { model: 'two:b' })).json();
    assert.equal(value.system, 'First.');
  } finally {
    await again.stop();
  }
  assert.equal((await remove('one')).status, 200);
  assert.equal((await remove('one')).status, 404);
  assert.equal((await server.post('/api/show', { model: 'one' })).status, 404);
  assert.equal((await show('two:b')).system, 'First.');
  assert.equal((await remove('two:b')).status, 200);
});

test('the client of Ollama makes, copies and deletes models', async () => {
  const states = [];
  for await (const { status } of await ollama.create({ model: 'client', from: 'guide', system: 'Hello', parameters: { temperature: 0 }, stream: true })) states.push(status);
  assert.equal(states.at(-1), 'success');
  assert.equal((await ollama.copy({ source: 'client', destination: 'client2' })).status, 'success');
  assert.equal((await ollama.show({ model: 'client2' })).system, 'Hello');
  for (const model of ['client', 'client2']) assert.equal((await ollama.delete({ model })).status, 'success');
});

test('who may not manage models makes none, and a broken file of one harms no other', async () => {
  const keys = path.join(folder, 'keys');
  fs.writeFileSync(keys, 'alice sk-alice-0123456789\n', { mode: 0o600 });
  fs.mkdirSync(path.join(models, 'made'), { recursive: true });
  fs.writeFileSync(path.join(models, 'made', 'broken.json'), '{"cairn_made": 1}');
  fs.writeFileSync(path.join(models, 'made', 'orphan.json'), JSON.stringify({ cairn_made: 1, name: 'orphan', base: 'gone', system: '', template: '', parameters: {}, messages: [], adapters: [], licenses: [] }));
  const other = await serve(null, [...kFlags, '--api-key-file', keys]);
  try {
    const headers = { authorization: 'Bearer sk-alice-0123456789' };
    const refused = await fetch(`${other.url}/api/create`, { method: 'POST', headers, body: '{"model": "x", "from": "guide"}' });
    assert.equal(refused.status, 403);
    assert.match(other.log(), /broken\.json is left out: a made model: /);
    assert.match(other.log(), /orphan\.json is left out: its base gone is not here/);
  } finally {
    await other.stop();
    for (const name of ['broken', 'orphan']) fs.rmSync(path.join(models, 'made', `${name}.json`));
  }
  const given = await serve(guide, ['-t', '1']);
  try {
    const none = await given.post('/api/create', { model: 'x', from: 'guide' });
    assert.equal(none.status, 400);
    assert.match((await none.json()).error, /start it without a file/);
  } finally {
    await given.stop();
  }
});
