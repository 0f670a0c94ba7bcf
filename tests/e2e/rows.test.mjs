// Flags that change how a server computes and what it tells: their effect is seen from outside.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { after, test } from 'node:test';
import { spawnSync } from 'node:child_process';
import { program, serve, story, tiny, storyWithControls } from './server.mjs';

const guide = new URL('../../models/guide/guide.gguf', import.meta.url).pathname;

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-rows-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));

const run = (args, env = {}) => spawnSync(program, args, { encoding: 'utf8', env: { ...process.env, ...env } });
const json = async (response) => ({ status: response.status, body: await response.json() });
const metric = async (server, name) => {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const line = text.split('\n').find((each) => each.startsWith(`${name} `) || each.startsWith(`${name}{`));
  return line === undefined ? undefined : Number(line.split(' ').pop());
};
const chat = (server, messages, more = {}) => server.post('/v1/chat/completions', { messages, max_tokens: 8, temperature: 0, ...more });
const hi = [{ role: 'user', content: 'Hi' }];

test('CAIRN_THREADS says how many threads every command that runs a model has', () => {
  for (const args of [['logits', tiny, '--tokens', '1,2'], ['generate', story, '-p', 'Once', '-n', '2'], ['bench', 'model', story, '--sequences', '1', '--prompt', '4', '--answer', '2']]) {
    const wrong = run(args, { CAIRN_THREADS: 'many' });
    assert.notEqual(wrong.status, 0, args.join(' '));
    assert.match(wrong.stderr, /the variable CAIRN_THREADS takes a whole number, 1 to 1024, not many/, args.join(' '));
    assert.equal(run([...args, '--threads', '1'], { CAIRN_THREADS: 'many' }).status, 0, 'a flag comes first');
    const right = run(args, { CAIRN_THREADS: '1' });
    assert.equal(right.status, 0, right.stderr);
  }
  const loaded = run(['generate', story, '-p', 'Once', '-n', '2', '--log-level', 'info'], { CAIRN_THREADS: '1' });
  assert.match(loaded.stderr, /, 1 thread/);
  assert.match(run(['generate', '--help']).stdout, /CAIRN_THREADS/);
});

test('a longer context by flags: --ctx may be larger, and models that cannot are refused by name', () => {
  const tokens = ['--tokens', '1,2,3,4', '--last'];
  const plain = run(['logits', story, ...tokens]);
  assert.equal(plain.status, 0, plain.stderr);
  assert.notEqual(run(['logits', story, ...tokens, '--ctx', '2048']).status, 0);
  const longer = run(['logits', story, ...tokens, '--ctx', '2048', '--rope-scaling', 'yarn', '--rope-scale', '4']);
  assert.equal(longer.status, 0, longer.stderr);
  assert.notEqual(longer.stdout, plain.stdout);
  assert.equal(run(['logits', story, ...tokens, '--ctx', '2048', '--rope-scaling', 'yarn', '--rope-freq-scale', '0.25']).stdout, longer.stdout);
  const refused = (file, args, words) => {
    const outcome = run(['logits', file, ...tokens, ...args]);
    assert.notEqual(outcome.status, 0);
    assert.match(outcome.stderr, words);
  };
  refused(path.join(path.dirname(tiny), 'gpt2.gguf'), ['--rope-scale', '2'], /architecture "gpt2" has no rotary positions/);
  refused(story, ['--yarn-beta-fast', '4'], /need --rope-scaling yarn/);
  refused(story, ['--rope-scale', '0'], /--rope-scale takes /);
});

test('--power-percent rests between steps, and can be changed while the server runs', async () => {
  const server = await serve(story, ['--power-percent', '50', '--api-key', 'plain']);
  const headers = { authorization: 'Bearer plain', 'content-type': 'application/json' };
  const power = async (body) => json(await fetch(`${server.url}/v1/power`, body === undefined ? { headers } : { method: 'POST', headers, body: JSON.stringify(body) }));
  const first = await power();
  assert.deepEqual({ ...first.body, on_battery: false, effective_percent: 50 }, { percent: 50, percent_on_battery: 100, on_battery: false, effective_percent: 50 });
  const of = async (name) => {
    const text = await (await fetch(`${server.url}/metrics`, { headers })).text();
    return Number(text.split('\n').find((line) => line.startsWith(name)).split(' ').pop());
  };
  const ask = () => fetch(`${server.url}/v1/completions`, { method: 'POST', headers, body: JSON.stringify({ prompt: 'Once', max_tokens: 60, temperature: 0 }) }).then((response) => response.json());
  const slow = await ask();
  const rested = await of('cairn_rested_seconds_total{');
  const worked = await of('cairn_step_seconds_sum{');
  assert.ok(rested > 0.5 * worked, `${rested} s of rest after ${worked} s of steps`);
  assert.equal(await of('cairn_power_percent'), 50);
  assert.equal((await power({ percent: 100 })).body.percent, 100);
  assert.equal(await of('cairn_power_percent'), 100);
  assert.equal((await ask()).choices[0].text, slow.choices[0].text);
  // A rest that had begun may have ended after the change.
  assert.ok(await of('cairn_rested_seconds_total{') < rested + 0.2);
  for (const [body, words] of [[{ percent: 0 }, /percent/], [{ percent: 'all' }, /percent/], [{}, /percent is missing/]]) {
    const wrong = await power(body);
    assert.equal(wrong.status, 400);
    assert.match(JSON.stringify(wrong.body), words);
  }
  assert.equal((await fetch(`${server.url}/v1/power`)).status, 401);
  await server.stop();
});

test('records of steps, texts in traces, and what the log says of turns and prompts', async () => {
  const steps = path.join(folder, 'steps.jsonl'), trace = path.join(folder, 'trace.jsonl');
  const server = await serve(guide, ['--trace-steps', steps, '--trace', trace, '--trace-text']);
  const first = await (await chat(server, [{ role: 'user', content: 'A secret word' }], { max_tokens: 500 })).json();
  assert.equal(first.choices[0].finish_reason, 'stop');
  const answer = first.choices[0].message.content;
  await chat(server, [{ role: 'user', content: 'A secret word' }, { role: 'assistant', content: answer }, ...hi]);
  await chat(server, [{ role: 'user', content: 'A secret word' }, { role: 'assistant', content: 'Never said.' }, ...hi]);
  const { log } = await server.stop();
  const posts = log.split('\n').filter((line) => / info POST /.test(line));
  assert.match(posts[0], /first token [\d.]+ m?s \(prompt at [\d.]+ tokens\/s\), /);
  assert.match(posts[1], /, turns 1 as sampled, /);
  assert.match(posts[2], /, turns 1 rendered, /);
  const records = fs.readFileSync(steps, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  assert.ok(records.length >= 20, `${records.length} steps`);
  assert.ok(records.every((record) => record.sequences === record.shares.length && record.ms > 0));
  assert.ok(records.some((record) => record.prompt_rows > 0) && records.some((record) => record.decode_rows === 1));
  const spans = fs.readFileSync(trace, 'utf8').trim().split('\n')
    .flatMap((line) => JSON.parse(line).resourceSpans[0].scopeSpans[0].spans).filter((span) => span.name.startsWith('POST'));
  const attribute = (span, key) => span.attributes.find((each) => each.key === key)?.value;
  assert.equal(spans.length, 3);
  assert.match(attribute(spans[0], 'cairn.prompt').stringValue, /A secret word/);
  assert.equal(attribute(spans[0], 'cairn.answer').stringValue.trim(), answer.trim());
  assert.equal(attribute(spans[1], 'cairn.turns.memory').intValue, '1');
});

test('without --trace-text no trace has a text, and without exact replay all turns are rendered', async () => {
  const trace = path.join(folder, 'quiet.jsonl');
  const server = await serve(story, ['--trace', trace, '--no-exact-replay']);
  const first = await (await chat(server, [{ role: 'user', content: 'A secret word' }])).json();
  await chat(server, [{ role: 'user', content: 'A secret word' }, first.choices[0].message, ...hi]);
  const { log } = await server.stop();
  assert.match(log, /, turns 1 rendered, /);
  assert.match(fs.readFileSync(trace, 'utf8'), /chat\/completions/);
  assert.doesNotMatch(fs.readFileSync(trace, 'utf8'), /secret/);
});

test('SIGUSR1 puts the metrics into the log, and both kinds of metrics have the uptime', async () => {
  const server = await serve(story);
  assert.ok(await metric(server, 'cairn_uptime_seconds') < 3600);
  assert.ok((await (await fetch(`${server.url}/v1/metrics`)).json()).uptime_seconds < 3600);
  process.kill(server.pid, 'SIGUSR1');
  await new Promise((done) => { setTimeout(done, 2500); });
  const { log } = await server.stop();
  assert.match(log, /SIGUSR1: cairn_steps_total\{model=/);
});

test('a model without a template is written to as its architecture usually is, if it has the tokens', async () => {
  const llama3 = storyWithControls(['<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>'], [], 512);
  const server = await serve(llama3);
  const { prompt } = await (await server.post('/apply-template', { messages: hi })).json();
  assert.match(prompt, /<\|start_header_id\|>user<\|end_header_id\|>\n\nHi<\|eot_id\|><\|start_header_id\|>assistant<\|end_header_id\|>\n\n$/);
  const { log } = await server.stop();
  assert.match(log, /has no chat template: conversations are written as for Llama 3/);
  const plain = await serve(story);
  assert.match((await (await plain.post('/apply-template', { messages: hi })).json()).prompt, /^<\|im_start\|>user/);
  await plain.stop();
});

test('--json-instruction asks the model for the JSON that the answer is held to', async () => {
  const server = await serve(story, ['--json-instruction', '--trace', path.join(folder, 'json.jsonl'), '--trace-text']);
  await chat(server, hi, { response_format: { type: 'json_object' } });
  await server.stop();
  assert.match(fs.readFileSync(path.join(folder, 'json.jsonl'), 'utf8'), /Answer with JSON alone/);
});

test('cairn help TOPIC lists the flags of a topic, in colour on a terminal alone', () => {
  const plain = run(['help', 'sampling']);
  assert.equal(plain.status, 0, plain.stderr);
  assert.match(plain.stdout, /^ {2}--temp/m);
  assert.doesNotMatch(plain.stdout, /\x1b|--port/);
  assert.match(run(['help', 'network']).stdout, /^ {2}--port N/m);
  assert.match(run([]).stdout, /cairn help TOPIC explains flags by topic: sampling, memory, /);
  const flags = new Set([...run(['serve', '--help-all']).stdout.matchAll(/^ {2}(--?\w[\w-]*)/gm)].map(([, flag]) => flag));
  for (const topic of run([]).stdout.match(/flags by topic: ([\w,\s]+)/)[1].trim().split(/,\s+/)) {
    const listed = [...run(['help', topic]).stdout.matchAll(/^ {2}(--?\w[\w-]*)/gm)].map(([, flag]) => flag);
    assert.ok(listed.length > 0 && listed.every((flag) => flags.has(flag)), topic);
  }
  const inTerminal = (env) => spawnSync('python3', ['-c', 'import pty, sys; pty.spawn(sys.argv[1:])', program, 'help', 'drafts'],
    { encoding: 'utf8', env: { ...process.env, TERM: 'xterm', NO_COLOR: undefined, ...env } }).stdout;
  assert.match(inTerminal({}), /\x1b\[36m.*--draft/);
  assert.doesNotMatch(inTerminal({ NO_COLOR: '1' }), /\x1b\[/);
});
