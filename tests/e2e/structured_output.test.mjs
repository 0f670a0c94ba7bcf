// Answers that are held to a form, over every protocol: a model of random words obeys a schema at temperature 2.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fixtures, serve, storyTrainedFor, storyWithControls } from './server.mjs';

let server;
before(async () => { server = await serve(storyTrainedFor(2048)); });
after(async () => assert.equal((await server.stop()).code, 0));

async function post(path, body) {
  const response = await fetch(server.url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  return { status: response.status, text: await response.text() };
}

const schema = {
  type: 'object',
  properties: { colour: { enum: ['red', 'green'] }, count: { type: 'integer', minimum: 1, maximum: 99 }, known: { type: 'boolean' } },
  required: ['colour', 'count', 'known'],
  additionalProperties: false,
};
function assertFits(text) {
  const value = JSON.parse(text);
  assert.deepEqual(Object.keys(value), ['colour', 'count', 'known'], text);
  assert.ok(['red', 'green'].includes(value.colour) && Number.isInteger(value.count) && value.count >= 1 && value.count <= 99, text);
  assert.equal(typeof value.known, 'boolean');
}

const messages = [{ role: 'user', content: 'A colour, please.' }];
const format = { type: 'json_schema', name: 'colour', schema, strict: true };
const protocols = [
  ['/v1/chat/completions', (seed) => ({ messages, seed, temperature: 2, max_tokens: 400, response_format: { type: 'json_schema', json_schema: format } }), (a) => a.choices[0].message.content],
  ['/v1/responses', () => ({ input: messages, temperature: 2, max_output_tokens: 400, text: { format } }), (a) => a.output.at(-1).content[0].text],
  ['/v1/messages', () => ({ messages, temperature: 1, max_tokens: 400, output_config: { format: { type: 'json_schema', schema } } }), (a) => a.content[0].text],
  ['/api/chat', (seed) => ({ messages, stream: false, format: schema, options: { seed, temperature: 2, num_predict: 400 } }), (a) => a.message.content],
  ['/api/generate', (seed) => ({ prompt: 'x', raw: true, stream: false, format: schema, options: { seed, temperature: 2, num_predict: 400 } }), (a) => a.response],
  ['/completion', (seed) => ({ prompt: 'x', seed, temperature: 2, n_predict: 400, json_schema: schema }), (a) => a.content],
  ['/v1/completions', (seed) => ({ prompt: 'x', seed, temperature: 2, max_tokens: 400, structured_outputs: { json: schema } }), (a) => a.choices[0].text],
];

test('an answer of every protocol fits its schema', async () => {
  for (const [path, body, textOf] of protocols) {
    for (let seed = 0; seed < 5; ++seed) {
      const { status, text } = await post(path, body(seed));
      assert.equal(status, 200, text);
      assertFits(textOf(JSON.parse(text)));
    }
  }
});

test('a streamed answer fits its schema', async () => {
  const { text } = await post('/v1/chat/completions', { ...protocols[0][1](7), stream: true });
  const deltas = text.split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
  assertFits(deltas.map((delta) => delta.choices[0]?.delta.content ?? '').join(''));
});

test('expressions, grammars and choices hold, and end the answer', async () => {
  for (const [field, expected] of [
    [{ regex: '[ab]{3}-[0-9]{2}' }, /^[ab]{3}-[0-9]{2}$/], [{ grammar: 'root ::= ("cat" | "dog") "s"' }, /^(cat|dog)s$/],
    [{ guided_choice: ['yes', 'no'] }, /^(yes|no)$/], [{ structured_outputs: { grammar: 'start: "a"~2..3 "!"' } }, /^a{2,3}!$/],
  ]) {
    const { text } = await post('/v1/chat/completions', { messages, temperature: 2, ...field });
    const [choice] = JSON.parse(text).choices;
    assert.match(choice.message.content, expected);
    assert.equal(choice.finish_reason, 'stop');
  }
});

test('an answer that is cut says so', async () => {
  const { text } = await post('/v1/chat/completions', { messages, max_tokens: 3, response_format: { type: 'json_object' } });
  assert.equal(JSON.parse(text).choices[0].finish_reason, 'length');
});

test('a schema that cannot be held to is refused with its place, and never answered', async () => {
  const bad = { type: 'object', properties: { a: { type: 'string', pattern: '(x)\\1' } } };
  for (const [path, body] of [
    ['/v1/chat/completions', { messages, response_format: { type: 'json_schema', json_schema: { name: 'x', schema: bad } } }],
    ['/v1/responses', { input: messages, text: { format: { type: 'json_schema', name: 'x', schema: bad } } }],
    ['/v1/messages', { messages, max_tokens: 9, output_config: { format: { type: 'json_schema', schema: bad } } }],
    ['/api/chat', { messages, format: bad }], ['/api/generate', { prompt: 'x', raw: true, format: bad }],
    ['/completion', { prompt: 'x', json_schema: bad }], ['/v1/completions', { prompt: 'x', guided_json: bad }],
  ]) {
    const { status, text } = await post(path, body);
    assert.equal(status, 400, text);
    assert.match(text, /\/properties\/a\/pattern: a backreference/);
  }
});

// Every field by which some server's clients ask for a form: what of it holds, and what of it is wrong.
const fields = {
  response_format: [{ type: 'json_schema', json_schema: format }, assertFits, { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'colour' } } }],
  'response_format ': [{ type: 'json_object' }, (text) => assert.match(text, /^\{\s*["}]/), { type: 'json_objects' }],
  json_schema: [schema, assertFits, { $ref: '#/none' }],
  grammar: ['root ::= "left" | "right"', (text) => assert.match(text, /^(left|right)$/), 'root ::= other'],
  guided_json: [schema, assertFits, { minimum: 'x' }],
  guided_regex: ['[0-9]{3}', (text) => assert.match(text, /^[0-9]{3}$/), '(a'],
  guided_choice: [['up', 'down'], (text) => assert.match(text, /^(up|down)$/), ['up', 1]],
  guided_grammar: ['start: "a" | "b"', (text) => assert.match(text, /^[ab]$/), 'start: other'],
  regex: ['x{2}y?', (text) => assert.match(text, /^x{2}y?$/), '[z-a]'],
  ebnf: ['root ::= [c-e]', (text) => assert.match(text, /^[c-e]$/), 'root = ['],
  'structured_outputs json': [{ json: schema }, assertFits, { json: { enum: [] } }],
  'structured_outputs regex': [{ regex: 'z' }, (text) => assert.equal(text, 'z'), { regex: '*' }],
  'structured_outputs choice': [{ choice: ['p', 'q'] }, (text) => assert.match(text, /^[pq]$/), { choice: 7 }],
  'structured_outputs grammar': [{ grammar: 'root ::= "m"' }, (text) => assert.equal(text, 'm'), { grammar: 'root ::= (' }],
  format: [schema, assertFits, { type: 'object', properties: { a: { pattern: '(' } } }],
  'text format': [{ format }, assertFits, { format: { type: 'json_schema', name: 'x', schema: { type: 7 } } }],
  'output_config format': [{ format: { type: 'json_schema', schema } }, assertFits, { format: { type: 'json_schema', schema: { required: 'a' } } }],
};

const errorOf = {
  '/v1/messages': (a) => (assert.equal(a.type, 'error'), assert.equal(a.error.type, 'invalid_request_error'), a.error.message),
  '/api/chat': (a) => a.error, '/api/generate': (a) => a.error,
};
const errorText = (path, text) => (errorOf[path] ?? ((a) => (assert.equal(a.error.type, 'invalid_request_error'), a.error.message)))(JSON.parse(text));

test('no field that asks for a form is answered without it', async () => {
  const plain = {
    '/v1/chat/completions': { messages, temperature: 2, max_tokens: 400 }, '/v1/responses': { input: messages, temperature: 2, max_output_tokens: 400 },
    '/v1/messages': { messages, max_tokens: 400 }, '/api/chat': { messages, stream: false, options: { temperature: 2, num_predict: 400 } },
    '/api/generate': { prompt: 'x', raw: true, stream: false, options: { temperature: 2, num_predict: 400 } },
    '/completion': { prompt: 'x', temperature: 2, n_predict: 400 }, '/v1/completions': { prompt: 'x', temperature: 2, max_tokens: 400 },
  };
  let held = 0;
  for (const [path, , textOf] of protocols) {
    for (const [name, [good, check, bad]] of Object.entries(fields)) {
      const field = name.split(' ')[0];
      const { status, text } = await post(path, { ...plain[path], warnings: true, [field]: good });
      if (status === 200) {
        // A field of another protocol, which this one's clients do not know: it may be without effect where that is told.
        const answer = JSON.parse(text);
        if (!(answer.warnings ?? []).some((warning) => JSON.stringify(warning).includes(field))) {
          try { check(textOf(answer)); } catch (error) { assert.fail(`${path} ${name}: ${error.message}`); }
          ++held;
        }
      } else {
        assert.equal(status, 400, `${path} ${name}: ${text}`);
        assert.ok(errorText(path, text).includes(field), `${path} ${name}: ${text}`);
      }
      const wrong = await post(path, { ...plain[path], warnings: true, [field]: bad });
      if (status === 200 && wrong.status === 200) {
        assert.ok(JSON.stringify(JSON.parse(wrong.text).warnings ?? []).includes(field), `${path} ${name}: ${wrong.text}`);
        continue;
      }
      assert.equal(wrong.status, 400, `${path} ${name}: ${wrong.text}`);
      assert.ok(errorText(path, wrong.text).includes(field), `${path} ${name}: ${wrong.text}`);
    }
  }
  assert.ok(held >= 40, `${held} fields hold`);
});

test('answers held to schemas of their own are the same bytes alone, among others, preempted and with drafts', async (t) => {
  const many = 24;
  // Half of them are held, to lists that differ.
  const request = (i) => ({
    prompt: `Item ${i}.`, seed: i, temperature: 1.5, max_tokens: 120,
    ...(i % 2 === 0 ? {} : { structured_outputs: { json: { type: 'array', minItems: 40, items: { ...schema, properties: { ...schema.properties, colour: { enum: ['red', `shade ${i}`] } } } } } }),
  });
  const answer = async (to, i) => {
    const reply = await to.post('/v1/completions', request(i));
    assert.equal(reply.status, 200);
    const { choices, timings } = await reply.json();
    return { text: choices[0].text, drafted: timings.draft_n };
  };
  const together = (to) => Promise.all(Array.from({ length: many }, (_, i) => answer(to, i)));
  const alone = [];
  for (let i = 0; i < many; ++i) alone.push((await answer(server, i)).text);
  assert.ok(alone[1].startsWith('[') && alone[1].includes('"colour"'), alone[1]);
  // Memory for a quarter of them.
  const small = await serve(storyTrainedFor(512), ['--kv-bytes', '1000000', '--parallel-max', `${many}`]);
  t.after(() => small.stop());
  const drafting = await serve(storyTrainedFor(2048), ['--speculate', '4', '--parallel-max', `${many}`]);
  t.after(() => drafting.stop());
  assert.deepEqual((await together(small)).map(({ text }) => text), alone);
  const { preemptions } = await (await fetch(`${small.url}/stats`)).json();
  assert.ok(preemptions > 0);
  let drafted = 0;
  for (let round = 0; round < 5 && drafted === 0; ++round) {
    const answers = await together(drafting);
    assert.deepEqual(answers.map(({ text }) => text), alone);
    drafted = answers.reduce((sum, each, i) => sum + (i % 2 === 1 ? each.drafted : 0), 0);
  }
  assert.ok(drafted > 0);
});

test('a required call names a tool and follows its schema', async () => {
  const tool = (name, properties) => ({ type: 'function', function: { name, strict: true, parameters: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false } } });
  const tools = [tool('paint', { colour: { enum: ['red', 'green'] } }), tool('count', { to: { type: 'integer', minimum: 1, maximum: 9 } })];
  for (let seed = 0; seed < 10; ++seed) {
    const { text } = await post('/v1/chat/completions', { messages, tools, tool_choice: 'required', parallel_tool_calls: false, seed, temperature: 2, max_tokens: 300 });
    const { name, arguments: given } = JSON.parse(text).choices[0].message.tool_calls[0].function;
    const value = JSON.parse(given);
    assert.ok(name === 'paint' ? ['red', 'green'].includes(value.colour) : value.to >= 1 && value.to <= 9, text);
  }
});

test('in Harmony\'s channels the final one has the form, behind any thinking, or a call takes its place', async (t) => {
  const template = path.join(fixtures, 'chat-templates', 'openai-gpt-oss-120b.jinja');
  const controls = ['<|start|>', '<|channel|>', '<|constrain|>', '<|message|>', '<|end|>', '<|call|>', '<|return|>'];
  const gpt = await serve(storyWithControls(controls, [], 4096), ['--chat-template', template]);
  t.after(() => gpt.stop());
  const ask = async (route, body) => {
    const reply = await gpt.post(route, body);
    assert.equal(reply.status, 200);
    return reply.json();
  };
  const response_format = { type: 'json_schema', json_schema: format };
  let thoughts = 0, calls = 0;
  // What a model of random words begins with is chance.
  for (let seed = 0; seed < 12 || (seed < 80 && (thoughts === 0 || calls === 0)); ++seed) {
    const body = { messages, seed, temperature: 2, max_tokens: 400, thinking_budget: 6, response_format };
    const [{ message, finish_reason: finish }] = (await ask('/v1/chat/completions', body)).choices;
    assert.equal(finish, 'stop');
    assertFits(message.content);
    thoughts += message.reasoning_content ? 1 : 0;
    const tools = [{ type: 'function', function: { name: 'count', strict: true, parameters: schema } }];
    const [choice] = (await ask('/v1/chat/completions', { ...body, tools })).choices;
    if (choice.message.tool_calls) {
      assert.equal(choice.message.tool_calls.length, 1);
      assert.equal(choice.message.tool_calls[0].function.name, 'count');
      assertFits(choice.message.tool_calls[0].function.arguments);
      assert.ok(!choice.message.content, choice.message.content);
      assert.equal(choice.finish_reason, 'tool_calls');
    } else {
      assertFits(choice.message.content);
    }
    calls += choice.message.tool_calls ? 1 : 0;
  }
  assert.ok(thoughts > 0 && calls > 0, `${thoughts} answers have thoughts, ${calls} are calls`);
  // What Claude Code asks for a title with, and an answer that has begun.
  const title = await ask('/v1/messages', { messages, max_tokens: 400, thinking: { type: 'disabled' }, output_config: { format: { type: 'json_schema', schema } } });
  assertFits(title.content.find(({ type }) => type === 'text').text);
  const begun = [...messages, { role: 'assistant', content: '{"colour": "green"' }];
  const [{ message }] = (await ask('/v1/chat/completions', { messages: begun, temperature: 2, max_tokens: 400, response_format })).choices;
  assertFits('{"colour": "green"' + message.content.replace('{"colour": "green"', ''));
});

test('a custom tool\'s input follows its grammar', async () => {
  const definition = 'start: "SELECT " NAME ("," NAME)~0..2\nNAME: /[a-z"]{1,5}/\n';
  const expected = /^SELECT [a-z"]{1,5}(,[a-z"]{1,5}){0,2}$/;
  for (let seed = 0; seed < 5; ++seed) {
    const body = { seed, temperature: 2, parallel_tool_calls: false };
    const custom = { name: 'query', format: { type: 'grammar', grammar: { syntax: 'lark', definition } } };
    const chat = await post('/v1/chat/completions', { ...body, messages, max_tokens: 300, tools: [{ type: 'custom', custom }], tool_choice: { type: 'custom', custom: { name: 'query' } } });
    assert.match(JSON.parse(chat.text).choices[0].message.tool_calls[0].custom.input, expected, chat.text);
    const tools = [{ type: 'custom', name: 'query', format: { type: 'grammar', syntax: 'lark', definition } }];
    const response = await post('/v1/responses', { ...body, input: messages, max_output_tokens: 300, tools, tool_choice: 'required' });
    assert.match(JSON.parse(response.text).output.at(-1).input, expected, response.text);
  }
  const bad = { type: 'custom', custom: { name: 'query', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: lost' } } } };
  const { status, text } = await post('/v1/chat/completions', { messages, tools: [bad] });
  assert.equal(status, 400);
  assert.match(text, /query.*lost is not defined/);
});

test('a strict tool whose schema cannot be held to is refused by name, and others are not', async () => {
  const parameters = { type: 'object', properties: { a: { type: 'string', pattern: '(x)\\1' } } };
  const tool = (strict) => ({ type: 'function', function: { name: 'odd', strict, parameters } });
  const refused = await post('/v1/chat/completions', { messages, tools: [tool(true)] });
  assert.equal(refused.status, 400);
  assert.match(refused.text, /odd: parameters\/properties\/a\/pattern: a backreference/);
  assert.equal((await post('/v1/chat/completions', { messages, tools: [tool(false)], max_tokens: 3 })).status, 200);
});

test('objects have their declared keys only, in every protocol, and required calls follow their schema', async () => {
  const form = { type: 'object', properties: { name: { type: 'string', maxLength: 8 }, capital: { type: 'string', maxLength: 8 } }, required: ['name', 'capital'] };
  const check = (text) => assert.deepEqual(Object.keys(JSON.parse(text)), ['name', 'capital'], text);
  for (const [path, body, textOf] of [
    ['/v1/chat/completions', { messages, max_tokens: 200, response_format: { type: 'json_schema', json_schema: { name: 'x', schema: form } } }, (a) => a.choices[0].message.content],
    ['/api/chat', { messages, stream: false, format: form, options: { num_predict: 200 } }, (a) => a.message.content],
    ['/v1/messages', { messages, max_tokens: 200, output_config: { format: { type: 'json_schema', schema: form } } }, (a) => a.content[0].text],
    ['/v1/responses', { input: 'x', max_output_tokens: 200, text: { format: { type: 'json_schema', name: 'x', schema: form } } }, (a) => a.output.at(-1).content[0].text],
    ['/completion', { prompt: 'x', n_predict: 200, json_schema: form }, (a) => a.content],
    ['/v1/chat/completions', { messages, max_tokens: 200, tools: [{ type: 'function', function: { name: 'f', parameters: form } }], tool_choice: 'required' }, (a) => a.choices[0].message.tool_calls[0].function.arguments],
    ['/v1/messages', { messages, max_tokens: 200, tools: [{ name: 'f', input_schema: form }], tool_choice: { type: 'any' } }, (a) => JSON.stringify(a.content.find((part) => part.type === 'tool_use').input)],
  ]) {
    for (let seed = 0; seed < 2; ++seed) {
      const { status, text } = await post(path, { ...body, seed, temperature: 1.5 });
      assert.equal(status, 200, text);
      check(textOf(JSON.parse(text)));
    }
  }
});

test('a lazy grammar begins at its trigger and ends the answer', async () => {
  const { tokens: [token] } = JSON.parse((await post('/tokenize', { content: 'Lily', add_special: false })).text);
  const lazy = { grammar: 'root ::= "Lily: " ("yes" | "no")', grammar_lazy: true, grammar_triggers: [{ type: 1, value: 'Lily' }], logit_bias: [[token, 8]] };
  for (const [path, body, textOf] of [
    ['/completion', { prompt: 'Once', n_predict: 400, ...lazy }, (a) => a.content],
    ['/v1/chat/completions', { messages, max_tokens: 400, ...lazy, logit_bias: { [token]: 8 } }, (a) => a.choices[0].message.content],
  ]) {
    for (let seed = 0; seed < 3; ++seed) {
      const { text } = await post(path, { ...body, seed, temperature: 2 });
      const answer = textOf(JSON.parse(text));
      assert.ok(!answer.includes('Lily') || /^[^]*?Lily: (yes|no)$/.test(answer), answer);
    }
  }
  const other = await post('/completion', { prompt: 'x', ...lazy, grammar_triggers: [{ type: 1, value: 'Tim' }] });
  assert.equal(other.status, 400);
});
