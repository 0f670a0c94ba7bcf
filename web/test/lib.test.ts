import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Answer } from '../src/lib/answer';
import { kBlockMax, pieces, splitBlocks } from '../src/lib/blocks';
import { Colours, kColouredLineMax, kColouredMax, mayColour, type Colourist } from '../src/lib/colours';
import { exported, imported } from '../src/lib/exchange';
import { bytes, duration, extensionOf, number, showBidi } from '../src/lib/format';
import { FormulaEnds, formulaAt } from '../src/lib/math';
import { histogram, mean, quantile, since } from '../src/lib/prometheus';
import { wholeLines } from '../src/lib/pull';
import { rates, type ModelMetrics, type Reading } from '../src/lib/rates';
import { kParameters } from '../src/lib/parameters';
import { fullText, kFurtherFields, kNoSettings, kUsualFields, problemWith, requestBody } from '../src/lib/settings';
import { EventParser } from '../src/lib/sse';
import { type Message, Tree } from '../src/lib/tree';

let clock = 0;
const message = (id: string, parent: string | null, more: Partial<Message> = {}): Message => ({
  id,
  conversation: 'c',
  parent,
  role: 'user',
  content: id,
  created: ++clock,
  ...more,
});
const ids = (list: Message[]) => list.map(({ id }) => id).join(' ');

test('events are cut out of text in pieces of any size', () => {
  const text = 'data: {"a":1}\n\n: keep-alive\n\ndata: two\r\ndata: lines\r\n\r\ndata: [DONE]\n\n';
  const expected = ['{"a":1}', 'two\nlines', '[DONE]'];
  for (let size = 1; size <= text.length; ++size) {
    const parser = new EventParser();
    const found: string[] = [];
    for (let at = 0; at < text.length; at += size) found.push(...parser.feed(text.slice(at, at + size)));
    assert.deepEqual(found, expected, `pieces of ${size}`);
  }
});

test('lines of progress are whole, and what is not waits for the rest', () => {
  assert.deepEqual(wholeLines('{"a":1}\n\n{"b":2}\n{"c'), { lines: ['{"a":1}', '{"b":2}'], rest: '{"c' });
  assert.deepEqual(wholeLines('{"a'), { lines: [], rest: '{"a' });
  assert.deepEqual(wholeLines('{"a":1}\n'), { lines: ['{"a":1}'], rest: '' });
});

test('a path follows what is chosen, and an edited message begins a branch', () => {
  const tree = new Tree([], {});
  tree.add(message('u1', null));
  tree.add(message('a1', 'u1', { role: 'assistant' }));
  tree.add(message('u2', 'a1'));
  assert.equal(ids(tree.path()), 'u1 a1 u2');
  tree.add(message('u1b', null));
  assert.equal(ids(tree.path()), 'u1b');
  assert.deepEqual(tree.branches('u1'), ['u1', 'u1b']);
  tree.choose('u1');
  assert.equal(ids(tree.path()), 'u1 a1 u2');
  assert.equal(ids(tree.pathTo('a1')), 'u1 a1');
});

test('answers of several models are one branch, and the first one stays chosen', () => {
  const tree = new Tree([], {});
  tree.add(message('u', null));
  tree.add(message('a', 'u', { role: 'assistant', group: 'g' }));
  tree.add(message('b', 'u', { role: 'assistant', group: 'g' }));
  tree.add(message('again', 'u', { role: 'assistant' }));
  assert.deepEqual(tree.branches('a'), ['a', 'again']);
  assert.equal(ids(tree.group('b')), 'a b');
  tree.choose('a');
  assert.equal(ids(tree.path()), 'u a');
});

test('every parameter of the server is offered once, those that are integers in steps of one', () => {
  const offered = [...kUsualFields, ...kFurtherFields];
  assert.equal(new Set(offered.map(({ name }) => name)).size, offered.length);
  for (const { name, whole } of kParameters) {
    const field = offered.find((each) => each.name === name);
    assert.equal(field?.step === 1, whole, name);
  }
  assert.ok(kUsualFields.some(({ name }) => name === 'temperature'));
});

test('chunks of a stream make a message with thinking, calls, counts and probabilities', () => {
  let now = 0;
  const answer = new Answer(message('a', 'u', { role: 'assistant', content: '' }), () => now);
  const chunk = (delta: object, more: object = {}) => JSON.stringify({ choices: [{ delta, ...more }] });
  answer.take(chunk({ role: 'assistant', content: '' }));
  now = 50;
  answer.take(chunk({ reasoning_content: 'Hm' }));
  now = 70;
  const top = [{ token: 'Yes', logprob: -0.1 }, { token: 'No', logprob: -2.4 }];
  answer.take(chunk({ content: 'Yes' }, { logprobs: { content: [{ token: 'Yes', logprob: -0.1, top_logprobs: top }] } }));
  answer.take(chunk({ tool_calls: [{ index: 0, id: 'call_1', function: { name: 'f', arguments: '{"a"' } }] }));
  answer.take(chunk({ tool_calls: [{ index: 0, function: { arguments: ':1}' } }] }, { finish_reason: 'tool_calls' }));
  answer.take(
    JSON.stringify({
      choices: [],
      usage: { prompt_tokens: 12, completion_tokens: 9, prompt_tokens_details: { cached_tokens: 8 } },
      timings: { queue_ms: 3, prompt_n: 4, prompt_ms: 20, predicted_n: 9, predicted_ms: 225, predicted_per_second: 40 },
    }),
  );
  assert.equal(answer.whole, false);
  assert.equal(answer.rateNow, undefined);
  answer.take('[DONE]');
  assert.equal(answer.whole, true);
  const { thinking, content, calls, finish, stats, probabilities } = answer.message;
  assert.deepEqual({ thinking, content, finish }, { thinking: 'Hm', content: 'Yes', finish: 'tool_calls' });
  assert.deepEqual(calls, [{ id: 'call_1', name: 'f', arguments: '{"a":1}' }]);
  const server = { queueMs: 3, promptMs: 20, promptTokens: 4, answerMs: 225 };
  assert.deepEqual(stats, { firstTokenMs: 50, promptTokens: 12, cachedTokens: 8, tokens: 9, tokensPerSecond: 40, seenPerSecond: 400, server });
  assert.equal(probabilities?.[0]?.top[1]?.text, 'No');
  assert.throws(() => answer.take('{"error":{"message":"it is over"}}'), /it is over/);
});

test('blocks together are the text, and code, formulas and lists stay whole', () => {
  const parts = [
    'One\nparagraph.\n\n',
    '```js\na\n\nb\n```\n\n',
    '1. one\n\n2. two\n\n   more of it\n\n',
    '$$\na\n\nb\n$$\n\n',
    '| a |\n|---|\n| b |\n',
  ];
  const text = parts.join('');
  assert.deepEqual(splitBlocks(text), parts);
  for (let end = 0; end <= text.length; ++end) assert.equal(splitBlocks(text.slice(0, end)).join(''), text.slice(0, end));
});

test('a line of a megabyte is cut in no time', () => {
  const line = 'x'.repeat(1 << 20);
  const begin = process.cpuUsage();
  assert.equal(splitBlocks(line)[0]!.length > kBlockMax, true);
  const cut = pieces(line + '\u{1F600}'.repeat(10), 4000);
  assert.equal(cut.join(''), line + '\u{1F600}'.repeat(10));
  // Of the processor, whatever else runs on it.
  assert.ok(process.cpuUsage(begin).user < 1e6);
});

test('code has colours only where they are bounded', () => {
  assert.ok(mayColour('int a;\n'.repeat(100), 'c'));
  assert.ok(!mayColour('int a;', ''));
  assert.ok(!mayColour('a'.repeat(kColouredLineMax + 1), 'c'));
  assert.ok(!mayColour('a\n'.repeat(kColouredMax), 'c'));
});

test('colours that take long are none, and those behind them come', async () => {
  let made = 0;
  let ended = 0;
  const make = (): Colourist => {
    ++made;
    const self: Colourist = {
      postMessage: ({ code }) => code !== 'slow' && setTimeout(() => self.onmessage?.({ data: `<b>${code}</b>` })),
      terminate: () => ++ended,
      onmessage: null,
      onerror: null,
    };
    return self;
  };
  const colours = new Colours(make, 30);
  const all = ['a', 'slow', 'b', 'a'].map((code) => colours.of(code, 'c'));
  assert.deepEqual(await Promise.all(all), ['<b>a</b>', '', '<b>b</b>', '<b>a</b>']);
  assert.deepEqual([made, ended], [2, 1]);
  const none = new Colours(() => {
    throw new Error('no workers');
  });
  assert.equal(await none.of('a', 'c'), '');
});

test('dollars are formulas only where no money is meant', () => {
  assert.deepEqual(formulaAt('$x^2$', 0), { tex: 'x^2', end: 5, display: false });
  assert.deepEqual(formulaAt('\\[a\\]', 0), { tex: 'a', end: 5, display: true });
  assert.equal(formulaAt('$5 and $6', 0), null);
  assert.equal(formulaAt('$ 5$', 0), null);
  assert.equal(formulaAt('$open', 0), null);
  assert.equal(formulaAt('$a\\$b$', 0)?.tex, 'a\\$b');
  assert.equal(formulaAt('$a\n\nb$', 0), null);
  assert.equal(formulaAt('$a $', 0), null);
});

test('the end of a formula is searched for once, however many might begin', () => {
  const kOpenings = 10_000;
  const texts = { '\\(': '', '\\[': '', '\\(x': '\\)', '\\\\$x ': ' $', '\\\\$ x': '$' };
  for (const [opening, close] of Object.entries(texts)) {
    const text = opening.repeat(kOpenings) + close;
    let searched = 0;
    const counted = new Proxy(Object(text), {
      get: (_, name) => {
        if (name !== 'indexOf') return text[name as unknown as number];
        return (what: string, from: number) => {
          const at = text.indexOf(what, from);
          searched += (at < 0 ? text.length : at) - from + 1;
          return at;
        };
      },
    });
    const ends = new FormulaEnds(counted);
    for (let at = text.search(/[$]|\\[([]/); at >= 0 && at < text.length; at += opening.length)
      formulaAt(text, at, ends, text.length - 1);
    assert.ok(searched > 0 && searched < 3 * text.length, `${opening}: ${searched} of ${text.length} characters`);
  }
});

test('a request has the settings, the files and the calls with their results', () => {
  const settings = {
    ...kNoSettings,
    system: 'Be brief.',
    sampling: { temperature: 0 },
    thinking: 'low',
    schema: '{"type":"object"}',
    tools: '[{"type":"function","function":{"name":"f"}}]',
    probabilities: true,
  };
  const path = [
    message('u', null, { content: 'Read it', files: [{ name: 'a.md', text: '```\ncode\n```' }] }),
    message('a', 'u', { role: 'assistant', content: '', calls: [{ id: '1', name: 'f', arguments: '{}' }] }),
    message('t', 'a', { role: 'tool', content: '42', callId: '1' }),
  ];
  const body = requestBody(settings, 'm', path) as Record<string, any>;
  assert.equal(body.messages[0].role, 'system');
  assert.equal(body.messages[1].content, 'a.md:\n````\n```\ncode\n```\n````\n\nRead it');
  assert.deepEqual(body.messages[2].tool_calls, [{ id: '1', type: 'function', function: { name: 'f', arguments: '{}' } }]);
  assert.deepEqual(body.messages[3], { role: 'tool', tool_call_id: '1', content: '42' });
  assert.equal(body.response_format.json_schema.strict, true);
  assert.deepEqual([body.temperature, body.reasoning_effort, body.top_logprobs], [0, 'low', 5]);
  assert.equal(fullText({ content: 'x' }), 'x');
  assert.match(problemWith('schema', '{'), /not JSON/);
  assert.match(problemWith('tools', '{}'), /array/);
  assert.equal(problemWith('schema', ' '), '');
});

test('what is exported can be imported, under new ids', () => {
  const conversation = { id: 'c', title: 'T', created: 1, updated: 2, chosen: { '': 'u', u: 'a' }, settings: kNoSettings };
  const messages = [message('u', null), message('a', 'u', { role: 'assistant', thinking: 'x', model: 'm' })];
  let next = 0;
  const [read] = imported(exported([{ conversation, messages }]), () => `n${++next}`);
  assert.deepEqual(read!.messages.map(({ content }) => content), ['u', 'a']);
  assert.deepEqual(ids(new Tree(read!.messages, read!.conversation.chosen).path()), ids(read!.messages));
  assert.equal(read!.messages[1]!.thinking, 'x');
});

test('a file that is none, or whose messages go in a circle, is refused in words', () => {
  const file = (messages: object[]) =>
    JSON.stringify({ format: 'cairn-conversations', version: 1, conversations: [{ messages }] });
  const id = () => String(++clock);
  assert.throws(() => imported('{', id), /not JSON/);
  assert.throws(() => imported('{"format":"x"}', id), /no conversations of Cairn/);
  assert.throws(() => imported('{"format":"cairn-conversations","version":2}', id), /version 2/);
  assert.throws(() => imported(file([{ id: 'a', parent: null, role: 'root' }]), id), /role "root"/);
  assert.throws(() => imported(file([{ id: 'a', parent: 'b', role: 'user' }]), id), /no parent/);
  const circle = [{ id: 'a', parent: 'b', role: 'user' }, { id: 'b', parent: 'a', role: 'user' }];
  assert.throws(() => imported(file(circle), id), /do not go back/);
});

test('quantiles and means come out of a histogram of all models', () => {
  const text = [
    '# TYPE cairn_ttft_seconds histogram',
    'cairn_ttft_seconds_bucket{model="a",le="0.1"} 5',
    'cairn_ttft_seconds_bucket{model="a",le="0.2"} 10',
    'cairn_ttft_seconds_bucket{model="a",le="+Inf"} 10',
    'cairn_ttft_seconds_bucket{model="b",le="0.1"} 0',
    'cairn_ttft_seconds_bucket{model="b",le="0.2"} 10',
    'cairn_ttft_seconds_bucket{model="b",le="+Inf"} 10',
    'cairn_ttft_seconds_sum{model="a"} 1',
    'cairn_ttft_seconds_sum{model="b"} 1.5',
  ].join('\n');
  const found = histogram(text, 'ttft_seconds')!;
  assert.deepEqual(found.counts, [5, 15, 0]);
  assert.equal(quantile(found, 0.5).toFixed(4), (0.1 + (0.1 * 5) / 15).toFixed(4));
  assert.equal(mean(found), 2.5 / 20);
  assert.deepEqual(since(found, found).counts, [0, 0, 0]);
  assert.equal(histogram(text, 'other'), null);
});

test('rates are differences over time, and none where the server began anew', () => {
  const model = (tokens: number): ModelMetrics => ({
    model: 'm', active_requests: 1, waiting_requests: 0, total_requests: 1, cancelled_requests: 0,
    tokens_generated: tokens, prompt_tokens_computed: tokens, prompt_tokens_cached: 3 * tokens, steps: tokens / 4,
    step_seconds: tokens / 100, pages_total: 10, pages_used: 5, pages_cached: 1, pages_free: 4,
  });
  const reading = (time: number, tokens: number): Reading => ({ time, models: [model(tokens)], requests: [], log: [] });
  const found = rates(reading(10, 100), reading(12, 300))!;
  assert.deepEqual(found, { tokensPerSecond: 100, promptPerSecond: 100, cachedShare: 0.75, batch: 4, stepMs: 40 });
  assert.equal(rates(reading(10, 100), reading(11, 0)), null);
});

test('numbers and marks are written for people', () => {
  assert.equal(bytes(1536), '1.5 KiB');
  assert.equal(duration(1234), '1.23 s');
  assert.equal(number(12345), '12.3 k');
  assert.deepEqual(['python', 'go', '', '../x', 'constructor'].map(extensionOf), ['py', 'go', 'txt', 'txt', 'txt']);
  assert.equal(showBidi('a\u202Eb'), 'a<span class="bidi" title="U+202E turns the direction of text"></span>b');
});
