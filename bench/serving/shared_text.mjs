// Two chats begin with the same long system text, which nobody has sent before: what does the second wait for its first
// token? Any OpenAI-compatible server.
// usage: node bench/serving/shared_text.mjs --url http://127.0.0.1:8080 [--words 4000]
import { parseArgs } from 'node:util';
import { load, randomWords } from '../common.mjs';

const { values } = parseArgs({ options: { url: { type: 'string' }, words: { type: 'string', default: '4000' } } });
if (!values.url) throw new Error('which server? node bench/serving/shared_text.mjs --url http://127.0.0.1:8080');
const base = values.url.replace(/\/(v1\/?)?$/, '');

// Milliseconds to the first text, and what usage says of the prompt.
async function ask(system, question) {
  const begin = performance.now();
  const reply = await fetch(`${base}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      messages: [{ role: 'system', content: system }, { role: 'user', content: question }],
      max_tokens: 8, temperature: 0, stream: true, stream_options: { include_usage: true },
    }),
  });
  if (!reply.ok) throw new Error(`status ${reply.status}: ${await reply.text()}`);
  let first, text = '';
  for await (const part of reply.body.pipeThrough(new TextDecoderStream())) {
    text += part;
    if (/"content":"[^"]/.test(text)) first ??= performance.now() - begin;
  }
  const events = text.split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
  const { usage } = events.findLast((event) => event.usage);
  return { first, prompt: usage.prompt_tokens, cached: usage.prompt_tokens_details?.cached_tokens ?? 0 };
}

const system = randomWords(Number(values.words));
const loadBefore = load();
const one = await ask(system, 'What is the first rule?');
const two = await ask(system, 'Who sat on the mat, and why did it run?');
for (const { first, prompt, cached } of [one, two]) console.log(`first token after ${first.toFixed(0)} ms: ${prompt} tokens, ${cached} cached`);
console.log(`the second waited ${(100 * two.first / one.first).toFixed(1)} % of the first, load ${loadBefore} to ${load()}`);
