// Requests of public bug reports and of known clients (reported_inputs.json), each of which has ended a session with some
// server: they are answered, and nothing of them is lost.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { fixtures, serve } from './server.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const guide = path.join(here, '../../models/guide/guide.gguf');
const inputs = JSON.parse(fs.readFileSync(path.join(here, 'reported_inputs.json'), 'utf8'));
let server;
before(async () => { server = await serve(guide, ['-n', '16']); });
after(async () => {
  const end = await server.stop();
  assert.equal(end.code, 0, end.log);
});

const send = (name, to = server) => {
  const { path: route, headers, body, raw } = inputs[name];
  return fetch(to.url + route, {
    method: 'POST', headers: { 'content-type': 'application/json', ...headers },
    body: raw ?? JSON.stringify({ ...body, ...(body.max_tokens === -1 ? { max_tokens: 8 } : {}) }),
  });
};

// Refused, with the answer's status and words: what the client goes on from.
const refused = {
  'aisdk-item-reference': [404, /no item .*rs_0+1.* is kept/],  // its ids are made up
  'sdk-thread': [400, /"unsupported": ?\["thread"\]/],  // the SDK goes on without threads
};

for (const name of Object.keys(inputs)) {
  test(`${name} is ${refused[name] ? 'refused in words that its client knows' : 'answered'}`, async () => {
    const reply = await send(name);
    const text = await reply.text();
    assert.equal(reply.status, refused[name]?.[0] ?? 200, text);
    if (refused[name]) assert.match(text, refused[name][1]);
    else assert.doesNotMatch(text, /"type": ?"error"|event: error/);
  });
}

test('three texts, one of them empty, have three vectors', async () => {
  const encoder = await serve(path.join(fixtures, 'models', 'bert.gguf'));
  const { embeddings } = await (await send('embed_with_empty', encoder)).json();
  assert.equal(embeddings.length, inputs.embed_with_empty.body.input.length);
  await encoder.stop();
});

// The templates of models that refuse such histories: the conversation is made to fit them.
const strict = ['Mistral-Small-3.2-24B-Instruct-2506', 'mistralai-Mistral-Nemo-Instruct-2407', 'google-gemma-2-2b-it', 'meta-llama-Llama-3.1-8B-Instruct', 'moonshotai-Kimi-K2', 'Kimi-K2-Instruct', 'openai-gpt-oss-120b', 'deepseek-ai-DeepSeek-V3.1'];
for (const template of strict) {
  test(`every reported history is answered with the template of ${template}`, async () => {
    const own = await serve(guide, ['-n', '2', '--chat-template', path.join(fixtures, 'chat-templates', `${template}.jinja`)]);
    for (const name of Object.keys(inputs).filter((each) => !refused[each] && each !== 'embed_with_empty')) {
      const reply = await send(name, own);
      const text = await reply.text();
      assert.equal(reply.status, 200, `${name}: ${text}`);
    }
    const end = await own.stop();
    assert.equal(end.code, 0, end.log);
  });
}
