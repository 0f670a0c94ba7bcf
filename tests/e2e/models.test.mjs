// Several models behind one server: found, named, loaded when they are asked for, and giving way to each other.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { cairn, fixtures, logged, serve, story, storyTrainedFor, storyWith, storyWithControls, withoutHoles } from './server.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-models-'));
const models = path.join(folder, 'models');
process.env.HOME = folder;  // nothing of whoever runs the tests
for (const name of Object.keys(process.env)) if (/^(XDG_|HF_|LLAMA_CACHE|OLLAMA_MODELS)/.test(name)) delete process.env[name];
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));

const kTexts = 30;  // requests of the random order
const kFlags = ['-t', '1', '--parallel', '1', '--parallel-max', '4'];

before(() => {
  fs.mkdirSync(models);
  for (const file of fs.readdirSync(path.join(fixtures, 'models'))) {
    if (file.endsWith('.gguf')) fs.symlinkSync(path.join(fixtures, 'models', file), path.join(models, file));
  }
  fs.symlinkSync(story, path.join(models, 'Stories260K-F32.gguf'));
  fs.writeFileSync(path.join(models, 'broken.gguf'), 'GGUF, but nothing behind it');
});

const serveAll = (flags = []) => serve(null, ['--models', models, ...kFlags, ...flags]);
const stateOf = async (server, name) => {
  const { data } = await (await fetch(`${server.url}/v1/models`)).json();
  return data.find((model) => model.id === name)?.state;
};
async function eventually(what, holds) {
  for (let tries = 0; tries < 600; ++tries) {
    if (await holds()) return;
    await new Promise((done) => { setTimeout(done, 50); });
  }
  assert.fail(what);
}
const memoryOf = async (server) => (await (await fetch(`${server.url}/v1/metrics`)).json()).data;
const change = (server, what, model) => server.post(`/v1/models/${what}`, { model });

// What a model of the kind answers, as text.
async function ask(server, { name, kind }) {
  const response = kind === 'embedding'
    ? await server.post('/v1/embeddings', { model: name, input: 'Once upon a time' })
    : await server.post('/v1/completions', { model: name, prompt: 'Once upon a time', temperature: 0, max_tokens: 8, ignore_eos: true });
  const value = await response.json();
  if (response.status !== 200) return { status: response.status, error: JSON.stringify(value) };
  assert.equal(response.headers.get('x-cairn-model'), name);
  return { status: 200, text: JSON.stringify(kind === 'embedding' ? value.data : value.choices) };
}

test('cairn list names every model and where it lies', () => {
  const run = cairn(['list', '--json', '--models', models]);
  assert.equal(run.status, 0, run.stderr);
  const listed = JSON.parse(run.stdout);
  const llama = listed.models.find(({ name }) => name === 'llama');
  assert.equal(llama.architecture, 'llama');
  assert.equal(llama.kind, 'chat');
  assert.equal(llama.path, path.join(models, 'llama.gguf'));
  assert.equal(llama.runs, true);
  assert.equal(llama.fits, 'yes');
  assert.ok(llama.memory_bytes > llama.size_bytes / 2 && llama.memory_bytes < listed.available_bytes);
  assert.equal(listed.models.find(({ name }) => name === 'bert').kind, 'embedding');
  assert.deepEqual(listed.skipped.map((file) => path.basename(file.path)), ['broken.gguf']);
  const table = cairn(['list', '--models', models]);
  assert.match(table.stdout, /^NAME +KIND/);
  assert.match(table.stdout, /^NAME .* FITS +WHERE$/m);
  assert.match(table.stdout, /^Stories260K-F32 +text +llama .* yes +\S+\.gguf$/m);
  assert.match(table.stderr, /left out: .*broken\.gguf/);
  const odd = path.join(folder, 'odd');
  fs.mkdirSync(odd);
  fs.writeFileSync(path.join(odd, 'a\x1b[31mb.gguf'), 'GGUF, but nothing behind it');
  const escaped = cairn(['list', '--models', odd]);
  assert.match(escaped.stderr, /left out: .*a\\x1b\[31mb\.gguf/);
  assert.ok(!escaped.stderr.includes('\x1b'), 'nothing of a name reaches the terminal as it is');
  const none = cairn(['list', '--models', path.join(folder, 'none'), '--own-models']);
  assert.equal(none.status, 0, none.stderr);
  assert.match(none.stdout, /^There are no models yet: put GGUF files into .*\/none, or get one of those that fit this machine:\n(?: {2}cairn run \S+ +# [\d.]+ \wiB, .*\n){1,4}$/);
  assert.doesNotMatch(none.stdout, /Press/);
  const data = path.join(folder, 'data');
  fs.mkdirSync(path.join(data, 'cairn'), { recursive: true });
  fs.symlinkSync(models, path.join(data, 'cairn', 'models'));
  const env = { ...process.env, XDG_DATA_HOME: data };
  assert.match(cairn(['inspect', 'stories260k-f32'], { env }).stdout, /architecture +llama/);
  assert.match(cairn(['inspect', 'nobody'], { env }).stderr, /there is neither a file nor a model nobody; cairn list shows what is here/);
});

test('a model that does not fit is listed with what is missing', { skip: withoutHoles(folder) }, () => {
  const place = path.join(folder, 'large');
  fs.mkdirSync(place);
  assert.equal(cairn(['synth', path.join(place, 'flash.gguf'), '--preset', 'v3', '--type', 'Q8_0', '--hollow']).status, 0);
  assert.match(cairn(['list', '--models', place, '--own-models']).stdout, /^flash .* no: [\d.]+ GiB short +\S+$/m);
  const [large] = JSON.parse(cairn(['list', '--json', '--models', place, '--own-models']).stdout).models;
  assert.equal(large.fits, 'no');
  assert.ok(large.memory_bytes > 600e9);
});

test('a server without a model proposes some, and serves what is put there at once', async () => {
  const place = path.join(folder, 'empty');
  fs.mkdirSync(place);
  const server = await serve(null, ['--models', place, '--own-models', '--memory', '6GiB']);
  try {
    await logged(server, /there are no models yet[^]*cairn pull \S+ +# [\d.]+ \wiB[^]*serving 0 models on[^]*open http\S+ in a browser/);
    const response = await fetch(`${server.url}/v1/proposals`);
    assert.equal(response.status, 200);
    const { data, ...facts } = await response.json();
    assert.equal(facts.object, 'list');
    assert.equal(facts.pull, true);
    assert.ok(facts.available_bytes > 0 && facts.available_bytes <= 6 * 2 ** 30);
    assert.ok(data.length >= 1 && data.length <= 4);
    for (const model of data) {
      assert.deepEqual(Object.keys(model), ['name', 'size_bytes', 'memory_bytes', 'tokens_per_second', 'good_for', 'fits']);
      assert.ok(model.memory_bytes <= facts.available_bytes && model.size_bytes > 1e8);
      assert.equal(model.tokens_per_second > 0, facts.bandwidth_bytes_per_second > 0);
    }
    const again = await (await fetch(`${server.url}/v1/proposals`)).json();
    assert.equal(again.bandwidth_bytes_per_second, facts.bandwidth_bytes_per_second);
    fs.symlinkSync(story, path.join(place, 'late.gguf'));
    await eventually('the new model is not listed', async () => (await stateOf(server, 'late')) === 'unloaded');
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('models asked in random order under a budget for three answer as each does alone', async () => {
  const alone = new Map();
  let sizes = [];
  const large = await serveAll();
  try {
    const { data } = await (await fetch(`${large.url}/v1/models`)).json();
    for (const { id: name, kind } of data.filter((model) => model.kind !== 'reranking' && !model.error)) {
      const answer = await ask(large, { name, kind });
      if (answer.status === 200) alone.set(name, { name, kind, text: answer.text });
      const [loaded] = await memoryOf(large);
      if (loaded) sizes.push(loaded.memory_bytes);
      assert.equal((await change(large, 'unload', name)).status, 200);
      await eventually('unloaded', async () => (await memoryOf(large)).length === 0);
    }
  } finally {
    assert.equal((await large.stop()).code, 0);
  }
  assert.ok(alone.size >= 30, `${alone.size} models answer`);
  sizes = sizes.sort((a, b) => b - a);
  const budget = sizes[0] + sizes[1] + sizes[2];

  const small = await serveAll(['--memory', String(budget)]);
  try {
    let seed = 7;
    const random = (below) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((seed / 2_147_483_648) * below);
    };
    const names = [...alone.values()];
    const order = Array.from({ length: kTexts }, () => names[random(names.length)]);
    let most = 0;
    let asking = true;
    const watch = (async () => {
      while (asking) {
        const taken = (await memoryOf(small)).reduce((sum, model) => sum + model.memory_bytes, 0);
        most = Math.max(most, taken);
        await new Promise((done) => { setTimeout(done, 5); });
      }
    })();
    const next = async () => {
      for (let model = order.pop(); model; model = order.pop()) {
        const answer = await ask(small, model);
        assert.equal(answer.status, 200, answer.error);
        assert.equal(answer.text, model.text, model.name);
      }
    };
    try {
      await Promise.all([next(), next(), next(), next()]);
    } finally {
      asking = false;
      await watch;
    }
    assert.ok(most > 0 && most <= budget, `${most} bytes of ${budget}`);
  } finally {
    assert.equal((await small.stop()).code, 0);
  }
});

test('a model that is unloaded while it streams ends its stream whole', async () => {
  const server = await serveAll();
  const name = 'Stories260K-F32';
  const stream = async (meanwhile) => {
    const response = await server.post('/v1/completions', { model: name, prompt: 'Once', max_tokens: 300, temperature: 0, ignore_eos: true, stream: true });
    assert.equal(response.status, 200);
    let text = '';
    for await (const chunk of response.body) {
      text += Buffer.from(chunk);
      if (meanwhile) await meanwhile();
      meanwhile = undefined;
    }
    const events = text.split('\n\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
    assert.match(text, /data: \[DONE\]/);
    return events.map((event) => event.choices[0]?.text ?? '').join('');
  };
  try {
    const whole = await stream();
    assert.ok(whole.length > 300);
    let unloaded;
    const cut = stream(async () => { unloaded = await (await change(server, 'unload', name)).json(); });
    assert.equal(await cut, whole);
    assert.deepEqual(unloaded, { success: true, model: name, state: 'unloaded' });
    assert.equal(await stream(), whole);
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('a name that is nearly right finds its model, and another the default of its kind', async () => {
  const server = await serveAll(['--default-model', 'llama', '--default-model', 'bert']);
  const complete = (model) => server.post('/v1/completions', { model, prompt: 'Once', max_tokens: 1 });
  try {
    for (const [asked, answers] of [['stories260k-f32', 'Stories260K-F32'], ['stories', 'Stories260K-F32'], ['gpt-4o-mini', 'llama'], ['', 'llama']]) {
      const response = await complete(asked);
      assert.equal(response.headers.get('x-cairn-model'), answers, asked);
      assert.equal((await response.json()).model, answers);
    }
    const vectors = await server.post('/v1/embeddings', { model: 'text-embedding-3-small', input: 'x' });
    assert.equal((await vectors.json()).model, 'bert');
    const several = await complete('gemma3');
    assert.equal(several.headers.get('x-cairn-model'), 'gemma3');
    const unclear = await complete('deepseek');
    assert.equal(unclear.status, 400);
    assert.match((await unclear.json()).error.message, /"deepseek" may be any of .*deepseek2/);
  } finally {
    await server.stop();
  }
  const strict = await serveAll(['--strict-models', '--default-model', 'llama']);
  try {
    const refused = await strict.post('/v1/completions', { model: 'gpt-4o-mini', prompt: 'Once' });
    assert.equal(refused.status, 404);
    assert.match((await refused.json()).error.message, /there is no model "gpt-4o-mini"; there is .*llama/);
    const anthropic = await strict.post('/v1/messages', { model: 'claude', max_tokens: 1, messages: [{ role: 'user', content: 'x' }] });
    assert.equal((await anthropic.json()).error.type, 'not_found_error');
  } finally {
    await strict.stop();
  }
});

test('Ollama\'s clients load, keep and unload models as they do there', async () => {
  const server = await serveAll(['--idle-unload', '1h']);
  const generate = async (body) => (await server.post('/api/generate', { model: 'llama', stream: false, ...body })).json();
  const running = async () => (await (await fetch(`${server.url}/api/ps`)).json()).models;
  try {
    const { models: tags } = await (await fetch(`${server.url}/api/tags`)).json();
    assert.ok(tags.some(({ name }) => name === 'bert') && tags.some(({ name }) => name === 'llama'));
    assert.deepEqual(await running(), []);
    const shown = await (await server.post('/api/show', { model: 'llama:latest' })).json();
    assert.equal(shown.model_info['general.architecture'], 'llama');
    assert.equal((await server.post('/api/show', { model: 'nobody' })).status, 404);
    assert.equal((await generate({})).done_reason, 'load');
    const [{ name, expires_at: expires }] = await running();
    assert.equal(name, 'llama');
    assert.ok(Date.parse(expires) - Date.now() > 3_000_000, expires);
    assert.equal((await generate({ prompt: 'Once', keep_alive: -1, options: { num_predict: 1 } })).done, true);
    assert.match((await running())[0].expires_at, /^9999/);
    assert.equal((await generate({ keep_alive: 0 })).done_reason, 'unload');
    assert.deepEqual(await running(), []);
    assert.equal((await generate({ prompt: 'Once', keep_alive: 0, options: { num_predict: 1 } })).done, true);
    await eventually('unloaded', async () => (await running()).length === 0);
    assert.match((await generate({ keep_alive: 'soon' })).error, /keep_alive/);
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('a key that may not manage models neither unloads one nor says how long it stays', async () => {
  const keys = path.join(folder, 'keys');
  fs.writeFileSync(keys, 'alice sk-alice-0123456789\nman sk-manage-0123456789 manage\n', { mode: 0o600 });
  const server = await serveAll(['--idle-unload', '1h', '--api-key-file', keys]);
  const generate = (name, body) => fetch(`${server.url}/api/generate`, {
    method: 'POST',
    headers: { authorization: `Bearer sk-${name}-0123456789` },
    body: JSON.stringify({ model: 'llama', stream: false, ...body }),
  });
  const running = async () => (await (await fetch(`${server.url}/api/ps`, { headers: { authorization: 'Bearer sk-alice-0123456789' } })).json()).models;
  try {
    const kept = await (await generate('alice', { prompt: 'Once', keep_alive: -1, warnings: true, options: { num_predict: 1 } })).json();
    assert.equal(kept.done, true);
    assert.match(JSON.stringify(kept.warnings), /keep_alive has no effect: this key may not manage models/);
    assert.doesNotMatch((await running())[0].expires_at, /^9999/);
    assert.equal((await (await generate('alice', { prompt: 'Once', keep_alive: 0, options: { num_predict: 1 } })).json()).done, true);
    const refused = await generate('alice', { keep_alive: 0 });
    assert.equal(refused.status, 403);
    assert.match((await refused.json()).error, /may not unload models/);
    assert.equal((await running()).length, 1);
    assert.equal((await (await generate('manage', { keep_alive: 0 })).json()).done_reason, 'unload');
    assert.deepEqual(await running(), []);
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('what cannot fit says how much is needed and there is, and llama-server\'s load and unload work', async () => {
  const server = await serveAll(['--memory', '200KiB']);
  try {
    for (const stream of [false, true]) {
      const refused = await server.post('/v1/chat/completions', { model: 'llama', stream, messages: [{ role: 'user', content: 'x' }] });
      assert.equal(refused.status, 503);
      assert.match((await refused.json()).error.message, /needed, .* available.*budget of 200\.0 KiB/);
    }
    assert.equal((await (await server.post('/models/load', { model: 'llama' })).json()).success, true);
    await eventually('failed', async () => {
      const { data } = await (await fetch(`${server.url}/models`)).json();
      return data.find(({ id }) => id === 'llama').status.failed === true;
    });
    assert.equal((await server.post('/models/unload', { model: 'llama' })).status, 200);
    assert.equal((await server.post('/models/unload', { model: 'nobody' })).status, 404);
    assert.equal((await server.post('/v1/models/load', {})).status, 400);
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('pinned models are there from the start, and several files are served by their names', async () => {
  const file = (name) => path.join(fixtures, 'models', `${name}.gguf`);
  const server = await serve(file('llama'), [file('bert'), '--pin', 'bert', ...kFlags]);
  try {
    await eventually('loaded', async () => await stateOf(server, 'bert') === 'loaded');
    assert.equal(await stateOf(server, 'llama'), 'unloaded');
    assert.equal((await ask(server, { name: 'llama', kind: 'chat' })).status, 200);
    assert.equal(await stateOf(server, 'llama'), 'loaded');
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
  const wrong = cairn(['serve', file('llama'), file('bert'), '--port', '0', '--pin', 'nobody']);
  assert.equal(wrong.status, 1);
  assert.match(wrong.stderr, /--pin nobody: there is no such model; the models are llama, bert/);
});

test('what a model\'s file recommends for sampling holds for the request that loads it, too', async () => {
  const own = path.join(folder, 'recommending');
  fs.mkdirSync(own);
  fs.copyFileSync(storyWith({ 'general.sampling.top_k': 1 }), path.join(own, 'first.gguf'));
  const server = await serve(null, ['--models', own, '--own-models', ...kFlags]);
  const once = { model: 'first', prompt: 'Once upon a time' };
  const text = async (route, body, of) => of(await (await server.post(route, { ...once, ...body })).json());
  try {
    const greedy = await text('/v1/completions', { temperature: 0, max_tokens: 24 }, (value) => value.choices[0].text);
    const firsts = [
      ['/v1/completions', { max_tokens: 24 }, (value) => value.choices[0].text],
      ['/completion', { n_predict: 24 }, (value) => value.content],
      ['/api/generate', { raw: true, stream: false, options: { num_predict: 24, repeat_penalty: 1 } }, (value) => value.response],
    ];
    for (const [route, body, of] of firsts) {
      assert.equal((await change(server, 'unload', 'first')).status, 200);
      assert.equal(await text(route, body, of), greedy, route);
    }
  } finally {
    await server.stop();
  }
});

test('a thousand broken files, and files that change or go while they are served, are named and harm no other model', async () => {
  const own = path.join(folder, 'changing');
  fs.mkdirSync(own);
  const file = (name) => path.join(own, `${name}.gguf`);
  for (const name of ['a', 'b', 'c', 'd']) fs.copyFileSync(story, file(name));
  for (let i = 0; i < 1000; ++i) fs.writeFileSync(file(`broken-${i}`), i % 2 === 0 ? '' : 'GGUF and nothing that belongs there');
  const server = await serve(null, ['--models', own, '--own-models', ...kFlags]);
  const model = (name) => ask(server, { name, kind: 'chat' });
  try {
    assert.match(server.log(), /broken-\S+ is left out: .*[\s\S]* 980 more files are left out/);
    assert.equal((await (await fetch(`${server.url}/v1/models`)).json()).data.length, 4);
    const before = await model('a');
    assert.equal(before.status, 200, before.error);
    // Loaded, and then written over in place: half of its weights have another sign.
    const bytes = fs.readFileSync(story);
    for (let at = bytes.length - (bytes.length >> 1 & ~3) - 1; at < bytes.length; at += 4) bytes[at] ^= 0x80;
    fs.writeFileSync(file('new'), bytes);
    const changed = fs.openSync(file('a'), 'r+');
    fs.writeSync(changed, bytes);
    fs.closeSync(changed);
    await sleep(1_200);  // it is looked at once a second
    const after = await model('a');
    assert.equal(after.status, 200, after.error);
    assert.notEqual(after.text, before.text);
    await logged(server, /a is loaded again, as its file has changed/);
    // Not loaded, and gone, or something else.
    fs.rmSync(file('b'));
    fs.writeFileSync(file('c'), 'GGUF and nothing that belongs there');
    for (const [name, pattern] of [['b', /b\.gguf/], ['c', /cut short|corrupt|version|not/]]) {
      const refused = await model(name);
      assert.ok(refused.status >= 400, name);
      assert.match(refused.error, pattern);
      assert.match((await (await fetch(`${server.url}/v1/models/${name}`)).json()).error, pattern);
    }
    assert.equal((await model('d')).text, before.text);
    // Loaded, and gone: the mapping stays.
    fs.rmSync(file('d'));
    assert.equal((await model('d')).text, before.text);
    process.kill(server.pid, 'SIGHUP');
    await eventually('the list is read again', async () => {
      const { data } = await (await fetch(`${server.url}/v1/models`)).json();
      return data.map(({ id }) => id).join() === 'a,new';
    });
    assert.equal((await model('new')).text, after.text);
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('what is told of a model is the same before and after it is loaded, but for its state', async () => {
  const own = path.join(folder, 'told');
  fs.mkdirSync(own);
  for (const name of ['llama', 'bert', 'bert-rerank', 'qwen3']) {
    const file = path.join(fixtures, 'models', `${name}.gguf`);
    if (fs.existsSync(file)) fs.copyFileSync(file, path.join(own, `${name}.gguf`));
  }
  fs.copyFileSync(storyWithControls(['<|fim_prefix|>', '<|fim_suffix|>', '<|fim_middle|>'], [], 512), path.join(own, 'filler.gguf'));
  fs.copyFileSync(story, path.join(own, 'short.gguf'));
  const config = path.join(folder, 'told.toml');
  fs.writeFileSync(config, '[model."short"]\nctx = 96\n');
  const server = await serve(null, ['--models', own, '--own-models', '--config', config, ...kFlags]);
  const get = async (route, headers = {}) => {
    const response = await fetch(server.url + route, { headers });
    return { status: response.status, value: await response.json() };
  };
  // Fields that tell whether it is loaded.
  const still = (value) => JSON.parse(JSON.stringify(value, (key, each) => ['state', 'status', 'n_prompt_tokens'].includes(key) ? undefined : each));
  const told = async (name) => ({
    list: still((await get('/v1/models')).value.data.find(({ id }) => id === name)),
    beside: still((await get('/models')).value.models.find((model) => model.name === name)),
    one: still(await get(`/v1/models/${name}`)),
    anthropic: await get(`/v1/models/${name}`, { 'anthropic-version': '2023-06-01' }),
    tags: (await get('/api/tags')).value.models.find((model) => model.name === name),
    show: await (await server.post('/api/show', { model: name })).json(),
    props: await get(`/props?model=${name}`),
    slots: await get(`/slots?model=${name}`),
    tokens: await get(`/tokenizer_info?model=${name}`),
    adapters: await get(`/lora-adapters?model=${name}`),
  });
  try {
    const { data } = (await get('/v1/models')).value;
    assert.ok(data.length >= 4 && data.every(({ state }) => state === 'unloaded'));
    const first = await get('/props');
    assert.equal(first.status, 200);
    assert.equal((await get('/slots')).status, 200);
    const before = new Map();
    for (const { id } of data) before.set(id, await told(id));
    assert.ok((await get('/v1/models')).value.data.every(({ state }) => state === 'unloaded'), 'nothing was loaded for that');
    assert.equal(before.get('short').list.context_length, 96);
    assert.match(before.get('short').show.parameters, /num_ctx 96/);
    assert.ok(before.get('filler').show.capabilities.includes('insert'));
    assert.deepEqual(before.get('bert').show.capabilities, ['embedding']);
    for (const { id } of data) {
      assert.equal((await change(server, 'load', id)).status, 200);
      await eventually(`${id} is loaded`, async () => await stateOf(server, id) === 'loaded');
      assert.deepEqual(await told(id), before.get(id), id);
      assert.equal((await change(server, 'unload', id)).status, 200);
      assert.deepEqual(await told(id), before.get(id), `${id}, unloaded again`);
    }
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('of a file that is replaced while its model is not loaded, all that is told is that of the new one', async () => {
  const own = path.join(folder, 'replaced');
  fs.mkdirSync(own);
  const put = (file) => {
    fs.copyFileSync(file, path.join(own, 'new.part'));
    fs.renameSync(path.join(own, 'new.part'), path.join(own, 'model.gguf'));
  };
  const told = async (server, read) => {
    const get = async (route) => (await fetch(server.url + route)).json();
    const answers = {
      tags: async () => [(await get('/api/tags')).models[0]].map(({ size, details }) => [size, details]),
      studio: async () => (await get('/api/v0/models')).data[0].arch,
      list: async () => [(await get('/v1/models')).data[0]].map(({ created, state, status, ...rest }) => rest),
      show: async () => [await (await server.post('/api/show', { model: 'model' })).json()].map(({ modified_at, ...rest }) => rest),
      props: () => get('/props?model=model'),
      tokens: () => get('/tokenizer_info?model=model'),
      slots: async () => (await get('/slots?model=model'))[0].n_ctx,
    };
    return Object.fromEntries(await Promise.all(read.map(async (name) => [name, await answers[name]()])));
  };
  const kAll = ['tags', 'studio', 'list', 'show', 'props', 'tokens', 'slots'];
  const files = [path.join(fixtures, 'models', 'llama.gguf'), storyTrainedFor(512), path.join(fixtures, 'models', 'qwen3.gguf')];
  const expected = [];
  for (const file of files) {
    put(file);
    const server = await serve(null, ['--models', own, '--own-models', ...kFlags]);
    expected.push(await told(server, kAll));
    await server.stop();
  }
  put(files[0]);
  const server = await serve(null, ['--models', own, '--own-models', ...kFlags]);
  try {
    assert.deepEqual(await told(server, kAll), expected[0]);
    for (const first of kAll) {
      put(files[1]);
      assert.deepEqual(await told(server, [first]), { [first]: expected[1][first] }, first);
      put(files[2]);
      assert.deepEqual(await told(server, [first]), { [first]: expected[2][first] }, first);
    }
    assert.deepEqual(await told(server, kAll), expected[2]);
    put(files[1]);
    assert.equal((await server.post('/v1/completions', { model: 'model', prompt: 'Once', max_tokens: 1 })).status, 200);
    assert.deepEqual(await told(server, kAll), expected[1], 'loaded');
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('the context that memory leaves is told before the model is loaded, whatever else is loaded then', async () => {
  const own = path.join(folder, 'tight');
  fs.mkdirSync(own);
  fs.copyFileSync(storyTrainedFor(131_072), path.join(own, 'long.gguf'));
  for (const name of ['a', 'b']) fs.copyFileSync(story, path.join(own, `${name}.gguf`));
  const server = await serve(null, ['--models', own, '--own-models', '--memory', '64MiB', ...kFlags]);
  const context = async (name) => (await (await fetch(`${server.url}/v1/models/${name}`)).json()).context_length;
  try {
    for (const name of ['a', 'b']) assert.equal((await ask(server, { name, kind: 'chat' })).status, 200);
    const before = await context('long');
    assert.ok(before >= 16_384 && before < 131_072, `${before} tokens`);
    assert.equal((await ask(server, { name: 'long', kind: 'chat' })).status, 200);
    assert.equal(await context('long'), before);
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('a file that was put into the folder after the start answers to its name, by every way to name it', async () => {
  const own = path.join(folder, 'later');
  fs.mkdirSync(own);
  fs.copyFileSync(path.join(fixtures, 'models', 'llama.gguf'), path.join(own, 'first.gguf'));
  fs.writeFileSync(path.join(own, 'broken.gguf'), 'GGUF, but nothing behind it');
  const server = await serve(null, ['--models', own, '--own-models', '--default-model', 'first', ...kFlags]);
  const put = (name) => fs.copyFileSync(story, path.join(own, `${name}.gguf`));
  const complete = async (model) => (await server.post('/v1/completions', { model, prompt: 'Once', max_tokens: 1 })).headers.get('x-cairn-model');
  const ways = [
    complete,
    async (name) => (await (await server.post('/api/show', { model: name })).json()).details && name,
    async (name) => (await (await fetch(`${server.url}/v1/models/${name}`)).json()).id,
    async (name) => (await (await fetch(`${server.url}/props?model=${name}`)).json()).model_alias,
    async (name) => (await (await server.post('/v1/models/load', { model: name })).json()).model,
  ];
  try {
    assert.equal(await complete('nobody'), 'first');
    for (const [i, way] of ways.entries()) {
      await sleep(1_050);  // the folders are looked into once a second at most
      put(`new-${i}`);
      assert.equal(await way(`new-${i}`), `new-${i}`);
    }
    // A name that is not there is answered by the default, and asks for no more looks than one a second.
    await Promise.all(Array.from({ length: 20 }, async () => assert.equal(await complete('first-and-nobody'), 'first')));
    assert.equal(server.log().match(/broken\.gguf is left out/g).length, 1, 'what is left out is said once');
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('a model that is unloaded while it is being loaded is unloaded, by every way to unload it', async () => {
  const server = await serveAll(['--idle-unload', 'off']);
  const ways = [
    () => change(server, 'unload', 'Stories260K-F32'),
    () => server.post('/models/unload', { model: 'Stories260K-F32' }),
    () => server.post('/api/generate', { model: 'Stories260K-F32', keep_alive: 0, stream: false }),
    () => server.post('/api/chat', { model: 'Stories260K-F32', messages: [], keep_alive: 0 }),
  ];
  try {
    for (const way of ways) {
      for (let round = 0; round < 5; ++round) {
        const [answer, unloaded] = await Promise.all([ask(server, { name: 'Stories260K-F32', kind: 'chat' }), sleep(round * 4).then(way)]);
        assert.equal(answer.status, 200, answer.error);
        assert.equal(unloaded.status, 200, await unloaded.text());
        assert.equal((await way()).status, 200);
        assert.equal(await stateOf(server, 'Stories260K-F32'), 'unloaded');
      }
    }
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('two models of one name are refused at the start, and told apart in a folder', () => {
  const two = ['one', 'two'].map((name) => path.join(folder, 'twice', name, 'same.gguf'));
  for (const file of two) {
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.copyFileSync(story, file);
  }
  const refused = cairn(['serve', ...two, '--port', '0']);
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /two models are named same; give one another name/);
  const alias = cairn(['serve', ...two, '--port', '0', '--alias', 'x']);
  assert.equal(alias.status, 1);
  assert.match(alias.stderr, /--name and --alias name one model, but several files would be served; give one file/);
  const { models: listed } = JSON.parse(cairn(['list', '--json', '--models', path.join(folder, 'twice'), '--own-models']).stdout);
  assert.deepEqual(listed.map(({ name }) => name), ['same', 'two/same']);
});
