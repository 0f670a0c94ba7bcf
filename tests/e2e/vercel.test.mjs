// Vercel's `ai` from npm, through its provider for OpenAI-compatible servers.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embedMany, generateText, streamText, tool } from 'ai';
import { z } from 'zod';
import { fixtures, serve, story } from './server.mjs';

let server, model;
before(async () => {
  server = await serve(story);
  model = createOpenAICompatible({ name: 'cairn', baseURL: server.url + '/v1', includeUsage: true })('stories260K-f32');
});
after(async () => {
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

const ask = { prompt: 'Tell me a story.', maxOutputTokens: 24, temperature: 0, maxRetries: 0 };

test('text, whole and as a stream', async () => {
  const whole = await generateText({ model, ...ask });
  assert.ok(whole.text.length > 20);
  assert.equal(whole.finishReason, 'length');
  assert.equal(whole.usage.outputTokens, 24);
  const stream = streamText({ model, ...ask });
  let text = '';
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, whole.text);
  assert.equal((await stream.usage).inputTokens, whole.usage.inputTokens);
});

test('a tool that must be called is called', async () => {
  const tools = { look: tool({ description: 'Looks somewhere.', inputSchema: z.object({ where: z.string() }) }) };
  const { toolCalls, content } = await generateText({ model, ...ask, tools, toolChoice: { type: 'tool', toolName: 'look' } });
  assert.equal((toolCalls[0] ?? content[0]).toolName, 'look');
});

test('a history with calls and results is understood', async () => {
  const messages = [
    { role: 'user', content: 'Where is the dog?' },
    { role: 'assistant', content: [{ type: 'tool-call', toolCallId: 'call_1', toolName: 'look', input: { where: 'park' } }] },
    { role: 'tool', content: [{ type: 'tool-result', toolCallId: 'call_1', toolName: 'look', output: { type: 'text', value: 'in the park' } }] },
  ];
  const { text } = await generateText({ model, ...ask, prompt: undefined, messages });
  assert.ok(text.length > 0);
});

test('an aborted stream frees the request', async () => {
  const controller = new AbortController();
  const stream = streamText({ model, ...ask, maxOutputTokens: 400, abortSignal: controller.signal, onError: () => {} });
  try {
    for await (const piece of stream.textStream) if (piece) controller.abort();
  } catch (error) {
    assert.equal(error.name, 'AbortError');
  }
  const deadline = Date.now() + 5_000;
  let stats;
  do stats = await (await fetch(server.url + '/stats')).json();
  while (stats.active_requests > 0 && Date.now() < deadline);
  assert.equal(stats.active_requests, 0);
});

test('embeddings', async () => {
  const bert = await serve(`${fixtures}/models/bert.gguf`);
  try {
    const provider = createOpenAICompatible({ name: 'cairn', baseURL: bert.url + '/v1' });
    const { embeddings } = await embedMany({ model: provider.textEmbeddingModel('bert'), values: ['a dog', 'a cat', 'a dog'] });
    assert.equal(embeddings.length, 3);
    assert.deepEqual(embeddings[0], embeddings[2]);
    assert.notDeepEqual(embeddings[0], embeddings[1]);
  } finally {
    await bert.stop();
  }
});

test('errors come with their status and words', async () => {
  await assert.rejects(generateText({ model, ...ask, temperature: 9000 }), (error) => {
    assert.equal(error.statusCode, 400);
    assert.match(error.message, /temperature must be from 0 to 1000/);
    return true;
  });
});
