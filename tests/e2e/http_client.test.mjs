// What the program asks of servers itself: `cairn chat --url`, `cairn bench serve` and `--otlp`, over HTTP and HTTPS.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { cairn, certificateIn, logged, program, serve, story } from './server.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-http-client-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
const key = 'sk-https-0123456789abcdef';
const tlsFlags = certificateIn(folder, 'here');
const certificate = { cert: fs.readFileSync(path.join(folder, 'here.pem')), key: fs.readFileSync(path.join(folder, 'here-key.pem')) };

// What the machine has must not matter, and a proxy that is not there must not be asked for this machine.
const bare = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(no_proxy|ssl_cert_\w+|curl_ca_bundle)$/i.test(name)));
const environment = { ...bare, http_proxy: 'http://127.0.0.1:1', https_proxy: 'http://127.0.0.1:1', ALL_PROXY: 'http://127.0.0.1:1' };
const trusting = { ...environment, SSL_CERT_FILE: path.join(folder, 'ca.pem') };
const withEnvironment = (variables) => ['env', '-i', ...Object.entries(variables).map(([name, value]) => `${name}=${value}`)];

// The URL of a server on loopback, with TLS where `scheme` says so, until the tests end.
const listeners = [];
async function listen(scheme, handler) {
  const listener = scheme === 'https' ? https.createServer(certificate, handler) : http.createServer(handler);
  await new Promise((done) => { listener.listen(0, '127.0.0.1', done); });
  listeners.push(listener);
  return `${scheme}://127.0.0.1:${listener.address().port}`;
}

let server, plain;
before(async () => {
  server = await serve(story, [...tlsFlags, '--api-key', key]);
  plain = await serve(story);
});
after(async () => {
  for (const listener of listeners) {
    listener.close();
    listener.closeAllConnections();
  }
  await Promise.all([server.stop(), plain.stop()]);
});

test('chat and bench speak HTTPS with a server whose certificate the environment makes known', () => {
  assert.match(server.url, /^https:/);
  const chat = (url, env, flags = []) => cairn(['chat', '--url', url, '-n', '12', '--temp', '0', ...flags], { input: 'Hello there\nAgain\n', env });
  const encrypted = chat(server.url, trusting, ['--api-key', key]);
  assert.equal(encrypted.status, 0, encrypted.stderr);
  const clear = chat(plain.url, environment);
  assert.equal(clear.status, 0, clear.stderr);
  assert.equal(encrypted.stdout, clear.stdout);
  assert.ok(encrypted.stdout.trim().length > 20);
  assert.equal(chat(server.url, { ...environment, CURL_CA_BUNDLE: path.join(folder, 'ca.pem') }, ['--api-key', key]).stdout, clear.stdout);
  assert.match(chat(server.url, trusting).stderr, /the server answered 401: /);

  const bench = (env) => cairn(['bench', 'serve', '--url', server.url, '--clients', '4', '--requests', '12', '-n', '6', '--api-key', key], { env });
  const measured = bench(trusting);
  assert.equal(measured.status, 0, measured.stderr);
  assert.match(measured.stdout, /12 answered, 0 failed/);
  assert.match(bench(environment).stderr, /the certificate of https:\S+ is not accepted/);
});

test('a certificate that is not known, a file that is not there and the wrong scheme are errors that say what to do', () => {
  const told = (url, env) => {
    const run = cairn(['chat', '--url', url, '--api-key', key], { input: 'Hello\n', env });
    assert.equal(run.status, 1);
    assert.equal(run.stdout.trim(), '');
    assert.equal(run.stderr.trim().split('\n').length, 1, run.stderr);
    return run.stderr;
  };
  assert.match(told(server.url, environment), /the certificate of https:\/\/127\.0\.0\.1:\d+ is not accepted: .*certificate.*; it must .* the file that CURL_CA_BUNDLE, else SSL_CERT_FILE, names/);
  assert.match(told(server.url, { ...environment, SSL_CERT_FILE: path.join(folder, 'none.pem') }), /the request to https:\S+ failed: .*none\.pem/);
  assert.match(told(server.url.replace('https', 'http'), trusting), /https:\/\//);
  assert.match(told(plain.url.replace('http', 'https'), trusting), /an address with http:\/\//);
  assert.match(told('ftp://127.0.0.1', trusting), /not of the form http:\/\/HOST:PORT or https:\/\/HOST:PORT/);
});

test('text arrives as it comes, and Ctrl-C ends an answer that streams and one that has not begun', async () => {
  const delta = (content) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`;
  for (const scheme of ['http', 'https']) {
    let gone = 0, asked = 0;
    const endless = await listen(scheme, (request, reply) => {
      reply.on('close', () => { ++gone; });
      if (++asked > 1) return;  // the second is never answered
      reply.writeHead(200, { 'content-type': 'text/event-stream' });
      reply.write(delta('One'));
      setTimeout(() => reply.write(delta(' two')), 200);
    });
    const child = spawn(program, ['chat', '--url', endless], { env: trusting, stdio: ['pipe', 'pipe', 'inherit'] });
    let shown = '';
    child.stdout.on('data', (bytes) => { shown += bytes; });
    const until = async (done) => {
      for (let tries = 0; tries < 400 && !done(); ++tries) await sleep(25);
      assert.ok(done(), shown);
    };
    child.stdin.write('First\n');
    await until(() => shown === 'One');
    await until(() => shown === 'One two');
    for (const question of ['Second\n', '/exit\n']) {
      const begin = performance.now();
      child.kill('SIGINT');
      await until(() => gone === asked);
      assert.ok(performance.now() - begin < 2_000, 'Ctrl-C takes long');
      child.stdin.write(question);
      if (question === 'Second\n') await until(() => asked === 2);
    }
    assert.equal(await new Promise((done) => { child.on('exit', done); }), 0);
  }
});

test('a key goes to no other server, and a conversation follows no redirect', async () => {
  const asked = [];
  const other = await listen('http', (request, reply) => {
    asked.push(request.headers);
    reply.end('{"data":[]}');
  });
  const moved = await listen('https', (request, reply) => { reply.writeHead(307, { location: other + request.url }).end(); });
  const run = (...args) => new Promise((done) => {
    const child = spawn(program, args, { env: trusting });
    let stderr = '';
    child.stderr.on('data', (bytes) => { stderr += bytes; });
    child.on('exit', (code) => done({ code, stderr }));
    child.stdin.end('Hello\n');
  });
  const chat = await run('chat', '--url', moved, '--api-key', key);
  assert.equal(chat.code, 1);
  assert.ok(chat.stderr.includes(`has moved to ${other}/v1/chat/completions`), chat.stderr);
  const bench = await run('bench', 'serve', '--url', moved, '--api-key', key);
  assert.equal(bench.code, 1);
  assert.deepEqual(asked, [], 'https leads to no http');
});

test('traces go to a collector over HTTPS, if its certificate is known', async () => {
  const documents = [];
  const collector = await listen('https', (request, reply) => {
    let body = '';
    request.on('data', (bytes) => { body += bytes; });
    request.on('end', () => {
      documents.push([request.url, request.headers['content-type'], JSON.parse(body)]);
      reply.end('{}');
    });
  });
  const knowing = await serve(story, ['--otlp', collector], withEnvironment(trusting));
  assert.equal((await knowing.post('/v1/completions', { prompt: 'Once', max_tokens: 3 })).status, 200);
  assert.equal((await knowing.stop()).code, 0);
  assert.deepEqual(documents.map(([route, type]) => [route, type]), [['/v1/traces', 'application/json']]);
  assert.equal(documents[0][2].resourceSpans[0].scopeSpans[0].spans[0].name, 'POST /v1/completions');

  const unknowing = await serve(story, ['--otlp', collector], withEnvironment(environment));
  assert.equal((await unknowing.post('/v1/completions', { prompt: 'Once', max_tokens: 3 })).status, 200);
  await logged(unknowing, /the collector of --otlp takes no traces: the certificate of https:\/\/127\.0\.0\.1:\d+ is not accepted: .*SSL_CERT_FILE/);
  assert.match(await (await fetch(`${unknowing.url}/metrics`)).text(), /cairn_traces_dropped_total 1\n/);
  assert.equal((await unknowing.stop()).code, 0);
  assert.equal(documents.length, 1);
});
