// llama.cpp's own endpoints, as its clients call them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { serve, storyTrainedFor } from './server.mjs';

let server;
const name = 'story';
before(async () => {
  server = await serve(storyTrainedFor(4096), ['--name', name, '--parallel-max', '4']);
});
after(async () => {
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

const prompt = 'Once upon a time';
async function complete(more, status = 200) {
  const reply = await server.post('/completion', { prompt, n_predict: 16, temperature: 0, ...more });
  const body = await reply.json();
  assert.equal(reply.status, status, JSON.stringify(body));
  return body;
}
const get = async (route) => (await fetch(server.url + route)).json();

test('a completion has its text, its counts and how it was sampled', async () => {
  const answer = await complete({ return_tokens: true, stop: ['never this'] });
  assert.ok(answer.content.length > 0);
  assert.equal(answer.tokens.length, 16);
  assert.equal(answer.stop, true);
  assert.equal(answer.stop_type, 'limit');
  assert.equal(answer.stopping_word, '');
  assert.equal(answer.model, name);
  assert.equal(answer.tokens_predicted, 16);
  assert.ok(answer.tokens_evaluated > 2);
  assert.equal(answer.truncated, false);
  assert.match(answer.prompt, /Once upon a time/);
  assert.equal(answer.timings.predicted_n, 16);
  assert.ok(answer.timings.predicted_per_token_ms > 0);
  const settings = answer.generation_settings;
  assert.deepEqual([settings.temperature, settings.top_k, settings.top_p, settings.min_p, settings.n_predict], [0, 40, 0.95, 0.05, 16]);
  assert.deepEqual(settings.stop, ['never this']);
});

test('a stream gives the same text, then everything else', async () => {
  const whole = await complete({ return_tokens: true });
  const reply = await server.post('/completion', { prompt, n_predict: 16, temperature: 0, stream: true, timings_per_token: true });
  assert.match(reply.headers.get('content-type'), /text\/event-stream/);
  const events = (await reply.text()).split('\n\n').filter((event) => event.startsWith('data: ')).map((event) => JSON.parse(event.slice(6)));
  const last = events.pop();
  assert.equal(events.map((event) => event.content).join(''), whole.content);
  assert.deepEqual(events.flatMap((event) => event.tokens), whole.tokens);
  assert.ok(events.every((event) => event.stop === false));
  assert.equal(events[0].timings.predicted_n, 1);
  assert.deepEqual([last.stop, last.content, last.stop_type, last.tokens_predicted], [true, '', 'limit', 16]);
});

test('prompts are text, ids, both, or several', async () => {
  const { tokens } = await (await server.post('/tokenize', { content: prompt, add_special: true })).json();
  const text = await complete({});
  assert.equal((await complete({ prompt: tokens })).content, text.content);
  assert.equal((await complete({ prompt: { prompt_string: prompt } })).content, text.content);
  const head = (await (await server.post('/tokenize', { content: 'Once', add_special: true })).json()).tokens;
  const mixed = await complete({ prompt: ['Once', ...tokens.slice(-2)] });
  const ids = await complete({ prompt: [...head, ...tokens.slice(-2)] });
  assert.deepEqual([mixed.content, mixed.tokens_evaluated], [ids.content, head.length + 2]);
  const several = await complete({ prompt: [prompt, tokens, 'The dog'] });
  assert.deepEqual(several.map((each) => each.index), [0, 1, 2]);
  assert.equal(several[0].content, text.content);
  assert.equal(several[1].content, text.content);
  assert.notEqual(several[2].content, text.content);
});

test('it stops at words, and says which', async () => {
  const free = (await complete({ n_predict: 40 })).content;
  const stop = free.slice(25, 30);
  const answer = await complete({ n_predict: 40, stop: [stop] });
  assert.equal(answer.content, free.slice(0, free.indexOf(stop)));
  assert.deepEqual([answer.stop_type, answer.stopping_word], ['word', stop]);
});

test('a bias of false forbids a token, and n_probs shows the most likely', async () => {
  const free = await complete({ n_probs: 3, n_predict: 4, return_tokens: true });
  assert.equal(free.completion_probabilities.length, 4);
  const [first] = free.completion_probabilities;
  assert.equal(first.id, free.tokens[0]);
  assert.equal(first.top_logprobs.length, 3);
  assert.equal(first.top_logprobs[0].id, first.id);
  const without = await complete({ n_predict: 4, return_tokens: true, logit_bias: [[first.id, false]] });
  assert.equal(without.tokens[0], first.top_logprobs[1].id);
});

test('the cache is used unless told not to, and can be filled without an answer', async () => {
  const long = 'The cat sat on the mat and looked at the birds. '.repeat(20);
  const warm = await complete({ prompt: long, n_predict: 0 });
  assert.deepEqual([warm.content, warm.tokens_predicted, warm.stop_type], ['', 0, 'limit']);
  const cached = await complete({ prompt: long });
  assert.equal(cached.tokens_cached, cached.tokens_evaluated - 1);
  const fresh = await complete({ prompt: long, cache_prompt: false });
  assert.equal(fresh.tokens_cached, 0);
  assert.equal(fresh.content, cached.content);
});

test('props and slots tell what the server is', async () => {
  const props = await get('/props');
  assert.equal(props.total_slots, 4);
  assert.equal(props.model_alias, name);
  assert.equal(props.model_path, 'long.gguf');
  assert.deepEqual(props.modalities, { vision: false, audio: false });
  assert.equal(props.default_generation_settings.n_ctx, 4096);
  assert.equal(props.default_generation_settings.params.temperature, 0.8);
  assert.equal(typeof props.chat_template, 'string');
  assert.match(props.build_info, /^cairn \d/);
  assert.deepEqual((await get('/slots')).map((slot) => [slot.id, slot.is_processing]), [[0, false], [1, false], [2, false], [3, false]]);
  const abort = new AbortController();
  const body = { prompt, n_predict: 3000, ignore_eos: true, stream: true };
  const streams = await Promise.all([1, 2, 3, 4].map((seed) => server.post('/completion', { ...body, seed }, { signal: abort.signal })));
  await Promise.all(streams.map((stream) => stream.body.getReader().read()));
  assert.ok((await get('/slots')).every((slot) => slot.is_processing));
  assert.equal((await fetch(`${server.url}/slots?fail_on_no_slot=1`)).status, 503);
  abort.abort();
});

test('OpenAI\'s endpoints are there without /v1', async () => {
  const completion = await (await server.post('/completions', { prompt, max_tokens: 4 })).json();
  assert.equal(completion.object, 'text_completion');
  const chat = await (await server.post('/chat/completions', { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4 })).json();
  assert.equal(chat.object, 'chat.completion');
  assert.equal((await get('/models')).data[0].id, name);
  assert.equal((await get('/models')).data[0].meta.n_ctx, 4096);
  assert.equal((await get('/models')).models[0].model, name);
  assert.equal(chat.system_fingerprint[0], 'b');
  assert.equal(completion.system_fingerprint[0], 'b');
  assert.deepEqual(await get('/v1/health'), { status: 'ok' });
});

test('what is not available is refused by name', async () => {
  for (const [field, value] of Object.entries({ grammar: 'root ::= "x"', json_schema: {}, mirostat: 2, samplers: ['top_k'], lora: [{ id: 0 }] })) {
    const { error } = await complete({ [field]: value }, 400);
    assert.equal(error.param, field);
    assert.match(error.message, new RegExp(`^${field} is not supported`));
  }
  assert.match((await complete({ frobnicate: 1, warnings: true, n_predict: 1 })).warnings[0], /^frobnicate is not a field/);
  for (const [path, more] of [['/completion', { prompt: 'word '.repeat(9000) }], ['/chat/completions', { messages: [{ role: 'user', content: 'word '.repeat(9000) }] }]]) {
    const { error } = await (await server.post(path, more)).json();
    assert.deepEqual([error.type, error.code, error.n_ctx, error.n_prompt_tokens > 4096], ['exceed_context_size_error', 'context_length_exceeded', 4096, true]);
  }
  const infill = await server.post('/infill', { input_prefix: 'a', input_suffix: 'b' });
  assert.equal(infill.status, 400);
  assert.match((await infill.json()).error.message, /not available/);
});
