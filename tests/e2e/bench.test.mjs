// `cairn bench serve` against our own server: what it prints, writes and counts agrees with what the server saw; and
// `cairn bench model`, `context` and `recall`.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { cairn, fixtures, program, serve, story, storyTrainedFor } from './server.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-bench-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));

let server;
before(async () => { server = await serve(story); });
after(() => server.stop());

// Not spawnSync: the server's log must be read meanwhile.
function bench(flags, url = server.url) {
  const csv = path.join(folder, 'out.csv');
  const child = spawn(program, ['bench', 'serve', '--url', url, '--csv', csv, ...flags]);
  let stdout = '', stderr = '';
  child.stdout.on('data', (bytes) => { stdout += bytes; });
  child.stderr.on('data', (bytes) => { stderr += bytes; });
  return new Promise((resolve) => child.on('close', (code) => {
    const [head, ...lines] = fs.existsSync(csv) ? fs.readFileSync(csv, 'utf8').trim().split('\n') : [''];
    const names = head.split(',');
    // Errors come last and are the only text with commas.
    const rows = lines.map((line) => Object.fromEntries(names.map((name, i) => [name, name === 'error' ? line.split(',').slice(i).join() : line.split(',')[i]])));
    resolve({ code, stdout, stderr, rows });
  }));
}
const sum = (rows, name) => rows.reduce((total, row) => total + Number(row[name]), 0);
const stats = async () => (await fetch(`${server.url}/stats`)).json();

test('a closed loop: lines, table and the server\'s own counts agree', async () => {
  const before = await stats();
  const { code, stdout, stderr, rows } = await bench(['--clients', '4', '--requests', '12', '--max-tokens', '10']);
  const after = await stats();
  assert.equal(code, 0, stderr);
  assert.equal(rows.length, 12);
  assert.deepEqual(rows.map((row) => Number(row.index)), Array.from({ length: 12 }, (_, i) => i));
  for (const row of rows) {
    assert.equal(row.status, '200');
    assert.equal(row.error, '""');
    assert.ok(Number(row.first_ms) > 0 && Number(row.first_ms) <= Number(row.total_ms));
    assert.ok(Number(row.completion_tokens) <= 10);
  }
  assert.match(stdout, /12 requests in \S+ s: 12 answered, 0 failed/);
  assert.ok(stdout.includes(`${sum(rows, 'completion_tokens')} tokens answered`), stdout);
  assert.ok(stdout.includes(`${sum(rows, 'prompt_tokens')} prompt tokens, ${sum(rows, 'cached_tokens')} of them cached`), stdout);
  assert.match(stdout, /between tokens +\d/);
  assert.equal(after.total_requests - before.total_requests, 12);
  assert.equal(after.tokens_generated - before.tokens_generated, sum(rows, 'completion_tokens'));
});

test('an open loop sends at the seed\'s times, and the same prompts as any loop', async () => {
  const flags = ['--requests', '20', '--max-tokens', '4', '--seed', '7', '--mix', 'chat,shared', '--words', '30'];
  const open = await bench(['--rate', '40', ...flags]);
  assert.equal(open.code, 0, open.stderr);
  assert.equal(open.rows.length, 20);
  const starts = open.rows.map((row) => Number(row.start_s));
  assert.deepEqual(starts, [...starts].sort((a, b) => a - b));
  assert.ok(starts[19] > 0.1 && starts[19] < 3, `${starts[19]} s for 20 requests at 40/s`);
  assert.match(open.stdout, /\nchat only\n[\s\S]*\nshared only\n/);
  const closed = await bench(['--clients', '2', ...flags]);
  const prompts = ({ rows }) => rows.map((row) => `${row.mix} ${row.prompt_tokens}`);
  assert.deepEqual(prompts(closed), prompts(open));
  assert.ok(sum(closed.rows, 'cached_tokens') > 0);
});

test('an agent\'s next turn finds its history in the cache', async () => {
  const roomy = await serve(storyTrainedFor(2048));
  const { code, rows, stderr } = await bench(['--mix', 'agent', '--clients', '1', '--requests', '5', '--turns', '5', '--words', '12', '--max-tokens', '12'], roomy.url);
  await roomy.stop();
  assert.equal(code, 0, stderr);
  for (let turn = 1; turn < 5; ++turn) {
    const [before, now] = [rows[turn - 1], rows[turn]].map((row) => ({ prompt: Number(row.prompt_tokens), cached: Number(row.cached_tokens) }));
    assert.ok(now.prompt > before.prompt);
    assert.ok(now.cached >= before.prompt * 0.9, `turn ${turn}: ${now.cached} cached of ${before.prompt} before`);
  }
});

test('failures are counted by status and shown', async () => {
  const small = await serve(story, ['--queue-max', '1', '--parallel-max', '1']);
  const { code, stdout, rows } = await bench(['--endpoint', 'completions', '--clients', '16', '--requests', '40', '--extra', '{"ignore_eos": true}'], small.url);
  await small.stop();
  assert.equal(code, 0);
  assert.equal(rows.length, 40);
  const refused = rows.filter((row) => row.status === '429');
  assert.ok(refused.length > 0);
  assert.ok(stdout.includes(`${refused.length} x status 429, first: `), stdout);
  for (const row of refused) assert.ok(row.error.length > 2);
  // On a busy machine the server may break off an answer, too, since this client reads it late.
  const answered = rows.filter(({ error }) => error.length <= 2);  // two quotes
  assert.ok(stdout.includes(`${answered.length} answered, ${40 - answered.length} failed`), stdout);
  for (const row of answered) assert.equal(row.completion_tokens, '48');
});

test('no text of a server moves the cursor', async () => {
  const rude = '\x1b[31mred\x1b]0;title\x07\u009b31m\u202e';
  const stub = http.createServer((request, response) => {
    response.writeHead(request.method === 'GET' ? 200 : 400, { 'content-type': 'application/json' });
    response.end(JSON.stringify(request.method === 'GET' ? { data: [{ id: `m${rude}` }] } : { error: { message: `bad${rude}` } }));
  });
  await new Promise((done) => { stub.listen(0, '127.0.0.1', done); });
  try {
    for (const flags of [[], ['--warmup', '1']]) {
      const run = await bench(['--requests', '1', ...flags], `http://127.0.0.1:${stub.address().port}`);
      assert.match(run.stdout + run.stderr, /\\x1b\[31mred/);
      assert.doesNotMatch(run.stdout + run.stderr + JSON.stringify(run.rows), /[\x1b\x07\u0080-\u009f\u202e]|\\u001b/);
    }
  } finally {
    stub.close();
  }
});

test('what cannot be measured is said in one line', async () => {
  for (const [flags, url, pattern] of [
    [[], 'http://127.0.0.1:1', /cannot connect/],
    [['--mix', 'novel'], server.url, /"novel" is not one of chat, agent, long, shared/],
    [['--extra', '[]'], server.url, /--extra/],
    [['--requests', '3', '--extra', '{"temperature": -9}'], server.url, /no request was answered/],
  ]) {
    const run = await bench(flags, url);
    assert.notEqual(run.code, 0, flags.join(' '));
    assert.match(run.stderr, pattern);
    assert.equal(run.stderr.trim().split('\n').length, 1, run.stderr);
  }
  assert.match((await bench(['--rate', '5', '--clients', '2'])).stderr, /--clients excludes --rate/);
});

test('a model alone: its speeds are those of the tokens that were asked for', () => {
  // Room for what is written before a late reader looks.
  const long = storyTrainedFor(4096);
  const begin = performance.now();
  const run = cairn(['bench', 'model', long, '--sequences', '3', '--prompt', '100', '--answer', '100', '--threads', '1', '--ctx', '4096']);
  const seconds = (performance.now() - begin) / 1000;
  assert.equal(run.status, 0, run.stderr);
  const result = JSON.parse(run.stdout);
  assert.match(result.backend, /^cpu \w+, 1 thread$/);
  assert.deepEqual([result.sequences, result.prompt_tokens, result.answer_tokens], [3, 100, 100]);
  const measured = (3 * 100) / result.prefill_tokens_per_s + (3 * 100) / result.decode_tokens_per_s;
  assert.ok(measured > seconds / 20 && measured < seconds, `${measured} s measured of ${seconds}`);  // the rest is for loading
  // In the second the first sequence ends while the prompts of the others are read.
  for (const flags of [['--prompt', '100', '--answer', '40', '--ctx', '120'], ['--sequences', '3', '--prompt', '2000', '--answer', '5', '--ctx', '2003']]) {
    const short = cairn(['bench', 'model', long, ...flags]);
    assert.equal(short.status, 1);
    assert.match(short.stderr, /context's end; give it more with --ctx/);
  }
});

test('a model alone has a context in which a late reader stops before its end, where it was trained for one', () => {
  const contextOf = (model, ...flags) => {
    const run = cairn(['bench', 'model', model, '--threads', '1', '--log-level', 'info', ...flags]);
    assert.equal(run.status, 0, run.stderr);
    return Number(run.stderr.match(/context: (\d+) tokens/)[1]);
  };
  // 256 tokens may wait for a reader before the engine stops for it.
  assert.ok(contextOf(storyTrainedFor(4096), '--prompt', '4', '--answer', '2') > 4 + 2 + 256);
  assert.equal(contextOf(story, '--prompt', '300', '--answer', '10'), 512);
});

test('a model far into a context that is filled instead of computed: memory as planned', () => {
  const model = path.join(folder, 'deep.gguf');
  const made = cairn(['synth', model, '--arch', 'deepseek4', '--ratios', '0,4,128', '--context', '40000']);
  assert.equal(made.status, 0, made.stderr);
  const run = cairn(['bench', 'model', model, '--depth', '30000', '--answer', '5', '--threads', '1']);
  assert.equal(run.status, 0, run.stderr);
  const result = JSON.parse(run.stdout);
  assert.deepEqual([result.depth_tokens, result.computed_tokens, result.answer_tokens], [30000, 512 + 30000 % 32, 5]);
  assert.ok(result.decode_tokens_per_s > 0);
  const { weights, scratch, kv } = result.planned_bytes;
  assert.ok(result.buffer_bytes > kv && result.buffer_bytes <= weights + scratch + kv, run.stdout);
  const both = cairn(['bench', 'model', model, '--depth', '3000', '--ctx', '4000']);
  assert.equal(both.status, 1);
  assert.match(both.stderr, /leave out --ctx/);
  const far = cairn(['bench', 'model', model, '--depth', '50000']);
  assert.match(far.stderr, /40000/);
  fs.rmSync(model);
});

function context(model, ...flags) {
  const { status, stdout, stderr } = cairn(['bench', 'context', model, ...flags]);
  assert.equal(status, 0, stderr);
  const [head, ...lines] = stdout.trim().split('\n').map((line) => line.split(','));
  return lines.map((line) => Object.fromEntries(head.map((name, i) => [name, name === 'answer_hash' ? line[i] : Number(line[i])])));
}

test('bench context reads each token once, up to the model\'s own context', () => {
  const rows = context(storyTrainedFor(2048), '--answer', '4');
  assert.deepEqual(rows.map((row) => row.context_tokens), [512, 1024, 2044]);
  assert.deepEqual(rows.map((row) => row.new_tokens), [512, 512, 1020]);
  for (const row of rows) {
    assert.equal(row.answer_tokens, 4);
    assert.ok(row.prefill_tokens_per_s > 0 && row.decode_tokens_per_s > 0);
  }
  assert.ok(rows[0].kv_bytes > 0);
  assert.equal(rows[1].kv_bytes, 2 * rows[0].kv_bytes);
});

test('bench context: an answer is the same whatever depths were measured before', () => {
  // Full attention, windows, recurrent states of two kinds, compressed rows.
  for (const model of ['llama', 'gemma3', 'mamba2', 'qwen3next', 'deepseek4'].map((name) => path.join(fixtures, 'models', `${name}.gguf`))) {
    const all = context(model, '--depths', '20,45,70', '--answer', '8');
    const last = context(model, '--depths', '70', '--answer', '8');
    assert.equal(all[2].answer_hash, last[0].answer_hash, model);
    assert.equal(all[2].kv_bytes, last[0].kv_bytes, model);
    assert.notEqual(all[0].answer_hash, all[1].answer_hash, model);
  }
});

test('bench context writes a file and a chart', () => {
  const csv = path.join(folder, 'context.csv'), svg = path.join(folder, 'context.svg');
  const { status, stdout, stderr } = cairn(['bench', 'context', story, '--depths', '100,64', '--answer', '2', '--csv', csv, '--svg', svg]);
  assert.equal(status, 0, stderr);
  assert.equal(stdout, '');
  assert.deepEqual(fs.readFileSync(csv, 'utf8').trim().split('\n').map((line) => line.split(',')[0]), ['context_tokens', '64', '100']);
  const drawn = fs.readFileSync(svg, 'utf8');
  assert.match(drawn, /^<svg [^>]*>\n<title>stories260K-f32 on /);
  assert.equal([...drawn.matchAll(/<polyline points="([^"]*)"/g)].map(([, points]) => points.split(' ').length).join(), '2,2');
  assert.match(drawn, />64<[\s\S]*>100<[\s\S]*<\/svg>\n$/);
});

test('bench context says what does not fit', () => {
  const deep = cairn(['bench', 'context', story, '--to', '100000']);
  assert.equal(deep.status, 1);
  assert.match(deep.stderr, /context/);
  const none = cairn(['bench', 'context', story, '--depths', '0']);
  assert.equal(none.status, 2);
  assert.match(none.stderr, /--depths takes 1 to/);
});

// The set of `cairn bench recall`, with the story that all of its questions have.
function recall(...flags) {
  const { status, stdout, stderr } = cairn(['bench', 'recall', story, ...flags]);
  assert.equal(status, 0, stderr);
  const questions = stdout.trim().split('\n').map((line) => JSON.parse(line));
  const texts = questions.map(({ question }) => question.slice(0, question.lastIndexOf('\n')));
  assert.equal(new Set(texts).size, 1);
  return { stdout, questions, text: texts[0] };
}

test('bench recall: each of 16 facts is told once, in the scene that its tag names', () => {
  const { stdout, questions, text } = recall('--tokens', '24000');
  assert.equal(recall('--tokens', '24000').stdout, stdout);
  assert.notEqual(recall('--tokens', '24000', '--seed', '2').text, text);
  const scenes = text.split(/^Scene (?=\d+\. )/m).slice(1);
  assert.deepEqual(scenes.map((scene) => parseInt(scene)), Array.from({ length: 190 }, (_, i) => i + 1));
  assert.equal(questions.length, 16);
  assert.equal(new Set(questions.map(({ answer }) => answer)).size, 16);
  let before = 0;
  for (const { id, kind, tags, question, pattern, answer } of questions) {
    const [, scene] = tags[1].match(/^scene (\d+) of 190$/);
    assert.ok(Number(scene) > before, 'in order, and one in a scene');
    before = Number(scene);
    const [who] = question.slice(question.lastIndexOf('\n')).match(/(?<=(?:did) )[A-Z]\w+/);
    const told = scenes.map((one, i) => [i + 1, one.split(/(?<=\.) |\n/).filter((sentence) => sentence.includes(who))])
      .filter(([, sentences]) => sentences.length > 0);
    assert.deepEqual(told.map(([number, sentences]) => [number, sentences.length]), [[Number(scene), 1]], who);
    assert.ok(told[0][1][0].includes(answer), `${who}: ${answer}`);
    assert.equal(text.split(new RegExp(`\\b${answer}\\b`)).length, 2, `${answer} stands once in the story`);
    assert.equal(kind, 'pattern', id);
    const graded = new RegExp(`^(?:${pattern})$`);
    for (const right of [answer, `It is ${answer}.\n`]) assert.match(right, graded);
    for (const wrong of ['', 'I do not know', `${answer}`.slice(1), /^\d/.test(answer) ? `1${answer}` : 'nothing'])
      assert.doesNotMatch(wrong, graded);
  }
});

test('bench recall fills the context, and says what does not fit', () => {
  for (const tokens of [16000, 30000]) {
    const { text } = recall('--tokens', String(tokens));
    const input = `${JSON.stringify({ text })}\n`;
    const { ids } = JSON.parse(cairn(['tokenize', story, '--jsonl'], { input }).stdout);
    assert.ok(ids.length <= tokens - 200 && ids.length > 0.85 * tokens, `${ids.length} of ${tokens}`);
  }
  const short = cairn(['bench', 'recall', story, '--tokens', '512']);
  assert.equal(short.status, 1);
  assert.match(short.stderr, /190 scenes take at least \d+ tokens of this model, .*raise --tokens, or choose fewer --scenes/);
  const many = cairn(['bench', 'recall', story, '--scenes', '4']);
  assert.match(many.stderr, /16 facts need as many scenes, and there are 4/);
});
