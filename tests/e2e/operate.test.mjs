// What a server tells whoever operates it, and how it stops: lines of the log, GET /metrics, signals, the config file.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { cairn, fixtures, logged, program, serve, story, storyTrainedFor, storyWith } from './server.mjs';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-operate-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));
const write = (name, text) => {
  fs.writeFileSync(path.join(folder, name), text);
  return path.join(folder, name);
};

// Samples of the text format as {name, labels, value}; fails on what is not of the format.
function samplesOf(text) {
  const types = new Map();
  const samples = [];
  for (const line of text.split('\n').filter((each) => each !== '')) {
    const type = line.match(/^# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge|histogram)$/);
    if (type) {
      assert.ok(!types.has(type[1]), `${type[1]} comes twice`);
      types.set(type[1], type[2]);
    }
    if (line.startsWith('#')) continue;
    const sample = line.match(/^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/);
    assert.ok(sample, line);
    const labels = Object.fromEntries([...(sample[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name, value]));
    const family = types.has(sample[1]) ? sample[1] : sample[1].replace(/_(bucket|sum|count)$/, '');
    assert.ok(types.has(family), `${sample[1]} has no type`);
    samples.push({ name: sample[1], labels, value: Number(sample[3].replace('+Inf', 'Infinity')) });
  }
  return samples;
}

const metricsOf = async (server) => samplesOf(await (await fetch(`${server.url}/metrics`)).text());
const sum = (samples, name, labels = {}) => samples
  .filter((each) => each.name === name && Object.entries(labels).every(([key, value]) => each.labels[key] === value))
  .reduce((total, each) => total + each.value, 0);

// Asks over several protocols, and returns what the answers say they used.
async function askAll(server) {
  const used = { requests: 0, prompt: 0, output: 0 };
  const add = (prompt, output) => { used.requests += 1; used.prompt += prompt; used.output += output; };
  const headers = { 'content-type': 'application/json', authorization: 'Bearer very-secret-key' };
  const chat = await (await server.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 5, n: 2 }, { headers })).json();
  add(chat.usage.prompt_tokens, chat.usage.completion_tokens);
  const message = await (await server.post('/v1/messages', { messages: [{ role: 'user', content: 'Hi there' }], max_tokens: 4 })).json();
  add(message.usage.input_tokens + (message.usage.cache_read_input_tokens ?? 0), message.usage.output_tokens);
  const ollama = await (await server.post('/api/generate', { prompt: 'Once', stream: false, options: { num_predict: 3 } })).json();
  add(ollama.prompt_eval_count, ollama.eval_count);
  const stream = await (await server.post('/v1/completions', { prompt: 'Once upon', max_tokens: 6, stream: true, stream_options: { include_usage: true } })).text();
  const last = JSON.parse(stream.trim().split('\n').filter((line) => line.startsWith('data: {')).at(-1).slice(6));
  add(last.usage.prompt_tokens, last.usage.completion_tokens);
  return used;
}

test('the log in JSON and the metrics count what was sent, and the key is in neither', async () => {
  const server = await serve(story, ['--log-format', 'json']);
  const used = await askAll(server);
  assert.equal((await server.post('/v1/chat/completions', '{"messages":')).status, 400);
  assert.equal((await server.post('/v1/nothing', {})).status, 404);
  assert.equal((await fetch(`${server.url}/v1/models/none`)).status, 404);
  // A client that goes away in the middle.
  const gone = new AbortController();
  const reply = await server.post('/v1/completions', { prompt: 'Once', max_tokens: 400, ignore_eos: true, stream: true }, { signal: gone.signal });
  await reply.body.getReader().read();
  gone.abort();
  await logged(server, /"client_gone":true/);
  const samples = await metricsOf(server);
  const end = await server.stop();
  assert.equal(end.code, 0);
  const lines = end.log.trim().split('\n').map((line) => JSON.parse(line));
  const ins = lines.filter((line) => line.event === 'request_in');
  const outs = lines.filter((line) => line.event === 'request_out');
  // Not GET /metrics, nor the search for a model, which have lines at debug alone.
  assert.equal(ins.length, 7);
  assert.deepEqual(ins.map((line) => line.request).sort(), outs.map((line) => line.request).sort());
  const answered = outs.filter((line) => line.model !== null && !line.client_gone);
  assert.equal(answered.length, used.requests);
  const total = (name) => answered.reduce((all, line) => all + line[name], 0);
  assert.equal(total('prompt_tokens'), used.prompt);
  assert.equal(total('output_tokens'), used.output);
  assert.deepEqual(answered.map((line) => line.protocol), ['openai', 'anthropic', 'ollama', 'openai']);
  assert.deepEqual(answered.map((line) => line.stream), [false, false, false, true]);
  assert.ok(answered.every((line) => line.status === 200 && line.ttft_ms > 0 && ['stop', 'length'].includes(line.finish)));
  const left = outs.find((line) => line.client_gone);
  assert.ok(left.output_tokens > 0 && left.output_tokens < 400);
  assert.ok(answered[0].key.startsWith('#'));
  assert.doesNotMatch(end.log, /very-secret-key/);
  // The metrics of the same requests.
  assert.equal(sum(samples, 'cairn_requests_total', { status: '200' }), 5);
  assert.equal(sum(samples, 'cairn_requests_total', { status: '400' }), 1);
  assert.equal(sum(samples, 'cairn_requests_total', { status: '404' }), 2);
  assert.equal(sum(samples, 'cairn_clients_gone_total'), 1);
  assert.equal(sum(samples, 'cairn_output_tokens_total'), used.output + left.output_tokens);
  assert.equal(sum(samples, 'cairn_prompt_tokens_total'), used.prompt + left.prompt_tokens);
  assert.equal(sum(samples, 'cairn_time_to_first_token_seconds_count'), 5);
  assert.equal(sum(samples, 'cairn_time_to_first_token_seconds_bucket', { le: '+Inf' }), 5);
  // A step may be in progress.
  assert.ok(Math.abs(sum(samples, 'cairn_step_seconds_count') - sum(samples, 'cairn_steps_total')) <= 1);
  assert.ok(sum(samples, 'cairn_inter_token_latency_seconds_count') > 0);
  assert.equal(sum(samples, 'cairn_requests_in_progress'), 1);  // this one
  assert.ok(sum(samples, 'llamacpp:tokens_predicted_total') >= used.output);
  assert.ok(sum(samples, 'process_resident_memory_bytes') > 1e6);
  assert.ok(sum(samples, 'cairn_memory_planned_bytes', { part: 'kv' }) > 0);
});

const lineOf = (log, what) => log.split('\n').filter((line) => line.includes(` ${what} `));

test('the log in text has one readable line of each request, or none', async () => {
  const server = await serve(story);
  await askAll(server);
  const answer = await server.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 3 },
    { headers: { 'content-type': 'application/json', 'x-client-request-id': 'mine' } });
  const id = answer.headers.get('x-request-id');
  const { usage } = await answer.json();
  assert.equal((await server.post('/v1/nothing', {})).status, 404);
  for (const quiet of ['/', '/health', '/ready', '/metrics', '/props', '/v1/models', '/api/tags', '/v1/models/none'])
    await (await fetch(server.url + quiet)).arrayBuffer();
  const page = await (await fetch(server.url, { headers: { accept: 'text/html' } })).text();
  assert.ok((await fetch(`${server.url}/${page.match(/assets\/main-\w+\.js/)[0]}`)).ok);
  const { log } = await server.stop();
  const posts = log.split('\n').filter((line) => / info POST /.test(line));
  assert.equal(posts.length, 6, log);
  assert.doesNotMatch(log, / GET /);
  assert.match(posts[3], /info POST \/v1\/completions 200 model=\S+ prompt \d+ \(\d+ cached\) answer 6, length, first token [\d.]+ ms(?: \(prompt at [\d.]+ tokens\/s\))?, [\d.]+ tokens\/s, [\d.]+ m?s, stream, from 127\.0\.0\.1, req_[0-9a-f]{8}$/);
  const cached = usage.prompt_tokens_details.cached_tokens;
  assert.ok(posts[4].includes(` prompt ${usage.prompt_tokens} (${cached} cached) answer 3, length, `), posts[4]);
  assert.ok(posts[4].endsWith(`, ${id.slice(0, 12)} (its client's id: "mine")`), posts[4]);
  assert.match(posts[5], /POST \/v1\/nothing 404, [\d.]+ ms, from /);
  const quiet = await serve(story, ['--no-log-requests']);
  await askAll(quiet);
  assert.doesNotMatch((await quiet.stop()).log, / POST /);
});

test('what is asked every moment has its lines at debug', async () => {
  const server = await serve(story, ['--log-level', 'debug']);
  for (const path of ['/health', '/metrics', '/props', '/v1/models']) await (await fetch(server.url + path)).arrayBuffer();
  await server.post('/v1/completions', { prompt: 'Once', max_tokens: 1 });
  const { log } = await server.stop();
  for (const path of ['/health', '/metrics', '/props', '/v1/models']) {
    assert.equal(lineOf(log, `debug GET ${path} 200,`).length, 1, `${path}: ${log}`);
  }
  assert.equal(lineOf(log, 'debug POST /v1/completions begins,').length, 1, log);
  assert.equal(lineOf(log, 'info POST /v1/completions 200').length, 1, log);
});

test('the metrics tell the version, the state of models, their loads and the bytes of their pages', async () => {
  const models = fs.mkdtempSync(path.join(folder, 'models-'));
  fs.copyFileSync(story, path.join(models, 'story.gguf'));
  const server = await serve(null, ['--models', models, '--own-models']);
  const state = (samples, model) => samples
    .filter((each) => each.name === 'cairn_model_state' && each.labels.model === model && each.value === 1).map((each) => each.labels.state);
  const before = await metricsOf(server);
  assert.equal(sum(before, 'cairn_build_info', { version: fs.readFileSync(path.join(root, 'VERSION'), 'utf8').trim() }), 1);
  assert.deepEqual(state(before, 'story'), ['unloaded']);
  assert.equal(sum(before, 'cairn_model_loads_total', { model: 'story' }), 0);
  assert.equal((await server.post('/v1/completions', { model: 'story', prompt: 'Once', max_tokens: 2 })).status, 200);
  const samples = await metricsOf(server);
  assert.deepEqual(state(samples, 'story'), ['loaded']);
  assert.equal(sum(samples, 'cairn_model_loads_total', { model: 'story' }), 1);
  assert.equal(sum(samples, 'cairn_model_load_failures_total', { model: 'story' }), 0);
  assert.ok(sum(samples, 'cairn_model_load_seconds_total', { model: 'story' }) > 0);
  const pages = (stateOf) => sum(samples, 'cairn_kv_pages', { model: 'story', state: stateOf });
  const bytes = (stateOf) => sum(samples, 'cairn_kv_bytes', { model: 'story', state: stateOf });
  const each = (bytes('used') + bytes('cached') + bytes('free')) / (pages('used') + pages('cached') + pages('free'));
  assert.ok(each > 0);
  assert.ok(Math.abs(bytes('free') / each - pages('free')) < 1, JSON.stringify(samples.filter(({ name }) => name.startsWith('cairn_kv_'))));
  await server.stop();
  const small = await serve(null, ['--models', models, '--own-models', '--memory', '200KiB']);
  assert.ok((await small.post('/v1/completions', { model: 'story', prompt: 'Once', max_tokens: 2 })).status >= 400);
  const after = await metricsOf(small);
  assert.deepEqual(state(after, 'story'), ['unloaded']);
  assert.equal(sum(after, 'cairn_model_load_failures_total', { model: 'story' }), 1);
  assert.equal(sum(after, 'cairn_model_load_seconds_total', { model: 'story' }), 0);
  await small.stop();
});

test('texts to embed are told of, too', async () => {
  const server = await serve(path.join(fixtures, 'models', 'llama.gguf'), ['--log-format', 'json']);
  const reply = await server.post('/v1/embeddings', { input: ['one', 'two words'] });
  assert.equal(reply.status, 200);
  const { usage } = await reply.json();
  const [out] = (await server.stop()).log.trim().split('\n').map((line) => JSON.parse(line)).filter((line) => line.event === 'request_out');
  assert.equal(out.prompt_tokens, usage.prompt_tokens);
  assert.equal(out.choices, 2);
  assert.equal(out.finish, 'embedded');
});

test('promtool finds nothing to mend in /metrics and in the rules', { skip: spawnSync('promtool', ['--version']).error && 'promtool is not installed (Debian: prometheus)' }, async () => {
  const server = await serve(story);
  await askAll(server);
  const text = await (await fetch(`${server.url}/metrics`)).text();
  await server.stop();
  // Its linter refuses colons, which are in llama-server's own names.
  const own = text.split('\n').filter((line) => !line.includes('llamacpp:')).join('\n');
  const checked = spawnSync('promtool', ['check', 'metrics'], { input: own, encoding: 'utf8' });
  assert.equal(checked.status, 0, checked.stderr + checked.stdout);
  const rules = spawnSync('promtool', ['check', 'rules', path.join(root, 'examples/monitoring/alerts.yml')], { encoding: 'utf8' });
  assert.equal(rules.status, 0, rules.stderr);
  const config = spawnSync('promtool', ['check', 'config', path.join(root, 'examples/monitoring/prometheus.yml')], { encoding: 'utf8' });
  assert.equal(config.status, 0, config.stderr);
});

test('every query of the dashboard and of the rules names metrics that there are', async () => {
  const server = await serve(story);
  const names = new Set((await metricsOf(server)).map((each) => each.name));
  await askAll(server);
  for (const sample of await metricsOf(server)) names.add(sample.name);
  await server.stop();
  const dashboard = JSON.parse(fs.readFileSync(path.join(root, 'examples/monitoring/dashboard.json'), 'utf8'));
  const queries = dashboard.panels.flatMap((panel) => (panel.targets ?? []).map((target) => target.expr));
  queries.push(...fs.readFileSync(path.join(root, 'examples/monitoring/alerts.yml'), 'utf8').matchAll(/expr: (.*)/g).map?.((found) => found[1]) ?? []);
  assert.ok(queries.length > 15);
  for (const query of queries)
    for (const [name] of query.matchAll(/\b(?:cairn|process|llamacpp)[_:]\w+/g)) assert.ok(names.has(name), `${name} in ${query}`);
});

const streams = (server, count, tokens) => Array.from({ length: count }, async (_, index) => {
  const reply = await server.post('/v1/completions', { prompt: `Once upon a time ${index}`, max_tokens: tokens, ignore_eos: true, stream: true });
  assert.equal(reply.status, 200);
  const text = await reply.text();
  return { text, done: text.trimEnd().endsWith('data: [DONE]'), error: /"error": ?\{/.test(text) };
});

test('SIGTERM under 64 streams: all end whole, new requests are refused, and a restart answers', { timeout: 120_000 }, async () => {
  const server = await serve(storyTrainedFor(4096), ['--drain-seconds', '60']);
  const running = streams(server, 64, 600);
  // All have begun.
  for (let begun = 0; begun < 64;) begun = sum(await metricsOf(server), 'cairn_sequences_total');
  const stopped = server.stop();
  await logged(server, /stopping: \d+ answers in progress have 60 s to end/);
  const refused = await server.post('/v1/completions', { prompt: 'x' });
  assert.equal(refused.status, 503);
  assert.ok(Number(refused.headers.get('retry-after')) >= 1);
  assert.match((await refused.json()).error.message, /stopping/);
  const health = await fetch(`${server.url}/health`);
  assert.equal(health.status, 503);
  assert.equal((await fetch(`${server.url}/ready`)).status, 503);
  const ended = await Promise.all(running);
  assert.ok(ended.every((each) => each.done && !each.error));
  assert.equal((await stopped).code, 0);
  const again = await serve(story, ['--port', String(server.port)]);
  assert.equal((await fetch(`${again.url}/ready`)).status, 200);
  await again.stop();
});

// The model file with another token for the end of a text: one that is never sampled.
function withoutEnd(file) {
  const bytes = fs.readFileSync(file);
  const key = 'tokenizer.ggml.eos_token_id';
  bytes.writeUInt32LE(0, bytes.indexOf(key) + key.length + 4);
  fs.writeFileSync(file, bytes);
  return file;
}

test('SIGTERM: what has not ended at the bound ends with an error in its protocol', { timeout: 120_000 }, async () => {
  const server = await serve(withoutEnd(storyTrainedFor(100_000)), ['--drain-seconds', '1', '--ctx', '60000']);
  const endless = { max_tokens: 50_000 };
  const messages = [{ role: 'user', content: 'Hi' }];
  const asked = [
    server.post('/v1/chat/completions', { messages, stream: true, ...endless }),
    server.post('/v1/messages', { messages, stream: true, ...endless }),
    server.post('/api/chat', { messages, options: { num_predict: 50_000 } }),
    server.post('/v1/chat/completions', { messages, ...endless }),
  ].map(async (reply) => ({ status: (await reply).status, text: await (await reply).text() }));
  for (let begun = 0; begun < 4;) begun = sum(await metricsOf(server), 'cairn_sequences_total');
  const stopped = server.stop();
  const [chat, message, ollama, whole] = await Promise.all(asked);
  assert.match(chat.text, /data: \{"error":.*stopping/);
  assert.match(message.text, /event: error\ndata: .*stopping/);
  assert.match(ollama.text.trimEnd().split('\n').at(-1), /"error":.*stopping/);
  assert.equal(whole.status, 503);
  assert.match(whole.text, /stopping/);
  assert.equal((await stopped).code, 0);
});

test('SIGHUP is no end', async () => {
  const server = await serve(story);
  process.kill(server.pid, 'SIGHUP');
  await logged(server, /SIGHUP: /);
  assert.equal((await fetch(`${server.url}/ready`)).status, 200);
  assert.equal((await server.stop()).code, 0);
});

test('a config file, variables and flags: the nearer one counts', async () => {
  const config = write('cairn.toml', [
    `model-file = "${story}"`, 'name = "from-file"', 'queue-max = 7', 'alias = ["one", "two"]', 'no-prefix-cache = true',
    '[model."from-file"]', 'temp = 0.0', 'max-tokens = 3', ''].join('\n'));
  const shown = cairn(['config', 'show', '--all', '--config', config, '--step-ms', '25'], { env: { ...process.env, CAIRN_QUEUE_MAX: '9', CAIRN_STEP_MS: '5' } });
  assert.equal(shown.status, 0, shown.stderr);
  assert.match(shown.stdout, /^step-ms = 25 {2}# the command line$/m);
  assert.match(shown.stdout, /^queue-max = 9 {2}# the variable CAIRN_QUEUE_MAX$/m);
  assert.match(shown.stdout, /^name = "from-file" {2}# .*cairn\.toml, line 2$/m);
  assert.match(shown.stdout, /^alias = \["one", "two"\] {2}# .*line 4$/m);
  assert.match(shown.stdout, /^no-prefix-cache = true {2}# .*line 5$/m);
  assert.match(shown.stdout, /^parallel-max = 64 {2}# default$/m);
  const checked = cairn(['config', 'check', config]);
  assert.equal(checked.status, 0, checked.stderr);
  assert.match(checked.stdout, /5 settings, 1 models: no mistakes found/);
  // The model's own defaults hold.
  const child = spawn(program, ['serve', '--config', config, '--port', '0'], { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  child.stderr.on('data', (bytes) => { log += bytes; });
  const exited = new Promise((resolve) => { child.on('exit', resolve); });
  while (!/serving \S+ on http/.test(log) && child.exitCode === null) await new Promise((done) => { setTimeout(done, 20); });
  const url = log.match(/serving from-file on (http:\S+)/)?.[1];
  assert.ok(url, log);
  const ask = async () => (await (await fetch(`${url}/v1/completions`, { method: 'POST', body: JSON.stringify({ prompt: 'Once upon a time' }) })).json());
  const first = await ask();
  assert.equal(first.usage.completion_tokens, 3);
  assert.equal(first.choices[0].text, (await ask()).choices[0].text);
  assert.equal(first.usage.prompt_tokens_details.cached_tokens, 0);
  const props = await (await fetch(`${url}/props`)).json();
  assert.equal(props.default_generation_settings.params.temperature, 0);
  child.kill('SIGTERM');
  assert.equal(await exited, 0);
});

test('what is wrong in a config file is named with its line', () => {
  const wrong = (text, ...patterns) => {
    const checked = cairn(['config', 'check', write('wrong.toml', text)]);
    assert.equal(checked.status, 1, checked.stdout);
    for (const pattern of patterns) assert.match(checked.stderr, pattern);
  };
  wrong('port = \n', /wrong\.toml, line [12]: /);
  wrong('port = 1\nport = 2\n', /line 2: .*port/);
  wrong('\nqueue-mx = 5\n', /line 2: there is no option queue-mx; did you mean queue-max\?/);
  wrong('port = "http"\nstep-ms = 0\n', /line 1: port takes a whole number, 0 to 65535, not http$/m, /line 2: step-ms takes auto, or 1 to 10000, not 0$/m);
  wrong('temp = 1.0\ntemperature = 0.5\n', /line 2: temperature is set already, as temp \(.*line 1\)/);
  wrong('no-prefix-cache = 3\n', /line 1: no-prefix-cache is a switch: true or false/);
  wrong('port = 1979-05-27\n', /line 1: port must be/);
  wrong('[model."x"]\nport = 5\ntemp = 9000\n', /line 2: there is no option port/, /line 3: temp must be from 0 to 1000, not 9000/);
  wrong('[model]\nx = 5\n', /line 2: \[model\] has a table for each model/);
  wrong('[[[x]]]\n', /line 1: .*key/);
  wrong('temp = nan\nsteer-ffn = nan\nstep-ms = nan\n', /line 1: temp must be from 0 to 1000, not nan/, /line 2: steer-ffn takes -1000 to 1000, not nan/, /line 3: step-ms takes .*, not nan/);
  wrong('rate-limit = "rpm=nan"\nisa = "mmx"\n', /line 1: rate-limit:? rpm must be/, /line 2: isa:? no such instruction set: "mmx"/);
  wrong('chat-template-kwargs = "{"\notlp = "nonsense://"\n', /line 1: chat-template-kwargs:? is not valid JSON/, /line 2: otlp:? nonsense/);
  wrong('[speed]\nx = 5\n', /line 1: there is no option speed/);
  assert.match(cairn(['config', 'check', path.join(folder, 'none.toml')]).stderr, /the config file: \S+ is no file/);
  const variable = cairn(['serve', story, '--port', '0'], { env: { ...process.env, CAIRN_STEP_MS: 'soon' } });
  assert.equal(variable.status, 1);
  assert.match(variable.stderr, /the variable CAIRN_STEP_MS: step-ms takes auto, or 1 to 10000, not soon/);
});

test('what a file recommends for sampling is the default below the flags', async () => {
  const server = await serve(storyWith({ 'general.sampling.top_k': 17 }), ['--min-p', '0.25']);
  const { params } = (await (await fetch(`${server.url}/props`)).json()).default_generation_settings;
  await server.stop();
  assert.equal(params.top_k, 17);
  assert.equal(params.min_p, 0.25);
  const over = await serve(storyWith({ 'general.sampling.top_k': 17 }), ['--top-k', '5']);
  assert.equal((await (await fetch(`${over.url}/props`)).json()).default_generation_settings.params.top_k, 5);
  await over.stop();
});

test('every sampling parameter has a default of the server: by flag, in the config file, for one model', async () => {
  const own = { temp: 0.5, 'dry-multiplier': 0.25, mirostat: 2, samplers: '"top_k;xtc"' };
  const config = write('defaults.toml', ['xtc-probability = 0.75', 'temp = 1.5', '[model."stories260K-f32"]',
    ...Object.entries(own).map(([name, value]) => `${name} = ${value}`), ''].join('\n'));
  const server = await serve(storyWith({ 'general.sampling.mirostat': 1, 'general.sampling.top_k': 17 }),
    ['--name', 'stories260K-f32', '--config', config, '--adaptive-decay', '0.5', '--xtc-probability', '0.125']);
  const { params } = (await (await fetch(`${server.url}/props`)).json()).default_generation_settings;
  await server.stop();
  const { temperature, dry_multiplier, mirostat, samplers, xtc_probability, adaptive_decay, top_k } = params;
  assert.deepEqual({ temperature, dry_multiplier, mirostat, samplers, xtc_probability, adaptive_decay, top_k },
    { temperature: 0.5, dry_multiplier: 0.25, mirostat: 2, samplers: ['top_k', 'xtc'], xtc_probability: 0.125, adaptive_decay: 0.5, top_k: 17 });
});

test('the service manager is told when the server is ready, reads again and stops', async () => {
  // Node has no datagrams over Unix sockets, Python has.
  const socket = path.join(folder, 'notify');
  const listener = spawn('python3', ['-u', '-c', [
    'import socket, sys', 's = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)', 's.bind(sys.argv[1])', 'print("bound")',
    'while True: print(s.recv(4096).decode().replace("\\n", " "))'].join('\n'), socket], { stdio: ['ignore', 'pipe', 'inherit'] });
  let told = '';
  listener.stdout.on('data', (bytes) => { told += bytes; });
  const until = async (pattern) => {
    for (let tries = 0; tries < 400 && !pattern.test(told); ++tries) await new Promise((done) => { setTimeout(done, 25); });
    assert.match(told, pattern);
  };
  await until(/bound/);
  const server = await serve(story, [], ['env', `NOTIFY_SOCKET=${socket}`]);
  await until(/READY=1 STATUS=serving/);
  process.kill(server.pid, 'SIGHUP');
  await until(/RELOADING=1 MONOTONIC_USEC=\d+\nREADY=1/);
  await server.stop();
  await until(/STOPPING=1/);
  listener.kill();
});

test('cairn doctor says what runs here, and its exit code what does not', async () => {
  const port = await new Promise((resolve) => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => { const { port: found } = probe.address(); probe.close(() => resolve(found)); });
  });
  const well = cairn(['doctor', story, '--port', String(port)]);
  assert.equal(well.status, 0, well.stdout);
  for (const what of ['processor', 'cores', 'memory', 'gpu', 'files', 'port', 'disk', 'model']) assert.match(well.stdout, new RegExp(`^(?:ok|warn) +${what} `, 'm'));
  assert.match(well.stdout, /^(?:ok|warn) +memory speed +(?:[\d.]+ GB\/s|not measured)/m);
  assert.match(well.stdout, /^(?:ok +models fit +up to about \d+B parameters in Q4_K_M|warn +models fit +only very small ones)/m);
  assert.match(well.stdout, /^ok +model +stories260K-f32\.gguf: .* tokens of context(?:, about \d+ tokens\/s)?$/m);
  const empty = { ...process.env, HOME: path.join(folder, 'nobody'), XDG_DATA_HOME: undefined, XDG_CACHE_HOME: undefined, HF_HOME: undefined, HF_HUB_CACHE: undefined, LLAMA_CACHE: undefined, OLLAMA_MODELS: undefined };
  const none = cairn(['doctor', '--port', '0'], { env: empty });
  assert.match(none.stdout, /^warn +models +none yet; these fit this machine:\n(?: {2}cairn run \S+ +# .*\n){1,4}$/m);
  const taken = http.createServer().listen(0, '127.0.0.1');
  await new Promise((done) => { taken.on('listening', done); });
  const models = path.join(folder, 'models');
  fs.mkdirSync(models);
  fs.copyFileSync(story, path.join(models, 'good.gguf'));
  fs.writeFileSync(path.join(models, 'bad.gguf'), 'no model');
  const broken = cairn(['doctor', '--models', models, '--port', String(taken.address().port)]);
  taken.close();
  assert.equal(broken.status, 1);
  assert.match(broken.stdout, /^FAIL +port .*use/m);
  assert.match(broken.stdout, /^ok +model +good\.gguf/m);
  assert.match(broken.stdout, /^FAIL +model +bad\.gguf/m);
});

test('containers and services wait longer for the end than answers have to end', () => {
  const read = (name) => fs.readFileSync(path.join(root, 'examples', name), 'utf8');
  const number = (text, pattern) => Number(text.match(pattern)[1]);
  const kDockerStop = 10;  // seconds until `docker stop` kills
  const shown = cairn(['config', 'show', '--all', '--model-file', story]);
  const standard = number(shown.stdout, /^drain-seconds = (\d+) /m);
  const image = number(read('docker/Dockerfile'), /^ENV CAIRN_DRAIN_SECONDS=(\d+)$/m);
  const compose = read('docker/compose.yml');
  const composed = number(compose, /^ +CAIRN_DRAIN_SECONDS: (\d+)$/m);
  assert.ok(image + 2 <= kDockerStop);
  assert.ok(composed + 2 <= number(compose, /^ +stop_grace_period: (\d+)s$/m));
  const unit = read('systemd/cairn.service');
  assert.ok(standard + 2 <= number(unit, /^TimeoutStopSec=(\d+)s$/m));
  // What docs/operating.md says.
  const page = fs.readFileSync(path.join(root, 'docs/operating.md'), 'utf8');
  assert.match(page, new RegExp(`--drain-seconds\` \\(${standard}\\) to end`));
  assert.match(page, new RegExp(`example has ${image} s, its compose file ${composed} s`));
});

test('systemd finds nothing wrong in the unit', { skip: spawnSync('systemd-analyze', ['--version']).error && 'systemd is not installed' }, () => {
  // A unit whose program is here.
  const unit = path.join(folder, 'cairn.service');
  fs.writeFileSync(unit, fs.readFileSync(path.join(root, 'examples/systemd/cairn.service'), 'utf8').replaceAll('/usr/bin/cairn', program));
  const checked = spawnSync('systemd-analyze', ['verify', '--man=no', unit], { encoding: 'utf8' });
  const ours = checked.stderr.split('\n').filter((line) => line.includes('cairn.service'));
  assert.deepEqual(ours, []);
  assert.equal(checked.status, 0, checked.stderr);
});

test('the unit of a user is enabled by its path alone, and systemd finds nothing wrong in it', { skip: spawnSync('systemctl', ['--version']).error && 'systemd is not installed' }, () => {
  const unit = path.join(root, 'examples/systemd/user/cairn.service');
  const home = path.join(folder, 'user-home');
  fs.mkdirSync(path.join(home, 'run'), { recursive: true });
  const env = { PATH: process.env.PATH, HOME: home, XDG_RUNTIME_DIR: path.join(home, 'run') };
  const checked = spawnSync('systemd-analyze', ['--user', 'verify', '--man=no', unit], { encoding: 'utf8', env });
  assert.deepEqual(checked.stderr.split('\n').filter((line) => line.includes('cairn.service')), []);
  const enabled = spawnSync('systemctl', ['--user', 'enable', unit], { encoding: 'utf8', env });
  assert.equal(enabled.status, 0, enabled.stderr);
  const units = path.join(home, '.config/systemd/user');
  for (const link of ['cairn.service', 'default.target.wants/cairn.service']) assert.equal(fs.realpathSync(path.join(units, link)), fs.realpathSync(unit));
  assert.equal(spawnSync('systemctl', ['--user', 'disable', 'cairn'], { env }).status, 0);
  assert.deepEqual(fs.readdirSync(units, { recursive: true }).filter((name) => name.endsWith('.service')), []);
});
