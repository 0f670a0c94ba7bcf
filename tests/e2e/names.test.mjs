// Models by their names, in every command that takes one; a server's models from the command line: ps, stop, show; and
// which model answers where a request names none.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startHub } from './hub_server.mjs';
import { logged, program, serve, story, storyAdapter, storyWith, tiny } from './server.mjs';

const guide = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../models/guide/guide.gguf');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-names-'));
process.env.HOME = folder;  // nothing of whoever runs the tests
for (const name of Object.keys(process.env)) if (/^(XDG_|HF_|LLAMA_CACHE|OLLAMA_|CAIRN_(?!PROGRAM|TEST_DATA))/.test(name)) delete process.env[name];
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
const models = path.join(folder, '.local/share/cairn/models');
const at = (...parts) => path.join(models, ...parts);
const put = (file, ...parts) => {
  fs.mkdirSync(path.dirname(at(...parts)), { recursive: true });
  fs.copyFileSync(file, at(...parts));
  return at(...parts);
};

// A server that is not there.
async function closedPort() {
  const closed = http.createServer();
  await new Promise((done) => { closed.listen(0, '127.0.0.1', done); });
  const { port } = closed.address();
  await new Promise((done) => { closed.close(done); });
  return port;
}

let hub, nowhere;
before(async () => {
  put(guide, 'Guide-5M-Q8_0.gguf');
  put(story, 'Stories260K-F32.gguf');
  put(story, 'huggingface.co/acme/Tiny-GGUF/tiny-Q8_0.gguf');
  put(story, 'huggingface.co/acme/Tiny-GGUF/tiny-Q4_0.gguf');
  const bytes = fs.readFileSync(story);
  hub = await startHub({ repositories: { 'org/repo': { 'm-Q8_0.gguf': bytes } }, models: { 'library/story': { latest: bytes } } });
  nowhere = await closedPort();
});
after(() => hub.stop());

// Runs `cairn` beside this process, whose hub it asks. Returns {code, stdout, stderr}.
function cairn(args, { input = '', env = {} } = {}) {
  const environment = { ...process.env, ...hub.environment, HF_TOKEN_PATH: path.join(folder, 'token'), CAIRN_PORT: String(nowhere), ...env };
  return new Promise((resolve) => {
    const child = execFile(program, args, { env: environment, timeout: 120_000, maxBuffer: 1 << 26 }, (error, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }));
    child.stdin.on('error', () => {});
    child.stdin.end(input);
  });
}
async function works(args, options) {
  const done = await cairn(args, options);
  assert.equal(done.code, 0, `${args.join(' ')}: ${done.stderr}`);
  return done;
}
async function fails(args, pattern, options) {
  const done = await cairn(args, options);
  assert.notEqual(done.code, 0, args.join(' '));
  assert.match(done.stderr, pattern);
  return done;
}
const greedy = ['--temp', '0', '-n', '8', '-t', '1'];
const text = () => {
  const file = path.join(folder, 'text.txt');
  fs.writeFileSync(file, 'Once upon a time there was a little girl who had a dog. '.repeat(12));
  return file;
};

test('every command that takes a model takes its name, in any case, and a beginning or part that no other has', async () => {
  const name = 'stories260k-F32';
  hub.requests.length = 0;
  const commands = {
    generate: (model) => ['generate', model, '-p', 'Once', '-q', ...greedy],
    chat: (model) => ['chat', model, ...greedy],
    run: (model) => ['run', model, 'Once', ...greedy],
    logits: (model) => ['logits', model, '--tokens', '1,2,3', '-t', '1'],
    tokenize: (model) => ['tokenize', model, '-p', 'Once upon'],
    render: (model) => ['render', model],
    inspect: (model) => ['inspect', model, '--memory', '8GiB', '--json'],
    perplexity: (model) => ['perplexity', model, text(), '-c', '32', '--chunks', '1', '-t', '1'],
    quantize: (model) => ['quantize', model, path.join(folder, 'out.gguf'), 'Q8_0', '--threads', '1'],
    imatrix: (model) => ['imatrix', model, text(), '-c', '32', '--chunks', '1', '-t', '1', '-o', path.join(folder, 'imatrix.gguf')],
    'grammar check': (model) => ['grammar', 'check', model, '--jsonl'],
    'bench model': (model) => ['bench', 'model', model, '--prompt', '4', '--answer', '2', '-t', '1'],
    'bench model --depth': (model) => ['bench', 'model', model, '--depth', '40', '--answer', '2', '-t', '1'],
    doctor: (model) => ['doctor', model, '--port', '0'],
    show: (model) => ['show', model],
  };
  const inputs = {
    chat: 'Once\n', render: '{"messages": [{"role": "user", "content": "Hi"}]}\n',
    'grammar check': '{"schema": {"type": "string"}, "tests": []}\n',
  };
  // Times, speeds, and how much memory is free just now.
  const lasting = (output) => output.replaceAll(/(?:less than )?[\d.]+ (?:s|tokens?\/s|GB\/s|[KMG]iB)\b|about \d+B\b|, or a mixture of experts such as [^(\n]*|"\w+_(?:per_s|us|per_token|bytes_most)":[\d.e+-]+|"model":"[^"]*"/g, '');
  for (const [command, words] of Object.entries(commands)) {
    const byFile = await works(words(at('Stories260K-F32.gguf')), { input: inputs[command] });
    const byName = await works(words(name), { input: inputs[command] });
    assert.equal(lasting(byName.stdout), lasting(byFile.stdout), command);
    assert.ok(byFile.stdout.length > 0, command);
  }
  const whole = (await works(commands.generate(name))).stdout;
  for (const part of ['Stories260K-F32', 'stories', '260k', 'Stories260K-F32.gguf', 'stories260k-f32:latest'])
    assert.equal((await works(commands.generate(part))).stdout, whole, part);
  assert.equal((await works(commands.generate('acme/Tiny-GGUF:q4_0'))).stdout, whole, 'a name of a hub');
  assert.equal((await works(commands.generate('hf.co/acme/Tiny-GGUF:Q4_0'))).stdout, whole, 'with the hub');
  assert.equal((await works(['run', 'stories', 'Once', ...greedy])).stdout, (await works(commands.run(name))).stdout);
  assert.deepEqual(hub.requests, [], 'nothing that is here is asked for at a hub');
});

test('a name that is nobody\'s says which ones are near and what to do next', async () => {
  await fails(['generate', 'storys260k', '-p', 'x'], /neither a file nor a model storys260k; did you mean Stories260K-F32\?; cairn list shows what is here, and cairn pull storys260k gets one from a hub/);
  await fails(['chat', 'acme/Tiny'], /"acme\/Tiny" may be any of acme\/Tiny-GGUF:Q4_0, acme\/Tiny-GGUF:Q8_0: write more of the name/);
  await fails(['serve', 'gide'], /neither a file nor a model gide; did you mean Guide-5M-Q8_0\?/);
  await fails(['tokenize', './none.gguf', '-p', 'x'], /no such file: \.\/none\.gguf; cairn list shows the models that are here/);
  await fails(['inspect', at('Stories260K-F23.gguf')], /no such file: \S+; did you mean Stories260K-F32\.gguf\?/);
  await fails(['inspect', models], /is a folder: name one of the GGUF files in it/);
  await fails(['generate', 'org/none/m-Q8_0.gguf', '-p', 'x'], /no such file: org\/none\/m-Q8_0\.gguf; cairn pull org\/none\/m-Q8_0\.gguf gets it from a hub/);
  const doctor = await fails(['doctor', 'storys260k', '--port', '0'], /^$/);
  assert.match(doctor.stdout, /^FAIL +model +there is neither a file nor a model storys260k; did you mean/m);
  const empty = path.join(folder, 'empty');
  await fails(['generate', 'nobody', '-p', 'x'], /there are no models here yet, and cairn pull nobody gets one from a hub/, { env: { HOME: empty } });
  await fails(['run', 'a/b/c', 'Hi'], /neither a file nor a model a\/b\/c; .*ORG\/REPO/);
  hub.requests.length = 0;
  await fails(['run', 'nobody-has-it', 'Hi', ...greedy], /Ollama's registry has no nobody-has-it:latest/);
  assert.equal(hub.requests.length, 1, 'run asks the hub for what is not here');
  await fails(['run'], /MODEL is required/);
});

test('--draft and --lora take names, too: of models, and of files in the folder that are none', async (t) => {
  t.after(() => { for (const part of ['adapters', 'huggingface.co/acme/Tone-GGUF']) fs.rmSync(at(part), { recursive: true, force: true }); });
  const generate = ['generate', 'stories', '-p', 'Once', '-q', ...greedy];
  const plain = (await works(generate)).stdout;
  const head = put(storyAdapter('tone.gguf', 7), 'adapters/tone.gguf');
  const adapted = (await works([...generate, '--lora', head])).stdout;
  assert.notEqual(adapted, plain);
  for (const name of ['adapters/tone.gguf', 'adapters/tone', 'adapters/tone:1']) assert.equal((await works([...generate, '--lora', name])).stdout, adapted, name);
  assert.equal((await works([...generate, '--lora', 'adapters/tone:0'])).stdout, plain);
  put(head, 'huggingface.co/acme/Tone-GGUF/tone-F32.gguf');
  assert.equal((await works([...generate, '--lora', 'acme/Tone-GGUF'])).stdout, adapted);
  for (const name of ['Stories260K-F32', 'storie', 'acme/tiny-gguf:q8_0']) assert.equal((await works([...generate, '--draft', name])).stdout, plain, name);
  await fails([...generate, '--lora', 'adapters/tune'], /--lora: there is no file adapters\/tune, and none of that name in \S+models; did you mean tone\.gguf\?/);
  await fails([...generate, '--lora', './tone.gguf'], /--lora: no such file: \.\/tone\.gguf/);
  await fails([...generate, '--draft', 'storys260k'], /--draft: there is neither a file nor a model storys260k; did you mean Stories260K-F32\?/);
  await fails(['serve', 'stories', '--port', '0', '--draft', 'nobody'], /--draft: there is neither a file nor a model nobody/);
  const server = await serve('stories', ['--draft', 'storie', '--lora', 'adapters/tone']);
  const { data } = await (await fetch(`${server.url}/v1/models`)).json();
  const reply = await server.post('/completion', { prompt: 'Once', n_predict: 8, temperature: 0 });
  assert.equal(`${(await reply.json()).content}\n`, adapted);
  assert.equal(data.length, 1);
  await server.stop();
});

test('a model that was made of another runs as it was made, and where it cannot it is refused by its name', async () => {
  const server = await serve(null, ['-t', '1', '--parallel', '1', '--parallel-max', '4']);
  const made = async (body) => assert.equal((await server.post('/api/create', { stream: false, ...body })).status, 200);
  const template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
  const stop = '.';
  try {
    await made({ model: 'tutor', from: 'Guide-5M-Q8_0', system: 'You are a tutor.', parameters: { temperature: 0, num_predict: 9, num_ctx: 96, stop: [stop] } });
    await made({ model: 'told', from: 'Stories260K-F32', template });
    const ask = async (content) => (await (await server.post('/v1/chat/completions', { model: 'tutor', messages: [{ role: 'user', content }] })).json()).choices[0].message.content;
    const expected = (await ask('Why?')).trim();
    const base = (await works(['run', 'Guide-5M-Q8_0', 'Why?', '--temp', '0', '-n', '9'])).stdout.trim();
    assert.notEqual(expected, base, 'the system message counts');
    assert.equal((await works(['run', 'tutor', 'Why?'])).stdout.trim(), expected);
    assert.equal((await works(['chat', 'tutor'], { input: 'Why?\n' })).stdout.trim(), expected);
    assert.equal((await works(['run', 'tutor', 'Why?', '--system', 'None.', '--temp', '0'])).stdout.trim(),
      (await (await server.post('/v1/chat/completions', { model: 'tutor', messages: [{ role: 'system', content: 'None.' }, { role: 'user', content: 'Why?' }] })).json()).choices[0].message.content.trim());
    const complete = async (body) => (await (await server.post('/v1/completions', { model: 'tutor', prompt: 'A cairn is', ...body })).json()).choices[0].text.trim();
    assert.equal((await works(['generate', 'tutor', '-p', 'A cairn is', '-q'])).stdout.trim(), await complete({}));
    assert.equal((await works(['generate', 'tutor', '-p', 'A cairn is', '-q', '-n', '4'])).stdout.trim(), await complete({ max_tokens: 4 }), 'a flag comes first');
    assert.match((await works(['run', 'tutor', 'Why?', '--stats', 'on'])).stderr, /context \d+ of 96/);
    const served = await serve('tutor', ['-t', '1']);
    const listed = (await (await fetch(`${served.url}/v1/models`)).json()).data;
    assert.deepEqual(listed.map(({ id, context_length: tokens }) => [id, tokens]), [['tutor', 96]]);
    assert.equal((await served.stop()).code, 0);
    const kinds = JSON.parse((await works(['list', '--json'])).stdout).models.map(({ name, kind }) => [name, kind]);
    assert.deepEqual(kinds, [['Guide-5M-Q8_0', 'chat'], ['Stories260K-F32', 'text'], ['acme/Tiny-GGUF:Q4_0', 'text'], ['acme/Tiny-GGUF:Q8_0', 'text'], ['told', 'chat'], ['tutor', 'chat']]);
    for (const words of [['tokenize', 'tutor', '-p', 'x'], ['logits', 'tutor', '--tokens', '1'], ['perplexity', 'tutor', text()], ['inspect', 'tutor'],
      ['quantize', 'tutor', path.join(folder, 'never.gguf'), 'Q8_0'], ['render', 'tutor'], ['bench', 'model', 'tutor']])
      await fails(words, /tutor was made of Guide-5M-Q8_0 and has no file of its own: name Guide-5M-Q8_0, whose file this command reads/);
    const shown = (await works(['show', 'tutor'])).stdout;
    assert.match(shown, /^ {2}Model\n {4}architecture +qwen3\n {4}parameters +[\d.]+M\n[^]*made of +Guide-5M-Q8_0\n/);
    assert.match(shown, /\n {2}Parameters\n {4}temperature +0\n {4}num_predict +9\n {4}num_ctx +96\n {4}stop +"\."\n/);
    assert.match(shown, /\n {2}System\n {4}You are a tutor\.\n/);
    assert.equal((await works(['show', 'tutor', '--system'])).stdout, 'You are a tutor.\n');
    assert.equal((await works(['show', 'told', '--template'])).stdout, `${template}\n`);
    assert.match((await works(['show', 'tutor', '--modelfile'])).stdout, /^FROM Guide-5M-Q8_0\nSYSTEM You are a tutor\.\n/);
    assert.match((await works(['rm', 'told'])).stdout, /^deleted told, which was made of another model\n/);
    await fails(['show', 'told'], /neither a file nor a model told/);
  } finally {
    assert.equal((await server.stop()).code, 0);
    await works(['rm', 'tutor']);
  }
});

test('show: a file, its parts, and what its file recommends', async () => {
  const file = put(storyWith({ 'general.sampling.temp': 0.5, 'general.sampling.top_k': 7 }), '../other/with.gguf');
  const shown = (await works(['show', file])).stdout;
  assert.match(shown, /architecture +llama\n[^]*context length +\d+\n[^]*embedding length +64\n[^]*quantization +F32\n[^]*kind +text\n/);
  assert.match(shown, /\n {2}Capabilities\n {4}completion\n/);
  assert.match(shown, /\n {2}Parameters\n {4}temperature +0\.5\n {4}top_k +7\n/);
  assert.match((await works(['show', file, '--parameters'])).stdout, /^temperature +0\.5\ntop_k +7\n$/);
  assert.equal((await works(['show', 'Stories260K-F32', '--template'])).stdout, '');
  assert.match((await works(['show', 'guide', '--template'])).stdout, /messages/);
  await fails(['show', 'guide', '--template', '--system'], /template|system/);
});

test('-hf and --hf-repo: a model of Hugging Face is pulled with progress, and served, talked to and asked', async () => {
  Object.assign(process.env, hub.environment, { HF_TOKEN_PATH: path.join(folder, 'token') });
  hub.requests.length = 0;
  const server = await serve(null, ['-hf', 'org/repo:Q8_0', '-t', '1']);
  assert.match(server.log(), /verifying sha256 digest/);
  const { data } = await (await fetch(`${server.url}/v1/models`)).json();
  assert.deepEqual(data.map(({ id, state }) => [id, state]), [['org/repo:Q8_0', 'loaded']]);
  assert.equal((await server.stop()).code, 0);
  hub.requests.length = 0;
  const again = await serve(null, ['--hf-repo', 'org/repo', '-t', '1']);
  assert.deepEqual((await (await fetch(`${again.url}/v1/models`)).json()).data.map(({ id }) => id), ['org/repo:Q8_0']);
  assert.equal((await again.stop()).code, 0);
  const byName = await serve('org/repo:q8_0', ['-t', '1']);
  assert.equal((await byName.stop()).code, 0);
  const run = await works(['run', '-hf', 'org/repo:Q8_0', 'Once', 'upon', ...greedy]);
  assert.equal(run.stdout, (await works(['run', story, 'Once upon', ...greedy])).stdout);
  const chat = await works(['chat', '-hf', 'org/repo:Q8_0', ...greedy], { input: 'Once upon\n' });
  assert.equal(chat.stdout.trim(), run.stdout.trim());
  assert.deepEqual(hub.requests, []);
  await fails(['serve', '-hf', 'org/none'], /org\/none/);
  await fails(['serve', '-hf', 'story'], /no model's name: Hugging Face's have an owner and a repository/);
  await fails(['serve', story, '-hf', 'org/repo'], /--hf-repo/);
  await fails(['chat', '--url', 'http://127.0.0.1:1', '-hf', 'org/repo'], /--hf-repo has no effect with --url/);
});

test('ps and stop ask a running server, by its address, the variables or the usual port', async () => {
  const server = await serve(null, ['-t', '1', '--parallel', '1', '--api-key', 'sk-0123456789']);
  const env = { CAIRN_PORT: String(server.port), CAIRN_API_KEY: 'sk-0123456789' };
  const load = (model) => server.post('/v1/completions', { model, prompt: 'Once', max_tokens: 1 }, { headers: { authorization: 'Bearer sk-0123456789' } });
  try {
    assert.match((await works(['ps'], { env })).stdout, /^NAME +SIZE +PROCESSOR +CONTEXT +UNTIL\n$/);
    assert.equal((await works(['stop', 'stories'], { env })).stdout, 'Stories260K-F32 is not loaded\n');
    assert.equal((await load('Stories260K-F32')).status, 200);
    assert.match((await works(['ps'], { env })).stdout, /^Stories260K-F32 +[\d.]+ MiB +100% (?:C|G)PU +\d+ +[3-5] minutes from now\n/m);
    const url = ['--url', server.url, '--api-key', 'sk-0123456789'];
    const [running] = JSON.parse((await works(['ps', '--json', ...url], { env: { CAIRN_PORT: '1' } })).stdout);
    assert.ok(running.size > fs.statSync(story).size, 'the weights and all else');
    await fails(['stop', 'storie260k', ...url], /the server has no model storie260k; did you mean Stories260K-F32\?/);
    assert.equal((await works(['stop', 'stories', ...url])).stdout, 'Stories260K-F32 is unloaded\n');
    assert.match((await works(['ps'], { env })).stdout, /^NAME[^\n]*\n$/);
    await fails(['ps', '--url', server.url], /401: it asks for a key; give it with --api-key or CAIRN_API_KEY/, { env: { CAIRN_API_KEY: '' } });
    await fails(['ps', '--url', server.url, '--api-key', 'wrong'], /401: it does not accept this key; give another with --api-key or CAIRN_API_KEY/);
    await fails(['chat', '--url', server.url], /401: it asks for a key; give it with --api-key or CAIRN_API_KEY/, { input: 'Hi\n' });
    await fails(['ps'], /no server answers at http:\/\/127\.0\.0\.1:\d+ \(cannot connect .*\); start one with: cairn serve/);
    await fails(['stop', 'guide'], /start one with: cairn serve/);
    await fails(['chat', '--url', `http://127.0.0.1:${nowhere}`], /no server answers at http:\/\/127\.0\.0\.1:\d+ .*; start one with: cairn serve/, { input: 'Hi\n' });
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('where no model is named the last one that was used answers, then one with a template, and each other name is told of once', async () => {
  const server = await serve(null, ['-t', '1', '--parallel', '1']);
  const complete = async (body) => (await server.post('/v1/completions', { prompt: 'Once', max_tokens: 1, ...body })).headers.get('x-cairn-model');
  try {
    assert.equal(await complete({ model: 'gpt-4' }), 'Guide-5M-Q8_0', 'the only one with a template');
    assert.equal(await complete({ model: 'Stories260K-F32' }), 'Stories260K-F32', 'a base model answers completions');
    for (let i = 0; i < 3; ++i) assert.equal(await complete({ model: 'gpt-4' }), 'Stories260K-F32');
    assert.equal((await server.post('/v1/models/unload', { model: 'Stories260K-F32' })).status, 200);
    assert.equal(await complete({}), 'Stories260K-F32', 'it is still the last one');
    await logged(server, /warning requests for the model "gpt-4" are answered by Guide-5M-Q8_0, the default for chat/);
    assert.equal(server.log().match(/requests for the model "gpt-4"/g).length, 1);
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
});

test('chat alone talks to the server that runs here, says so, and else to the demonstration model', async () => {
  const server = await serve('Stories260K-F32', ['-t', '1']);
  const flags = ['chat', '--temp', '0', '-n', '8'];
  const input = 'Once\n';
  try {
    const env = { CAIRN_PORT: String(server.port) };
    const talked = await works(flags, { input, env });
    assert.equal(talked.stdout, (await works([...flags, '--url', server.url], { input })).stdout);
    assert.match(talked.stderr, new RegExp(`Stories260K-F32 of http://127\\.0\\.0\\.1:${server.port}`));
    const demo = await works(flags, { input });
    assert.notEqual(demo.stdout, talked.stdout);
    assert.equal(demo.stderr, '');
    assert.equal((await works([...flags, '--ctx', '64'], { input, env })).stdout, demo.stdout, 'flags that load a model are for one that is loaded');
    const keyed = await serve(story, ['-t', '1', '--api-key', 'sk-0123456789']);
    const refused = await works(flags, { input, env: { CAIRN_PORT: String(keyed.port) } });
    assert.equal(refused.stdout, demo.stdout);
    assert.match(refused.stderr, /a server runs at http:\S+, but .*give it with --api-key or CAIRN_API_KEY/);
    assert.equal((await works(flags, { input, env: { CAIRN_PORT: String(keyed.port), CAIRN_API_KEY: 'sk-0123456789' } })).stdout, talked.stdout);
    assert.equal((await keyed.stop()).code, 0);
    const empty = await serve(null, ['--models', path.join(folder, 'none'), '--own-models']);
    assert.match((await works(flags, { input, env: { CAIRN_PORT: String(empty.port) } })).stderr, /but it has no model to talk to/);
    assert.equal((await empty.stop()).code, 0);
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
  const other = http.createServer((request, reply) => reply.end('<h1>Another program</h1>'));
  await new Promise((done) => { other.listen(0, '127.0.0.1', done); });
  assert.equal((await works(flags, { input, env: { CAIRN_PORT: String(other.address().port) } })).stderr, '');
  other.close();
});

test('rm names the nearest of the list, and leaves what was not pulled', async () => {
  await works(['pull', 'story']);
  await fails(['rm', 'storry'], /storry:latest is not in \S+models; did you mean story:latest/);
  const none = await fails(['rm', 'nosuch'], /nosuch:latest is not in \S+models; cairn list shows what is here/);
  assert.doesNotMatch(none.stderr, /cairn pull/);
  await fails(['rm', 'STORY'], /did you mean story:latest\?/);
  await fails(['rm', 'Stories260K-F32'], /Stories260K-F32 was not pulled: delete its file yourself, \S+Stories260K-F32\.gguf/);
  assert.match((await works(['rm', 'story'])).stdout, /^deleted \S+latest\.gguf\n/);
  const ollama = path.join(folder, '.cache/llama.cpp');
  fs.mkdirSync(ollama, { recursive: true });
  fs.copyFileSync(tiny, path.join(ollama, 'theirs.gguf'));
  await fails(['rm', 'theirs'], /theirs is of another program \(llama\.cpp\), whose own commands delete it/);
});
