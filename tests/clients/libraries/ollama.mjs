// Ollama's library.
import assert from 'node:assert/strict';
import { Ollama } from 'ollama';
import { HELLO, JSON_ANSWER, MODEL as model, SUNNY, URL_OF_CAIRN, WEATHER_SCHEMA, oddTests, runTests } from './check.mjs';

const client = new Ollama({ host: URL_OF_CAIRN });
const user = (content) => [{ role: 'user', content }];
const tool = { type: 'function', function: { name: 'get_weather', description: 'The weather', parameters: WEATHER_SCHEMA } };
const chat = async (more) => (await client.chat({ model, messages: user('hi'), ...more })).message;

await runTests({
  version: async () => assert.ok(Number((await client.version()).version.split('.')[1]) >= 13, 'clients refuse versions below 0.13.4'),
  list: async () => assert.match((await client.list()).models[0].name, /^scripted/),
  show: async () => assert.ok((await client.show({ model })).model_info),
  pull: async () => assert.equal((await client.pull({ model })).status, 'success'),
  chat: async () => assert.equal((await chat({})).content, HELLO),
  'chat stream': async () => {
    let content = '', thinking = '';
    for await (const { message } of await client.chat({ model, messages: user('hi'), stream: true, think: true })) {
      content += message.content;
      thinking += message.thinking ?? '';
    }
    assert.equal(content, HELLO);
    assert.equal(thinking.trim(), 'A short hello will do here.');
  },
  tools: async () => {
    const first = await chat({ messages: user('[script weather]'), tools: [tool] });
    assert.deepEqual(first.tool_calls[0].function.arguments, { city: 'Oslo' });
    const messages = [...user('[script weather]'), first, { role: 'tool', content: '20 degrees', tool_name: 'get_weather' }];
    assert.equal((await chat({ messages, tools: [tool] })).content, SUNNY);
  },
  'lone result': async () => chat({ messages: [...user('hi'), { role: 'tool', content: '20 degrees' }, ...user('and?')] }),
  'more fields': async () => assert.equal((await client.chat({ model, messages: user('hi'), tool_choice: 'auto', temperature: 0, top_p: 1,
    options: { foo: 1, draft_num_predict: 3 } })).message.content, HELLO),
  format: async () => assert.deepEqual(JSON.parse((await chat({ messages: user('[script json]'), format: { type: 'object',
    properties: { city: { type: 'string' }, degrees: { type: 'number' }, sunny: { type: 'boolean' } }, required: ['city', 'degrees', 'sunny'] } })).content), JSON_ANSWER),
  'format json': async () => assert.deepEqual(JSON.parse((await chat({ messages: user('[script json]'), format: 'json' })).content), JSON_ANSWER),
  ...oddTests('', async (odd) => assert.equal((await chat({ tools: [tool], messages: [...user('w'), { role: 'assistant', content: '',
    tool_calls: [{ function: { name: 'get_weather', arguments: { city: 'Oslo' } } }] }, { role: 'tool', content: odd, tool_name: 'get_weather' }] })).content, HELLO)),
  cut: async () => assert.equal((await client.chat({ model, messages: user('[script cut]'), tools: [tool], options: { num_predict: 12 } })).message.tool_calls ?? null, null),
  generate: async () => assert.equal((await client.generate({ model, prompt: 'hi' })).response, HELLO),
  embed: async () => assert.equal((await client.embed({ model, input: ['a', '', 'b'] })).embeddings.length, 3),
  abort: async () => {
    const stream = await client.chat({ model, messages: user('[script story]'), stream: true });
    let pieces = 0;
    await assert.rejects(async () => {
      for await (const piece of stream) if (piece && ++pieces === 3) stream.abort();
    }, { name: 'AbortError' });
  },
});
