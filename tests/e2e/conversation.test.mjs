// Agents resend their whole history with every turn: what was computed for the turn before is found again.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { serve, storyTrainedFor } from './server.mjs';

let server;
before(async () => { server = await serve(storyTrainedFor(16384), ['--parallel', '1']); });
after(async () => {
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

const system = 'You tell stories about a little dog who lived in a big house near the sea. '.repeat(100);
const toolResult = (turn) => `The dog saw ${turn} birds and ${turn * 7} fish. ${'He ran to the park to play. '.repeat(3)}`;
const turns = 30;
const answerTokens = 16;  // less than 1 % of the system's, so a whole answer that is cut into other tokens is no miss

async function ask(messages, seed) {
  const reply = await server.post('/v1/chat/completions', { messages, max_tokens: answerTokens, temperature: 0.7, seed });
  assert.equal(reply.status, 200, await reply.clone().text());
  const { usage, timings, choices } = await reply.json();
  return { usage, timings, message: choices[0].message, cached: usage.prompt_tokens_details.cached_tokens };
}

test(`a conversation of ${turns} turns with tool results computes what is new`, async () => {
  const messages = [{ role: 'system', content: system }, { role: 'user', content: 'Tell me what the dog did.' }];
  let last, computed = 0;
  for (let turn = 0; turn < turns; ++turn) {
    const now = await ask(messages, turn);
    if (last) {
      // All of the last turn's prompt. Of its answer what the model was fed and the text gives the same tokens for:
      // sampled tokens are not always those that their text is cut into, and the last one was sampled and not fed.
      assert.ok(now.cached >= last.usage.prompt_tokens, `turn ${turn}: ${now.cached} of ${last.usage.prompt_tokens}`);
      assert.ok(now.cached >= 0.99 * last.usage.total_tokens, `turn ${turn}: ${now.cached} of ${last.usage.total_tokens}`);
      assert.equal(now.timings.prompt_n, now.usage.prompt_tokens - now.cached);
      computed += now.timings.prompt_n;
    }
    last = now;
    // As if the answer had called a tool: the call is text that the model has not seen.
    const call = { id: `call_${turn}`, type: 'function', function: { name: 'look', arguments: '{}' } };
    messages.push({ ...now.message, tool_calls: [call] }, { role: 'tool', tool_call_id: call.id, content: toolResult(turn) });
  }
  assert.ok(last.usage.prompt_tokens > 3_000, `${last.usage.prompt_tokens} tokens`);
  assert.ok(computed < last.usage.prompt_tokens, `${computed} tokens of prompts computed`);
});

test('an earlier turn asked anew finds all before it', async () => {
  const beginning = [{ role: 'system', content: system }, { role: 'user', content: 'Tell me what the dog did.' }];
  const again = await ask(beginning, 0);
  assert.equal(again.cached, again.usage.prompt_tokens - 1);  // the last token's logits are wanted
  const other = await ask([{ role: 'system', content: system }, { role: 'user', content: 'What did the cat do?' }], 0);
  assert.ok(other.cached > 0.98 * other.usage.prompt_tokens && other.cached < other.usage.prompt_tokens - 1);
});
