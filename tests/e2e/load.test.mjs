// The server under load: who waits, what is shared, what it tells, and clients that leave or do not read.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { serve, story } from './server.mjs';

let server;
before(async () => { server = await serve(story); });
after(async () => {
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

const completions = '/v1/completions';
const once = { prompt: 'Once upon a time', max_tokens: 8, temperature: 0 };
const long = 'Once upon a time there was a little dog who lived in a big house near the sea. '.repeat(6);
const getJson = async (route, from = server) => (await fetch(from.url + route)).json();
const ask = async (body, headers = {}) => {
  const reply = await server.post(completions, { ...once, ...body }, { headers: { 'content-type': 'application/json', ...headers } });
  assert.equal(reply.status, 200, await reply.clone().text());
  return reply.json();
};

async function eventually(what, holds, from = server) {
  const end = Date.now() + 60_000;
  for (;;) {
    const stats = await getJson('/stats', from);
    if (holds(stats)) return stats;
    assert.ok(Date.now() < end, `${what}: ${JSON.stringify(stats)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
const idle = (from = server) => eventually('idle', (stats) => stats.active_requests === 0 && stats.waiting_requests === 0 && stats.pages_used === 0, from);

// A request by hand: what `fetch` would not do to a connection.
const open = (body, route = completions, to = server) => new Promise((resolve, reject) => {
  const text = JSON.stringify(body);
  const socket = net.connect(to.port, '127.0.0.1', () => {
    socket.write(`POST ${route} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
    resolve(socket);
  });
  socket.on('error', reject);
});

test('priority, targets and salt change no byte; wrong ones are refused by name', async () => {
  const plain = (await ask({})).choices[0].text;
  for (const more of [
    { priority: 'batch' }, { priority: 'interactive' }, { cache_salt: 'a' },
    { metadata: { target_ttft_ms: '250', target_tbt_ms: 40, user_id: 'me' } },
  ]) assert.equal((await ask(more)).choices[0].text, plain);
  const refused = async (more, param, pattern) => {
    const reply = await server.post(completions, { ...once, ...more });
    const { error } = await reply.json();
    assert.equal(reply.status, 400);
    assert.equal(error.param, param);
    assert.match(error.message, pattern);
  };
  await refused({ priority: 'urgent' }, 'priority', /must be "interactive" or "batch", not "urgent"/);
  await refused({ priority: 3 }, 'priority', /not 3/);
  await refused({ metadata: { target_ttft_ms: -1 } }, 'metadata.target_ttft_ms', /from 1 to 3600000, not -1/);
  await refused({ metadata: { target_ttft_ms: 'soon' } }, 'metadata.target_ttft_ms', /not "soon"/);
  await refused({ metadata: { target_tbt_ms: 1e99 } }, 'metadata.target_tbt_ms', /from 1 to 3600000/);
  await refused({ metadata: [] }, 'metadata', /must be an object, not an array/);
  await refused({ cache_salt: '' }, 'cache_salt', /1 to 256 bytes/);
  await refused({ n: 1e9 }, 'n', /from 1 to 128/);
});

test('timings say where the time went, once, whole or streamed', async () => {
  const answer = await ask({ max_tokens: 20, ignore_eos: true });
  const { timings, usage } = answer;
  assert.equal(timings.predicted_n, 20);
  assert.equal(timings.cache_n + timings.prompt_n, usage.prompt_tokens);
  assert.equal(timings.cache_n, usage.prompt_tokens_details.cached_tokens);
  for (const name of ['queue_ms', 'prompt_ms', 'predicted_ms', 'gap_ms_max', 'prompt_per_second', 'predicted_per_second']) {
    assert.ok(timings[name] >= 0 && timings[name] < 1e9, `${name}: ${timings[name]}`);
  }
  assert.ok(timings.gap_ms_max <= timings.predicted_ms);
  for (const include_usage of [false, true]) {
    const reply = await server.post(completions, { ...once, n: 3, stream: true, stream_options: { include_usage } });
    const chunks = (await reply.text()).split('\n\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
    const timed = chunks.filter((chunk) => chunk.timings);
    assert.equal(timed.length, 1);
    if (include_usage) assert.ok(timed[0].usage);
    else assert.ok(timed[0].choices[0].index === 0 && timed[0].choices[0].finish_reason);
    assert.equal(timed[0].timings.predicted_n, 8);
  }
});

test('the same prompt again is found in the cache, and gives the same bytes', async () => {
  const body = { prompt: `${long}One day`, max_tokens: 30 };
  const first = await ask(body);
  const second = await ask(body);
  assert.equal(second.choices[0].text, first.choices[0].text);
  const { cached_tokens } = second.usage.prompt_tokens_details;
  assert.ok(cached_tokens > second.usage.prompt_tokens * 0.8, `${cached_tokens} of ${second.usage.prompt_tokens}`);
  const salted = await ask({ ...body, cache_salt: 'somebody else' });
  assert.equal(salted.usage.prompt_tokens_details.cached_tokens, 0);
  assert.equal(salted.choices[0].text, first.choices[0].text);
  const key = { authorization: 'Bearer one' };
  assert.equal((await ask(body, key)).usage.prompt_tokens_details.cached_tokens, 0);
  assert.equal((await ask(body, key)).usage.prompt_tokens_details.cached_tokens, cached_tokens);
  assert.equal((await ask(body, { authorization: 'Bearer two' })).usage.prompt_tokens_details.cached_tokens, 0);
  const again = await ask({ ...body, cache_salt: 'somebody else' });
  assert.equal(again.usage.prompt_tokens_details.cached_tokens, cached_tokens);
});

test('--no-prefix-cache keeps nothing, and gives the same bytes', async (t) => {
  const body = { prompt: `${long}One day`, max_tokens: 30 };
  const kept = await ask(body);
  const forgetful = await serve(story, ['--no-prefix-cache']);
  t.after(() => forgetful.stop());
  for (let i = 0; i < 3; ++i) {
    const reply = await (await forgetful.post(completions, { ...once, ...body })).json();
    assert.equal(reply.usage.prompt_tokens_details.cached_tokens, 0);
    assert.equal(reply.timings.prompt_n, reply.usage.prompt_tokens);
    assert.equal(reply.choices[0].text, kept.choices[0].text);
    const stats = await idle(forgetful);
    assert.equal(stats.pages_cached, 0);
    assert.equal(stats.prompt_tokens_cached, 0);
  }
});

test('--kv-host-bytes brings back what --kv-bytes had no room for', async (t) => {
  const prompts = Array.from({ length: 4 }, (_, i) => `Story ${i}. ${long}`);
  const turns = async (flags) => {
    const tight = await serve(story, ['--kv-bytes', '320KiB', ...flags]);  // one context
    t.after(() => tight.stop());
    const answers = [];
    for (const prompt of [...prompts, ...prompts]) answers.push(await (await tight.post(completions, { ...once, prompt })).json());
    const stats = await idle(tight);
    const again = answers.slice(prompts.length);
    const cached = again.map(({ usage }) => usage.prompt_tokens_details.cached_tokens);
    return { stats, cached, tokens: again.map(({ usage }) => usage.prompt_tokens), texts: answers.map(({ choices }) => choices[0].text) };
  };
  const without = await turns([]);
  const withHost = await turns(['--kv-host-bytes', '4MiB']);
  assert.deepEqual(withHost.texts, without.texts);
  assert.equal(without.stats.pages_restored, 0);
  assert.ok(withHost.stats.pages_restored > 0);
  // All but the last token, whose logits are wanted.
  assert.deepEqual(withHost.cached, withHost.tokens.map((tokens) => tokens - 1));
  assert.ok(Math.min(...without.cached) < 32, without.cached.join());
});

test('a miss says where the first differing token is, and what both have there', async () => {
  const beginning = `A story to remember. ${long}`;
  const [cached, wanted] = ['dog ran home to eat his food', 'cat ran home to eat his food'].map((end) => beginning + end);
  const pieces = async (text) => (await (await server.post('/tokenize', { content: text, add_special: true, with_pieces: true })).json()).tokens;
  const [before, now] = [await pieces(cached), await pieces(wanted)];
  const at = now.findIndex((token, i) => token.id !== before[i].id);
  await ask({ prompt: cached });
  const answer = await ask({ prompt: wanted });
  const report = await getJson(`/debug/prefix?request=${answer.id}`);
  assert.equal(report.request, answer.id);
  assert.equal(report.prompt_tokens, now.length);
  assert.equal(report.cached_tokens, answer.usage.prompt_tokens_details.cached_tokens);
  assert.equal(report.differs_at, at);
  assert.deepEqual(report.prompt.token, { id: now[at].id, text: now[at].piece });
  assert.deepEqual(report.cached.token, { id: before[at].id, text: before[at].piece });
  assert.equal(report.prompt.before, now.slice(Math.max(0, at - 8), at).map((token) => token.piece).join(''));
  assert.equal(report.prompt.after, now.slice(at + 1, at + 9).map((token) => token.piece).join(''));
  assert.match(report.message, new RegExp(`token ${at} is`));
  for (const [query, status, pattern] of [['', 400, /which request/], ['?request=nobody', 404, /no request "nobody"/]]) {
    const reply = await fetch(`${server.url}/debug/prefix${query}`);
    assert.equal(reply.status, status);
    assert.match((await reply.json()).error.message, pattern);
  }
});

test('a report is for the key that asked, and not there for any other', async () => {
  const as = (key) => ({ authorization: `Bearer ${key}` });
  const keyed = await ask({}, as('mine'));
  const open = await ask({});
  const status = async (id, headers = {}) => (await fetch(`${server.url}/debug/prefix?request=${id}`, { headers })).status;
  const told = async (id, headers) => (await (await fetch(`${server.url}/debug/prefix?request=${id}`, { headers })).text()).replaceAll(id, 'ID');
  assert.equal(await status(keyed.id, as('mine')), 200);
  assert.equal(await status(open.id), 200);
  for (const [id, headers] of [[keyed.id, as('yours')], [keyed.id, {}], [open.id, as('mine')]]) {
    assert.equal(await status(id, headers), 404);
    assert.equal(await told(id, headers), await told('nobody', headers).then((text) => text.replaceAll('nobody', 'ID')));
  }
});

test('further choices have ids of their own in the report', async () => {
  const answer = await ask({ n: 2 });
  for (const id of [answer.id, `${answer.id}-1`]) assert.equal((await getJson(`/debug/prefix?request=${id}`)).request, id);
});

test('stats count what was done, for the server and for each model', async () => {
  const before = await idle();
  const answer = await ask({ max_tokens: 5, ignore_eos: true, n: 2 });
  const stats = await idle();
  assert.equal(stats.total_requests, before.total_requests + 2);
  assert.equal(stats.tokens_generated, before.tokens_generated + 10);
  const prompts = (of) => of.prompt_tokens_computed + of.prompt_tokens_cached;
  assert.equal(prompts(stats), prompts(before) + 2 * answer.usage.prompt_tokens);
  assert.ok(stats.cache_usage > 0 && stats.cache_usage <= 1);
  assert.equal(stats.pages_total, stats.pages_used + stats.pages_cached + stats.pages_free);
  const { data } = await getJson('/v1/metrics');
  assert.equal(data.length, 1);
  // A step's time is added when its answers have been sent.
  assert.ok(data[0].step_seconds >= stats.step_seconds);
  assert.deepEqual(data[0], { model: 'stories260K-f32', memory_bytes: data[0].memory_bytes, ...stats, step_seconds: data[0].step_seconds });
});

test('clients that leave at random moments leave nothing behind', async () => {
  let seed = 1;
  const random = (below) => { seed = (seed * 48271) % 2147483647; return seed % below; };
  const before = await idle();
  await Promise.all(Array.from({ length: 40 }, async (_, i) => {
    const socket = await open({ ...once, prompt: `${i} ${long}`, max_tokens: 300, ignore_eos: true, stream: i % 2 === 0 });
    socket.on('data', () => {}).on('error', () => {});
    await new Promise((resolve) => setTimeout(resolve, random(400)));
    socket.destroy();
  }));
  const stats = await idle();
  assert.ok(stats.cancelled_requests > before.cancelled_requests);
  await ask({});
});

test('a client that does not read stops nobody, and gets everything once it reads', async () => {
  const roomy = await serve(story, ['--parallel', '40']);  // memory for all at once
  const choices = 16, tokens = 250;
  const body = { messages: [{ role: 'user', content: 'Once upon a time' }], n: choices, max_tokens: tokens, ignore_eos: true, logprobs: true, top_logprobs: 20, stream: true };
  const socket = await open(body, '/v1/chat/completions', roomy);
  socket.pause();
  await eventually('running', (stats) => stats.active_requests === choices, roomy);
  const others = await Promise.all(Array.from({ length: 4 }, async () => {
    const reply = await roomy.post(completions, { ...once, max_tokens: 20, ignore_eos: true });
    return (await reply.json()).usage.completion_tokens;
  }));
  assert.deepEqual(others, [20, 20, 20, 20]);
  assert.equal((await getJson('/stats', roomy)).active_requests, choices);  // they did not wait for its end
  await eventually('computed', (stats) => stats.active_requests === 0, roomy);
  let text = '';
  await new Promise((resolve, reject) => {
    socket.on('data', (bytes) => { text += bytes; }).on('close', resolve).on('error', reject).resume();
  });
  assert.ok(text.length > 5_500_000, `${text.length} bytes are too few to fill anything`);
  assert.match(text, /data: \[DONE\]/);
  assert.equal(text.match(/"finish_reason":"length"/g).length, choices);
  assert.equal(text.match(/"top_logprobs"/g).length, choices * tokens);
  await idle(roomy);
  const end = await roomy.stop();
  assert.doesNotMatch(end.log, /unread/);
});

test('300 requests at once: each is answered, or told when to try again', async () => {
  const small = await serve(story, ['--queue-max', '8']);
  const replies = await Promise.all(Array.from({ length: 300 }, async () => {
    const reply = await small.post(completions, { ...once, max_tokens: 4 });
    return { status: reply.status, retry: reply.headers.get('retry-after'), body: await reply.json() };
  }));
  const answered = replies.filter(({ status }) => status === 200);
  const refused = replies.filter(({ status }) => status === 429);
  assert.equal(answered.length + refused.length, 300);
  assert.ok(answered.length >= 8 && refused.length > 0, `${answered.length} answered`);
  assert.equal(new Set(answered.map(({ body }) => body.choices[0].text)).size, 1);
  for (const { retry, body } of refused) {
    assert.ok(Number(retry) >= 1);
    assert.equal(body.error.code, 'queue_full');
  }
  const stats = await getJson('/stats', small);
  assert.equal(stats.total_requests, answered.length);
  assert.equal(stats.active_requests + stats.waiting_requests + stats.pages_used, 0);
  assert.equal((await small.stop()).code, 0);
});

test('one key cannot take the queue from the others', async () => {
  const shared = await serve(story, ['--tenant-requests-max', '2']);
  const as = (key) => shared.post(completions, { ...once, max_tokens: 200, ignore_eos: true },
    { headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` } });
  const greedy = Array.from({ length: 12 }, () => as('greedy'));
  const modest = await as('modest');
  assert.equal(modest.status, 200);
  const statuses = (await Promise.all(greedy)).map(({ status }) => status);
  assert.ok(statuses.every((status) => status === 200 || status === 429), statuses.join());
  assert.ok(statuses.includes(200) && statuses.includes(429), statuses.join());
  assert.doesNotMatch((await shared.stop()).log, /greedy|modest/);
});
