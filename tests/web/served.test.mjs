// How the program serves the page, and what it tells it, without a browser.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { serve } from '../e2e/server.mjs';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { gunzipSync } from 'node:zlib';
import { guide } from './browser.mjs';

let server;
before(async () => { server = await serve(guide); });
after(async () => { await server.stop(); });

// Without fetch, which decodes answers.
const get = (path, headers = {}, method = 'GET', url = server.url) =>
  new Promise((resolve, reject) => {
    http.request(url + path, { method, headers }, async (response) => {
      const parts = [];
      for await (const part of response) parts.push(part);
      resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts) });
    }).on('error', reject).end();
  });
const browser = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8', 'accept-encoding': 'gzip, br' };
const dist = new URL('../../web/dist/', import.meta.url);

test('browsers get the page, and plain clients what they always got', async () => {
  const index = readFileSync(new URL('index.html', dist));
  const page = await get('/', browser);
  assert.equal(page.headers['content-type'], 'text/html; charset=utf-8');
  assert.equal(page.headers['content-encoding'], 'gzip');
  assert.deepEqual(gunzipSync(page.body), index);
  assert.deepEqual((await get('/', { accept: 'text/html' })).body, index);
  assert.match(page.headers.vary, /Accept/);
  for (const accept of [undefined, '*/*', 'application/json']) {
    const plain = await get('/', accept ? { accept } : {});
    assert.equal(plain.body.toString(), 'Cairn is running');
    assert.match(plain.headers['content-type'], /^text\/plain/);
  }
  assert.equal((await get('/', browser, 'HEAD')).body.length, 0);
  assert.equal((await get('/', {}, 'HEAD')).status, 200);
});

test('every file of the page is there, never changes under its name, and allows nothing from elsewhere', async () => {
  const index = readFileSync(new URL('index.html', dist)).toString();
  for (const [, name] of index.matchAll(/"(assets\/[^"]+)"/g)) {
    const file = await get(`/${name}`, browser);
    assert.equal(file.status, 200, name);
    assert.deepEqual(gunzipSync(file.body), readFileSync(new URL(name, dist)), name);
    assert.match(file.headers['cache-control'], /immutable/);
    assert.equal(file.headers['x-content-type-options'], 'nosniff');
    const again = await get(`/${name}`, { ...browser, 'if-none-match': file.headers.etag });
    assert.deepEqual([again.status, again.body.length], [304, 0]);
  }
  const { headers } = await get('/', browser);
  assert.equal(headers['cache-control'], 'no-cache');
  assert.match(headers['content-security-policy'], /default-src 'none'; script-src 'self'.*connect-src 'self'/);
  assert.doesNotMatch(headers['content-security-policy'], /unsafe|https?:|\*/);
  assert.equal((await get('/assets/none-00000000.js', browser)).status, 404);
  assert.equal((await get('/assets/..%2Findex.html', browser)).status, 404);
});

test('--no-web serves no page', async () => {
  const without = await serve(guide, ['--no-web']);
  assert.equal((await get('/', browser, 'GET', without.url)).body.toString(), 'Cairn is running');
  assert.equal((await get('/assets/licences.txt', browser, 'GET', without.url)).status, 404);
  await without.stop();
});

async function* events(response) {
  let rest = '';
  for await (const part of response.body) {
    rest += Buffer.from(part).toString();
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
      const event = rest.slice(0, end);
      rest = rest.slice(end + 2);
      if (event.startsWith('data: ')) yield JSON.parse(event.slice(6));
    }
  }
}

test('the stream of metrics tells of running requests, of models, of memory and of the log', async () => {
  const stream = await fetch(`${server.url}/v1/metrics/stream`);
  const readings = events(stream);
  const { value: first } = await readings.next();
  assert.equal(first.models[0].model, 'guide');
  assert.ok(first.memory.resident_bytes > 0 && first.memory.planned_bytes > 0);
  assert.ok(first.log.some(({ text, level }) => /serving guide/.test(text) && level === 'info'));
  const answer = await (await server.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello!' }], temperature: 0 })).json();
  const { value: second } = await readings.next();
  const { value: third } = await readings.next();
  assert.ok(third.time > second.time && second.time > first.time);
  assert.equal(third.models[0].tokens_generated - first.models[0].tokens_generated, answer.usage.completion_tokens);
  assert.ok(second.log.every(({ number }) => number > first.log.at(-1).number));
  await readings.return();
});

test('a running request is listed and cancelled, and one that does not run is a 404', async () => {
  const stopped = new AbortController();
  const response = await server.post('/completion', { prompt: 'One', n_predict: 1900, ignore_eos: true, stream: true },
    { signal: stopped.signal });
  const { data: [request] } = await (await fetch(`${server.url}/v1/requests`)).json();
  if (request) {
    assert.match(request.id, /^cmpl-/);
    assert.equal(request.model, 'guide');
    const { status } = await fetch(`${server.url}/v1/requests/${request.id}/cancel`, { method: 'POST' });
    assert.ok(status === 200 || status === 404);
    assert.match(await response.text(), status === 200 ? /has been cancelled/ : /./);
  }
  stopped.abort();
  const none = await fetch(`${server.url}/v1/requests/none/cancel`, { method: 'POST' });
  assert.equal(none.status, 404);
  assert.match((await none.json()).error.message, /GET \/v1\/requests/);
  assert.equal((await fetch(`${server.url}/v1/requests/none/cancel`)).status, 405);
});

test('a program that is told to stop does not wait for who watches it', async () => {
  const watched = await serve(guide);
  const stream = await fetch(`${watched.url}/v1/metrics/stream`);
  const all = stream.text();
  const begun = performance.now();
  const { code } = await watched.stop();
  assert.equal(code, 0);
  assert.ok(performance.now() - begun < 6000);
  await all.catch(() => {});
});
