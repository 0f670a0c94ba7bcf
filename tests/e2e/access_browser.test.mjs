// Pages in a real Chromium ask a server of another origin (docs/access.md). scripts/web.sh runs it:
//   CAIRN_PROGRAM=build/release/cairn CAIRN_TEST_DATA=build/test-data node --test tests/e2e/access_browser.test.mjs
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { serve, story } from './server.mjs';

const chromium = ['chromium', 'chromium-browser', 'google-chrome'].find((name) => spawnSync('which', [name]).status === 0);

// The page's text once its script has run, in a browser for which all names below "example" are this machine.
async function textOf(url) {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-browser-'));
  const child = spawn(chromium, ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', `--user-data-dir=${profile}`,
    '--host-resolver-rules=MAP *.example 127.0.0.1', '--virtual-time-budget=20000', '--dump-dom', url], { stdio: ['ignore', 'pipe', 'ignore'] });
  const timer = setTimeout(() => child.kill('SIGKILL'), 60_000);
  let text = '';
  for await (const bytes of child.stdout) text += bytes;
  clearTimeout(timer);
  fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  return text;
}

// A page that asks the server of that port, and shows what it got.
const page = (port, init) => `<!doctype html><body>nothing yet</body><script>
  fetch('http://127.0.0.1:${port}/v1/chat/completions', ${JSON.stringify(init)})
    .then(async (reply) => { document.body.textContent = 'got ' + reply.status + ' ' + await reply.text(); })
    .catch((error) => { document.body.textContent = 'blocked: ' + error; });
</script>`;
const body = JSON.stringify({ messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4 });
const json = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
const simple = { method: 'POST', headers: { 'content-type': 'text/plain' }, body };
const keyed = (key) => ({ ...json, headers: { ...json.headers, authorization: `Bearer ${key}` } });

async function seen(server, host, init) {
  const site = http.createServer((request, reply) => reply.setHeader('content-type', 'text/html').end(page(server.port, init)));
  await new Promise((resolve) => { site.listen(0, '127.0.0.1', resolve); });
  try {
    return await textOf(`http://${host}:${site.address().port}/`);
  } finally {
    site.close();
    site.closeAllConnections?.();
  }
}

async function withServer(flags, check) {
  const server = await serve(story, flags);
  try {
    await check(server);
  } finally {
    await server.stop();
  }
}

test('pages of this machine may ask, those of other sites may not', { skip: !chromium && 'there is no Chromium' }, async () => {
  await withServer([], async (server) => {
    assert.match(await seen(server, 'localhost', json), /got 200 .*chat\.completion/);
    assert.match(await seen(server, 'evil.example', json), /blocked/);
    // What needs no preflight is sent, and refused before anything is computed.
    const computed = async () => (await (await fetch(`${server.url}/metrics`)).text()).match(/^cairn_sequences_total\S* (\d+)$/m)[1];
    const before = await computed();
    assert.match(await seen(server, 'evil.example', simple), /blocked/);
    assert.equal(await computed(), before);
    assert.match(await textOf(`http://evil.example:${server.port}/v1/models`), /asked for under the name/, 'DNS rebinding');
  });
});

test('--cors-origins lets a site in, and a key is still needed', { skip: !chromium && 'there is no Chromium' }, async () => {
  await withServer(['--cors-origins', 'http://chat.example:*'], async (server) => {
    assert.match(await seen(server, 'chat.example', json), /got 200 .*chat\.completion/);
    assert.match(await seen(server, 'other.example', json), /blocked/);
  });
  await withServer(['--cors-origins', '*', '--api-key', 'sk-browser-0123456789'], async (server) => {
    assert.match(await seen(server, 'any.example', keyed('sk-browser-0123456789')), /got 200/);
    assert.match(await seen(server, 'any.example', keyed('sk-wrong')), /got 401 .*invalid_api_key/);
  });
});
