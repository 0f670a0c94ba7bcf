// A prompt or a text that is longer than the context, on every endpoint that can get one: each says both counts, and which
// field is too long, in its protocol's shape.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { addRankHead } from './rank_head.mjs';
import { fixtures, serve, storyWith } from './server.mjs';

const kContext = 512;
const kBertWidth = 64;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-context-'));
const servers = {};
before(async () => {
  const bert = path.join(fixtures, 'models', 'bert.gguf');
  const ranker = path.join(folder, 'ranker.gguf');
  addRankHead(bert, ranker, kBertWidth);
  const fim = { 'tokenizer.ggml.prefix_token_id': 500, 'tokenizer.ggml.fim_suf_token_id': 501, 'tokenizer.ggml.fim_mid_token_id': 502 };
  servers.story = await serve(storyWith(fim), ['-n', '4']);
  servers.bert = await serve(bert);
  servers.ranker = await serve(ranker);
});
after(async () => {
  for (const server of Object.values(servers)) await server.stop();
  fs.rmSync(folder, { recursive: true });
});

const user = (content) => [{ role: 'user', content }];
const shapes = {
  openai: ({ error }) => {
    assert.deepEqual([error.code, error.type], ['context_length_exceeded', 'invalid_request_error']);
    return error;
  },
  llama: ({ error }) => {
    assert.deepEqual([error.code, error.type], ['context_length_exceeded', 'exceed_context_size_error']);
    return error;
  },
  anthropic: ({ type, error }) => {
    assert.deepEqual([type, error.type], ['error', 'invalid_request_error']);
    return error;
  },
  ollama: (body) => {
    assert.equal(typeof body.error, 'string');
    return { ...body, message: body.error };
  },
};
// The endpoint, who answers it, the shape of its errors, its body with a text that is too long, and the field that has it.
const rows = [
  ['/v1/chat/completions', 'story', 'openai', (long) => ({ messages: user(long) }), 'messages'],
  ['/v1/chat/completions', 'story', 'openai', (long) => ({ messages: user(long), stream: true }), 'messages'],
  ['/chat/completions', 'story', 'llama', (long) => ({ messages: user(long) }), 'messages'],
  ['/v1/completions', 'story', 'openai', (long) => ({ prompt: long }), 'prompt'],
  ['/v1/completions', 'story', 'openai', (long) => ({ prompt: ['A cat.', long], n: 2 }), 'prompt[1]'],
  ['/v1/completions', 'story', 'openai', (long) => ({ prompt: long, suffix: 'The end.' }), 'prompt'],
  ['/v1/responses', 'story', 'openai', (long) => ({ input: long }), 'input'],
  ['/v1/responses', 'story', 'openai', (long) => ({ input: [{ role: 'user', content: long }], stream: true }), 'input'],
  ['/v1/messages', 'story', 'anthropic', (long) => ({ max_tokens: 4, messages: user(long) })],
  ['/v1/messages', 'story', 'anthropic', (long) => ({ max_tokens: 4, system: long, messages: user('Hi'), stream: true })],
  ['/api/chat', 'story', 'ollama', (long) => ({ messages: user(long) })],
  ['/api/generate', 'story', 'ollama', (long) => ({ prompt: long })],
  ['/api/generate', 'story', 'ollama', (long) => ({ prompt: long, raw: true })],
  ['/api/generate', 'story', 'ollama', (long) => ({ prompt: long, suffix: 'The end.' })],
  ['/completion', 'story', 'llama', (long) => ({ prompt: long }), 'prompt'],
  ['/completion', 'story', 'llama', (long) => ({ prompt: ['A cat.', 'A dog.', long] }), 'prompt[2]'],
  ['/completion', 'story', 'llama', (long) => ({ prompt: [1, long] }), 'prompt'],
  ['/infill', 'story', 'llama', (long) => ({ input_prefix: long, input_suffix: 'The end.' }), 'input_prefix'],
  ['/api/v0/chat/completions', 'story', 'openai', (long) => ({ messages: user(long) }), 'messages'],
  ['/api/v0/completions', 'story', 'openai', (long) => ({ prompt: long }), 'prompt'],
  ...['story', 'bert'].flatMap((model) => [
    ['/v1/embeddings', model, 'openai', (long) => ({ input: long }), 'input'],
    ['/v1/embeddings', model, 'openai', (long) => ({ input: ['A cat.', long] }), 'input[1]'],
    ['/v1/embeddings', model, 'openai', (long) => ({ input: [5, long] }), 'input'],
    ['/api/v0/embeddings', model, 'openai', (long) => ({ input: [long] }), 'input[0]'],
    ['/embedding', model, 'llama', (long) => ({ content: long }), 'content'],
    ['/embeddings', model, 'llama', (long) => ({ input: ['A cat.', 'A dog.', long] }), 'input[2]'],
    ['/embed', model, 'llama', (long) => ({ inputs: long }), 'inputs'],
    ['/embed', model, 'llama', (long) => ({ inputs: ['A cat.', long] }), 'inputs[1]'],
    ['/api/embed', model, 'ollama', (long) => ({ input: ['A cat.', long], truncate: false })],
    ['/api/embeddings', model, 'ollama', (long) => ({ prompt: long, truncate: false })],
  ]),
  ['/v1/rerank', 'ranker', 'openai', (long) => ({ query: 'cats', documents: ['A cat.', { text: long }] }), 'documents[1]'],
  ['/v1/rerank', 'ranker', 'openai', (long) => ({ query: long, documents: ['A cat.'] }), 'query'],
  ['/v1/rerank', 'ranker', 'openai', (long) => ({ query: long, documents: ['A cat.'], truncate: true }), 'query'],
  ['/v2/rerank', 'ranker', 'llama', (long) => ({ query: 'cats', documents: [long] }), 'documents[0]'],
  ['/rerank', 'ranker', 'llama', (long) => ({ query: 'cats', texts: ['A cat.', long] }), 'texts[1]'],
];

// A little too long, which is counted, and so long that nobody counts.
const texts = { long: 'the cat sat '.repeat(250), huge: 'the cat sat '.repeat(30_000) };
for (const [route, model, shape, body, param] of rows) {
  for (const [length, text] of Object.entries(texts)) {
    test(`${route} of ${model} with a ${length} text: ${JSON.stringify(body('...'))}`, async () => {
      const response = await servers[model].post(route, body(text));
      const answer = await response.json();
      assert.equal(response.status, 400, JSON.stringify(answer).slice(0, 300));
      const error = shapes[shape](answer);
      const { n_ctx: context, n_prompt_tokens: tokens } = error;
      assert.equal(context, kContext, JSON.stringify(answer));
      assert.ok(Number.isInteger(tokens) && tokens >= kContext, JSON.stringify(answer));
      assert.match(error.message, new RegExp(`\\b${tokens}\\b`));
      if (param) assert.equal(error.param, param);
    });
  }
}

test('counting the tokens of a conversation that is far too long says the same', async () => {
  const count = (route, body) => servers.story.post(route, body).then((response) => response.json());
  const openai = (await count('/v1/chat/completions/input_tokens', { messages: user(texts.huge) })).error;
  assert.deepEqual([openai.param, openai.n_ctx, openai.code], ['messages', kContext, 'context_length_exceeded']);
  const responses = (await count('/v1/responses/input_tokens', { input: texts.huge })).error;
  assert.deepEqual([responses.param, responses.n_ctx], ['input', kContext]);
  const anthropic = (await count('/v1/messages/count_tokens', { messages: user(texts.huge) })).error;
  assert.equal(anthropic.n_ctx, kContext);
});

test('what can be cut is told so, and then it is', async () => {
  const { error } = await (await servers.bert.post('/v1/embeddings', { input: texts.long })).json();
  assert.match(error.message, /^input has \d+ tokens, .*"truncate": true/);
  assert.equal((await servers.bert.post('/v1/embeddings', { input: texts.long, truncate: true })).status, 200);
});
