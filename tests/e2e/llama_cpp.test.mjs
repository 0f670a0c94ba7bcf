// llama.cpp's own endpoints, as its clients call them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { serve, storyAdapter, storyTrainedFor, storyWith } from './server.mjs';

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
  assert.deepEqual([props.endpoint_slots, props.endpoint_props, props.chat_template_caps.supports_tools], [true, false, true]);
  const [{ meta }] = (await get('/models')).data;
  assert.ok(meta.n_ctx_train === 4096 && meta.n_vocab > 0 && meta.n_embd > 0 && meta.n_params > 0 && meta.size > 0, JSON.stringify(meta));
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
  const native = await (await server.post('/completions', { prompt, n_predict: 4 })).json();
  assert.deepEqual([native.stop_type, native.tokens_predicted, typeof native.content], ['limit', 4, 'string']);
  const response = await (await server.post('/responses', { input: 'Hi', max_output_tokens: 4 })).json();
  assert.equal(response.object, 'response');
  assert.deepEqual(await get('/lora-adapters'), []);
  const completion = await (await server.post('/v1/completions', { prompt, max_tokens: 4 })).json();
  const chat = await (await server.post('/chat/completions', { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4 })).json();
  assert.equal(chat.object, 'chat.completion');
  assert.equal((await get('/models')).data[0].id, name);
  assert.equal((await get('/models')).data[0].meta.n_ctx, 4096);
  assert.equal((await get('/models')).models[0].model, name);
  assert.equal(chat.system_fingerprint[0], 'b');
  assert.equal(completion.system_fingerprint[0], 'b');
  assert.deepEqual(await get('/v1/health'), { status: 'ok', model_loaded: true });
});

const events = async (reply) => (await reply.text()).split('\n\n').map((event) => event.slice(event.indexOf('data: '))).filter((event) => event.startsWith('data: {'))
  .map((event) => JSON.parse(event.slice(6)));

test('samplers are honoured, and the seed gives the same answer again', async () => {
  const settings = [
    { dry_multiplier: 5, dry_allowed_length: 0 }, { xtc_probability: 1, xtc_threshold: 0.05 }, { top_n_sigma: 0.2 },
    { dynatemp_range: 0.5 }, { mirostat: 1 }, { mirostat: 2, mirostat_tau: 3 }, { samplers: ['temperature', 'top_k'] },
    { samplers: 'kt', min_keep: 2 }, { typ_p: 0.5 }, { temperature: 5, top_k: 3 },
  ];
  const plain = await complete({ temperature: 1, seed: 4, n_predict: 40, repeat_penalty: 1 });
  for (const each of settings) {
    const body = { temperature: 1, seed: 4, n_predict: 40, ...each };
    const answer = await complete(body);
    assert.equal((await complete(body)).content, answer.content, JSON.stringify(each));
    if (!('samplers' in each)) assert.notEqual(answer.content, plain.content, JSON.stringify(each));
  }
  const { generation_settings } = await complete({ samplers: 'kt', dry_base: 2 });
  assert.deepEqual([generation_settings.samplers, generation_settings.dry_base], [['top_k', 'temperature'], 2]);
  assert.equal((await complete({ temperature: 3, top_p: 0 })).content, (await complete({})).content);
  assert.match((await complete({ samplers: ['frobnicate'] }, 400)).error.message, /no step "frobnicate"/);
});

test('DRY keeps a text from repeating itself', async () => {
  const ids = async (content) => (await (await server.post('/tokenize', { content })).json()).tokens;
  const phrase = 'one two three four. ';
  const tokens = await ids(`${phrase.repeat(3)}one two`);
  const period = (await ids(phrase.repeat(3))).length - (await ids(phrase.repeat(2))).length;
  const next = tokens[tokens.length - period];
  const ask = { prompt: tokens, n_predict: 1, return_tokens: true, logit_bias: [[next, 90]] };
  assert.deepEqual((await complete(ask)).tokens, [next]);
  const dry = { ...ask, dry_multiplier: 1000, dry_sequence_breakers: [] };
  assert.notEqual((await complete(dry)).tokens[0], next);
  assert.deepEqual((await complete({ ...dry, dry_penalty_last_n: 4 })).tokens, [next]);
});

test('progress of a prompt goes from what was cached to the whole of it', async () => {
  const long = 'There was a boy who had a red ball and a blue box. '.repeat(60);
  for (const [path, more] of [['/completion', { prompt: long }], ['/v1/completions', { prompt: `${long}!` }], ['/v1/chat/completions', { messages: [{ role: 'user', content: long }] }],
    ['/v1/responses', { input: `${long}?`, max_output_tokens: 2 }]]) {
    const told = (await events(await server.post(path, { ...(more.input ? {} : { n_predict: 2 }), ...more, stream: true, return_progress: true })))
      .map((event) => event.prompt_progress).filter(Boolean);
    assert.ok(told.length >= 2, path);
    assert.equal(told[0].processed, told[0].cache, path);
    assert.equal(told.at(-1).processed, told.at(-1).total, path);
    assert.ok(told.every((each, i) => i === 0 || each.processed > told[i - 1].processed), path);
    assert.ok(told.every((each) => each.time_ms >= 0 && each.total > 600), path);
  }
  const silent = await events(await server.post('/completion', { prompt, n_predict: 2, stream: true }));
  assert.ok(silent.every((event) => !('prompt_progress' in event)));
});

test('timings per token say what of the prompt was cached, on every endpoint', async () => {
  const long = 'There was a girl who had a green hat and a gray cat. '.repeat(20);
  for (const [path, more] of [['/completion', { prompt: long, n_predict: 6 }], ['/v1/completions', { prompt: long, max_tokens: 6 }],
    ['/v1/chat/completions', { messages: [{ role: 'user', content: long }], max_tokens: 6 }], ['/v1/responses', { input: long, max_output_tokens: 6 }]]) {
    const ask = async () => events(await server.post(path, { ...more, stream: true, timings_per_token: true, ignore_eos: true, temperature: 0 }));
    await ask();
    const all = await ask();
    assert.ok(all.every((event) => !('prompt_progress' in event)), path);
    const timings = all.map((event) => event.timings).filter(Boolean);
    assert.ok(timings.length >= 3 && timings.at(-1).predicted_n === 6, `${path}: ${JSON.stringify(timings)}`);
    for (const each of timings) assert.ok(each.cache_n > 100 && each.prompt_n >= 1 && each.prompt_per_second > 0 && each.predicted_per_second >= 0, JSON.stringify(each));
  }
});

test('the web interface\'s settings are taken on a chat', async () => {
  const body = {
    messages: [{ role: 'system', content: 'You are kind.' }, { role: 'user', content: 'Hello!' }], stream: true, max_tokens: 6,
    return_progress: true, reasoning_format: 'auto', reasoning_control: true, sse_ping_interval: 30, cache_prompt: true, samplers: 'edkypmxt',
    temperature: 0.8, dynatemp_range: 0, dynatemp_exponent: 1, top_k: 40, top_p: 0.95, min_p: 0.05, typ_p: 1, xtc_probability: 0, xtc_threshold: 0.1,
    repeat_last_n: 64, repeat_penalty: 1, presence_penalty: 0, frequency_penalty: 0, dry_multiplier: 0, dry_base: 1.75, dry_allowed_length: 2,
    dry_penalty_last_n: -1, timings_per_token: true, backend_sampling: false,
  };
  const reply = await server.post('/v1/chat/completions', body);
  assert.equal(reply.status, 200);
  const all = await events(reply);
  const texts = all.filter((event) => event.choices[0]?.delta.content);
  assert.ok(texts.length > 0);
  assert.ok(texts.every((event) => event.timings.predicted_n > 0 && event.timings.predicted_n <= 6));
  const whole = await (await server.post('/v1/chat/completions', { ...body, stream: false, max_tokens: undefined, n_predict: 3, n_probs: 2 })).json();
  assert.equal(whole.usage.completion_tokens, 3);
  assert.equal(whole.choices[0].logprobs.content[0].top_logprobs.length, 2);
});

test('several choices of a prompt are an array', async () => {
  const several = await complete({ n_cmpl: 3, temperature: 1, seed: 3, n_predict: 12 });
  assert.deepEqual(several.map((each) => each.index), [0, 1, 2]);
  assert.ok(new Set(several.map((each) => each.content)).size > 1);
  const alone = await complete({ temperature: 1, seed: 4, n_predict: 12 });
  assert.equal(several[1].content, alone.content);
});

test('an answer has only the fields asked for, and probabilities after the filters', async () => {
  const some = await complete({ response_fields: ['content', 'timings/prompt_n', 'generation_settings/n_predict'] });
  assert.deepEqual(Object.keys(some), ['content', 'timings/prompt_n', 'generation_settings/n_predict']);
  assert.equal(some['generation_settings/n_predict'], 16);
  const { completion_probabilities: list } = await complete({ n_probs: 5, post_sampling_probs: true, temperature: 1, top_k: 2, n_predict: 3 });
  for (const each of list) {
    assert.ok(each.top_probs.length <= 2 && !('logprob' in each));
    assert.ok(Math.abs(each.top_probs.reduce((sum, { prob }) => sum + prob, 0) - 1) < 1e-5);
  }
});

test('vLLM\'s ends of an answer: stop tokens, the stop string in the text, a least length', async () => {
  const free = await complete({ n_predict: 12, return_tokens: true });
  const at = free.tokens.findIndex((id, i) => i > 3 && !free.tokens.slice(0, i).includes(id));
  const stopped = await complete({ n_predict: 12, stop_token_ids: [free.tokens[at]], return_tokens: true });
  assert.deepEqual([stopped.tokens, stopped.stop_type], [free.tokens.slice(0, at), 'eos']);
  const shown = await complete({ n_predict: 12, stop_token_ids: [free.tokens[at]], include_stop_str_in_output: true });
  assert.ok(free.content.startsWith(shown.content) && shown.content.length > stopped.content.length);
  const later = await complete({ n_predict: 12, stop_token_ids: [free.tokens[at]], min_tokens: at + 3, return_tokens: true });
  assert.ok(later.tokens.length >= at + 3 && !later.tokens.slice(0, at + 3).includes(free.tokens[at]));
  const word = free.content.slice(8, 12);
  const told = await complete({ n_predict: 12, stop: [word], include_stop_str_in_output: true });
  assert.equal(told.content, free.content.slice(0, free.content.indexOf(word) + word.length));
  assert.equal(told.stopping_word, word);
});

test('a bias may name a text', async () => {
  const free = await complete({ n_predict: 4, return_tokens: true });
  const text = (await (await server.post('/detokenize', { tokens: [free.tokens[0]] })).json()).content;
  const { tokens } = await (await server.post('/tokenize', { content: text })).json();
  for (const logit_bias of [[[text, false]], { [text]: -100 }]) {
    const without = await complete({ n_predict: 4, return_tokens: true, logit_bias });
    assert.ok(without.tokens.every((id) => !tokens.includes(id)), JSON.stringify(logit_bias));
  }
});

test('an answer that ends with the context is truncated', async () => {
  const { tokens } = await (await server.post('/tokenize', { content: 'once upon a time there was a cat. '.repeat(500) })).json();
  const whole = await complete({ prompt: tokens.slice(0, 4080), n_predict: -1, ignore_eos: true });
  assert.deepEqual([whole.truncated, whole.stop_type], [true, 'limit']);
  assert.equal((await complete({ n_predict: 5 })).truncated, false);
});

test('a completion can begin with its prompt', async () => {
  const ask = async (more) => (await server.post('/v1/completions', { prompt, max_tokens: 5, temperature: 0, ...more })).json();
  const plain = await ask({});
  assert.equal((await ask({ echo: true })).choices[0].text, prompt + plain.choices[0].text);
  const streamed = await events(await server.post('/v1/completions', { prompt, max_tokens: 5, temperature: 0, echo: true, stream: true }));
  assert.equal(streamed.map((event) => event.choices[0]?.text ?? '').join(''), prompt + plain.choices[0].text);
});

test('the middle is filled in by models that have the tokens for it', async () => {
  const refused = await server.post('/infill', { input_prefix: 'a', input_suffix: 'b' });
  assert.equal(refused.status, 400);
  assert.match((await refused.json()).error.message, /cannot fill in the middle/);
  const [pre, suf, mid] = [500, 501, 502];
  const filler = await serve(storyWith({ 'tokenizer.ggml.prefix_token_id': pre, 'tokenizer.ggml.fim_suf_token_id': suf, 'tokenizer.ggml.fim_mid_token_id': mid }),
    ['--temp', '0', '-n', '7', '--seed', '5', '--top-k', '3']);
  try {
    const post = async (route, body) => (await filler.post(route, body)).json();
    const ids = async (content) => (await post('/tokenize', { content })).tokens;
    const answer = await post('/infill', { input_prefix: 'One day', input_suffix: 'the end.', prompt: ' a cat', return_tokens: true });
    const plain = await post('/completion', { prompt: [1, pre, ...await ids('One day'), ...(await ids(' a cat')).slice(-2), suf], n_predict: 0 });
    assert.equal(answer.tokens_predicted, 7);
    assert.ok(answer.tokens_evaluated > plain.tokens_evaluated);
    const suffix = await post('/v1/completions', { prompt: 'One day', suffix: 'the end.' });
    const same = await post('/infill', { input_prefix: 'One day', input_suffix: 'the end.' });
    assert.deepEqual([suffix.choices[0].text, suffix.usage.completion_tokens], [same.content, 7]);
    const options = { temperature: 0, num_predict: 7, repeat_penalty: 1 };
    const ollama = await post('/api/generate', { prompt: 'One day', suffix: 'the end.', stream: false, options });
    assert.deepEqual([ollama.response, ollama.eval_count, ollama.prompt_eval_count], [same.content, 7, same.tokens_evaluated]);
    const streamed = await (await filler.post('/api/generate', { prompt: 'One day', suffix: 'the end.', options })).text();
    assert.equal(streamed.trim().split('\n').map((line) => JSON.parse(line).response).join(''), same.content);
    const { capabilities } = await post('/api/show', { model: 'any' });
    assert.ok(capabilities === undefined || capabilities.includes('insert'));
    const extra = await post('/infill', { input_prefix: 'One day', input_suffix: 'the end.', input_extra: [{ filename: 'cat.txt', text: 'A cat sat.' }] });
    assert.ok(extra.tokens_evaluated > same.tokens_evaluated);
    assert.match(extra.prompt, /--- snippet ---\s+A cat sat\./);
    // What is too long of other files is left out.
    const long = await post('/infill', { input_prefix: 'One day', input_suffix: 'the end.', input_extra: [{ text: 'A cat sat. '.repeat(500) }] });
    assert.ok(long.tokens_predicted > 0 && long.tokens_evaluated <= 512 - 7);
    // Defaults of the server's are those of requests that leave them out.
    const { params } = (await (await fetch(`${filler.url}/props`)).json()).default_generation_settings;
    assert.deepEqual([params.temperature, params.n_predict, params.seed, params.top_k], [0, 7, 5, 3]);
    const warm = { prompt: 'Once', temperature: 1 };
    assert.equal((await post('/completion', warm)).content, (await post('/completion', warm)).content);
    assert.equal((await post('/v1/completions', { prompt: 'Once' })).usage.completion_tokens, 7);
    assert.equal((await post('/completion', { prompt: 'Once', n_predict: 9, ignore_eos: true })).tokens_predicted, 9);
  } finally {
    await filler.stop();
  }
});

test('a stream of a conversation goes on without its client, and is read again', async () => {
  const ask = (id, signal, more = {}) => fetch(`${server.url}/v1/chat/completions`, { method: 'POST', signal, headers: { 'x-conversation-id': id },
    body: JSON.stringify({ messages: [{ role: 'user', content: prompt }], stream: true, temperature: 0, max_tokens: 200, ignore_eos: true, ...more }) });
  const whole = await (await ask('whole')).text();
  assert.ok(whole.endsWith('data: [DONE]\n\n'), whole.slice(-100));
  const again = async (id, from) => fetch(`${server.url}/v1/stream?conv_id=${id}&from=${from}`);
  const replay = await again('whole', 0);
  assert.match(replay.headers.get('content-type'), /^text\/event-stream/);
  assert.equal(await replay.text(), whole);
  assert.equal(await (await again('whole', 100)).text(), whole.slice(100));

  const leaving = new AbortController();
  const { body } = await ask('left', leaving.signal);
  await body.getReader().read();
  leaving.abort();
  const rest = await (await again('left', 0)).text();
  assert.ok(rest.endsWith('data: [DONE]\n\n'), rest.slice(-100));
  const contents = (text) => text.split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)).choices[0]?.delta.content ?? '').join('');
  assert.equal(contents(rest), contents(whole));

  const found = await (await server.post('/v1/streams/lookup', { conversation_ids: ['left', 'none'] })).json();
  assert.equal(found.length, 1);
  assert.deepEqual([found[0].conversation_id, found[0].is_done, found[0].total_bytes], ['left', true, Buffer.byteLength(rest)]);
  const often = await (await server.post('/v1/streams/lookup', { conversation_ids: Array(100_000).fill('left') })).json();
  assert.deepEqual(often, found);
  const many = await server.post('/v1/streams/lookup', { conversation_ids: Array.from({ length: 1025 }, (_, i) => `${i}`) });
  assert.equal(many.status, 400);
  assert.match((await many.json()).error.message, /more than 1024 ids/);

  const remove = (id) => fetch(`${server.url}/v1/stream?conv_id=${id}`, { method: 'DELETE' });
  const long = await ask('long', undefined, { max_tokens: 3000 });
  const reader = long.body.getReader();
  await reader.read();
  assert.equal((await remove('long')).status, 204);
  let text = '';
  for (let next = await reader.read(); !next.done; next = await reader.read()) text += Buffer.from(next.value);
  assert.ok(!text.includes('[DONE]'));
  assert.equal((await remove('long')).status, 204);
  const lost = await again('long', 0);
  assert.equal(lost.status, 404);
  assert.match((await lost.json()).error.message, /no stream of that conversation/);
  assert.equal((await fetch(`${server.url}/v1/stream`)).status, 400);
  assert.equal((await again('left', 'x')).status, 400);
  assert.equal((await ask('x'.repeat(300))).status, 400);
  const busy = async () => (await get('/slots')).some((slot) => slot.is_processing);
  for (let tries = 0; tries < 100 && await busy(); ++tries) await new Promise((resolve) => { setTimeout(resolve, 50); });
  assert.equal(await busy(), false);
});

test('what is not available is refused by name', async () => {
  for (const [field, value] of Object.entries({ image_data: [{}] })) {
    const { error } = await complete({ [field]: value }, 400);
    assert.equal(error.param, field);
    assert.match(error.message, new RegExp(`^${field} is not supported`));
  }
  assert.match((await complete({ frobnicate: 1, warnings: true, n_predict: 1 })).warnings[0], /^frobnicate is not a field/);
  for (const [path, more] of [['/completion', { prompt: 'word '.repeat(9000) }], ['/chat/completions', { messages: [{ role: 'user', content: 'word '.repeat(9000) }] }], ['/responses', { input: 'word '.repeat(9000) }]]) {
    const { error } = await (await server.post(path, more)).json();
    assert.deepEqual([error.type, error.code, error.n_ctx, error.n_prompt_tokens > 4096], ['exceed_context_size_error', 'context_length_exceeded', 4096, true]);
  }
});

test('adapters are told of, set for all, and chosen by a request', async () => {
  const [first, second] = [storyAdapter('first.gguf', 7), storyAdapter('second.gguf', 8)];
  const adapted = await serve(storyTrainedFor(4096), ['--lora', first, '--lora', `${second}:0`]);
  const list = async () => (await fetch(`${adapted.url}/lora-adapters`)).json();
  const set = async (body) => {
    const reply = await adapted.post('/lora-adapters', body);
    return [reply.status, await reply.json()];
  };
  const ask = async (more) => {
    const reply = await adapted.post('/completion', { prompt: 'Once upon a time there was a dog. '.repeat(8), n_predict: 24, temperature: 0, ...more });
    const body = await reply.json();
    assert.equal(reply.status, 200, JSON.stringify(body));
    return body;
  };
  try {
    assert.deepEqual(await list(), [{ id: 0, scale: 1, path: 'first.gguf' }, { id: 1, scale: 0, path: 'second.gguf' }]);
    const wanted = [undefined, [], [{ id: 1, scale: 1 }], [{ id: 0, scale: 0.5 }, { id: 1, scale: -1.5 }]];
    const alone = [];
    for (const lora of wanted) alone.push(await ask(lora ? { lora } : {}));
    assert.equal(new Set(alone.map(({ content }) => content)).size, wanted.length);
    assert.deepEqual(alone.map(({ timings }) => timings.cache_n), [0, 0, 0, 0]);
    assert.deepEqual(alone[0].generation_settings.lora, [{ id: 0, scale: 1 }, { id: 1, scale: 0 }]);
    assert.deepEqual(alone[3].generation_settings.lora, wanted[3]);
    const together = await Promise.all([...wanted, ...wanted].map((lora) => ask(lora ? { lora } : {})));
    together.forEach(({ content, timings }, i) => {
      assert.equal(content, alone[i % wanted.length].content);
      assert.ok(timings.cache_n > 0);
    });
    const chat = await adapted.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4, lora: [{ id: 1, scale: 1 }] });
    assert.equal(chat.status, 200);
    assert.deepEqual(await set([{ id: 1, scale: 1 }]), [200, { success: true }]);
    assert.deepEqual((await list()).map(({ scale }) => scale), [0, 1]);
    assert.equal((await ask({})).content, alone[2].content);
    assert.equal((await set([]))[0], 200);
    assert.equal((await ask({})).content, alone[1].content);
    for (const [body, message] of [[[{ id: 2, scale: 1 }], /lora\[0\]: this model has no LoRA adapter 2; it has adapters 0 to 1/], [{ id: 0 }, /must be an array of adapters/], ['[', /the body/]]) {
      const [status, { error }] = await set(body);
      assert.equal(status, 400);
      assert.match(error.message, message);
    }
    const wrong = await adapted.post('/completion', { prompt: 'x', lora: [{ id: 5 }] });
    assert.equal(wrong.status, 400);
    assert.match((await wrong.json()).error.message, /no LoRA adapter 5/);
    assert.deepEqual((await list()).map(({ scale }) => scale), [0, 0]);
  } finally {
    assert.equal((await adapted.stop()).code, 0);
  }
  const { error } = await complete({ lora: [{ id: 0, scale: 1 }] }, 400);
  assert.match(error.message, /no LoRA adapter 0; it was started without --lora/);
});

test('the slot of a conversation with an adapter is found again on the disk', async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-slot-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  const flags = ['--lora', storyAdapter('first.gguf', 7), '--kv-disk', path.join(folder, 'kv')];
  const post = async (one, route, body) => (await one.post(route, body)).json();
  const first = await serve(storyTrainedFor(4096), flags);
  t.after(() => first.stop());
  const prompt = 'Once upon a time there was a dog. '.repeat(8);
  const told = await post(first, '/completion', { prompt, n_predict: 4, id_slot: 0, temperature: 0 });
  const saved = await post(first, '/slots/0?action=save', { filename: 'talk.bin' });
  assert.ok(saved.n_saved > 64 && saved.n_written > 0, JSON.stringify(saved));
  assert.equal((await first.stop()).code, 0);
  const second = await serve(storyTrainedFor(4096), flags);
  t.after(() => second.stop());
  assert.equal((await post(second, '/slots/1?action=restore', { filename: 'talk.bin' })).n_restored, saved.n_saved);
  const again = await post(second, '/completion', { prompt: prompt + told.content, n_predict: 4, temperature: 0 });
  assert.ok(again.timings.cache_n > 64, JSON.stringify(again.timings));
});
