// Requests that nobody should send, one of each kind that once ended, froze or filled the server. Each attack takes the
// server's port, runs for a bounded time and returns; what it was answered does not matter to it.
// As a program, it runs them in turns until it is killed: node attacks.mjs PORT [NAME...]
import net from 'node:net';
import { fileURLToPath } from 'node:url';

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
const completions = '/v1/completions';
const head = (path, headers) => `POST ${path} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n\r\n`;
const kWaitMs = 15_000;  // for an answer, at most

// Connects, writes the parts one after the other as fast as they are taken, and returns the beginning of the answer when
// the server closes or has answered, or `wait` ms have gone by.
export function send(port, parts, { wait = kWaitMs, reads = true } = {}) {
  return new Promise((resolve) => {
    let text = '';
    const socket = net.connect(port, '127.0.0.1');
    const end = () => { clearTimeout(timer); socket.destroy(); resolve(text); };
    const timer = setTimeout(end, wait);
    socket.on('error', end).on('close', end);
    if (reads) socket.on('data', (bytes) => { if (text.length < 4096) text += bytes.toString('latin1'); if (/\r\n\r\n./s.test(text)) end(); });
    socket.on('connect', async () => {
      for (const part of parts) {
        if (socket.destroyed) return;
        if (!socket.write(part)) await new Promise((go) => { socket.once('drain', go).once('close', go); });
      }
    });
  });
}
const post = (port, path, body, options) => send(port, [head(path, `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}`), body], options);
const repeat = (count, make) => Array.from({ length: count }, (_, i) => make(i));
const keys = (count) => repeat(count, (i) => `"k${i}":1`).join();
const chunked = head(completions, 'Transfer-Encoding: chunked');
const times = (text, mib) => text.repeat(Math.ceil((mib << 20) / text.length));

let number = 0;  // so that no form is asked for twice, and none is kept from before
const form = (port, schema) => post(port, '/v1/chat/completions', JSON.stringify({ messages: [{ role: 'user', content: 'a' }], max_tokens: 60, response_format: { type: 'json_schema', json_schema: { name: 'a', schema } } }));
const grammar = (port, text) => post(port, completions, JSON.stringify({ prompt: 'a', max_tokens: 20, grammar: text }));
const long = 'x'.repeat(200);
const divisor = () => 99_991 - 2 * (++number % 4000);

export const attacks = {
  'a trailer of a megabyte': (port) => send(port, [`${chunked}0\r\nX-T: `, 'y'.repeat(1 << 20), '\r\n\r\n']),
  '16 MiB of trailers': (port) => send(port, [`${chunked}0\r\n`, ...repeat(16, () => times('X-T: 1\r\n', 1)), '\r\n']),
  'a chunk extension of 16 MiB': (port) => send(port, [`${chunked}1;`, ...repeat(16, () => times('x', 1)), '\r\na\r\n0\r\n\r\n']),
  'a chunk size of 16 MiB of zeros': (port) => send(port, [chunked, ...repeat(16, () => times('0', 1)), '1\r\na\r\n0\r\n\r\n']),
  '3,000 headers of 60 KB': (port) => send(port, [`GET /health HTTP/1.1\r\nHost: localhost\r\n`, ...repeat(300, () => `X-H: ${'h'.repeat(60_000)}\r\n`), '\r\n']),
  'an object of 100,000 keys': (port) => post(port, completions, `{"prompt":"a","max_tokens":1,${keys(100_000)}}`),
  'a logit_bias of 100,000 keys': (port) => post(port, completions, `{"prompt":"a","max_tokens":1,"logit_bias":{${repeat(100_000, (i) => `"${i}":1`)}}}`),
  'a schema of 60,000 properties': (port) => post(port, '/v1/chat/completions', `{"max_tokens":1,"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{${keys(60_000)}}}}}]}`),
  'a prompt of 31 MiB': (port) => post(port, completions, `{"prompt":"${times('hello world ', 30)}","max_tokens":1}`),
  'pieces of a text of 8 MiB': (port) => post(port, '/tokenize', `{"with_pieces":true,"content":"${times('hello world ', 8)}"}`),
  '10 million empty objects': (port) => post(port, completions, `{"prompt":"a","max_tokens":1,"user":[${times('{},', 30)}{}]}`),
  '16 bodies of 31 MiB without their ends': (port) => Promise.all(repeat(16, () => send(port, [head(completions, `Content-Length: ${31 << 20}`), ...repeat(30, () => times('x', 1))], { wait: 5_000 }))),
  '40 streams that nobody reads': (port) => Promise.all(repeat(40, (i) => post(port, completions, JSON.stringify({ prompt: `${i} Once upon a time`, max_tokens: 1900, ignore_eos: true, stream: true, logprobs: 20 }), { wait: 6_000, reads: false }))),
  '64 choices with 20 log-probabilities each': (port) => post(port, '/v1/chat/completions', JSON.stringify({ messages: [{ role: 'user', content: 'a' }], n: 64, max_tokens: 200, logprobs: true, top_logprobs: 20 }), { wait: 8_000 }),
  'codings that are not chunked': async (port) => {
    for (const coding of ['xchunked', 'chunked, identity', 'gzip', '"chunked"', 'gzip, chunked']) {
      await send(port, [`POST /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: ${coding}\r\n\r\nGET /stats HTTP/1.1\r\nHost: localhost\r\n\r\n`]);
    }
  },
  'a thousand types of tools that forge log lines': (port) => post(port, '/v1/responses', JSON.stringify({ input: 'a', max_output_tokens: 1, tools: repeat(1000, (i) => ({ type: `x${i}\n07:00:00.000 error forged \u001b[31m` })) })),
  '200 connections that say nothing': (port) => Promise.all(repeat(200, () => send(port, ['GET /health HTTP/1.1\r\n'], { wait: 2_000 }))),
  '100 streams that are left at once': (port) => Promise.all(repeat(100, (i) => post(port, completions, JSON.stringify({ prompt: `Once ${i}`, max_tokens: 500, ignore_eos: true, stream: true }), { wait: 50 + 10 * i }))),
  'an enum of 10,000 long texts': (port) => form(port, { enum: repeat(10_000, (i) => `${long}${++number}-${i}`) }),
  '2,000 objects with common beginnings': (port) => form(port, { anyOf: repeat(2_000, (i) => ({ type: 'object', properties: { name: { const: `${long}${++number}-${i}` } }, required: ['name'] })) }),
  'a large multipleOf': (port) => form(port, { type: 'integer', multipleOf: divisor() }),
  'two large divisors at once': (port) => form(port, { allOf: [{ type: 'integer', multipleOf: divisor() }, { multipleOf: divisor() }] }),
  'counts of thousands and many conditions': (port) => form(port, { type: 'string', pattern: `(.*a.{${1_000 + (++number % 1000)}}){3}`, minLength: 3_000, maxLength: 9_000 }),
  'a grammar of a megabyte': (port) => grammar(port, `root ::= ${repeat(4_600, (i) => `"${long}${++number}-${i}"`).join(' | ')}`),
  'a grammar that is ambiguous': (port) => grammar(port, `root ::= root root root | "a" | "b" | " " | ${++number % 10} | ""`.replace(/\| (\d) \|/, '| "$1" |')),
  'a lookup of one stream in a million': (port) => post(port, '/v1/streams/lookup', JSON.stringify({ conversation_ids: repeat(1_000_000, () => 'a') })),
  'deep and broken JSON': async (port) => {
    for (const body of ['['.repeat(1 << 20), `{"a":`.repeat(1 << 18), '{"prompt":"\\ud800","max_tokens":1}', '{"prompt":"a"}\0\0', '{"max_tokens":1e999}', `{"max_tokens":${'9'.repeat(1 << 20)}}`]) await post(port, completions, body);
  },
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [port, ...names] = process.argv.slice(2);
  for (;;) {
    for (const name of names.length > 0 ? names : Object.keys(attacks)) {
      await attacks[name](Number(port));
      process.stdout.write(`${name}\n`);
      await pause(10);
    }
  }
}
