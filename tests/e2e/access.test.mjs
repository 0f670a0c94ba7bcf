// Who may ask: keys, limits, browsers and TLS, with the real clients.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import tls from 'node:tls';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import Anthropic from '@anthropic-ai/sdk';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { cairn, certificateIn, logged, serve, story, storyTrainedFor } from './server.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-access-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
const model = 'story';
const messages = [{ role: 'user', content: 'Once upon a time' }];

let files = 0;
function keyFile(lines) {
  const file = path.join(folder, `keys-${++files}`);
  fs.writeFileSync(file, lines.join('\n') + '\n', { mode: 0o600 });
  return file;
}
const key = (name) => `sk-${name}-0123456789abcdef`;
const hashed = (name) => 'sha256:' + crypto.createHash('sha256').update(key(name)).digest('hex');

// Runs `check` with a server of these flags.
async function withServer(flags, check, file = story) {
  const server = await serve(file, ['--name', model, ...flags]);
  try {
    await check(server);
  } finally {
    assert.equal((await server.stop()).code, 0);
  }
}

const openai = (server, apiKey) => new OpenAI({ baseURL: server.url + '/v1', apiKey, maxRetries: 0 });
const anthropic = (server, apiKey) => new Anthropic({ baseURL: server.url, apiKey, maxRetries: 0 });
const ollama = (server, apiKey) => new Ollama({ host: server.url, headers: apiKey ? { Authorization: `Bearer ${apiKey}` } : {} });
const ask = {
  openai: (server, apiKey) => openai(server, apiKey).chat.completions.create({ model, messages, max_tokens: 4 }),
  anthropic: (server, apiKey) => anthropic(server, apiKey).messages.create({ model, messages, max_tokens: 4 }),
  ollama: (server, apiKey) => ollama(server, apiKey).chat({ model, messages, options: { num_predict: 4 } }),
};
test('wrong keys and probes leave neither lines in the log nor names in the metrics', async () => {
  await withServer(['--api-key-file', keyFile([`alice ${hashed('alice')}`])], async (server) => {
    await ask.openai(server, key('alice'));
    const before = server.log().length;
    for (let i = 0; i < 80; ++i) {
      const reply = await raw(`${server.url}/v1/models`, { headers: { Authorization: `Bearer sk-made-up-${i}` } });
      assert.equal(reply.status, 401);
      await raw(`${server.url}/health`, { headers: { Authorization: `Bearer sk-made-up-${i}`, 'X-Client-Request-Id': `id-${i}` } });
    }
    const lines = server.log().slice(before).split('\n').filter((line) => line && !line.includes('key alice'));
    assert.deepEqual(lines, []);
    await ask.openai(server, key('alice'));
    const metrics = (await raw(`${server.url}/metrics`, { headers: { Authorization: `Bearer ${key('alice')}` } })).body;
    assert.match(metrics, /cairn_requests_total\{[^}]*key="alice"[^}]*\} 2\n/);
    assert.doesNotMatch(metrics, /key="#/);
  });
});

const refusal = async (promise) => promise.then(() => assert.fail('it was let in'), (error) => error);

// A request with headers that fetch does not send. Resolves to {status, headers, body}.
function raw(url, { method = 'GET', headers = {}, body, ca, agent } = {}) {
  return new Promise((resolve, reject) => {
    const request = (url.startsWith('https') ? https : http).request(url, { method, headers, ca, agent }, (reply) => {
      let text = '';
      reply.on('data', (bytes) => { text += bytes; });
      reply.on('end', () => resolve({ status: reply.statusCode, headers: reply.headers, body: text }));
      reply.on('error', reject);
    });
    request.on('error', reject);
    request.end(body);
  });
}

test('a right key is let in by every client, a wrong or missing one is its own error', async () => {
  const flags = ['--api-key-file', keyFile([`alice ${key('alice')}`, `bob ${hashed('bob')}`])];
  await withServer(flags, async (server) => {
    for (const name of ['alice', 'bob']) {
      for (const client of Object.values(ask)) await client(server, key(name));
    }
    const wrong = await refusal(ask.openai(server, key('nobody')));
    assert.ok(wrong instanceof OpenAI.AuthenticationError, wrong);
    assert.equal(wrong.code, 'invalid_api_key');
    const claude = await refusal(ask.anthropic(server, key('nobody')));
    assert.ok(claude instanceof Anthropic.AuthenticationError, claude);
    assert.equal(claude.error.error.type, 'authentication_error');
    for (const apiKey of [undefined, key('nobody')]) {
      const error = await refusal(ask.ollama(server, apiKey));
      assert.equal(error.name, 'ResponseError');
      assert.equal(error.status_code, 401);
      assert.match(error.error, /API key/);
    }
    const llama = await server.post('/completion', { prompt: 'Hello', n_predict: 1 });
    assert.equal(llama.status, 401);
    assert.equal(llama.headers.get('www-authenticate'), 'Bearer');
    assert.equal((await llama.json()).error.type, 'authentication_error');
    assert.equal((await server.post('/completion', { prompt: 'Hello', n_predict: 1 }, { headers: { 'api-key': key('bob') } })).status, 200);
    for (const open of ['/health', '/v1/health', '/']) assert.equal((await fetch(server.url + open)).status, 200);
    for (const closed of ['/v1/models', '/api/tags', '/props', '/stats', '/nothing'])
      assert.equal((await fetch(server.url + closed)).status, 401, closed);
    assert.ok(!server.log().includes(key('alice')), 'the log has no key');
  });
});

test('a key of the command line or the environment may do everything', async () => {
  const server = await serve(story, ['--name', model], ['env', `CAIRN_API_KEY=${key('env')}`]);
  try {
    await ask.openai(server, key('env'));
    assert.ok(await refusal(ask.openai(server, key('other'))) instanceof OpenAI.AuthenticationError);
  } finally {
    await server.stop();
  }
  await withServer(['--api-key', `${key('one')},${key('two')}`], async (each) => {
    for (const name of ['one', 'two']) await ask.openai(each, key(name));
  });
});

test('models that a key may not use are on no list and not there', async () => {
  const lines = [`mine ${key('mine')} models=sto*`, `other ${key('other')} models=qwen*,llama*`];
  await withServer(['--api-key-file', keyFile(lines)], async (server) => {
    const listed = async (name) => {
      const ids = [];
      for await (const each of openai(server, key(name)).models.list()) ids.push(each.id);
      const claudes = [];
      for await (const each of anthropic(server, key(name)).models.list()) claudes.push(each.id);
      const tags = (await ollama(server, key(name)).list()).models.map((each) => each.name);
      const running = (await ollama(server, key(name)).ps()).models.map((each) => each.name);
      assert.deepEqual([claudes, tags, running], [ids, ids, ids]);
      return ids;
    };
    assert.deepEqual(await listed('mine'), [model]);
    assert.deepEqual(await listed('other'), []);
    await ask.openai(server, key('mine'));
    const hidden = await refusal(ask.openai(server, key('other')));
    assert.ok(hidden instanceof OpenAI.NotFoundError, hidden);
    assert.doesNotMatch(hidden.message, /sto.*there is.*story/);
    assert.ok(await refusal(ask.anthropic(server, key('other'))) instanceof Anthropic.NotFoundError);
    assert.equal((await refusal(ask.ollama(server, key('other')))).status_code, 404);
    assert.equal((await refusal(ollama(server, key('other')).show({ model }))).status_code, 404);
    assert.ok(await refusal(openai(server, key('other')).models.retrieve(model)) instanceof OpenAI.NotFoundError);
    const managing = await refusal(ollama(server, key('mine')).delete({ model }));
    assert.equal(managing.status_code, 403);
    assert.match(managing.error, /may not manage models/);
  });
});

test('the list of models says what whoever asks may do with them', async () => {
  await withServer(['--api-key-file', keyFile([`some ${key('some')}`, `root ${key('root')} manage`])], async (server) => {
    const actions = async (name) => JSON.parse((await raw(`${server.url}/v1/models`, { headers: { Authorization: `Bearer ${key(name)}` } })).body).actions;
    assert.deepEqual(await actions('some'), []);
    assert.deepEqual(await actions('root'), ['load', 'unload', 'pull', 'delete']);
  });
});

test('requests over a limit are 429 with the headers that clients read', async () => {
  const lines = [`few ${key('few')} rpm=2`, `short ${key('short')} tpm=20`, `one ${key('one')} concurrent=1`, `free ${key('free')}`];
  await withServer(['--api-key-file', keyFile(lines)], async (server) => {
    const { response } = await ask.openai(server, key('few')).withResponse();
    assert.equal(response.headers.get('x-ratelimit-limit-requests'), '2');
    assert.equal(response.headers.get('x-ratelimit-remaining-requests'), '1');
    assert.match(response.headers.get('x-ratelimit-reset-requests'), /^(\d+ms|\d+s)$/);
    assert.equal(response.headers.get('x-ratelimit-limit-tokens'), null);
    const claude = await ask.anthropic(server, key('few')).withResponse();
    assert.equal(claude.response.headers.get('anthropic-ratelimit-requests-limit'), '2');
    assert.equal(claude.response.headers.get('anthropic-ratelimit-requests-remaining'), '0');
    assert.ok(Date.parse(claude.response.headers.get('anthropic-ratelimit-requests-reset')) > Date.now());

    const over = await refusal(ask.openai(server, key('few')));
    assert.ok(over instanceof OpenAI.RateLimitError, over);
    assert.equal(over.code, 'rate_limit_exceeded');
    assert.match(over.message, /the API key "few" has 2 requests per minute/);
    const wait = Number(over.headers.get('retry-after'));
    assert.ok(wait >= 1 && wait <= 30, `Retry-After: ${wait}`);
    assert.equal(over.headers.get('x-ratelimit-remaining-requests'), '0');
    assert.ok(await refusal(ask.anthropic(server, key('few'))) instanceof Anthropic.RateLimitError);
    assert.equal((await refusal(ask.ollama(server, key('few')))).status_code, 429);

    const spent = await openai(server, key('short')).chat.completions.create({ model, messages, max_tokens: 40 });
    assert.ok(spent.usage.total_tokens > 20);
    const tokens = await refusal(ask.openai(server, key('short')));
    assert.ok(tokens instanceof OpenAI.RateLimitError, tokens);
    assert.match(tokens.message, /20 tokens per minute/);
    assert.equal(tokens.headers.get('x-ratelimit-remaining-tokens'), '0');

    const stream = await openai(server, key('one')).completions.create({ model, prompt: 'Once', max_tokens: 60_000, stream: true, ignore_eos: true });
    await stream[Symbol.asyncIterator]().next();
    assert.match((await refusal(ask.openai(server, key('one')))).message, /1 requests at once/);
    stream.controller.abort();
    let again;
    for (let tries = 0; tries < 100 && again === undefined; ++tries) {
      await sleep(50);
      again = await ask.openai(server, key('one')).catch(() => undefined);
    }
    assert.ok(again, 'the place of an answer that was given up is free again');
    for (let i = 0; i < 5; ++i) await ask.openai(server, key('one'));
    await ask.openai(server, key('free'));
  }, storyTrainedFor(65_536));
});

test('tokens of an answer that its client gave up are charged', async () => {
  await withServer(['--api-key-file', keyFile([`key ${key('key')} tpm=30`])], async (server) => {
    const stream = await openai(server, key('key')).completions.create({ model, prompt: 'Once', max_tokens: 60_000, stream: true, ignore_eos: true });
    let seen = 0;
    for await (const _ of stream) if (++seen === 40) break;
    let error;
    for (let tries = 0; tries < 100 && !(error instanceof OpenAI.RateLimitError); ++tries) {
      await sleep(50);
      error = await ask.openai(server, key('key')).catch((thrown) => thrown);
    }
    assert.match(error.message, /30 tokens per minute/);
  }, storyTrainedFor(65_536));
});

test('an address without a key has the limit of --rate-limit, and so do wrong keys', async () => {
  await withServer(['--rate-limit', 'rpm=2'], async (server) => {
    const tokens = () => server.post('/tokenize', { content: 'Hello' });
    assert.deepEqual([(await tokens()).status, (await tokens()).status, (await tokens()).status], [200, 200, 429]);
    assert.equal((await fetch(server.url + '/health')).status, 200);
  });
  await withServer(['--rate-limit', 'rpm=2', '--api-key', key('right')], async (server) => {
    const status = async (apiKey) => (await fetch(server.url + '/v1/models', { headers: { 'x-api-key': apiKey } })).status;
    assert.deepEqual([await status('a'), await status('b'), await status('c')], [401, 401, 429]);
    for (let i = 0; i < 5; ++i) assert.equal(await status(key('right')), 200);
  });
});

test('SIGHUP reads keys again; a file that cannot be read changes nothing', async () => {
  const file = keyFile([`old ${key('old')}`]);
  await withServer(['--api-key-file', file], async (server) => {
    await ask.openai(server, key('old'));
    fs.writeFileSync(file, `new ${key('new')}\n`);
    process.kill(server.pid, 'SIGHUP');
    for (let tries = 0; tries < 100; ++tries) {
      if (await ask.openai(server, key('new')).then(() => true, () => false)) break;
      await sleep(50);
    }
    assert.ok(await refusal(ask.openai(server, key('old'))) instanceof OpenAI.AuthenticationError);
    fs.writeFileSync(file, `new ${key('new')} rpm=none\n`);
    process.kill(server.pid, 'SIGHUP');
    await logged(server, /SIGHUP: cannot reload the API keys; nothing changes: \S+:1: rpm must be a number/);
    await ask.openai(server, key('new'));
  });
});

test('cairn key makes a key and the line that the server knows it by', async () => {
  const file = path.join(folder, 'made');
  const made = cairn(['key', 'carol', 'rpm=100', 'models=*', '--add-to', file]);
  assert.equal(made.status, 0, made.stderr);
  const secret = made.stdout.trim();
  assert.match(secret, /^sk-cairn-[0-9a-f]{32}$/);
  assert.ok(!fs.readFileSync(file, 'utf8').includes(secret));
  assert.equal(fs.statSync(file).mode & 0o777, 0o600);
  const again = cairn(['key', 'carol', '--add-to', file]);
  assert.notEqual(again.status, 0);
  assert.match(again.stderr, /line 1 has a key of that name/);
  const wrong = cairn(['key', 'dora', 'rpm=x', '--add-to', file]);
  assert.match(wrong.stderr, /rpm must be a number/);
  for (const words of [...['\n', '\r', '\r\n', ' ', '\t'].map((end) => ['bob', `rpm=1${end}root`, 'manage']), ['bob', 'rpm=5', '#', 'no_disk'],
    ['bob', '#rpm=5', 'no_disk'], [`bob ${key('root')} manage #`], ['#bob', 'rpm=5']]) {
    const more = cairn(['key', ...words, '--add-to', file]);
    assert.equal(more.status, 1);
    assert.match(more.stderr, /(the name|a rule) of a key is one word/);
  }
  const own = cairn(['key', 'eve', '--read', '--add-to', file], { input: key('eve') + '\n' });
  assert.equal(own.status, 0, own.stderr);
  assert.equal(fs.readFileSync(file, 'utf8').trim().split('\n').length, 2);
  await withServer(['--api-key-file', file], async (server) => {
    await ask.openai(server, secret);
    await ask.openai(server, key('eve'));
  });
});

test('what cannot be used is named at start', () => {
  const start = (...flags) => cairn(['serve', story, '--port', '0', ...flags]);
  const missing = path.join(folder, 'missing');
  const garbage = keyFile(['what is this']);
  for (const [flags, told] of [
    [['--api-key-file', missing], /missing is no file/],
    [['--api-key-file', garbage], /keys-\d+:1: "this" is none of/],
    [['--api-key', 'with blank'], /--api-key: a key has/],
    [['--host', ''], /--host is empty/],
    [['--rate-limit', 'fast'], /--rate-limit: "fast" is no limit/],
    [['--tls-cert', missing, '--tls-key', missing], /the TLS certificate: \S+missing is no file/],
    [['--tls-cert', garbage, '--tls-key', garbage], /cannot use the TLS certificate \S+: .*PEM/],
    [['--tls-cert', missing], /--tls-key/],
  ]) {
    const done = start(...flags);
    assert.notEqual(done.status, 0, flags.join(' '));
    assert.match(done.stderr, told);
  }
});

test('a page of another origin may ask only where it is allowed', async () => {
  const status = async (server, headers, more = {}) => (await raw(server.url + '/v1/models', { headers, ...more })).status;
  await withServer([], async (server) => {
    assert.equal(await status(server, { host: 'evil.example' }), 403, 'DNS rebinding');
    for (const origin of ['http://localhost:3000', 'app://obsidian.md', 'vscode-webview://1a', 'chrome-extension://abc'])
      assert.equal(await status(server, { origin }), 200, origin);
    assert.equal(await status(server, { origin: 'https://evil.example' }), 403);
    const simple = { method: 'POST', headers: { origin: 'https://evil.example', 'content-type': 'text/plain' }, body: '{"content": "x"}' };
    assert.equal((await raw(server.url + '/tokenize', simple)).status, 403, 'a POST that needs no preflight');
  });
  await withServer(['--cors-origins', 'https://chat.example,https://*.lab.example'], async (server) => {
    const preflight = (origin) => raw(server.url + '/v1/chat/completions', {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,content-type' },
    });
    for (const origin of ['https://chat.example', 'https://a.lab.example']) {
      const allowed = await preflight(origin);
      assert.equal(allowed.status, 200);
      assert.equal(allowed.headers['access-control-allow-origin'], origin);
      assert.match(allowed.headers['access-control-allow-headers'], /authorization/);
      assert.equal(await status(server, { origin }), 200);
    }
    for (const origin of ['https://chat.example.evil', 'http://chat.example', 'null']) {
      const refused = await preflight(origin);
      assert.equal(refused.status, 403);
      assert.equal(refused.headers['access-control-allow-origin'], undefined);
    }
  });
  await withServer(['--api-key', key('web'), '--cors-origins', '*'], async (server) => {
    const asked = await raw(server.url + '/v1/models', { headers: { host: 'proxy.example', origin: 'https://any.example', authorization: `Bearer ${key('web')}` } });
    assert.equal(asked.status, 200, 'who shows a key may ask under any name');
    assert.equal(asked.headers['access-control-allow-origin'], 'https://any.example');
    const without = await raw(server.url + '/v1/models', { headers: { origin: 'https://any.example' } });
    assert.equal(without.status, 401);
    assert.equal(without.headers['access-control-allow-origin'], 'https://any.example', 'the page may read why');
  });
});

test('beyond loopback a server without a key says so', async () => {
  await withServer(['--host', '0.0.0.0'], async (server) => {
    await logged(server, /EVERYBODY who can reach that address may use this server/);
  });
});

// The name on the certificate that a new connection gets, and what was agreed on.
function agreed(port, options = {}) {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ port, host: '127.0.0.1', ca: fs.readFileSync(path.join(folder, 'ca.pem')), ...options }, () => {
      resolve({ name: socket.getPeerCertificate().subject.CN, alpn: socket.alpnProtocol, version: socket.getProtocol() });
      socket.end();
    });
    socket.on('error', reject);
  });
}

test('HTTPS serves the real clients, with TLS 1.2 and 1.3', async () => {
  await withServer([...certificateIn(folder, 'first'), '--api-key', key('tls')], async (server) => {
    const base = `https://127.0.0.1:${server.port}`;
    const script = `
      import Anthropic from '@anthropic-ai/sdk';
      import { Ollama } from 'ollama';
      import OpenAI from 'openai';
      const apiKey = ${JSON.stringify(key('tls'))}, messages = [{ role: 'user', content: 'Hi' }], model = 'story';
      const stream = await new OpenAI({ baseURL: '${base}/v1', apiKey }).chat.completions.create({ model, messages, max_tokens: 50, stream: true });
      let chunks = 0;
      for await (const _ of stream) ++chunks;
      const message = await new Anthropic({ baseURL: '${base}', apiKey }).messages.create({ model, messages, max_tokens: 4 });
      const list = await new Ollama({ host: '${base}', headers: { Authorization: 'Bearer ' + apiKey } }).list();
      const large = await fetch('${base}/tokenize', { method: 'POST', headers: { 'x-api-key': apiKey }, body: JSON.stringify({ content: 'word '.repeat(20000) }) });
      console.log(JSON.stringify([chunks, message.type, list.models.length, large.status, (await large.text()).length]));`;
    const run = (env) => spawnSync(process.execPath, ['--input-type=module', '-e', script],
      { cwd: here, encoding: 'utf8', timeout: 60_000, env: { ...process.env, ...env } });
    const done = run({ NODE_EXTRA_CA_CERTS: path.join(folder, 'ca.pem') });
    assert.equal(done.status, 0, done.stderr);
    const [chunks, type, models, large, bytes] = JSON.parse(done.stdout);
    assert.ok(chunks > 5);
    assert.deepEqual([type, models, large], ['message', 1, 200]);
    assert.ok(bytes > 40_000);
    assert.notEqual(run({}).status, 0, 'a client that does not know the CA refuses');

    assert.deepEqual(await agreed(server.port, { ALPNProtocols: ['h2', 'http/1.1'] }), { name: 'first', alpn: 'http/1.1', version: 'TLSv1.3' });
    assert.equal((await agreed(server.port, { maxVersion: 'TLSv1.2' })).version, 'TLSv1.2');
    await assert.rejects(agreed(server.port, { maxVersion: 'TLSv1.1', minVersion: 'TLSv1.1', ciphers: 'ALL@SECLEVEL=0' }));
    await assert.rejects(agreed(server.port, { ALPNProtocols: ['h2'] }));
    const plain = await raw(`http://127.0.0.1:${server.port}/health`);
    assert.equal(plain.status, 400);
    assert.match(plain.body, /https:\/\//);
  });
});

test('a certificate is read again on SIGHUP while requests are answered, and a bad one changes nothing', async () => {
  const flags = certificateIn(folder, 'before');
  const [, certFile, , keyOfFile] = flags;
  await withServer(flags, async (server) => {
    const ca = fs.readFileSync(path.join(folder, 'ca.pem'));
    const agent = new https.Agent({ keepAlive: true, maxSockets: 4 });
    const base = `https://127.0.0.1:${server.port}`;
    let running = true, answered = 0;
    const ask_on = async () => {
      const body = JSON.stringify({ prompt: 'Once', max_tokens: 8, stream: true });
      while (running) {
        const reply = await raw(base + '/v1/completions', { method: 'POST', body, ca, agent });
        assert.equal(reply.status, 200);
        assert.match(reply.body, /\[DONE\]\n\n$/);
        ++answered;
      }
    };
    const loops = [1, 2, 3, 4].map(ask_on);
    const until = async (name) => {
      for (let tries = 0; tries < 200; ++tries) {
        if ((await agreed(server.port)).name === name) return;
        await sleep(25);
      }
      assert.fail(`no connection got the certificate "${name}"`);
    };
    await until('before');
    certificateIn(folder, 'after');
    fs.copyFileSync(path.join(folder, 'after-key.pem'), keyOfFile);
    process.kill(server.pid, 'SIGHUP');
    await logged(server, /SIGHUP: cannot reload the TLS certificate; nothing changes: the TLS key \S+ does not belong to the certificate/);
    assert.equal((await agreed(server.port)).name, 'before');
    fs.copyFileSync(path.join(folder, 'after.pem'), certFile);
    process.kill(server.pid, 'SIGHUP');
    await until('after');
    const so_far = answered;
    for (let tries = 0; tries < 400 && answered < so_far + 8; ++tries) await sleep(25);
    running = false;
    await Promise.all(loops);
    agent.destroy();
    assert.ok(answered >= so_far + 8, 'requests went on');
  });
});
