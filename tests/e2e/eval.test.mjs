// cairn eval: questions with exact answers, two runs side by side, and scores of given texts.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { cairn, program, serve, story } from './server.mjs';
import { Terminal } from './terminal.mjs';

const guide = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../models/guide/guide.gguf');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-eval-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));
const file = (name) => path.join(folder, name);
const written = (name) => fs.readFileSync(file(name), 'utf8');

let server;
before(async () => { server = await serve(guide); });
after(() => server.stop());

// Asynchronously, as some runs ask the server that this process keeps.
function evaluate(args, input = '') {
  return new Promise((done) => {
    const child = spawn(program, ['eval', ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
    let stdout = '', stderr = '';
    child.stdout.on('data', (bytes) => { stdout += bytes; });
    child.stderr.on('data', (bytes) => { stderr += bytes; });
    child.on('close', (status) => done({ status, stdout, stderr }));
    child.stdin.end(input);
  });
}

const weather = { type: 'function', function: { name: 'get_weather', description: 'Get the weather of a city', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } };
const set = [
  { id: 'tool', kind: 'tool', question: 'What is the weather in Paris?', tools: [weather], answer: [{ name: 'get_weather', arguments: { city: 'Paris' } }] },
  { id: 'no-tool', kind: 'tool', question: 'What is the weather in Paris?', tools: [weather], answer: [] },
  { id: 'free', kind: 'pattern', question: 'What is Cairn?', pattern: '(.|\n)*', answer: 'anything' },
  { id: 'never', kind: 'pattern', level: 2, question: 'What is Cairn?', pattern: 'xyzzy', answer: 'xyzzy' },
].map((line) => JSON.stringify(line)).join('\n');
fs.writeFileSync(file('set.jsonl'), set);
const short = ['-n', '96', '--plain'];

test('a run of the demonstration model over the whole set is the same twice, and over the server', async () => {
  const runs = [['a', [guide]], ['b', [guide, '--parallel', '1']], ['c', ['--url', server.url]]];
  for (const [name, model] of runs) {
    const run = await evaluate([...model, '-n', '24', '--plain', '--json', file(`${name}.json`), '--trace', file(`${name}.jsonl`)]);
    assert.equal(run.status, 0, run.stderr);
    assert.match(run.stdout, /^all +\d+\/115 /m);
    for (const kind of ['choice', 'number', 'pattern', 'tool', 'schema']) assert.match(run.stdout, new RegExp(`^${kind} +\\d+/\\d+ `, 'm'));
  }
  assert.equal(written('a.json'), written('b.json'));
  assert.equal(written('a.jsonl'), written('b.jsonl'));
  const answers = (name) => written(name).trim().split('\n').map((line) => JSON.parse(line)).map(({ id, content, reasoning, calls, outcome, read, tokens }) => ({ id, content, reasoning, calls, outcome, read, tokens }));
  assert.deepEqual(answers('c.jsonl'), answers('a.jsonl'));
  assert.equal(JSON.parse(written('a.json')).questions.length, 115);
});

test('answers are graded by what the model said and called', async () => {
  const run = await evaluate([guide, file('set.jsonl'), ...short, '--json', file('set.json')]);
  assert.equal(run.status, 0, run.stderr);
  assert.match(run.stdout, /^right +tool +get_weather\(\{"city": ?"Paris"\}\)$/m);
  assert.match(run.stdout, /^wrong +no-tool +get_weather/m);
  assert.match(run.stdout, /^(?:right|cut) +free /m);
  assert.match(run.stdout, /^(?:wrong|cut) +never /m);
  const one = await evaluate([guide, '-', ...short, '--only', 'tool'], set);
  assert.equal(one.status, 0, one.stderr);
  assert.match(one.stdout, /^all +1\/2 /m);
});

test('compare tells which questions differ, and how sure that is', () => {
  const results = (right) => JSON.stringify({ model: 'm', questions: Array.from({ length: 20 }, (_, i) => ({ id: `q${i}`, kind: 'choice', outcome: right(i) ? 'right' : 'wrong' })) });
  fs.writeFileSync(file('one.json'), results((i) => i < 10));
  fs.writeFileSync(file('other.json'), results((i) => i >= 1 && i < 18));
  const run = cairn(['eval', 'compare', file('one.json'), file('other.json')]);
  assert.equal(run.status, 0, run.stderr);
  assert.match(run.stdout, /both right 9, only A 1, only B 8, neither 2\n/);
  // 2 (1 + 9) / 2^9
  assert.match(run.stdout, /sign test p = 0\.03906\n/);
  assert.match(run.stdout, /^only A {2}q0$/m);
  const json = JSON.parse(cairn(['eval', 'compare', file('one.json'), file('other.json'), '--json']).stdout);
  assert.ok(Math.abs(json.sign_test_p - 0.0390625) < 1e-12);
  assert.equal(json.difference, 0.35);
  assert.ok(json.difference_low > 0 && json.difference_high < 0.7);
});

test('score gives the likelihood of a continuation, here and at a server', async () => {
  const texts = [{ id: 'likely', prompt: 'Once upon a time, there was a', continuation: ' little girl named Lily.' }, { prompt: 'Once upon a time, there was a', continuation: ' time upon once é.' }];
  const lines = texts.map((text) => JSON.stringify(text)).join('\n');
  const stories = await serve(story);
  const here = await evaluate(['score', story, '-', '--json'], lines);
  const there = await evaluate(['score', '-', '--url', stories.url, '--json'], lines);
  await stories.stop();
  assert.equal(here.status, 0, here.stderr);
  assert.equal(there.status, 0, there.stderr);
  const [likely, odd, all] = here.stdout.trim().split('\n').map((line) => JSON.parse(line));
  assert.ok(likely.logprob_per_token > odd.logprob_per_token + 1, here.stdout);
  assert.equal(all.tokens, likely.tokens + odd.tokens);
  assert.ok(Math.abs(likely.perplexity - Math.exp(-likely.logprob / likely.tokens)) < 1e-9);
  there.stdout.trim().split('\n').map((line) => JSON.parse(line)).forEach((line, i) => {
    const same = [likely, odd, all][i];
    assert.equal(line.tokens, same.tokens);
    assert.ok(Math.abs(line.logprob - same.logprob) < 1e-3, `${line.logprob} and ${same.logprob}`);
  });
});

test('on a terminal the view pauses, picks and runs questions, and leaves with the report', async () => {
  const terminal = new Terminal(['eval', guide, file('set.jsonl'), '-n', '24', '--parallel', '1'], { columns: 100, rows: 30 });
  await terminal.until(/4\/4 answered.*all answered/);
  terminal.type('p\x1b[B\x1b[B');
  await terminal.until(/> free/);
  terminal.type('\r');
  await terminal.until(/4\/4 answered/);
  terminal.type('q');
  await terminal.until(/all +\d\/4 /);
  const end = await terminal.end();
  assert.equal(end.code, 0, JSON.stringify(end));
});

test('what is wrong is said with its place', async () => {
  const refused = async (args, pattern, input) => {
    const run = await evaluate(args, input);
    assert.notEqual(run.status, 0);
    assert.match(run.stderr, pattern);
  };
  await refused([guide, '-', '--plain'], /the line is no JSON.*\(-, line 2\)/, '{"id":"a","kind":"number","question":"q","answer":1}\n{');
  await refused([guide, file('none.jsonl')], /none\.jsonl/);
  await refused([], /which model\? Name a file, or give --url/);
  await refused([guide, '--only', 'xyzzy'], /no question is of the kind xyzzy/);
  await refused(['--url', server.url, '--ctx', '512'], /--ctx has no effect with --url/);
  await refused(['--url', server.url, 'xyzzy'], /the server has no model xyzzy; it has guide/);
  await refused(['score', guide, '-'], /needs "prompt".*\(-, line 1\)/, '{"prompt": 3}');
  await refused(['compare', file('set.jsonl'), file('set.jsonl')], /is no file that cairn eval --json writes/);
});
