// Log-probabilities of given texts: `echo` with `logprobs`, vLLM's `prompt_logprobs`, and answers of no token.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { fixtures, serve, story, tiny } from './server.mjs';

let random, server, client;
before(async () => {
  random = await serve(tiny, ['--kv-type', 'f32']);
  server = await serve(story);
  client = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'none', maxRetries: 0 });
});
after(async () => {
  for (const one of [random, server]) {
    const end = await one.stop();
    assert.equal(end.code, 0, end.log);
  }
});

const json = async (answer) => {
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  return body;
};
const events = async (reply) => (await reply.text()).split('\n\n').filter((event) => event.startsWith('data: {')).map((event) => JSON.parse(event.slice(6)));
const complete = async (body, at = server) => json(await at.post('/v1/completions', { temperature: 0, ...body }));

// llama.cpp's logits of the same file.
function referenceScores(run) {
  const scores = new Map();
  run.positions.forEach((position, i) => {
    const next = run.tokens[position + 1];
    if (next === undefined) return;
    const logits = run.logits[i];
    const sum = Math.log(logits.reduce((so_far, logit) => so_far + Math.exp(logit), 0));
    scores.set(position + 1, { own: logits[next] - sum, most: Math.max(...logits) - sum, rank: 1 + logits.filter((logit) => logit > logits[next]).length });
  });
  return scores;
}

test('scores of a prompt of token ids are those that llama.cpp\'s logits give', async () => {
  const { runs } = JSON.parse(fs.readFileSync(path.join(fixtures, 'models', 'llama.ref.json'), 'utf8'));
  const { choices } = await complete({ prompt: runs.map((run) => run.tokens), max_tokens: 0, echo: true, logprobs: 2, prompt_logprobs: 1 }, random);
  assert.equal(choices.length, runs.length);
  let compared = 0;
  choices.forEach(({ logprobs, prompt_logprobs, finish_reason }, i) => {
    const { tokens } = runs[i];
    assert.equal(finish_reason, 'length');
    for (const list of [logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, logprobs.text_offset, prompt_logprobs])
      assert.equal(list.length, tokens.length);
    assert.deepEqual([logprobs.token_logprobs[0], logprobs.top_logprobs[0], prompt_logprobs[0]], [null, null, null]);
    for (const [position, { own, most, rank }] of referenceScores(runs[i])) {
      const near = (value, expected) => assert.ok(Math.abs(value - expected) < 1e-4, `${position}: ${value} ${expected}`);
      near(logprobs.token_logprobs[position], own);
      near(Math.max(...Object.values(logprobs.top_logprobs[position])), most);
      const entry = prompt_logprobs[position][tokens[position]];
      near(entry.logprob, own);
      assert.equal(entry.rank, rank);
      assert.equal(entry.decoded_token, logprobs.tokens[position]);
      ++compared;
    }
  });
  assert.ok(compared >= 10, `${compared}`);
});

test('an echoed prompt has its log-probabilities before those of the answer, and offsets in the whole text', async () => {
  const prompt = 'Once upon a time, there was a little girl. She said "héé, 漢字!"';
  const { choices: [whole], usage } = await complete({ prompt, max_tokens: 6, echo: true, logprobs: 1 });
  assert.ok(whole.text.startsWith(prompt));
  const { tokens, token_logprobs, top_logprobs, text_offset } = whole.logprobs;
  assert.equal(tokens.length, usage.prompt_tokens + 6);
  assert.equal(token_logprobs.indexOf(null), 0);
  assert.equal(token_logprobs.lastIndexOf(null), 0);
  // Each token stands where its offset says, in characters.
  const characters = [...whole.text];
  tokens.forEach((token, i) => {
    if (i === 0 || token.includes('\ufffd')) return;  // what begins the text, and parts of characters
    const at = characters.slice(text_offset[i], text_offset[i] + [...token].length).join('');
    assert.ok(at === token || (text_offset[i] === 0 && token.trimStart() === at.trimEnd().slice(0, token.trimStart().length)), `${i}: "${at}" "${token}"`);
  });
  assert.ok(text_offset.every((offset, i) => i === 0 || offset >= text_offset[i - 1]));
  // The answer's own are those without the prompt's.
  const { choices: [alone] } = await complete({ prompt, max_tokens: 6, logprobs: 1 });
  assert.equal(prompt + alone.text, whole.text);
  assert.deepEqual(alone.logprobs.token_logprobs, token_logprobs.slice(-6));
  assert.deepEqual(alone.logprobs.top_logprobs, top_logprobs.slice(-6));
  // What an answer scores, the same text scores as a prompt.
  const { choices: [again] } = await complete({ prompt: whole.text, max_tokens: 0, echo: true, logprobs: 1 });
  assert.equal(again.text, whole.text);
  if (again.logprobs.tokens.join() === tokens.join())
    again.logprobs.token_logprobs.forEach((value, i) => assert.ok(i === 0 || Math.abs(value - token_logprobs[i]) < 1e-4, `${i}`));

  const streamed = await events(await server.post('/v1/completions', { prompt, max_tokens: 6, temperature: 0, echo: true, logprobs: 1, stream: true }));
  const parts = streamed.flatMap((event) => event.choices ?? []);
  assert.equal(parts.map(({ text }) => text).join(''), whole.text);
  for (const list of ['tokens', 'token_logprobs', 'top_logprobs', 'text_offset'])
    assert.deepEqual(parts.flatMap(({ logprobs }) => logprobs?.[list] ?? []), whole.logprobs[list], list);
});

test('the openai client reads an echo with log-probabilities', async () => {
  const answer = await client.completions.create({ model: 'stories260K-f32', prompt: ['One day', 'The cat'], echo: true, logprobs: 0, max_tokens: 1, n: 2 });
  assert.equal(answer.choices.length, 4);
  for (const { logprobs } of answer.choices) {
    assert.equal(logprobs.token_logprobs.filter((value) => value === null).length, 1);
    logprobs.top_logprobs.slice(1).forEach((top, i) => assert.deepEqual(Object.values(top), [logprobs.token_logprobs[i + 1]]));
  }
});

test('chats have vLLM\'s prompt_logprobs and token ids', async () => {
  const messages = [{ role: 'user', content: 'Hello' }];
  const ask = async (more) => server.post('/v1/chat/completions', { messages, max_tokens: 3, temperature: 0, n: 2, ...more });
  const answer = await json(await ask({ prompt_logprobs: 2, return_token_ids: true }));
  assert.equal(answer.prompt_logprobs.length, answer.usage.prompt_tokens);
  assert.equal(answer.prompt_logprobs[0], null);
  answer.prompt_logprobs.slice(1).forEach((entries, i) => assert.ok(answer.prompt_token_ids[i + 1] in entries));
  const { tokens } = await json(await server.post('/tokenize', { content: (await json(await server.post('/apply-template', { messages }))).prompt, add_special: true }));
  assert.deepEqual(answer.prompt_token_ids, tokens);
  const { content } = await json(await server.post('/detokenize', { tokens: answer.choices[0].token_ids }));
  assert.equal(content.trim(), answer.choices[0].message.content.trim());

  const streamed = await events(await ask({ return_token_ids: true, stream: true }));
  assert.deepEqual(streamed.filter((event) => 'prompt_token_ids' in event).map((event) => event.prompt_token_ids), [tokens]);
  for (const index of [0, 1]) {
    const ids = streamed.flatMap((event) => event.choices ?? []).filter((choice) => choice.index === index).flatMap((choice) => choice.token_ids);
    assert.deepEqual(ids, answer.choices[index].token_ids);
  }
  const refused = await ask({ prompt_logprobs: 1, stream: true });
  assert.deepEqual([refused.status, (await refused.json()).error.param], [400, 'prompt_logprobs']);
  const plain = await json(await ask({}));
  assert.ok(!('prompt_logprobs' in plain) && !('prompt_token_ids' in plain) && !('token_ids' in plain.choices[0]));
});

test('completions have the ids of prompt and answer, whole and as a stream', async () => {
  const prompt = [1, 403, 407];
  const whole = (await complete({ prompt, max_tokens: 5, return_token_ids: true })).choices[0];
  assert.deepEqual([whole.prompt_token_ids, whole.token_ids.length], [prompt, 5]);
  const streamed = await events(await server.post('/v1/completions', { prompt, max_tokens: 5, temperature: 0, return_token_ids: true, stream: true }));
  const parts = streamed.flatMap((event) => event.choices ?? []);
  assert.deepEqual(parts.flatMap(({ token_ids }) => token_ids), whole.token_ids);
  assert.deepEqual(parts.filter((part) => part.prompt_token_ids).map((part) => part.prompt_token_ids), [prompt]);
});

test('every chunk has the usage so far if continuous_usage_stats asks for it', async () => {
  const stream_options = { include_usage: true, continuous_usage_stats: true };
  for (const [route, body] of [['/v1/completions', { prompt: 'Once' }], ['/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }] }]]) {
    const streamed = await events(await server.post(route, { ...body, max_tokens: 5, ignore_eos: true, stream: true, stream_options }));
    const counts = streamed.map(({ usage }) => usage.completion_tokens);
    assert.ok(counts.every((count, i) => i === 0 || count >= counts[i - 1]), `${counts}`);
    assert.deepEqual(counts.slice(-2), [5, 5]);
    assert.ok(counts.includes(2));
    const { usage } = streamed.at(-1);
    for (const event of streamed) {
      assert.equal(event.usage.prompt_tokens, usage.prompt_tokens);
      assert.equal(event.usage.total_tokens, usage.prompt_tokens + event.usage.completion_tokens);
    }
  }
});

test('no token of an answer is a number in every protocol', async () => {
  const messages = [{ role: 'user', content: 'Hi' }];
  const ask = async (route, body) => json(await server.post(route, body));
  const tools = [{ type: 'function', function: { name: 'f', parameters: {} } }];
  for (const more of [{}, { tools, tool_choice: 'required' }]) {
    const { choices: [{ message, finish_reason }] } = await ask('/v1/chat/completions', { messages, max_tokens: 0, ...more });
    assert.deepEqual([message.content, message.tool_calls, finish_reason], ['', undefined, 'length']);
  }
  const chat = await ask('/v1/chat/completions', { messages, max_tokens: 0 });
  assert.deepEqual([chat.choices[0].message.content, chat.choices[0].finish_reason, chat.usage.completion_tokens], ['', 'length', 0]);
  const completion = await ask('/v1/completions', { prompt: 'Once', max_tokens: 0 });
  assert.deepEqual([completion.choices[0].text, completion.choices[0].finish_reason, completion.usage.completion_tokens], ['', 'length', 0]);
  const native = await ask('/completion', { prompt: 'Once', n_predict: 0 });
  assert.deepEqual([native.content, native.stop_type, native.tokens_predicted], ['', 'limit', 0]);
  const message = await ask('/v1/messages', { messages, max_tokens: 0 });
  assert.deepEqual([message.content, message.stop_reason, message.usage.output_tokens], [[], 'max_tokens', 0]);
  const response = await ask('/v1/responses', { input: 'Hi', max_output_tokens: 0 });
  assert.deepEqual([response.status, response.incomplete_details.reason, response.usage.output_tokens], ['incomplete', 'max_output_tokens', 0]);
});

test('as many probabilities come as are asked for, up to a thousand', async () => {
  const native = await json(await server.post('/completion', { prompt: 'Once', n_predict: 2, n_probs: 50 }));
  assert.deepEqual(native.completion_probabilities.map(({ top_logprobs }) => top_logprobs.length), [50, 50]);
  const refused = await server.post('/completion', { prompt: 'Once', n_probs: 1001 });
  assert.match((await refused.json()).error.message, /n_probs must be from 0 to 1000, not 1001/);
});

test('scores that would be too many are refused with both numbers', async () => {
  const prompt = Array(3).fill(Array(400).fill(5));
  for (const [asked, param] of [[{ echo: true, logprobs: 1000 }, 'logprobs'], [{ prompt_logprobs: 1000 }, 'prompt_logprobs'], [{ echo: true, logprobs: 200, n: 5 }, 'logprobs']]) {
    const refused = await server.post('/v1/completions', { prompt, max_tokens: 0, ...asked });
    const { error } = await refused.json();
    assert.deepEqual([refused.status, error.param], [400, param]);
    assert.match(error.message, /1200 tokens .* (1201200|1206000) log-probabilities; one request may ask for 1048576/);
  }
});

test('other protocols refuse prompt_logprobs by name', async () => {
  for (const [route, body] of [['/completion', { prompt: 'x' }], ['/v1/messages', { messages: [{ role: 'user', content: 'x' }], max_tokens: 1 }], ['/v1/responses', { input: 'x' }]]) {
    const refused = await server.post(route, { ...body, prompt_logprobs: 1 });
    assert.equal(refused.status, 400, route);
    assert.match(JSON.stringify(await refused.json()), /prompt_logprobs/);
  }
});
