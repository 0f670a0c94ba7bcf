// What keys and values on disk are worth: `cairn serve --kv-disk` is started, stopped and asked. docs/kv-disk.md has
// what was measured.
// usage: node bench/serving/kv_disk.mjs restart|beside|switch|turns [--tokens N] [--folder DIR] -- MODEL.gguf [flags of `cairn serve`]
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { load, median, percentile, startCairn } from '../common.mjs';

const { values, positionals: [part, ...serve] } = parseArgs({
  allowPositionals: true,
  options: {
    tokens: { type: 'string' },  // of a prompt
    folder: { type: 'string' },  // in which that of --kv-disk is made, and deleted afterwards
    talks: { type: 'string', default: '10' },  // switch: conversations
    rounds: { type: 'string', default: '2' },  // switch: further turns of each; beside: loads
    question: { type: 'string', default: '40' },  // switch: new tokens of a further turn
    answer: { type: 'string', default: '8' },  // switch: tokens
  },
});
const outer = fs.mkdtempSync(path.join(values.folder ?? os.tmpdir(), 'cairn-kv-bench-'));
const folder = path.join(outer, 'kv');
const start = (disk = true, flags = []) => startCairn(serve[0], [...serve.slice(1), ...flags, ...(disk ? ['--kv-disk', folder] : [])]);
const random = (count) => Array.from({ length: count }, () => 300 + Math.floor(Math.random() * 20_000));
const ms = (value) => value.toFixed(value < 100 ? 1 : 0);

// One answer of `n` tokens to token ids; of 1, its time is that to the first token.
async function ask(server, prompt, n = 1, more = {}) {
  const begin = performance.now();
  const body = { prompt, n_predict: n, temperature: 0, ignore_eos: true, return_tokens: true, ...more };
  const reply = await fetch(`${server.url}/completion`, { method: 'POST', body: JSON.stringify(body) });
  if (!reply.ok) throw new Error(await reply.text());
  const { tokens, timings, id_slot } = await reply.json();
  return { ms: performance.now() - begin, tokens, computed: timings.prompt_n, fromDisk: timings.disk_n ?? 0, slot: id_slot };
}
const stats = async (server) => (await (await fetch(`${server.url}/stats`)).json()).kv_disk;
const act = async (server, slot, action, body = {}) => {
  const reply = await fetch(`${server.url}/slots/${slot}?action=${action}`, { method: 'POST', body: JSON.stringify(body) });
  if (!reply.ok) throw new Error(await reply.text());
  return reply.json();
};
const pageFiles = () => fs.readdirSync(folder, { recursive: true }).filter((name) => /pages-\d+$/.test(name)).map((name) => path.join(folder, name));
// So that what is read next comes from the disk.
const forgetPageCache = () => pageFiles().forEach((file) => execFileSync('dd', [`if=${file}`, 'iflag=nocache', 'count=0'], { stdio: 'ignore' }));
// Bytes a second of reading the pages' files from the disk itself, by one thread.
function diskRate() {
  const begin = performance.now();
  let bytes = 0;
  for (const file of pageFiles()) {
    execFileSync('dd', [`if=${file}`, 'of=/dev/null', 'bs=1M', 'iflag=direct'], { stdio: 'ignore' });
    bytes += fs.statSync(file).size;
  }
  return { bytes, perSecond: bytes / (performance.now() - begin) * 1000 };
}

const parts = {
  // A prompt after a restart, beside computing it.
  async restart() {
    const prompt = random(Number(values.tokens ?? 8000));
    let server = await start();
    const computed = await ask(server, prompt);
    await server.stop();
    const rate = diskRate();
    console.log(`${prompt.length} tokens computed in ${ms(computed.ms)} ms; ${(rate.bytes / 1e6).toFixed(0)} MB of pages; the disk reads ${(rate.perSecond / 1e6).toFixed(0)} MB/s`);
    for (const [where, before] of [['the disk', forgetPageCache], ['the page cache', () => {}]]) {
      before();
      server = await start();
      await ask(server, random(64));  // the first request of a process is no measure of the disk
      const loaded = await ask(server, prompt);
      const { seconds } = await stats(server);
      console.log(`after a restart from ${where}: ${ms(loaded.ms)} ms, ${(100 * loaded.ms / computed.ms).toFixed(2)} % of computing, ` +
        `${loaded.fromDisk} tokens from there, ${loaded.computed} computed; waited ${ms(seconds * 1000)} ms for pages`);
      await server.stop();
    }
  },
  // The gaps of a stream while prompts come from the disk.
  async beside() {
    const prompt = random(Number(values.tokens ?? 8000)), loads = Number(values.rounds);
    const server = await start();
    const first = await ask(server, prompt, 1, { id_slot: 1 });
    const times = [], abort = new AbortController();
    const stream = fetch(`${server.url}/completion`, {
      method: 'POST', signal: abort.signal,
      body: JSON.stringify({ prompt: random(32), n_predict: -1, temperature: 0, ignore_eos: true, n_probs: 1, stream: true, id_slot: 0 }),
    }).then(async (reply) => { for await (const chunk of reply.body) if (chunk.length > 0) times.push(performance.now()); }).catch(() => {});
    while (times.length === 0) await sleep(5);
    const gaps = (from, to) => times.slice(1).map((time, i) => [times[i], time]).filter(([a, b]) => b > from && a < to).map(([a, b]) => b - a);
    const alone = [], beside = [], took = [], rest = [];
    for (let i = 0; i < loads; ++i) {
      await act(server, 1, 'erase');
      forgetPageCache();
      await sleep(500);
      const begin = performance.now();
      await sleep(1500);
      alone.push(...gaps(begin, performance.now()));
      const from = performance.now();
      const answer = await ask(server, prompt, 1, { id_slot: 1 });
      if (answer.fromDisk < 0.9 * prompt.length) throw new Error(`only ${answer.fromDisk} tokens came from the disk`);
      took.push(answer.ms);
      rest.push(answer.computed);
      await sleep(50);
      beside.push(...gaps(from, performance.now()));
    }
    const { seconds } = await stats(server);
    abort.abort();
    await stream;
    await server.stop();
    const say = (list) => `p50 ${ms(percentile(list, 50))}, p99 ${ms(percentile(list, 99))}, worst ${ms(Math.max(...list))} ms, ${list.length} gaps`;
    console.log(`computed in ${ms(first.ms)} ms; ${loads} loads beside the stream, each ${ms(median(took))} ms, of them ${ms(1000 * seconds / loads)} until the pages were there; ${median(rest)} tokens computed`);
    console.log(`the stream alone: ${say(alone)}\nbeside a load: ${say(beside)}`);
    console.log(`p99: ${(percentile(beside, 99) / percentile(alone, 99)).toFixed(2)} x`);
  },
  // Conversations in turns, with memory for two.
  async switch() {
    const tokens = Number(values.tokens ?? 600), talks = Number(values.talks), rounds = Number(values.rounds);
    const prompts = Array.from({ length: talks }, () => random(tokens)), questions = Array.from({ length: rounds }, () => random(Number(values.question)));
    const took = {};
    for (const disk of [false, true]) {
      const server = await start(disk);
      const histories = prompts.map((prompt) => [...prompt]);
      let answered = 0, begin = performance.now(), first = 0;
      for (let round = 0; round <= rounds; ++round) {
        for (const history of histories) {
          if (round > 0) history.push(...questions[round - 1]);
          const { tokens: answer } = await ask(server, history, Number(values.answer));
          history.push(...answer);
          answered += round > 0 ? answer.length : 0;
        }
        if (round === 0) { first = performance.now() - begin; begin = performance.now(); }
      }
      took[disk] = performance.now() - begin;
      console.log(`${disk ? 'with' : 'without'} the disk: first turns ${ms(first)} ms, ${talks * rounds} further ones ${ms(took[disk])} ms, ${(answered / took[disk] * 1000).toFixed(1)} tokens/s`);
      const before = disk ? await stats(server) : undefined;
      await server.stop();
      if (!disk) continue;
      const { size: indexBytes } = fs.statSync(path.join(folder, fs.readdirSync(folder).find((name) => /^[0-9a-f]{32}$/.test(name)), 'index'));
      const known = histories.reduce((sum, history) => sum + history.length, 0);
      const pageBytes = before.bytes / before.pages;
      console.log(`hits ${before.hits}, tokens from there ${before.tokens}; written ${(before.bytes_written / 1e6).toFixed(1)} MB of pages before the end and ${(indexBytes / 1e6).toFixed(2)} MB of index, ` +
        `keys and values of all ${known} tokens are ${(known / 32 * pageBytes / 1e6).toFixed(1)} MB: ${((before.bytes_written + indexBytes) / (known / 32 * pageBytes)).toFixed(3)} bytes a byte`);
    }
    console.log(`throughput of further turns: ${(took.false / took.true).toFixed(2)} x`);
  },
  // A conversation of 30 turns, its last one after a restart.
  async turns() {
    let server = await start();
    const history = random(Number(values.tokens ?? 400));
    const turn = async (n) => {
      const answer = await ask(server, history, n);
      history.push(...answer.tokens, ...random(60));
      return answer;
    };
    for (let i = 0; i < 29; ++i) await turn(16);
    await server.stop();
    const rate = diskRate();
    for (const [where, before] of [['the disk', forgetPageCache], ['the page cache', () => {}]]) {
      before();
      server = await start();
      await ask(server, random(64));
      const loaded = await ask(server, history, 1);
      const { bytes_read: bytes } = await stats(server);
      const hit = [];
      for (let i = 0; i < 5; ++i) {  // as many new tokens after what is in memory
        const other = [...history.slice(0, history.length - loaded.computed), ...random(loaded.computed)];
        hit.push((await ask(server, other, 1)).ms);
      }
      const bound = 1.2 * bytes / rate.perSecond * 1000 + median(hit);
      console.log(`turn 30 of ${history.length} tokens from ${where}: ${loaded.computed} computed, ${ms(loaded.ms)} ms; of memory ${ms(median(hit))} ms, ` +
        `${(bytes / 1e6).toFixed(1)} MB at ${(rate.perSecond / 1e6).toFixed(0)} MB/s ${ms(bytes / rate.perSecond * 1000)} ms; bound ${ms(bound)} ms, ${loaded.ms <= bound ? 'kept' : 'exceeded'}`);
      process.kill(server.pid, 'SIGKILL');  // so that what it computed is not there the next time
      while (server.alive()) await sleep(10);
    }
  },
};
if (parts[part] === undefined || serve.length === 0) throw new Error('node bench/serving/kv_disk.mjs restart|beside|switch|turns -- MODEL.gguf');
console.log(`${part}: load ${load()}`);
try {
  await parts[part]();
} finally {
  fs.rmSync(outer, { recursive: true, force: true });
}
console.log(`load ${load()}`);
