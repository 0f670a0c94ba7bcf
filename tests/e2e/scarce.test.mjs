// A server that has 64 MiB of memory to spare: what does not fit is answered with an error, everything else is served,
// and the process lives.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { attacks } from './attacks.mjs';
import { serve, story } from './server.mjs';

const kSpareBytes = 64 << 20;
const kSpareAtStartBytes = 320 << 20;
const kRequests = 1000;
const kAtOnce = 8;
const flags = ['-t', '1', '--kv-bytes', '16MiB'];
const status = (pid, name) => Number(fs.readFileSync(`/proc/${pid}/status`, 'utf8').match(new RegExp(`${name}:\\s+(\\d+)`))[1]) * 1024;

// Random numbers that are the same in every run (mulberry32).
function randomOf(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const text = (words) => 'once upon a time '.repeat(words);
const messages = (content) => [{ role: 'user', content }];
const pieces = { with_pieces: true };
// Requests that fit: 200, whatever else goes on.
const small = [
  ['/v1/completions', { prompt: 'Once', max_tokens: 3 }],
  ['/v1/chat/completions', { messages: messages('Hello'), max_tokens: 3 }],
  ['/v1/messages', { model: 'stories260K-f32', messages: messages('Hello'), max_tokens: 3 }],
  ['/v1/responses', { input: 'Hello', max_output_tokens: 3 }],
  ['/api/chat', { messages: messages('Hello'), stream: false, options: { num_predict: 3 } }],
  ['/api/generate', { prompt: 'Hello', stream: false, options: { num_predict: 3 } }],
  ['/completion', { prompt: 'Hello', n_predict: 3 }],
  ['/tokenize', { content: 'Hello' }],
];
// Requests that may or may not fit: 200 or an error in words.
const large = (random) => {
  const mib = 1 + Math.floor(random() * 30);
  return [
    ['/v1/completions', `{"prompt":"${'x'.repeat(mib << 20)}"}`],
    ['/v1/completions', `{"prompt":"a","max_tokens":1,"user":[${'{},'.repeat(mib * 300_000)}{}]}`],
    ['/v1/chat/completions', { messages: messages(text(mib * 60_000)), max_tokens: 1 }],
    ['/v1/chat/completions', { messages: messages('a'), n: 64, max_tokens: 100, logprobs: true, top_logprobs: 20 }],
    ['/tokenize', { content: text(mib * 20_000), ...pieces }],
    ['/v1/responses', { input: text(mib * 60_000) }],
    ['/tokenize', { content: 'x'.repeat(mib << 16) }],  // one word
    ['/api/generate', { prompt: text(mib * 60_000), stream: false }],
    ['/v1/completions', `{${Array.from({ length: mib * 20_000 }, (_, i) => `"k${i}":1`)}}`],
  ][Math.floor(random() * 9)];
};

async function randomRequests(server, seed) {
  const random = randomOf(seed);
  const statuses = {};
  let left = kRequests;
  const one = async () => {
    while (left-- > 0) {
      const isSmall = random() < 0.7;
      const [route, body] = isSmall ? small[Math.floor(random() * small.length)] : large(random);
      const reply = await server.post(route, body, { signal: AbortSignal.timeout(60_000) }).catch((error) => error);
      assert.ok(server.alive(), server.log());
      if (reply instanceof Error) {
        // A refusal of a body that is still being sent closes the connection, which node may see first.
        assert.ok(!isSmall, `${route}: ${reply.cause ?? reply}`);
        statuses.closed = (statuses.closed ?? 0) + 1;
        continue;
      }
      const answer = await reply.text();
      statuses[reply.status] = (statuses[reply.status] ?? 0) + 1;
      if (isSmall) assert.ok(reply.status === 200 || reply.status === 503, `${route}: ${reply.status} ${answer.slice(0, 300)}`);
      else assert.ok([200, 400, 413, 429, 503].includes(reply.status), `${route}: ${reply.status} ${answer.slice(0, 300)}`);
    }
  };
  await Promise.all(Array.from({ length: kAtOnce }, one));
  // Alone, all that is small fits.
  for (const [route, body] of small) {
    const reply = await server.post(route, body);
    assert.equal(reply.status, 200, `${route}: ${await reply.text()}`);
    await reply.arrayBuffer().catch(() => {});
  }
  return statuses;
}

async function used(name) {
  const server = await serve(story, flags);
  await server.post(...small[0]);
  const bytes = status(server.pid, name);
  await server.stop();
  return bytes;
}

test('with 64 MiB of address space to spare, a thousand requests of all kinds end no server', { timeout: 300_000 }, async (t) => {
  const limit = Math.ceil(((await used('VmPeak')) + kSpareBytes) / 1024);
  const server = await serve(story, flags, ['bash', '-c', `ulimit -v ${limit}; exec "$@"`, 'bash']);
  t.diagnostic(JSON.stringify(await randomRequests(server, 1)));
  for (const attack of Object.values(attacks)) await attack(server.port);
  assert.ok(server.alive(), server.log());
  await server.stop();
});

// Where this user may make a group of version 1 or 2; otherwise there is nothing to try.
function memoryGroup(bytes) {
  for (const [root, limit] of [['/sys/fs/cgroup/memory', 'memory.limit_in_bytes'], ['/sys/fs/cgroup', 'memory.max']]) {
    const folder = path.join(root, `cairn-test-${process.pid}`);
    try {
      fs.mkdirSync(folder);
      const set = (limited) => fs.writeFileSync(path.join(folder, limit), String(limited));
      set(bytes);
      return { folder, set };
    } catch {
      if (fs.existsSync(folder)) fs.rmdirSync(folder);
    }
  }
  return null;
}

test('in a control group with 64 MiB to spare, a thousand requests of all kinds end no server', { timeout: 300_000 }, async (t) => {
  // At its start the program keeps more free than that; the limit is lowered afterwards.
  const group = memoryGroup((await used('VmHWM')) + kSpareAtStartBytes);
  if (!group) return t.skip('no memory control group can be made here');
  const { folder, set } = group;
  try {
    const server = await serve(story, [...flags, '--request-bytes', '16MiB'], ['bash', '-c', `echo $$ > ${folder}/cgroup.procs; exec "$@"`, 'bash']);
    set(status(server.pid, 'VmRSS') + kSpareBytes);
    t.diagnostic(JSON.stringify(await randomRequests(server, 2)));
    await server.stop();
  } finally {
    fs.rmdirSync(folder);
  }
});
