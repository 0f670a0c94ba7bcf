// Models with recurrent layers: their states cannot be cut back, so what is found again depends on where copies were kept.
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { fixtures, serve, trainedFor } from './server.mjs';

const turns = 30;
const context = 32768;
const system = 'You look after a garden by the sea and answer in few words. '.repeat(100);
const toolResult = (turn) => `There are ${turn} birds and ${turn * 7} fish. ${'The wind comes from the west. '.repeat(4)}`;
// A checkpoint lies at the last page boundary (32 tokens) before the last message's end, which some tokens follow.
const lostMax = 80;

async function ask(server, messages, seed = 1) {
  const reply = await server.post('/v1/chat/completions', { messages, max_tokens: 12, temperature: 0.8, seed });
  assert.equal(reply.status, 200, await reply.clone().text());
  const { usage, choices } = await reply.json();
  return { prompt: usage.prompt_tokens, cached: usage.prompt_tokens_details.cached_tokens, message: choices[0].message };
}

for (const name of ['qwen35', 'lfm2', 'mamba2']) {
  test(`${name}: a conversation of ${turns} turns with tool results computes what is new`, async () => {
    const server = await serve(trainedFor(path.join(fixtures, 'models', `${name}.gguf`), name, context), ['--parallel', '2']);
    try {
      const talks = ['one', 'two'].map((talk) => ({
        messages: [{ role: 'system', content: `${system} This is garden ${talk}.` }, { role: 'user', content: `What is new in garden ${talk}?` }],
      }));
      for (let turn = 0; turn < turns; ++turn) {
        for (const talk of talks) {  // the two take turns
          const { messages, last } = talk;
          const now = await ask(server, messages, turn);
          if (last) {
            assert.ok(now.cached >= last.prompt - lostMax, `turn ${turn}: ${now.cached} of ${last.prompt}`);
            assert.ok(now.cached >= 0.99 * (last.prompt - lostMax / 2), `turn ${turn}: ${now.cached} of ${last.prompt}`);
          }
          talk.last = now;
          const call = { id: `call_${turn}`, type: 'function', function: { name: 'look', arguments: '{}' } };
          messages.push({ role: 'assistant', content: null, tool_calls: [call] });
          messages.push({ role: 'tool', tool_call_id: call.id, content: toolResult(turn) });
        }
      }
      const [{ messages, last }] = talks;
      // The last message is written anew, as a person does who edits it.
      const before = await ask(server, messages);
      const edited = await ask(server, [...messages.slice(0, -1), { ...messages.at(-1), content: `Nothing at all. ${toolResult(99)}` }]);
      assert.ok(edited.cached >= last.prompt - lostMax, `edited: ${edited.cached} of ${last.prompt}, before ${before.cached}`);
      // Another conversation begins with the same system prompt.
      const other = await ask(server, [messages[0], { role: 'user', content: 'And who are you?' }]);
      assert.ok(other.cached >= 0.9 * system.length / 10 && other.cached >= other.prompt - 2 * lostMax, `other: ${other.cached} of ${other.prompt}`);
    } finally {
      assert.equal((await server.stop()).code, 0);
    }
  });
}
