// Embeddings and reranking: the real `openai` client against the real server, with encoders and with a decoder.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { cairn, fixtures, serve, story } from './server.mjs';
import { addRankHead } from './rank_head.mjs';

const width = 64;
const model = (name) => path.join(fixtures, 'models', `${name}.gguf`);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-embeddings-'));
const servers = {}, clients = {};
before(async () => {
  const ranker = path.join(folder, 'ranker.gguf');
  addRankHead(model('bert'), ranker, width);
  const files = { bert: model('bert'), nomic: model('nomic-bert'), jina: model('jina-bert-v2'), story, ranker };
  for (const [name, file] of Object.entries(files)) {
    servers[name] = await serve(file, ['--name', name, '--queue-max', '48']);
    clients[name] = new OpenAI({ baseURL: servers[name].url + '/v1', apiKey: 'none', maxRetries: 0 });
  }
});
after(async () => {
  for (const server of Object.values(servers)) {
    const end = await server.stop();
    assert.equal(end.code, 0, end.log);
  }
  fs.rmSync(folder, { recursive: true });
});

const norm = (vector) => Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0));
const embed = async (name, input, more = {}) => (await clients[name].embeddings.create({ model: name, input, ...more })).data.map((d) => d.embedding);
const rejects = (promise, kind, pattern, param, code) =>
  assert.rejects(promise, (error) => {
    assert.ok(error instanceof kind, `${error.constructor.name}: ${error.message}`);
    assert.match(error.message, pattern);
    if (param) assert.equal(error.param, param);
    if (code) assert.equal(error.code, code);
    return true;
  });

for (const name of ['bert', 'nomic', 'jina', 'story']) {
  test(`${name}: a text has a vector of length 1, and usage`, async () => {
    const answer = await clients[name].embeddings.create({ model: name, input: 'a dog and a cat', user: 'somebody' });
    assert.equal(answer.object, 'list');
    assert.equal(answer.model, name);
    assert.equal(answer.data.length, 1);
    assert.equal(answer.data[0].object, 'embedding');
    assert.equal(answer.data[0].index, 0);
    const dimensions = name === 'story' ? 64 : width;
    assert.equal(answer.data[0].embedding.length, dimensions);
    assert.ok(Math.abs(norm(answer.data[0].embedding) - 1) < 1e-5);
    assert.ok(answer.usage.prompt_tokens > 3);
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens);
    // The client asks for base64 and decodes it; numbers in JSON are the same ones, written short.
    const [numbers] = await embed(name, 'a dog and a cat', { encoding_format: 'float' });
    assert.deepEqual(numbers.map(Math.fround), Array.from(answer.data[0].embedding));
  });

  test(`${name}: 300 texts at once are the same as each alone`, async () => {
    const texts = Array.from({ length: 300 }, (_, i) => `the ${i % 7} dog ${'ran and '.repeat(i % 23)} cat ${i}`);
    const vectors = await embed(name, texts);
    assert.equal(vectors.length, 300);
    for (const i of [0, 1, 22, 150, 299]) assert.deepEqual(await embed(name, texts[i]), [vectors[i]]);
  });

  test(`${name}: token ids are texts too`, async () => {
    const { tokens } = await (await servers[name].post('/tokenize', { content: 'the dog', add_special: true })).json();
    const [text, other] = await embed(name, ['the dog', 'the cat']);
    assert.notDeepEqual(text, other);
    assert.deepEqual(await embed(name, tokens), [text]);
    assert.deepEqual(await embed(name, [tokens, tokens]), [text, text]);
  });

  test(`${name}: fewer dimensions are the first ones, of length 1 again`, async () => {
    const [whole] = await embed(name, 'the dog');
    const [part] = await embed(name, 'the dog', { dimensions: 10 });
    assert.equal(part.length, 10);
    assert.ok(Math.abs(norm(part) - 1) < 1e-5);
    const length = norm(whole.slice(0, 10));
    part.forEach((x, i) => assert.ok(Math.abs(x - whole[i] / length) < 1e-5));
  });

  test(`${name}: a text beyond the context is named with both counts, and cut on request`, async () => {
    const long = 'dog '.repeat(900);
    await rejects(embed(name, ['dog', 'cat', long]), OpenAI.BadRequestError, /input\[2\] has \d{3,} tokens.* 512/, 'input[2]', 'context_length_exceeded');
    const answer = await clients[name].embeddings.create({ model: name, input: ['dog', long], truncate: true });
    assert.equal(answer.data.length, 2);
    const { count } = await (await servers[name].post('/tokenize', { content: 'dog', add_special: true })).json();
    assert.equal(answer.usage.prompt_tokens, 512 + count);
    assert.deepEqual([answer.data[0].embedding], await embed(name, 'dog'));
  });
}

test('llama.cpp and TEI have shapes of their own', async () => {
  const post = async (path, body) => (await servers.bert.post(path, body)).json();
  const [dog, cat] = await embed('bert', ['the dog', 'the cat'], { encoding_format: 'float' });
  for (const path of ['/embedding', '/embeddings']) {
    assert.deepEqual(await post(path, { content: 'the dog' }), [{ index: 0, embedding: [dog] }]);
    assert.deepEqual(await post(path, { input: ['the dog', 'the cat'] }), [{ index: 0, embedding: [dog] }, { index: 1, embedding: [cat] }]);
  }
  assert.deepEqual(await post('/embed', { inputs: ['the dog', 'the cat'] }), [dog, cat]);
  assert.deepEqual(await post('/embed', { inputs: 'the dog' }), [dog]);
  const [raw] = await post('/embed', { inputs: 'the dog', normalize: false });
  const length = norm(raw);
  raw.forEach((x, i) => assert.ok(Math.abs(x / length - dog[i]) < 1e-5));
  assert.ok(Math.abs(length - 1) > 1e-3);
});

test('ids and texts may be one input', async () => {
  const { tokens } = await (await servers.bert.post('/tokenize', { content: 'the dog', add_special: true })).json();
  const mixed = [...tokens.slice(0, -1), 'cat', tokens.at(-1)];
  const cat = (await (await servers.bert.post('/tokenize', { content: 'cat' })).json()).tokens;
  assert.deepEqual(await embed('bert', mixed), await embed('bert', [...tokens.slice(0, -1), ...cat, tokens.at(-1)]));
});

test('errors name what is wrong', async () => {
  await rejects(embed('bert', 'x', { dimensions: 65 }), OpenAI.BadRequestError, /dimensions is 65.*64/, 'dimensions');
  await rejects(embed('bert', []), OpenAI.BadRequestError, /at least one/, 'input');
  await rejects(embed('bert', ['a', [5, 128]]), OpenAI.BadRequestError, /token 128/, 'input[1][1]');
  await rejects(embed('bert', ['a', []]), OpenAI.BadRequestError, /input\[1\] is empty/, 'input[1]');
  await rejects(embed('bert', 'a', { encoding_format: 'int8' }), OpenAI.BadRequestError, /encoding_format/, 'encoding_format');
  await rejects(embed('ranker', 'a'), OpenAI.BadRequestError, /v1\/rerank/, 'model');
});

test('an unknown field has no effect, and the one model answers every name', async () => {
  const { model, warnings } = await clients.bert.embeddings.create({ model: 'other', input: 'a', frobnicate: 1, warnings: true });
  assert.equal(model, 'bert');
  assert.match(warnings.join(), /frobnicate/);
});

test('an encoder is listed, and says where it can be asked', async () => {
  const models = await clients.bert.models.list();
  assert.deepEqual(models.data.map((m) => [m.id, m.context_length, m.architecture]), [['bert', 512, 'bert']]);
  const messages = [{ role: 'user', content: 'hello' }];
  await rejects(clients.bert.chat.completions.create({ model: 'bert', messages }), OpenAI.BadRequestError, /v1\/embeddings/, 'model');
  await rejects(clients.bert.completions.create({ model: 'bert', prompt: 'x' }), OpenAI.BadRequestError, /v1\/embeddings/, 'model');
  const stats = await (await fetch(servers.bert.url + '/stats')).json();
  assert.ok(stats.total_requests > 300 && stats.prompt_tokens_computed > 1000);
  assert.equal(stats.active_requests, 0);
});

test('the server answers others while it embeds, and stops when the client has gone', async () => {
  const texts = Array.from({ length: 3000 }, (_, i) => `${'dog '.repeat(200)}${i}`);
  const controller = new AbortController();
  const busy = servers.jina.post('/v1/embeddings', { input: texts }, { signal: controller.signal });
  let worst = 0;
  // So few that the texts are not done by then, however slow the machine answers.
  for (let i = 0; i < 5; ++i) {
    const begin = performance.now();
    assert.equal((await fetch(servers.jina.url + '/health')).status, 200);
    worst = Math.max(worst, performance.now() - begin);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.ok(worst < 1000, `a health check took ${worst} ms`);
  controller.abort();
  await assert.rejects(busy);
  const deadline = Date.now() + 20_000;
  let stats;
  do {
    await new Promise((resolve) => setTimeout(resolve, 50));
    stats = await (await fetch(servers.jina.url + '/stats')).json();
  } while ((stats.active_requests > 0 || stats.waiting_requests > 0) && Date.now() < deadline);
  assert.equal(stats.active_requests + stats.waiting_requests, 0);
  assert.ok(stats.total_requests < 3000, 'what was not begun must not be computed');
});

test('streams go on while a decoder embeds many texts', async () => {
  const texts = Array.from({ length: 200 }, (_, i) => `${'The dog ran to the park. '.repeat(10)}${i}`);
  const ask = () => clients.story.completions.create({ model: 'story', prompt: 'Once upon a time', max_tokens: 60, temperature: 0 });
  const alone = (await ask()).choices[0].text;
  const [vectors, beside] = await Promise.all([embed('story', texts), ask()]);
  assert.equal(vectors.length, 200);
  assert.equal(beside.choices[0].text, alone);
});

test('a reranker sorts documents by what its head says', async () => {
  const documents = ['a dog', { text: 'a cat and a dog' }, 'b', 'the end of it all'];
  const post = async (body) => (await servers.ranker.post('/v1/rerank', { query: 'dog', documents, ...body })).json();
  const all = await post({});
  assert.equal(all.model, 'ranker');
  assert.deepEqual(all.results.map((r) => r.index).sort(), [0, 1, 2, 3]);
  const scores = all.results.map((r) => r.relevance_score);
  assert.deepEqual(scores, [...scores].sort((a, b) => b - a));
  assert.ok(scores.every((s) => s > 0 && s < 1) && new Set(scores).size === 4);
  assert.ok(all.usage.total_tokens > 10 && !('document' in all.results[0]));
  const rich = await post({ documents: [{ text: 'a dog', id: 7, source: 'a.txt' }, 'b'], return_documents: true });
  assert.deepEqual(rich.results.find(({ index }) => index === 0).document, { text: 'a dog', id: 7, source: 'a.txt' });
  assert.deepEqual(rich.results.find(({ index }) => index === 1).document, { text: 'b' });
  const two = await post({ top_n: 2, return_documents: true });
  assert.deepEqual(two.results.map(({ index, relevance_score }) => ({ index, relevance_score })), all.results.slice(0, 2));
  const texts = documents.map((d) => d.text ?? d);
  for (const result of two.results) assert.deepEqual(result.document, { text: texts[result.index] });
  // Each pair is judged by itself.
  for (const path of ['/v1/rerank', '/v2/rerank', '/v1/reranking', '/reranking']) {
    const answer = await (await servers.ranker.post(path, { query: 'dog', documents, top_n: 2 })).json();
    assert.match(answer.id, /^rerank-/);
    assert.equal(answer.meta.api_version.version, '2');
    assert.equal(answer.results.length, 2);
  }
  const tei = await (await servers.ranker.post('/rerank', { query: 'dog', texts: documents, return_text: true })).json();
  assert.deepEqual(tei.map(({ index, score }) => [index, score]), (await post({})).results.map(({ index, relevance_score }) => [index, relevance_score]));
  tei.forEach(({ index, text }) => assert.equal(text, documents[index].text ?? documents[index]));
  const raw = await (await servers.ranker.post('/rerank', { query: 'dog', texts: documents, raw_scores: true })).json();
  raw.forEach(({ score }, i) => assert.ok(Math.abs(1 / (1 + Math.exp(-score)) - tei[i].score) < 1e-9));
  const cut = await (await servers.ranker.post('/v2/rerank', { query: 'dog', documents: ['cat dog dog dog'], max_tokens_per_doc: 1 })).json();
  const short = await (await servers.ranker.post('/v2/rerank', { query: 'dog', documents: ['cat'] })).json();
  assert.equal(cut.results[0].relevance_score, short.results[0].relevance_score);
  const one = await (await servers.ranker.post('/rerank', { query: 'dog', documents: [documents[1]] })).json();
  assert.equal(one.results[0].relevance_score, all.results.find((r) => r.index === 1).relevance_score);
});

// Files of the field's own converter, with transformers' tokens and scores.
for (const name of ['xlm-roberta', 'nomic_bert-moe', 'jina_embeddings_v3', 'modernbert', 'eurobert', 'embeddinggemma-dense', 'qwen3-embed']) {
  test(`${name}: tokens of texts and vectors are those of transformers`, async () => {
    const { runs, pooling } = JSON.parse(fs.readFileSync(path.join(fixtures, 'converted', `${name}.ref.json`)));
    const server = await serve(path.join(fixtures, 'converted', `${name}.gguf`), ['--kv-type', 'f32']);
    for (const { text, tokens, [`embedding_${pooling}`]: expected } of runs) {
      for (const input of text === undefined ? [tokens] : [text, tokens]) {
        const { data, usage } = await (await server.post('/v1/embeddings', { input })).json();
        assert.equal(usage.prompt_tokens, tokens.length);
        const [{ embedding }] = data;
        assert.equal(embedding.length, expected.length);
        assert.ok(Math.abs(norm(embedding) - 1) < 1e-5);
        const length = norm(expected);
        embedding.forEach((x, i) => assert.ok(Math.abs(x - expected[i] / length) < 1e-5, `${x} instead of ${expected[i] / length}`));
      }
    }
    await server.stop();
  });
}

for (const name of ['bert-rerank', 'roberta-rerank', 'xlm-roberta-rerank', 'modernbert-rerank', 'qwen3-reranker']) {
  test(`${name}: tokens of pairs and scores are those of transformers`, async () => {
    const file = path.join(fixtures, 'converted', `${name}.gguf`);
    const { runs, kind } = JSON.parse(fs.readFileSync(path.join(fixtures, 'converted', `${name}.ref.json`)));
    const server = await serve(file, ['--kv-type', 'f32']);
    for (const { query, document, tokens, token_types: types, score, score_without_pooler: unpooled } of runs) {
      const shown = cairn(['tokenize', file, '-p', query, '--pair', document]);
      assert.equal(shown.status, 0, shown.stderr);
      const lines = shown.stdout.trimEnd().split('\n').map((line) => line.trim().split(/\s+/));
      assert.deepEqual(lines.map(([id]) => Number(id)), tokens);
      if (name === 'bert-rerank') assert.deepEqual(lines.map(([, which]) => which), types.map((type) => 'AB'[type]));
      const { results, usage } = await (await server.post('/v1/rerank', { query, documents: [document] })).json();
      const [expected] = kind === 'yesno' ? score : (unpooled ?? score).map((logit) => 1 / (1 + Math.exp(-logit)));
      assert.ok(Math.abs(results[0].relevance_score - expected) < 1e-6, `${results[0].relevance_score} instead of ${expected}`);
      assert.equal(usage.prompt_tokens, tokens.length);
    }
    const refused = await server.post('/v1/embeddings', { input: 'a' });
    assert.match((await refused.json()).error.message, /v1\/rerank/);
    const { log } = await server.stop();
    assert.equal(/pooler/.test(log), name === 'bert-rerank', log);
  });
}

test('what cannot be ranked is refused', async () => {
  const refused = async (name, body) => {
    const response = await servers[name].post('/v1/rerank', body);
    assert.equal(response.status, 400);
    return (await response.json()).error;
  };
  assert.match((await refused('bert', { query: 'q', documents: ['a'] })).message, /no reranker/);
  assert.match((await refused('story', { query: 'q', documents: ['a'] })).message, /no reranker/);
  const long = await refused('ranker', { query: 'q', documents: ['a', 'dog '.repeat(600)] });
  assert.equal(long.code, 'context_length_exceeded');
  assert.equal(long.param, 'documents[1]');
  const cut = await servers.ranker.post('/v1/rerank', { query: 'q', documents: ['a', 'dog '.repeat(600)], truncate: true });
  assert.equal((await cut.json()).results.length, 2);
});

test('what is cut of a text to embed or to rank is told', async () => {
  const embed = async (more) => (await servers.bert.post('/v1/embeddings', { warnings: true, ...more })).json();
  const input = 'A dog ran to the park with a cat and a bird.';
  const all = await embed({ input });
  const cut = await embed({ input: [input, 'A dog.'], truncate_prompt_tokens: 6 });
  const { tokens } = await (await servers.bert.post('/tokenize', { content: input, add_special: true })).json();
  const ids = [...tokens.slice(0, 5), tokens.at(-1)];  // the closing token stays
  assert.deepEqual(cut.data[0].embedding, (await embed({ input: ids })).data[0].embedding);
  assert.deepEqual(cut.warnings, [`input[0] of a request to embed has ${tokens.length} tokens, of which the first 6 have a vector`]);
  assert.deepEqual(all.warnings, []);
  assert.deepEqual((await embed({ input, truncate_prompt_tokens: -1 })).data, all.data);
  const long = 'word '.repeat(9000);
  for (const [route, body] of [['/v1/embeddings', { truncate: true }], ['/v1/embeddings', { truncate_prompt_tokens: -1 }], ['/api/embed', {}]]) {
    const { warnings } = await (await servers.bert.post(route, { input: ['A dog.', long], warnings: true, ...body })).json();
    assert.equal(warnings.length, 1);
    assert.match(warnings[0], /^input\[1\] of a request to embed has \d+ tokens, of which the first \d+ have a vector$/);
  }
  const rank = await (await servers.ranker.post('/v1/rerank', { query: 'A dog?', documents: ['A cat.', input], truncate_prompt_tokens: 12, warnings: true })).json();
  assert.equal(rank.results.length, 2);
  assert.match(rank.warnings.join(), /^documents\[1\] and the query have \d+ tokens, of which the first 12 are ranked$/);
});
