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
  const { tokens, timings, id_slot: slot } = await reply.json();
  return { tokens, computed: timings.prompt_n, cached: timings.cache_n, slot };
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
  assert.match(cairn(['cache', 'verify', folder]).stdout, / pages are intact; 0 were damaged/);
  assert.match(cairn(['cache', 'clear', folder, '--tenant', 'alice']).stdout, /^deleted [1-9][0-9]* pages/);
  const fourth = await started(t, 'llama', folder);
  assert.equal((await ask(fourth, ids(400, 1), {}, key('alice'))).cached, 0);
  assert.equal((await ask(fourth, ids(400, 1), {}, key('bob'))).cached, 384);
  await fourth.stop();
  assert.equal(cairn(['cache', 'clear', folder]).status, 0);
  assert.deepEqual(filesOf(folder, 'pages-'), []);
  assert.match(cairn(['cache', 'list', os.tmpdir()]).stderr, /is not a folder of cached keys and values; give the one of cairn serve --kv-disk/);
});

const act = async (server, slot, action, body = {}, headers = {}) => {
  const reply = await server.post(`/slots/${slot}?action=${action}`, body, { headers: { 'content-type': 'application/json', ...headers } });
  return { status: reply.status, ...await reply.json() };
};

test("llama-server's slots are saved, restored and erased by name", async (t) => {
  const folder = folderFor(t);
  for (const name of ['llama', 'qwen35']) {
    const first = await started(t, name, folder);
    const prompt = ids(90, 3);
    const told = await ask(first, prompt, { id_slot: 1 });
    assert.equal(told.slot, 1);
    const saved = await act(first, 1, 'save', { filename: 'talk.bin' });
    assert.equal(saved.status, 200, JSON.stringify(saved));
    assert.deepEqual([saved.id_slot, saved.filename, saved.n_saved], [1, 'talk.bin', 90 + 7]);  // the 8th was not computed
    assert.ok(saved.n_written > 0 && saved.timings.save_ms > 0);
    const list = await (await fetch(`${first.url}/slots`)).json();
    assert.deepEqual(list.slice(0, 3).map((slot) => slot.n_prompt_tokens), [0, 98, 0]);
    const next = [...prompt, ...told.tokens, ...ids(9, 4)];
    const expected = await ask(first, next);
    assert.equal(expected.slot, 1, 'a prompt that goes on with a conversation takes its slot');
    assert.equal(expected.computed, 1 + 9);

    assert.equal((await act(first, 1, 'erase')).n_erased, 98 + 9 + 7);
    assert.equal((await act(first, 1, 'erase')).n_erased, 0);
    assert.equal((await act(first, 1, 'save', { filename: 'talk.bin' })).status, 400);
    assert.equal((await ask(first, next, { id_slot: 2, cache_prompt: false })).computed, next.length);
    await killed(first);

    const second = await started(t, name, folder);
    const restored = await act(second, 0, 'restore', { filename: 'talk.bin' });
    assert.deepEqual([restored.status, restored.n_restored, restored.n_read], [200, 97, saved.n_written], JSON.stringify(restored));
    assert.ok(restored.timings.restore_ms > 0);
    const again = await ask(second, next);
    assert.deepEqual([again.tokens, again.computed, again.slot], [expected.tokens, 1 + 9, 0]);
    assert.equal((await act(second, 0, 'restore', { filename: 'talk.bin' }, { authorization: 'Bearer other' })).status, 400);
    assert.match((await act(second, 0, 'restore', { filename: 'else.bin' })).error.message, /"else.bin" cannot be restored/);
    for (const filename of ['../talk.bin', 'a/b', '', '.', 7, undefined]) {
      const refused = await act(second, 0, 'save', { filename });
      assert.deepEqual([refused.status, refused.error.type], [400, 'invalid_request_error'], filename);
    }
    assert.equal((await act(second, 0, 'burn')).status, 400);
    assert.equal((await act(second, 'x', 'erase')).status, 400);
    assert.equal((await act(second, 1000, 'erase')).status, 400);
    assert.equal((await fetch(`${second.url}/slots/0`)).status, 405);
    await second.stop();
  }
  const plain = await serve(model('llama'));
  t.after(() => plain.stop());
  const refused = await act(plain, 0, 'save', { filename: 'talk.bin' });
  assert.deepEqual([refused.status, refused.error.type], [501, 'not_supported_error']);
  assert.match(refused.error.message, /--kv-disk/);
});

test('usage says what was written to the cache, and where the rest came from', async (t) => {
  const folder = folderFor(t);
  const first = await started(t, 'llama', folder);
  const text = Array.from({ length: 300 }, (_, i) => `word ${i % 7}`).join(' ');
  const chat = async (server) => (await (await server.post('/v1/chat/completions',
    { messages: [{ role: 'user', content: text }], max_tokens: 1 })).json());
  const cold = (await chat(first)).usage;
  const whole = Math.floor(cold.prompt_tokens / 32) * 32;
  assert.deepEqual(cold.prompt_tokens_details, { cached_tokens: 0, cache_write_tokens: whole });
  const message = async (block) => (await (await first.post('/v1/messages',
    { max_tokens: 1, messages: [{ role: 'user', content: [{ type: 'text', text: `${block.length} ${text}`, ...block[0] }] }] })).json()).usage;
  const marked = await message([{ cache_control: { type: 'ephemeral' } }]);
  assert.equal((marked.cache_read_input_tokens + marked.cache_creation_input_tokens) % 32, 0);
  assert.ok(marked.cache_creation_input_tokens > 256 && marked.input_tokens < 32, JSON.stringify(marked));
  const hit = await message([{ cache_control: { type: 'ephemeral' } }]);
  assert.deepEqual([hit.cache_creation_input_tokens, hit.input_tokens], [0, 1]);
  const all = marked.cache_read_input_tokens + marked.cache_creation_input_tokens + marked.input_tokens;
  assert.equal(hit.cache_read_input_tokens, all - 1);
  const unmarked = await message([{}, {}]);
  assert.equal(unmarked.cache_creation_input_tokens, 0);
  await first.stop();
  const second = await started(t, 'llama', folder);
  const { usage: warm, timings } = await chat(second);
  assert.equal(warm.prompt_tokens_details.cached_tokens, warm.prompt_tokens_details.disk_tokens);
  assert.equal(timings.disk_n, warm.prompt_tokens_details.disk_tokens);
  const metrics = await (await fetch(`${second.url}/metrics`)).text();
  assert.match(metrics, /^cairn_kv_disk_hits_total\{model="[^"]*"\} 1$/m);
  assert.match(metrics, new RegExp(`^cairn_kv_disk_tokens_total\\{model="[^"]*"\\} ${timings.disk_n}$`, 'm'));
  for (const name of ['read_bytes_total', 'written_today_bytes', 'bytes', 'pages']) {
    assert.match(metrics, new RegExp(`^cairn_kv_disk_${name} [1-9]`, 'm'));
  }
  await second.stop();
  assert.match(second.log(), new RegExp(` cached, ${timings.disk_n} from the disk\\) answer \\d+, \\w+, first`));
});

// How often a value of the first list is larger than one of the second: 0.5 if nothing tells them apart.
const larger = (a, b) => a.reduce((sum, x) => sum + b.reduce((n, y) => n + (x > y ? 1 : x === y ? 0.5 : 0), 0), 0) / (a.length * b.length);

// 1,000 with CAIRN_PREFIXES=1000, which takes a minute.
test("no prefix of one key is a hit for another, in memory or on the disk, by counts or by time", async (t) => {
  const folder = folderFor(t);
  const prefixes = Number(process.env.CAIRN_PREFIXES ?? 100);
  const byChance = 6 / Math.sqrt(6 * prefixes);  // six times the deviation that chance gives
  const key = (name) => ({ authorization: `Bearer ${name}` });
  const prompt = (i) => ids(300, 7 * i + 1);
  const timed = async (server, name, i, cached) => {
    const begin = performance.now();
    const answer = await ask(server, prompt(i), { n_predict: 1 }, key(name));
    // What one has asked before may begin with the same few tokens by chance.
    assert.ok(cached > 0 ? answer.cached === cached : answer.cached < 32, `${name} asks for prefix ${i}: ${answer.cached}`);
    return performance.now() - begin;
  };
  // What one has asked and what nobody has, in turns, so that the machine's moods are the same for both.
  const cannotTell = async (server, name) => {
    const asked = [], unasked = [];
    for (let i = 0; i < prefixes; ++i) {
      asked.push(await timed(server, name, i, 0));
      unasked.push(await timed(server, name, (name.length + 1) * prefixes + i, 0));
    }
    assert.ok(Math.abs(larger(unasked, asked) - 0.5) < byChance, `${larger(unasked, asked)}`);
  };
  const first = await started(t, 'llama', folder);
  for (let i = 0; i < prefixes; ++i) await timed(first, 'alice', i, 0);
  await cannotTell(first, 'bob');
  await first.stop();
  const second = await started(t, 'llama', folder);
  // The first request, before the server has seen that computing with so small a model is faster than reading.
  await timed(second, 'alice', 0, 288);  // whole pages
  await cannotTell(second, 'carol');
  // They can be told from one's own, so that the test would see it. On a busy machine that takes several rounds.
  let told = 0;
  for (let round = 0; round < 5 && told <= 0.5 + byChance; ++round) {
    const own = [], unasked = [];
    for (let i = 0; i < prefixes; ++i) {
      await ask(second, prompt(i), { n_predict: 1 }, key('alice'));
      own.push(await timed(second, 'alice', i, 299));
      unasked.push(await timed(second, 'alice', (9 + round) * prefixes + i, 0));
    }
    told = larger(unasked, own);
  }
  assert.ok(told > 0.5 + byChance, `${told}`);
  await second.stop();
});

test('a server that is killed at any moment answers the same afterwards, from what it had written', async (t) => {
  const folder = folderFor(t);
  const times = 4;
  const prompts = Array.from({ length: times }, (_, i) => ids(700, 50 + i));
  const plain = await serve(model('llama'), ['--no-prefix-cache']);
  t.after(() => plain.stop());
  const expected = [];
  for (const prompt of prompts) expected.push((await ask(plain, prompt)).tokens);
  for (let i = 0; i < times; ++i) {
    const server = await started(t, 'llama', folder);
    for (let j = 0; j < i; ++j) assert.deepEqual((await ask(server, prompts[j])).tokens, expected[j], `${j} after ${i} ends`);
    ask(server, prompts[i]).catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 100));
    await killed(server);
  }
  const last = await started(t, 'llama', folder);
  for (let i = 0; i < times; ++i) assert.deepEqual((await ask(last, prompts[i])).tokens, expected[i]);
  await last.stop();
  const after = await started(t, 'llama', folder);
  for (let i = 0; i < times; ++i) {
    const answer = await ask(after, prompts[i]);
    assert.deepEqual(answer.tokens, expected[i]);
    assert.ok(answer.cached >= 672, answer.cached);
  }
  assert.deepEqual(warnings(after.log()), []);
});

test('a folder that cannot be used is one line of the log', async (t) => {
  const folder = folderFor(t);
  fs.writeFileSync(folder, 'a file');
  const server = await started(t, 'llama', folder);
  assert.equal(warnings(server.log()).length, 1, server.log());
  assert.match(server.log(), /no keys and values are kept on disk: /);
  assert.equal((await ask(server, ids(300, 1))).computed, 300);
});
