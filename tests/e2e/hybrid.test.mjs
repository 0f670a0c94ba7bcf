// Models with recurrent layers: their states cannot be cut back, so what is found again depends on where copies were kept.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { test } from 'node:test';
import { cairn, fixtures, serve, trainedFor } from './server.mjs';

const turns = 30;
const context = 32768;
const system = 'You look after a garden by the sea and answer in few words. '.repeat(100);
const toolResult = (turn) => `There are ${turn} birds and ${turn * 7} fish. ${'The wind comes from the west. '.repeat(4)}`;
// A checkpoint lies at the last page boundary (32 tokens) before the last message's end, which some tokens follow.
const lostMax = 80;

async function ask(server, messages, seed = 1) {
  const reply = await server.post('/v1/chat/completions', { messages, max_tokens: 12, temperature: 0.8, seed });
  assert.equal(reply.status, 200, await reply.clone().text());
  const { usage, choices } = await reply.json();
  return { prompt: usage.prompt_tokens, cached: usage.prompt_tokens_details.cached_tokens, message: choices[0].message };
}

for (const name of ['qwen35', 'lfm2', 'mamba2']) {
  test(`${name}: a conversation of ${turns} turns with tool results computes what is new`, async () => {
    const server = await serve(trainedFor(path.join(fixtures, 'models', `${name}.gguf`), name, context), ['--parallel', '2']);
    try {
      const talks = ['one', 'two'].map((talk) => ({
        messages: [{ role: 'system', content: `${system} This is garden ${talk}.` }, { role: 'user', content: `What is new in garden ${talk}?` }],
      }));
      for (let turn = 0; turn < turns; ++turn) {
        for (const talk of talks) {  // the two take turns
          const { messages, last } = talk;
          const now = await ask(server, messages, turn);
          if (last) {
            assert.ok(now.cached >= last.prompt - lostMax, `turn ${turn}: ${now.cached} of ${last.prompt}`);
            assert.ok(now.cached >= 0.99 * (last.prompt - lostMax / 2), `turn ${turn}: ${now.cached} of ${last.prompt}`);
          }
          talk.last = now;
          const call = { id: `call_${turn}`, type: 'function', function: { name: 'look', arguments: '{}' } };
          messages.push({ role: 'assistant', content: null, tool_calls: [call] });
          messages.push({ role: 'tool', tool_call_id: call.id, content: toolResult(turn) });
        }
      }
      const [{ messages, last }] = talks;
      // The last message is written anew, as a person does who edits it.
      const before = await ask(server, messages);
      const edited = await ask(server, [...messages.slice(0, -1), { ...messages.at(-1), content: `Nothing at all. ${toolResult(99)}` }]);
      assert.ok(edited.cached >= last.prompt - lostMax, `edited: ${edited.cached} of ${last.prompt}, before ${before.cached}`);
      // Another conversation begins with the same system prompt.
      const other = await ask(server, [messages[0], { role: 'user', content: 'And who are you?' }]);
      assert.ok(other.cached >= 0.9 * system.length / 10 && other.cached >= other.prompt - 2 * lostMax, `other: ${other.cached} of ${other.prompt}`);
    } finally {
      assert.equal((await server.stop()).code, 0);
    }
  });
}

// CAIRN_SOAK=1 aborts all 1,000 streams of each model (a minute with a release build); tests abort a part of them.
const soak = process.env.CAIRN_SOAK !== undefined;
const aborts = soak ? 1000 : 60, together = 64, asked = 8, abortedAtOnce = 50;

const statsOf = async (server) => (await fetch(`${server.url}/stats`)).json();
const residentMib = (server) => Number(fs.readFileSync(`/proc/${server.pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) / 1024;

async function until(server, what, condition) {
  const end = Date.now() + 120_000;
  for (;;) {
    const stats = await statsOf(server);
    if (condition(stats)) return stats;
    assert.ok(Date.now() < end, `not ${what}: ${JSON.stringify(stats)}`);
    await new Promise((resolve) => { setTimeout(resolve, 20); });
  }
}
const idle = (server) => until(server, 'idle', (stats) => stats.active_requests + stats.waiting_requests + stats.pages_used + stats.states_used === 0);

const promptOf = (i) => `${'There was a garden by the sea. '.repeat(8)}${'In it grew an apple tree. '.repeat(i)}`;
async function textOf(server, i) {
  const reply = await server.post('/v1/completions', { prompt: promptOf(i), max_tokens: 32, temperature: 0.8, seed: i, ignore_eos: true });
  assert.equal(reply.status, 200);
  return (await reply.json()).choices[0].text;
}
const textsOf = (server) => Promise.all(Array.from({ length: asked }, (_, i) => textOf(server, i)));

// A stream that would go on for long; returns what aborts it. `begun`: its first token has come.
function longStream(server, i, tokens) {
  const abort = new AbortController();
  const begun = server.post('/v1/completions', { prompt: promptOf(i % 16), max_tokens: tokens, seed: i, ignore_eos: true, stream: true }, { signal: abort.signal })
    .then((reply) => {
      assert.equal(reply.status, 200);
      reply.body.pipeTo(new WritableStream()).catch(() => {});
    });
  return { begun, stop: () => abort.abort() };
}
async function begin(server, i, tokens) {
  const { begun, stop } = longStream(server, i, tokens);
  await begun;
  return stop;
}

for (const name of soak ? ['qwen35', 'lfm2', 'mamba2'] : ['qwen35']) {
  test(`${name}: ${together} sequences share a batch, and ${aborts} aborted streams leave no state behind`, async () => {
    const file = trainedFor(path.join(fixtures, 'models', `${name}.gguf`), name, context);
    const sizes = ['--ctx', String(context), '--parallel', '4', '--parallel-max', String(together), '--threads', '2'];
    const inspected = JSON.parse(cairn(['inspect', file, '--json', ...sizes]).stdout).memory.plans.at(-1);
    const server = await serve(file, [...sizes, '--speculate', '4']);
    try {
      const metrics = await (await fetch(`${server.url}/metrics`)).text();
      const planned = Object.fromEntries([...metrics.matchAll(/^cairn_memory_planned_bytes\{.*part="(\w+)"\} (\d+)/gm)].map(([, part, bytes]) => [part, Number(bytes)]));
      assert.deepEqual(planned, { weights: inspected.weight_bytes, kv: inspected.kv_bytes + inspected.index_bytes, scratch: inspected.scratch_bytes });
      const { states_total: slots } = await statsOf(server);
      assert.ok(slots >= together && inspected.kv_pages.includes(slots), `${slots} of ${inspected.kv_pages}`);

      const alone = [];
      for (let i = 0; i < asked; ++i) alone.push(await textOf(server, i));
      const start = await idle(server);
      const residentStart = residentMib(server);

      const streams = await Promise.all(Array.from({ length: together }, (_, i) => begin(server, i, context - 1024)));
      const busy = await until(server, 'full', (stats) => stats.states_used === together && stats.active_requests === together);
      assert.equal(busy.waiting_requests, 0);
      assert.equal(busy.states_total, busy.states_used + busy.states_cached + busy.states_free);
      for (const stop of streams.splice(0, asked)) stop();
      assert.deepEqual(await textsOf(server), alone);
      for (const stop of streams) stop();
      await idle(server);

      let next = 0, seed = 7;
      const random = (below) => { seed = (seed * 48271) % 2147483647; return seed % below; };
      const abortStreams = async (count) => {
        next = 0;
        await Promise.all(Array.from({ length: Math.min(abortedAtOnce, count) }, async () => {
          while (next < count) {
            // Each beside one that may not have begun when it is aborted.
            const early = longStream(server, next, 2048);
            early.begun.catch(() => {});
            setTimeout(early.stop, random(50));
            const stop = await begin(server, next++, 2048);
            await new Promise((resolve) => { setTimeout(resolve, random(100)); });
            stop();
          }
        }));
        return idle(server);
      };
      const end = await abortStreams(aborts);
      const resident = residentMib(server);
      console.log(`${name}: ${end.cancelled_requests} streams aborted, ${end.preemptions} preemptions, ${end.draft_tokens_accepted} drafts accepted; states ${end.states_used} used, `
        + `${end.states_cached} checkpoints, ${end.states_free} free of ${slots}; pages ${end.pages_used} used, ${end.pages_cached} cached of ${end.pages_total}; `
        + `resident ${residentStart.toFixed(1)} MiB before, ${resident.toFixed(1)} after; planned ${(inspected.bytes / 2 ** 20).toFixed(1)} MiB`);
      assert.ok(end.cancelled_requests - start.cancelled_requests >= aborts + together, JSON.stringify(end));
      assert.equal(end.states_total, slots);
      assert.equal(end.states_cached + end.states_free, slots);
      // Planned pages take memory once they are written. Sanitizers keep freed memory for a while.
      if (soak) assert.ok(resident - residentStart < inspected.bytes / 2 ** 20 + 8, `${residentStart} MiB, then ${resident} MiB`);
      assert.deepEqual(await textsOf(server), alone);
    } finally {
      assert.equal((await server.stop()).code, 0);
    }
  });
}
