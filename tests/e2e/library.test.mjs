// libcairn gives the bytes that the server gives: the program of examples/library/request.c against the real server, with
// the same requests to both.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { addRankHead } from './rank_head.mjs';
import { cairn, fixtures, program, serve, story } from './server.mjs';

const source = new URL('../../', import.meta.url).pathname;
const guide = path.join(source, 'models/guide/guide.gguf');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-library-'));
const client = path.join(folder, 'request');
const libraries = path.dirname(program);
const encoder = path.join(fixtures, 'models', 'bert.gguf'), ranker = path.join(folder, 'ranker.gguf');
const servers = {};

before(async () => {
  const built = spawnSync('cc', ['-std=c99', path.join(source, 'examples/library/request.c'), `-I${source}include`,
    `-L${libraries}`, '-lcairn', `-Wl,-rpath,${libraries}`, '-o', client], { encoding: 'utf8' });
  assert.equal(built.status, 0, built.stderr);
  addRankHead(encoder, ranker, 64);
  for (const file of [guide, story, encoder, ranker]) servers[file] = await serve(file);
});
after(async () => {
  for (const server of Object.values(servers)) {
    const end = await server.stop();
    assert.equal(end.code, 0, end.log);
  }
  fs.rmSync(folder, { recursive: true });
});

function library(file, what, request, options) {
  const done = spawnSync(client, [file, what, ...(options ? [JSON.stringify(options)] : [])], { input: JSON.stringify(request), encoding: 'utf8' });
  return { code: done.status, body: done.stdout && what !== 'template' ? JSON.parse(done.stdout) : done.stdout, error: done.stderr };
}

const paths = { chat: '/v1/chat/completions', complete: '/v1/completions', rerank: '/v1/rerank', embed: '/v1/embeddings' };
// What differs between two answers to the same request: ids, the time, how long it took, and how much of the prompt was in
// the cache, since the library is started anew for each.
const comparable = ({ id, created, timings, ...rest }) => {
  delete rest.usage?.prompt_tokens_details;
  for (const choice of rest.choices ?? []) for (const call of choice.message?.tool_calls ?? []) delete call.id;
  return rest;
};

async function expectSame(file, what, request) {
  const reply = await servers[file].post(paths[what], request);
  const told = await reply.json();
  const own = library(file, what, request);
  if (reply.status !== 200) {
    assert.equal(own.code, 1);
    return assert.deepEqual(JSON.parse(own.error), told);
  }
  assert.equal(own.code, 0, own.error);
  assert.deepEqual(comparable(own.body), comparable(told));
  return own.body;
}

const question = (content) => [{ role: 'user', content }];
const tools = [
  { type: 'function', function: { name: 'set_lamp', parameters: { type: 'object', properties: { on: { type: 'boolean' }, level: { type: 'integer' } }, required: ['on'], additionalProperties: false } } },
  { type: 'function', function: { name: 'wait', parameters: { type: 'object', properties: {} } } },
];
const schema = { type: 'object', properties: { name: { type: 'string', maxLength: 12 }, ok: { type: 'boolean' } }, required: ['name', 'ok'], additionalProperties: false };

test('chats with seeds, several choices and log-probabilities', async () => {
  for (const seed of [1, 2, 3])
    await expectSame(guide, 'chat', { messages: question('Who are you?'), seed, temperature: 1.2, n: 2, max_tokens: 30, logprobs: true, top_logprobs: 2 });
  await expectSame(guide, 'chat', { messages: question('How do I stop the server?'), temperature: 0, return_token_ids: true });
});

test('tools', async () => {
  for (const seed of [1, 2, 3, 4]) {
    const body = await expectSame(guide, 'chat', { messages: question('Turn on the lamp'), tools, tool_choice: 'required', seed, temperature: 1, max_tokens: 120 });
    assert.ok(body.choices[0].message.tool_calls.length > 0);
  }
  await expectSame(guide, 'chat', { messages: question('Hello'), tools, seed: 1, max_tokens: 40 });
});

test('structured output', async () => {
  const format = { type: 'json_schema', json_schema: { name: 'answer', schema } };
  for (const seed of [1, 2, 3]) {
    const body = await expectSame(guide, 'chat', { messages: question('Who are you?'), response_format: format, seed, temperature: 1, max_tokens: 200 });
    assert.equal(body.choices[0].finish_reason, 'stop');
    assert.equal(typeof JSON.parse(body.choices[0].message.content).ok, 'boolean');
  }
  await expectSame(story, 'complete', { prompt: 'A number:', regex: '[0-9]{5}', seed: 5, max_tokens: 20 });
});

test('completions of texts, lists and token ids', async () => {
  await expectSame(story, 'complete', { prompt: 'Once upon a time', seed: 9, temperature: 1, max_tokens: 60, echo: true, logprobs: 2 });
  await expectSame(story, 'complete', { prompt: ['Once', 'The dog'], n: 2, seed: 9, temperature: 1, max_tokens: 20 });
  await expectSame(story, 'complete', { prompt: [1, 403, 407, 261], temperature: 0, max_tokens: 20, stop: ['.'] });
});

test('what is refused is refused alike', async () => {
  for (const request of [{}, { messages: [] }, { messages: question(5) }, { messages: question('a'), temperature: 9e9 },
    { messages: question('a'), tool_choice: 'required' }, { messages: question('word '.repeat(5000)) },
    { messages: question('a'), response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'nonsense' } } } }])
    await expectSame(guide, 'chat', request);
  for (const request of [{}, { prompt: 5 }, { prompt: 'a', n: 1000 }, { prompt: [99999999] }]) await expectSame(story, 'complete', request);
  await expectSame(story, 'rerank', { query: 'a', documents: ['b'] });
  await expectSame(ranker, 'rerank', { documents: ['b'] });
});

test('vectors and relevance', async () => {
  const input = ['a dog', 'a cat and a dog', 'the sea'];
  const { data } = await (await servers[encoder].post('/v1/embeddings', { input })).json();
  const vectors = library(encoder, 'embed', { input });
  assert.equal(vectors.code, 0, vectors.error);
  assert.deepEqual(vectors.body.map((row) => row.map(Math.fround)), data.map(({ embedding }) => embedding.map(Math.fround)));
  await expectSame(ranker, 'rerank', { query: 'a dog', documents: input, return_documents: true, top_n: 2 });
});

test('templates', async () => {
  const request = { messages: [{ role: 'system', content: 'Be kind.' }, ...question('Hi')], tools };
  const { prompt } = await (await servers[guide].post('/apply-template', request)).json();
  assert.equal(library(guide, 'template', request).body, `${prompt}\n`);
});

test('the plan and the logits are those of the commands', () => {
  const small = path.join(folder, 'numbers');
  fs.writeFileSync(`${small}.c`, `
#include <cairn.h>
#include <stdio.h>
int main(int argc, char **argv) {
  cairn_error *error = NULL;
  const int32_t tokens[] = {1, 403, 407, 261, 378};
  size_t rows = 0, vocabulary = 0;
  char *plan = cairn_plan(argv[1], "{\\"ctx\\": 256, \\"kv-type\\": \\"f32\\"}", NULL, &error);
  cairn_model *model = cairn_model_open(argv[1], "{\\"ctx\\": 256, \\"kv-type\\": \\"f32\\"}", &error);
  float *logits = cairn_logits(model, tokens, 5, 0, &rows, &vocabulary, &error);
  if (plan == NULL || logits == NULL) { fprintf(stderr, "%s\\n", cairn_error_message(error)); return argc > 0; }
  printf("{\\"plan\\": %s, \\"logits\\": [", plan);
  for (size_t row = 0; row < rows; ++row)
    for (size_t i = 0; i < vocabulary; ++i)
      printf("%s%.9g%s", i == 0 ? row == 0 ? "[" : ",[" : ",", (double)logits[row * vocabulary + i], i + 1 == vocabulary ? "]" : "");
  printf("]}\\n");
  cairn_free(plan);
  cairn_free(logits);
  cairn_model_close(model);
  return 0;
}`);
  const built = spawnSync('cc', [`${small}.c`, `-I${source}include`, `-L${libraries}`, '-lcairn', `-Wl,-rpath,${libraries}`, '-o', small], { encoding: 'utf8' });
  assert.equal(built.status, 0, built.stderr);
  const run = spawnSync(small, [story], { encoding: 'utf8', maxBuffer: 1 << 28 });
  assert.equal(run.status, 0, run.stderr);
  const { plan, logits } = JSON.parse(run.stdout);
  const shown = cairn(['logits', story, '--tokens', '1,403,407,261,378', '--ctx', '256']);
  assert.equal(shown.code ?? shown.status, 0, shown.stderr);
  assert.deepEqual(logits, JSON.parse(shown.stdout).logits);
  const inspected = cairn(['inspect', story, '--json', '--ctx', '256', '--kv-type', 'f32']);
  assert.deepEqual(plan, JSON.parse(inspected.stdout).memory);
});
