// Fields that vLLM, SGLang and others have, on the endpoints that generate text.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { serve, storyTrainedFor } from './server.mjs';

const guide = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../models/guide/guide.gguf');

let server;
before(async () => { server = await serve(storyTrainedFor(4096), ['--name', 'story', '--parallel-max', '4']); });
after(async () => {
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

const messages = [{ role: 'user', content: 'Once upon a time' }];
async function ask(route, body, status = 200) {
  const reply = await server.post(route, body);
  const answer = await reply.json();
  assert.equal(reply.status, status, JSON.stringify(answer));
  return answer;
}
const complete = (more, status) => ask('/completion', { prompt: 'Once upon a time', n_predict: 16, temperature: 0, return_tokens: true, ...more }, status);
const stream = async (route, body) => {
  const reply = await server.post(route, { ...body, stream: true });
  const texts = Array.from({ length: body.n ?? 1 }, () => '');
  for (const line of (await reply.text()).split('\n')) {
    if (!line.startsWith('data: {')) continue;
    for (const { index, delta, text } of JSON.parse(line.slice(6)).choices ?? []) texts[index] += text ?? delta.content ?? '';
  }
  return texts;
};
const chat = async (more) => (await ask('/v1/chat/completions', { messages, max_tokens: 24, temperature: 0, ...more })).choices[0].message.content;
const tokens = async (content) => (await ask('/tokenize', { content })).tokens;

test('only tokens of allowed_token_ids are sampled, on every endpoint', async () => {
  const free = await complete();
  const allowed = free.tokens.slice(0, 5);
  const held = await complete({ allowed_token_ids: allowed, temperature: 2, seed: 5 });
  assert.ok(held.tokens.length === 16 && held.tokens.every((id) => allowed.includes(id)), JSON.stringify(held.tokens));
  assert.ok(new Set(held.tokens).size > 1);
  // The same text by the other endpoints, whole and as a stream.
  const greedy = await complete({ allowed_token_ids: allowed });
  const { choices } = await ask('/v1/completions', { prompt: 'Once upon a time', max_tokens: 16, temperature: 0, allowed_token_ids: allowed });
  assert.deepEqual([choices[0].text, choices[0].finish_reason], [greedy.content, 'length']);
  const one = (await tokens('1')).at(-1);
  assert.match(await chat({ allowed_token_ids: [one], max_tokens: 5 }), /^1+$/);
  assert.deepEqual(await stream('/v1/chat/completions', { messages, max_tokens: 5, temperature: 0, n: 2, allowed_token_ids: [one] }), ['11111', '11111']);
});

test('a form and allowed_token_ids leave what both allow, or the answer fails by name', async () => {
  const [a, b] = [(await tokens('1')).at(-1), (await tokens('2')).at(-1)];
  const text = await complete({ grammar: 'root ::= [2-9]+', allowed_token_ids: [a, b], n_predict: 4 });
  assert.equal(text.content, '2222');
  const { error } = await complete({ grammar: 'root ::= [3-9]+', allowed_token_ids: [a, b] }, 400);
  assert.match(error.message, /leaves nothing that allowed_token_ids/);
  const { error: none } = await complete({ allowed_token_ids: [] }, 400);
  assert.match(none.message, /allowed_token_ids must be an array of at least one token id/);
  const { error: unknown } = await complete({ allowed_token_ids: [123456] }, 400);
  assert.match(unknown.message, /allowed_token_ids names token 123456; this model has tokens 0 to/);
});

test('a text of bad_words never comes, whatever its tokens are, on every endpoint and in every choice', async () => {
  const free = await complete({ n_predict: 40 });
  const words = [...new Set(free.content.match(/[a-z]{3,}/g))].slice(0, 4);
  assert.ok(words.length === 4, free.content);
  const clean = (text) => assert.ok(words.every((word) => !text.includes(word)), `${words}: ${text}`);
  const held = await complete({ n_predict: 40, bad_words: words });
  clean(held.content);
  assert.equal((await complete({ n_predict: 40, bad_words: words.map((word) => ` ${word}`) })).content, held.content);
  assert.equal((await complete({ n_predict: 40, banned_strings: words })).content, held.content);
  const body = { max_tokens: 60, temperature: 1, seed: 4, n: 3, bad_words: words };
  for (const text of await stream('/v1/completions', { prompt: 'Once upon a time', ...body })) clean(text);
  const streamed = await stream('/v1/chat/completions', { messages, ...body });
  streamed.forEach(clean);
  const { choices } = await ask('/v1/chat/completions', { messages, ...body });
  assert.deepEqual(choices.map(({ message }) => message.content), streamed);
  const shown = await ask('/api/generate', { model: 'story', prompt: 'Once upon a time', raw: true, stream: false, options: { num_predict: 40, temperature: 0, bad_words: words } });
  clean(shown.response);
});

test('bad_words beside a form, and their limits', async () => {
  const one = await complete({ grammar: 'root ::= "yes" | "no"', bad_words: ['y'] });
  assert.equal(one.content, 'no');
  const { error } = await complete({ grammar: 'root ::= "yes"', bad_words: ['es'] }, 400);
  assert.match(error.message, /leaves nothing that allowed_token_ids and bad_words allow/);
  const { error: many } = await complete({ bad_words: Array(257).fill('x') }, 400);
  assert.match(many.message, /bad_words may have at most 256 strings with 8192 bytes together/);
});

test('truncate_prompt_tokens keeps the last tokens of a prompt, and tells it', async () => {
  const prompt = 'Once upon a time there was a big dog and a small cat. They went to the park.';
  const ids = await ask('/tokenize', { content: prompt, add_special: true }).then(({ tokens }) => tokens);
  const text = async (more) => {
    const answer = await ask('/v1/completions', { prompt, max_tokens: 8, temperature: 0, warnings: true, ...more });
    return [answer.choices[0].text, answer.usage.prompt_tokens, answer.warnings];
  };
  const [cut, count, warnings] = await text({ truncate_prompt_tokens: 6 });
  assert.equal(count, 6);
  assert.match(warnings[0], new RegExp(`truncate_prompt_tokens: the prompt has ${ids.length} tokens, of which the first and the last 5 are read`));
  assert.equal((await text({ prompt: [ids[0], ...ids.slice(-5)] }))[0], cut);
  // Token ids are taken as they are.
  const [last, six, told] = await text({ prompt: ids, truncate_prompt_tokens: 6 });
  assert.deepEqual([last, six], [(await text({ prompt: ids.slice(-6) }))[0], 6]);
  assert.match(told[0], /of which the last 6 are read/);
  const whole = await text({ truncate_prompt_tokens: ids.length });
  assert.deepEqual([whole[1], whole[2]], [ids.length, []]);
  assert.equal((await complete({ prompt, n_predict: 8, truncate_prompt_tokens: 6 })).content, cut);
  for (const truncate_prompt_tokens of [0, -2, 'all']) await ask('/v1/completions', { prompt, truncate_prompt_tokens }, 400);
});

test('truncate_prompt_tokens -1 keeps as many tokens as leave room for the answer', async () => {
  const long = 'once upon a time there was a cat. '.repeat(12_000);  // more bytes than are tokenised to count them
  const body = { messages: [{ role: 'user', content: long }], max_tokens: 16, temperature: 0, warnings: true };
  await ask('/v1/chat/completions', body, 400);
  const answer = await ask('/v1/chat/completions', { ...body, truncate_prompt_tokens: -1 });
  assert.equal(answer.usage.prompt_tokens, 4096 - 16);
  assert.match(answer.warnings.join(), /truncate_prompt_tokens: the prompt has \d+ tokens/);
  assert.equal((await ask('/v1/chat/completions', { ...body, truncate_prompt_tokens: 100 })).usage.prompt_tokens, 100);
  const text = await ask('/v1/completions', { prompt: long, max_tokens: 16, truncate_prompt_tokens: -1 });
  assert.equal(text.usage.prompt_tokens, 4096 - 16);
  const anthropic = await ask('/v1/messages', { ...body, truncate_prompt_tokens: 50 });
  assert.equal(anthropic.usage.input_tokens + (anthropic.usage.cache_read_input_tokens ?? 0), 50);
  const { error } = await ask('/infill', { input_prefix: 'a', input_suffix: 'b', truncate_prompt_tokens: 5 }, 400);
  assert.match(error.message, /truncate_prompt_tokens is not supported: the prompt is made to fit/);
});

test('a thinking that is not asked for is counted and not sent', async () => {
  const thinker = await serve(guide);
  const post = async (route, body) => (await thinker.post(route, body)).text();
  const body = { messages: [{ role: 'user', content: 'What is 23 + 45?' }], max_tokens: 200, temperature: 0, logprobs: true };
  const shown = JSON.parse(await post('/v1/chat/completions', body));
  const { message, logprobs } = shown.choices[0];
  assert.ok(message.reasoning_content.length > 0 && message.content.length > 0);
  for (const hides of [{ include_reasoning: false }, { reasoning: { exclude: true } }, { include_reasoning: false, reasoning_format: 'none' }]) {
    const whole = JSON.parse(await post('/v1/chat/completions', { ...body, ...hides }));
    assert.deepEqual(whole.choices[0].message, { role: 'assistant', content: message.content, refusal: null });
    assert.deepEqual(whole.usage.completion_tokens_details, shown.usage.completion_tokens_details);
    assert.equal(whole.usage.completion_tokens, shown.usage.completion_tokens);
    const told = whole.choices[0].logprobs.content.map(({ token }) => token).join('');
    assert.ok(told.length < message.content.length + 10 && logprobs.content.length > whole.choices[0].logprobs.content.length, told);
    let content = '';
    for (const line of (await post('/v1/chat/completions', { ...body, ...hides, stream: true })).split('\n').filter((each) => each.startsWith('data: {'))) {
      for (const { delta } of JSON.parse(line.slice(6)).choices) {
        assert.ok(!('reasoning_content' in delta), line);
        content += delta.content ?? '';
      }
    }
    assert.equal(content, message.content);
  }
  const { output } = JSON.parse(await post('/v1/responses', { input: 'What is 23 + 45?', max_output_tokens: 200, temperature: 0, reasoning: { exclude: true } }));
  assert.deepEqual(output.map(({ type }) => type), ['message']);
  assert.match(await post('/v1/responses', { input: 'What is 23 + 45?', max_output_tokens: 200, temperature: 0 }), /"type": ?"reasoning"/);
  assert.ok(!/reasoning_text|summary_text/.test(await post('/v1/responses', { input: 'What is 23 + 45?', max_output_tokens: 200, temperature: 0, stream: true, reasoning: { exclude: true } })));
  assert.equal(JSON.parse(await post('/v1/chat/completions', { ...body, include_reasoning: true })).choices[0].message.reasoning_content, message.reasoning_content);
  await thinker.stop();
});

test('an answer ends with what matches stop_regex', async () => {
  const free = (await complete({ n_predict: 60 })).content;
  const word = free.match(/[a-z]{4,} [a-z]+/)[0].split(' ')[0];
  const end = free.search(new RegExp(`${word} [a-z]`)) + word.length + 2;
  const stop_regex = `${word} [a-z]`;
  const held = await complete({ n_predict: 60, stop_regex });
  assert.deepEqual([held.content, held.stop_type, held.stopping_word], [free.slice(0, end), 'word', stop_regex]);
  assert.equal((await complete({ n_predict: 60, stop_regex: ['never this', stop_regex] })).content, held.content);
  const { choices: [choice] } = await ask('/v1/completions', { prompt: 'Once upon a time', max_tokens: 60, temperature: 0, stop_regex });
  assert.deepEqual([choice.text, choice.finish_reason], [held.content, 'stop']);
  assert.deepEqual(await stream('/v1/completions', { prompt: 'Once upon a time', max_tokens: 60, temperature: 0, n: 2, stop_regex }), [held.content, held.content]);
  const talk = await chat({});
  assert.equal(await chat({ stop_regex: '[a-z] ' }), talk.slice(0, talk.search(/[a-z] /) + 2));
  // A stop string that comes first counts, and one that comes later does not.
  assert.equal((await complete({ n_predict: 60, stop_regex, stop: [word] })).content, free.slice(0, free.indexOf(word)));
  for (const [wrong, said] of [['(a', /stop_regex \(a: /], ['a*', /matches the empty text/], ['(a)\\1', /stop_regex/]])
    assert.match((await complete({ stop_regex: wrong }, 400)).error.message, said);
});

test('a form in another protocol\'s place is refused by name, and never passed over', async () => {
  const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
  const openai = { type: 'json_schema', json_schema: { name: 'x', schema } };
  const cases = [
    ['/v1/chat/completions', { response_format: { type: 'object', schema } }, /response_format\.type must be/],
    ['/v1/chat/completions', { response_format: { type: 'json_object', properties: schema.properties } }, /response_format\.properties has no place here/],
    ['/v1/chat/completions', { response_format: { type: 'json_schema', json_schema: { schema: { type: 'object', schema } } } }, /the one in its member schema belongs here/],
    ['/v1/chat/completions', { text: { format: { type: 'json_schema', name: 'x', schema } } }, /text is not supported: use response_format/],
    ['/v1/chat/completions', { format: schema }, /format is not supported: use response_format/],
    ['/v1/chat/completions', { output_config: { format: { type: 'json_schema', schema } } }, /output_config is not supported/],
    ['/v1/completions', { format: 'json' }, /format is not supported: use response_format/],
    ['/api/chat', { response_format: openai }, /response_format is not supported: use format/],
    ['/api/chat', { options: { format: schema } }, /options\.format is not supported: use format, beside options/],
    ['/api/chat', { format: { type: 'object', schema } }, /format must be a JSON Schema; the one in its member schema/],
    ['/api/generate', { response_format: openai }, /response_format is not supported: use format/],
    ['/v1/messages', { output_config: { schema } }, /output_config\.schema has no place here: the form of the answer goes into output_config\.format/],
    ['/v1/messages', { response_format: openai }, /response_format is not supported: use output_config\.format/],
    ['/v1/responses', { text: { type: 'json_schema', schema } }, /text\.type has no place here: the form of the answer goes into text\.format/],
    ['/v1/responses', { json_schema: schema }, /json_schema is not supported: use text\.format/],
  ];
  for (const [route, form, words] of cases) {
    const asked = { '/v1/completions': { prompt: 'Once' }, '/api/generate': { prompt: 'Once' }, '/v1/responses': { input: 'Once' } }[route] ?? { messages };
    const answer = await ask(route, { ...asked, max_tokens: 8, stream: false, ...form }, 400);
    assert.match(answer.error.message ?? answer.error, words, `${route} ${JSON.stringify(form)}`);
  }
  // Where the meaning is plain, it is the form.
  assert.match(await chat({ json_mode: true, temperature: 2, seed: 3, max_tokens: 200 }), /^\{/);
  assert.match(await chat({ grammar_string: 'root ::= [0-9]+', max_tokens: 5 }), /^[0-9]+$/);
});

test('fields by the names of other servers mean what they mean there', async () => {
  const greedy = await complete({ n_predict: 24 });
  const seeded = { temperature: undefined, seed: 9 };
  assert.equal((await complete({ ...seeded, n_predict: 24, do_sample: false })).content, greedy.content);
  for (const name of ['max_new_tokens', 'max_output_tokens', 'num_predict'])
    assert.equal((await ask('/v1/completions', { prompt: 'Once', temperature: 0, [name]: 3 })).usage.completion_tokens, 3);
  const word = greedy.content.slice(4, 8);
  for (const name of ['stopping_strings', 'stop_strings', 'stop_sequences']) {
    const { choices: [{ text, finish_reason }] } = await ask('/v1/completions', { prompt: 'Once upon a time', max_tokens: 24, temperature: 0, [name]: [word] });
    assert.deepEqual([text, finish_reason], [greedy.content.slice(0, greedy.content.indexOf(word)), 'stop'], name);
  }
  const banned = await ask('/api/generate', { prompt: 'Once upon a time', raw: true, stream: false, num_predict: 24, temperature: 0, bad_words: [word] });
  assert.ok(!banned.response.includes(word.trimStart()), banned.response);
  for (const [field, words] of [
    [{ max_tokens: 5, max_new_tokens: 6 }, /max_new_tokens contradicts max_tokens/],
    [{ stop: 'a', stopping_strings: ['b'] }, /stopping_strings contradicts stop/],
    [{ do_sample: false, temperature: 0.7 }, /do_sample is false, which contradicts temperature/],
    [{ max_length: 50 }, /max_length is not supported: .*use max_tokens/],
    [{ top_a: 0.2 }, /top_a is not supported/],
    [{ best_of: 3 }, /best_of is not supported: use n/],
  ]) assert.match((await ask('/v1/chat/completions', { messages, ...field }, 400)).error.message, words);
});
