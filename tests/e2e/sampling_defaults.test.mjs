// One rule of sampling where a request says nothing: the same prompt and seed give the same text through every endpoint
// and command, and each of the places that may say something else is obeyed by all of them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { cairn, serve, story, storyWith } from './server.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-sampling-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));
const template = path.join(folder, 'template');
fs.writeFileSync(template, 'Once upon a time {{ messages[0].content }}');
const templated = ['--chat-template', template];

const content = 'there was a';
const prompt = `Once upon a time ${content}`;
const messages = [{ role: 'user', content }];
const kTokens = 32;
const seed = 7;
const chosen = (value) => value.choices[0].message?.content ?? value.choices[0].text;

// Route, body and where the answer's text stands.
const chats = { messages, max_tokens: kTokens, seed };
const texts = { prompt, max_tokens: kTokens, seed };
const options = { num_predict: kTokens, seed };
const openai = [
  ['/v1/chat/completions', chats, chosen],
  ['/v1/completions', texts, chosen],
  ['/v1/messages', chats, (value) => value.content[0].text],
  ['/v1/responses', { input: content, max_output_tokens: kTokens, seed }, (value) => value.output.at(-1).content[0].text],
];
const others = [
  ['/api/chat', { messages, stream: false, options }, (value) => value.message.content],
  ['/api/generate', { prompt: content, stream: false, options }, (value) => value.response],
  ['/api/v0/chat/completions', chats, chosen],
  ['/completion', { prompt, n_predict: kTokens, seed }, (value) => value.content],
];

// What each front of a server answers. `more` is asked of all of them.
async function answers(server, fronts, more = {}) {
  const all = {};
  for (const [route, body, text] of fronts) {
    const asked = body.options ? { ...body, options: { ...body.options, ...more } } : { ...body, ...more };
    const reply = await server.post(route, asked);
    const value = await reply.json();
    assert.equal(reply.status, 200, `${route}: ${JSON.stringify(value)}`);
    all[route] = text(value).trim();
  }
  return all;
}

const flagsOf = (more) => Object.entries({ n: kTokens, seed, ...more })
  .flatMap(([name, value]) => [name.length === 1 ? `-${name}` : `--${name}`, String(value)]);

// What each command answers with a model that it loads.
function commandAnswers(model, more = {}) {
  const flags = flagsOf(more);
  const answer = (args, input = '') => {
    const run = cairn(args, { input });
    assert.equal(run.status, 0, run.stderr);
    return run.stdout.trim();
  };
  return {
    chat: answer(['chat', model, ...templated, ...flags], `${content}\n`),
    run: answer(['run', model, content, ...templated, ...flags]),
    generate: answer(['generate', model, '-p', prompt, '-q', ...flags]),
  };
}

// And each that asks a server.
function clientAnswers(server, socket) {
  const answer = (args, input = '') => {
    const run = cairn([...args, ...flagsOf({})], { input });
    assert.equal(run.status, 0, run.stderr);
    return run.stdout.trim();
  };
  return {
    'chat --url': answer(['chat', '--url', server.url], `${content}\n`),
    'frames, a message': answer(['frames', socket, '-m', content]),
    'frames, a prompt': answer(['frames', socket, '-p', prompt]),
  };
}

const assertAll = (found, text) => assert.deepEqual(found, Object.fromEntries(Object.keys(found).map((name) => [name, text])));

async function withServer(model, flags, check) {
  const socket = path.join(folder, `${fs.readdirSync(folder).length}.sock`);
  const server = await serve(model, [...templated, '--frames', socket, ...flags]);
  try {
    await check(server, socket);
  } finally {
    await server.stop();
  }
}

const kUsual = { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05 };
const kRaw = { temperature: 1, top_k: 0, top_p: 1, min_p: 0 };
const paramsOf = async (server) => {
  const { default_generation_settings: { params } } = await (await fetch(`${server.url}/props`)).json();
  return Object.fromEntries(Object.keys(kUsual).map((name) => [name, params[name]]));
};

let usual;  // the answer by the rule
let raw;    // and by OpenAI's own defaults

test('with nothing set, every endpoint and command gives the same text', async () => {
  await withServer(story, [], async (server, socket) => {
    assert.deepEqual(await paramsOf(server), kUsual);
    usual = chosen(await (await server.post('/v1/chat/completions', { ...chats, ...kUsual })).json()).trim();
    raw = chosen(await (await server.post('/v1/chat/completions', { ...chats, ...kRaw })).json()).trim();
    assert.notEqual(usual, raw);
    assertAll(await answers(server, [...openai, ...others]), usual);
    assertAll(clientAnswers(server, socket), usual);
    assertAll(await answers(server, [...openai, ...others], kRaw), raw);
  });
  assertAll(commandAnswers(story), usual);
  assertAll(commandAnswers(story, { temp: 1, 'top-k': 0, 'top-p': 1, 'min-p': 0 }), raw);
});

test('--api-sampling openai changes the endpoints of OpenAI and Anthropic alone', async () => {
  await withServer(story, ['--api-sampling', 'openai'], async (server, socket) => {
    assert.deepEqual(await paramsOf(server), kUsual);
    assertAll(await answers(server, openai), raw);
    assertAll(await answers(server, others), usual);
    assertAll(await answers(server, openai, kUsual), usual);
    const { 'chat --url': chat, ...frames } = clientAnswers(server, socket);
    assert.equal(chat, raw);
    assertAll(frames, usual);
  });
  const config = path.join(folder, 'config.toml');
  fs.writeFileSync(config, 'api-sampling = "openai"\n');
  await withServer(story, ['--config', config], async (server) => assertAll(await answers(server, openai), raw));
});

test('what a model\'s file recommends is obeyed everywhere, and the server\'s own settings come before it', async () => {
  const model = storyWith({ 'general.sampling.temp': 1.75, 'general.sampling.top_k': 12 });
  const recommended = { ...kUsual, temperature: 1.75, top_k: 12 };
  let text;
  await withServer(model, [], async (server, socket) => {
    assert.deepEqual(await paramsOf(server), recommended);
    text = chosen(await (await server.post('/v1/chat/completions', { ...chats, ...recommended })).json()).trim();
    assert.notEqual(text, usual);
    assertAll(await answers(server, [...openai, ...others]), text);
    assertAll(clientAnswers(server, socket), text);
  });
  assertAll(commandAnswers(model), text);
  const cold = commandAnswers(model, { temp: 0.25 });
  assertAll(cold, cold.generate);
  assert.notEqual(cold.generate, text);
  await withServer(model, ['--temp', '0.25'], async (server, socket) => {
    assert.deepEqual(await paramsOf(server), { ...recommended, temperature: 0.25 });
    assertAll(await answers(server, [...openai, ...others]), cold.generate);
    assertAll(clientAnswers(server, socket), cold.generate);
    assertAll(await answers(server, [...openai, ...others], { temperature: 1.75 }), text);
  });
  const config = path.join(folder, 'model.toml');
  fs.writeFileSync(config, 'temp = 1.5\n[model."tuned"]\ntemp = 0.25\n');
  await withServer(model, ['--name', 'tuned', '--config', config], async (server) =>
    assertAll(await answers(server, [...openai, ...others]), cold.generate));
});
