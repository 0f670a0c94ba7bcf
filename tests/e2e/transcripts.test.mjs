// What curl sees of every endpoint, headers and bytes, against files. With CAIRN_UPDATE=1 the files are written anew.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { fixtures, serve, story } from './server.mjs';

const folder = path.join(path.dirname(fileURLToPath(import.meta.url)), 'transcripts');
let server, bert;
before(async () => {
  server = await serve(story);
  bert = await serve(path.join(fixtures, 'models', 'bert.gguf'));
});
after(async () => {
  await server.stop();
  await bert.stop();
});

// What differs from run to run, and from machine to machine.
const changing = [
  [/\b(chatcmpl|cmpl|call|msg|resp|rs|fc|req|toolu|embd|rerank)[-_][0-9A-Za-z]{16,}/g, '$1-ID'],
  [/"(created|created_at|completed_at)": ?[0-9]{9,}/g, '"$1":0'],
  [/"(created_at|modified_at|expires_at)": ?"[^"]*"/g, '"$1":"TIME"'],
  [/"(\w*_ms|\w*_per_second|\w+_duration|gap_ms_max|step_seconds)": ?[0-9.e+-]+/g, '"$1":0'],
  [/"(embedding)": ?\[[^\]]*\]/g, '"$1":[VALUES]'],
  [/"(embeddings)": ?\[\[.*?\]\]/g, '"$1":[[VALUES]]'],
  [/"(signature)": ?"[^"]+"/g, '"$1":"SIGNATURE"'],
  [/"(digest)": ?"[0-9a-f]{64}"/g, '"$1":"DIGEST"'],
  [/"(version|build_info)": ?"[^"]+"/g, '"$1":"VERSION"'],
  [/"(seed)": ?[0-9]{4,}/g, '"$1":0'],
  [/"(obfuscation)": ?"[^"]*"/g, '"$1":""'],
  [/^Date: .*$/gm, 'Date: TIME'],
  [/^Content-Length: .*$/gm, 'Content-Length: N'],
  [/^((?:X-)?Request-Id): .*$/gim, '$1: ID'],
  [/\r/g, ''],
];

const user = '"messages":[{"role":"user","content":"Tell me a story."}]';
const short = '"max_tokens":4,"temperature":0';
const tools = '"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{}}}}]';
const cases = {
  'models': ['/v1/models'],
  'health': ['/health'],
  'unknown': ['/v1/nothing'],
  'wrong-method': ['/v1/chat/completions'],
  'chat': ['/v1/chat/completions', `{${user},${short}}`],
  'chat-stream': ['/v1/chat/completions', `{${user},${short},"stream":true,"stream_options":{"include_usage":true}}`],
  'chat-tools-stream': ['/v1/chat/completions', `{${user},${short},${tools},"tool_choice":{"type":"function","function":{"name":"look"}},"stream":true}`],
  'chat-error': ['/v1/chat/completions', `{${user},"temperature":9000}`],
  'completions': ['/v1/completions', `{"prompt":"Once upon a time",${short}}`],
  'completions-stream': ['/v1/completions', `{"prompt":"Once upon a time",${short},"stream":true}`],
  'responses': ['/v1/responses', '{"input":"Tell me a story.","max_output_tokens":4,"temperature":0}'],
  'responses-stream': ['/v1/responses', '{"input":"Tell me a story.","max_output_tokens":4,"temperature":0,"stream":true}'],
  'responses-error': ['/v1/responses', '{"input":5}'],
  'messages': ['/v1/messages', `{${user},${short}}`],
  'messages-stream': ['/v1/messages', `{${user},${short},"stream":true}`],
  'messages-count': ['/v1/messages/count_tokens', `{${user}}`],
  'messages-error': ['/v1/messages', `{${user}}`],
  'messages-unknown': ['/v1/messages/batches'],
  'ollama-root': ['/'],
  'ollama-chat': ['/api/chat', `{"model":"stories260K-f32",${user},"options":{"num_predict":4,"temperature":0}}`],
  'ollama-generate': ['/api/generate', '{"model":"stories260K-f32","prompt":"Once upon a time","raw":true,"stream":false,"options":{"num_predict":4,"temperature":0}}'],
  'ollama-tags': ['/api/tags'],
  'ollama-version': ['/api/version'],
  'ollama-error': ['/api/chat', '{"messages":5}'],
  'llama-cpp-completion': ['/completion', '{"prompt":"Once upon a time","n_predict":4,"temperature":0}'],
  'llama-cpp-completion-stream': ['/completion', '{"prompt":"Once upon a time","n_predict":4,"temperature":0,"stream":true}'],
  'tokenize': ['/tokenize', '{"content":"Once upon a time"}'],
  'detokenize': ['/detokenize', '{"tokens":[1,2,3]}'],
  'apply-template': ['/apply-template', `{${user}}`],
  'embeddings': ['/v1/embeddings', '{"input":["a dog","a cat"]}', 'bert'],
  'embeddings-error': ['/v1/embeddings', '{"input":["a dog",{}]}', 'bert'],
  'chat-of-an-encoder': ['/v1/chat/completions', `{${user}}`, 'bert'],
};

for (const [name, [route, body, which]] of Object.entries(cases)) {
  test(`${name}: ${route}`, () => {
    const { url } = which === 'bert' ? bert : server;
    const flags = body ? ['-H', 'Content-Type: application/json', '-d', body] : [];
    const run = spawnSync('curl', ['-s', '-i', '-N', '--max-time', '30', url + route, ...flags], { encoding: 'utf8' });
    assert.equal(run.status, 0, run.stderr);
    const seen = changing.reduce((text, [pattern, to]) => text.replace(pattern, to), run.stdout) + '\n';
    const file = path.join(folder, name + '.txt');
    if (process.env.CAIRN_UPDATE) fs.writeFileSync(file, seen);
    assert.equal(seen, fs.readFileSync(file, 'utf8'));
  });
}

test('there is a transcript for each case and none besides', () => {
  assert.deepEqual(fs.readdirSync(folder).sort(), Object.keys(cases).map((name) => name + '.txt').sort());
});
