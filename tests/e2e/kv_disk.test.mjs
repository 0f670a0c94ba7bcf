// Keys and values that outlive the process: what a conversation computed is there after a restart, for every kind of
// cache, whatever happened to the files.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { test } from 'node:test';
import { cairn, fixtures, serve } from './server.mjs';

const model = (name) => path.join(fixtures, 'models', `${name}.gguf`);
const folderFor = (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-kv-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  return path.join(folder, 'kv');
};
// Token ids that every fixture has, from a fixed generator.
const ids = (count, seed) => {
  let state = seed;
  return Array.from({ length: count }, () => 20 + ((state = (state * 1103515245 + 12345) % 2147483648) >> 8) % 100);
};
const ask = async (server, prompt, more = {}, headers = {}) => {
  const body = { prompt, n_predict: 8, temperature: 0, ignore_eos: true, return_tokens: true, ...more };
  const reply = await server.post('/completion', body, { headers: { 'content-type': 'application/json', ...headers } });
  assert.equal(reply.status, 200, await reply.clone().text());
  const { tokens, timings } = await reply.json();
  return { tokens, computed: timings.prompt_n, cached: timings.cache_n };
};
const disk = async (server) => (await (await fetch(`${server.url}/stats`)).json()).kv_disk;
const eventually = async (server, holds) => {
  for (let tries = 0; tries < 600; ++tries) {
    const stats = await disk(server);
    if (holds(stats)) return stats;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return assert.fail(JSON.stringify(await disk(server)));
};
const started = async (t, name, folder, flags = []) => {
  const server = await serve(model(name), ['--kv-disk', folder, ...flags]);
  t.after(() => server.stop());
  return server;
};
const killed = async (server) => {
  process.kill(server.pid, 'SIGKILL');
  while (server.alive()) await new Promise((resolve) => setTimeout(resolve, 10));
};
const filesOf = (folder, name) => fs.readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.startsWith(name))
  .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name));
// Lines of the log about the folder.
const warnings = (log) => log.split('\n').filter((line) => /warn/i.test(line) && /\/kv|keys and values/.test(line));

for (const [kind, name] of [['full', 'llama'], ['window', 'gemma3'], ['latent', 'deepseek2'],
  ['compressed rows', 'deepseek4'], ['recurrent', 'qwen35']]) {
  test(`a conversation of 30 turns goes on after a restart with its new tokens only: ${kind}`, async (t) => {
    const folder = folderFor(t);
    let history = ids(300, 1);
    const turns = async (server, from, to) => {
      let answer;
      for (let turn = from; turn < to; ++turn) {
        answer = await ask(server, history);
        history = [...history, ...answer.tokens, ...ids(20, 100 + turn)];
      }
      return answer;
    };
    const first = await started(t, name, folder);
    await turns(first, 0, 29);
    assert.equal((await first.stop()).code, 0);
    const before = history;
    const second = await started(t, name, folder);
    const after = await turns(second, 29, 30);
    // The last token that was sampled was never computed.
    assert.equal(after.computed, 20 + 1);
    assert.equal((await disk(second)).hits, 1);
    const plain = await serve(model(name), ['--no-prefix-cache']);
    t.after(() => plain.stop());
    assert.deepEqual(after.tokens, (await ask(plain, before)).tokens);
  });
}

test('a killed process leaves what was written; no file that is spoilt is an error', async (t) => {
  const folder = folderFor(t);
  const prompt = ids(700, 5);
  const first = await started(t, 'llama', folder);
  const expected = await ask(first, prompt);
  await eventually(first, ({ pages }) => pages >= 21);
  await killed(first);
  assert.equal(fs.statSync(folder).mode & 0o777, 0o700);
  for (const file of filesOf(folder, '')) assert.equal(fs.statSync(file).mode & 0o777, 0o600, file);

  const second = await started(t, 'llama', folder);
  const again = await ask(second, prompt);
  assert.deepEqual(again.tokens, expected.tokens);
  assert.ok(again.cached >= 640, again.cached);
  assert.deepEqual(warnings(second.log()), []);
  await second.stop();

  const spoil = (name, change) => async () => {
    const [file] = filesOf(folder, name);
    const bytes = fs.readFileSync(file);
    fs.writeFileSync(file, change(bytes));
  };
  const flip = (at) => (bytes) => {
    bytes[at(bytes)] ^= 1;
    return bytes;
  };
  for (const change of [
    spoil('pages-', flip((bytes) => bytes.length >> 1)),
    spoil('pages-', (bytes) => bytes.subarray(0, bytes.length >> 1)),
    spoil('index', flip((bytes) => bytes.length - 200)),
    spoil('index', flip(() => 9)),
    spoil('secret', flip(() => 3)),
  ]) {
    await change();
    const server = await started(t, 'llama', folder);
    assert.deepEqual((await ask(server, prompt)).tokens, expected.tokens);
    assert.ok(warnings(server.log()).length <= 1, server.log());
    await server.stop();
    const next = await started(t, 'llama', folder);
    const answer = await ask(next, prompt);
    assert.deepEqual(answer.tokens, expected.tokens);
    assert.deepEqual(warnings(next.log()), [], 'it is told once');
    assert.ok(answer.cached >= 640, `${answer.cached} after a restart`);
    await next.stop();
  }
});

test('another key, another KV type and what may not be kept find nothing; tenants do not share', async (t) => {
  const folder = folderFor(t);
  const key = (name) => ({ authorization: `Bearer ${name}` });
  const first = await started(t, 'llama', folder);
  await ask(first, ids(400, 1), {}, key('alice'));
  await ask(first, ids(400, 2), { cache_prompt: false });
  const words = (word) => Array.from({ length: 300 }, () => word).join(' ');
  const chat = (server, store, word) => server.post('/v1/chat/completions', {
    messages: [{ role: 'user', content: words(word) }], max_tokens: 4, store });
  assert.equal((await chat(first, false, 'no')).status, 200);
  await first.stop();
  const pages = (server) => disk(server).then((stats) => stats.pages);

  const q8 = await started(t, 'llama', folder, ['--kv-type', 'q8_0']);
  assert.equal((await ask(q8, ids(400, 1), {}, key('alice'))).cached, 0);
  await q8.stop();

  const second = await started(t, 'llama', folder);
  assert.equal((await ask(second, ids(400, 1), {}, key('alice'))).cached, 384);
  assert.equal((await ask(second, ids(400, 1), {}, key('bob'))).cached, 0);
  assert.equal((await ask(second, ids(400, 1))).cached, 0);
  assert.equal((await ask(second, ids(400, 2))).cached, 0);
  const forgotten = await (await chat(second, true, 'no')).json();
  assert.equal(forgotten.usage.prompt_tokens_details.cached_tokens, 0);
  const told = await (await chat(second, true, 'yes')).json();
  const report = await (await fetch(`${second.url}/debug/prefix?request=${told.id}`)).json();
  assert.match(report.disk.ends_because, /not there/);
  assert.ok(await pages(second) > 0);

  const third = await started(t, 'gemma3', folder);
  assert.match(third.log(), /another process uses this folder/);
  assert.equal((await ask(third, ids(40, 1))).cached, 0);
  assert.match(cairn(['cache', 'list', folder]).stderr, /another process uses this folder/);
  await second.stop();
  await third.stop();

  const list = cairn(['cache', 'list', folder]);
  assert.equal(list.status, 0, list.stderr);
  assert.match(list.stdout, /llama/);
  assert.match(cairn(['cache', 'verify', folder]).stdout, / 0 were not/);
  assert.match(cairn(['cache', 'clear', folder, '--tenant', 'alice']).stdout, /^[1-9][0-9]* pages/);
  const fourth = await started(t, 'llama', folder);
  assert.equal((await ask(fourth, ids(400, 1), {}, key('alice'))).cached, 0);
  assert.equal((await ask(fourth, ids(400, 1), {}, key('bob'))).cached, 384);
  await fourth.stop();
  assert.equal(cairn(['cache', 'clear', folder]).status, 0);
  assert.deepEqual(filesOf(folder, 'pages-'), []);
  assert.match(cairn(['cache', 'list', os.tmpdir()]).stderr, /holds no keys and values/);
});

test('a folder that cannot be used is one line of the log', async (t) => {
  const folder = folderFor(t);
  fs.writeFileSync(folder, 'a file');
  const server = await started(t, 'llama', folder);
  assert.equal(warnings(server.log()).length, 1, server.log());
  assert.match(server.log(), /no keys and values are kept on disk: /);
  assert.equal((await ask(server, ids(300, 1))).computed, 300);
});
