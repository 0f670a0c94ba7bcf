// A model of random words obeys tool_choice at temperature 2 in every syntax of calls, thinking or not, streamed or not.
// As in CI, each syntax is asked once for each choice, in turn with thinking, as a stream and for parallel calls.
// CAIRN_SAMPLES=N asks N times for each syntax and choice, and prints a table; CAIRN_SYNTAX=glm,hermes: in these alone.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { after, test } from 'node:test';
import { fixtures, serve, storyWithControls } from './server.mjs';

const samples = Number(process.env.CAIRN_SAMPLES ?? 1);
const only = process.env.CAIRN_SYNTAX?.split(',');
// A template of each syntax, and what opens a call there.
const syntaxes = {
  apertus: ['Apertus-8B-Instruct', '<|tools_prefix|>'], apriel: ['unsloth-Apriel-1.5', '<tool_calls>'],
  command_r: ['CohereForAI-c4ai-command-r7b-12-2024-tool_use', '<|START_ACTION|>'],
  command_r_plus: ['CohereForAI-c4ai-command-r-plus-tool_use', 'Action:\n```json'],
  deepseek_v3: ['llama-cpp-deepseek-r1', '<｜tool▁calls▁begin｜>'], deepseek_v31: ['deepseek-ai-DeepSeek-V3.1', '<｜tool▁calls▁begin｜>'],
  dsml_v32: ['deepseek-ai-DeepSeek-V3.2', '<｜DSML｜function_calls>'], dsml_v4: ['deepseek-ai-DeepSeek-V4', '<｜DSML｜tool_calls>'],
  fire_function: ['fireworks-ai-llama-3-firefunction-v2', 'functools'], functionary: ['meetkai-functionary-medium-v3.1', '<function='],
  functionary_recipient: ['meetkai-functionary-medium-v3.2', '>>>'], gemma: ['google-gemma-4-31B-it', '<|tool_call>'],
  gemma_fence: ['google-gemma-2-2b-it', '```json'], giga_chat: ['GigaChat3.1-10B-A1.8B', '<|function_call|>'],
  giga_chat_role: ['GigaChat3-10B-A1.8B', null], glm: ['GLM-4.6', '<tool_call>'], granite: ['ibm-granite-granite-3.3-2B-Instruct', '<|tool_call|>'],
  harmony: ['openai-gpt-oss-120b', '<|channel|>commentary to=functions.'], hermes: ['Qwen-Qwen3-0.6B', '<tool_call>'], hy: ['tencent-Hy3', '<tool_calls:opensource>'],
  kimi: ['Kimi-K2-Instruct', '<|tool_calls_section_begin|>'], kimi_k3: ['Kimi-K3', '<|open|>tools<|sep|>'], lfm: ['LFM2-8B-A1B', '<|tool_call_start|>'],
  llama: ['meta-llama-Llama-3.1-8B-Instruct', '<|python_tag|>'], mini_cpm: ['openbmb-MiniCPM5-1B', '<function name="'],
  minimax_m1: ['MiniMax-M1', '<tool_calls>'], minimax_m2: ['MiniMax-M2', '<minimax:tool_call>'],
  mistral: ['mistralai-Ministral-3-14B-Reasoning-2512', '[TOOL_CALLS]'], mistral_id: ['Mistral-Small-3.2-24B-Instruct-2506', '[TOOL_CALLS]'],
  mistral_list: ['mistralai-Mistral-Nemo-Instruct-2407', '[TOOL_CALLS]'], nemotron: ['NVIDIA-Nemotron-Nano-v2', '<TOOLCALL>'],
  qwen_coder: ['Qwen3-Coder', '<tool_call>'], seed: ['ByteDance-Seed-OSS', '<seed:tool_call>'], solar: ['upstage-Solar-Open-100B', '<|tool_calls|>'],
};

const tool = (name, strict, properties) => ({
  type: 'function',
  function: { name, description: '', strict, parameters: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false } },
});
const tools = [
  tool('paint', true, { colour: { enum: ['red', 'dark green'] }, layers: { type: 'integer', minimum: 1, maximum: 9 }, note: { type: 'string', maxLength: 6 } }),
  tool('halt', true, { now: { type: 'boolean' } }),
];
function fits({ name, arguments: text }) {
  const value = JSON.parse(text);
  if (name === 'halt') return typeof value.now === 'boolean' && Object.keys(value).length === 1;
  return name === 'paint' && ['red', 'dark green'].includes(value.colour) && value.layers >= 1 && value.layers <= 9 &&
    typeof value.note === 'string' && [...value.note].length <= 6 && Object.keys(value).length === 3;
}

const isJson = (text) => { try { return JSON.parse(text) !== undefined; } catch { return false; } };

// {calls: [{name, arguments}], content, finish}
async function ask(server, body) {
  const response = await server.post('/v1/chat/completions', body);
  const text = await response.text();
  assert.equal(response.status, 200, text);
  if (!body.stream) {
    const [{ message, finish_reason: finish }] = JSON.parse(text).choices;
    return { calls: (message.tool_calls ?? []).map((call) => call.function), content: message.content ?? '', finish };
  }
  const answer = { calls: [], content: '', finish: null };
  for (const line of text.split('\n').filter((each) => each.startsWith('data: {'))) {
    const [choice] = JSON.parse(line.slice(6)).choices;
    if (!choice) continue;
    answer.finish ??= choice.finish_reason;
    answer.content += choice.delta.content ?? '';
    for (const { index, function: { name, arguments: piece } } of choice.delta.tool_calls ?? []) {
      answer.calls[index] ??= { name, arguments: '' };
      answer.calls[index].arguments += piece ?? '';
    }
  }
  return answer;
}

// Why an answer does not obey; undefined: it does. An answer that max_tokens cuts may end within a call.
function wrong({ calls, finish, content }, choice, parallel) {
  if (choice === 'none' && calls.length > 0) return 'a call';
  if (choice === 'none' || choice === 'auto' ? false : calls.length === 0) return `no call, but ${JSON.stringify(content)}`;
  if (!parallel && calls.length > 1) return 'several calls';
  for (const [index, call] of calls.entries()) {
    const cut = finish === 'length' && index === calls.length - 1;
    if (!['paint', 'halt'].includes(call.name)) return `the name ${call.name}`;
    if (choice?.function && call.name !== choice.function.name) return `another name, ${call.name}`;
    try {
      if (!fits(call)) return `arguments ${call.arguments}`;
    } catch {
      if (!cut) return `arguments that are no JSON: ${call.arguments}`;
    }
  }
  return undefined;
}

const named = { type: 'function', function: { name: 'halt' } };
const table = [];
after(() => {
  if (process.env.CAIRN_SAMPLES) console.log(table.join('\n'));
});
for (const [number, [syntax, [template, opener]]] of Object.entries(syntaxes).entries()) {
  if (only && !only.includes(syntax)) continue;
  test(`tool_choice holds in the syntax ${syntax}`, async (t) => {
    const file = path.join(fixtures, 'chat-templates', `${template}.jinja`);
    const source = fs.readFileSync(file, 'utf8');
    const controls = [...new Set(source.match(/<\|?[a-zA-Z0-9_:"]+\|>|<\|[a-zA-Z0-9_:]+>|<｜[^<>\s｜]+｜>|\[(?:TOOL_CALLS|ARGS|CALL_ID)\]/g) ?? [])];
    for (const text of ['<|"|>', '<tool_call|>', '<|call|>', '<|constrain|>']) if (source.includes(text) && !controls.includes(text)) controls.push(text);
    // What opens a call is one token, so that it can be made likely.
    const kControlsMax = 60;
    const model = storyWithControls(controls.slice(0, kControlsMax), !opener || controls.includes(opener) ? [] : [opener], 8192);
    const server = await serve(model, ['--chat-template', file]);
    t.after(() => server.stop());
    const { tokens } = opener ? await (await server.post('/tokenize', { content: opener, add_special: false, parse_special: true })).json() : { tokens: [] };
    // Beside a form an answer is one call, or has the form; a call that is required leaves the form nothing to hold.
    const response_format = { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] } } };
    for (const [seed, choice] of ['auto', 'auto', 'required'].entries()) {
      const body = { messages: [{ role: 'user', content: 'Paint it.' }], tools, tool_choice: choice, response_format, seed, temperature: 2, max_tokens: 400, thinking_budget: 4, stream: seed === 1 };
      const answer = await ask(server, body);
      assert.equal(wrong(answer, choice, choice === 'required'), undefined, `a form beside ${choice}: ${JSON.stringify(answer)}`);
      if (answer.calls.length === 0 && answer.finish === 'stop') assert.deepEqual(Object.keys(JSON.parse(answer.content)), ['ok'], answer.content);
    }
    // Names that OpenAI would refuse are called as they are; where the format has a use for a character, that is said.
    for (const [seed, name] of ['a b', '天气', 'get:1', '[x]'].entries()) {
      const odd = [tool(name, false, { q: { type: 'integer', minimum: 0, maximum: 9 } })];
      const tool_choice = seed % 2 ? { type: 'function', function: { name } } : 'required';
      const body = { messages: [{ role: 'user', content: 'Call it.' }], tools: odd, tool_choice, seed, max_tokens: 300, stream: seed > 1, parallel_tool_calls: false };
      if (name === '[x]' && ['glm', 'mistral', 'mistral_id'].includes(syntax)) {
        const refused = await server.post('/v1/chat/completions', body);
        assert.equal(refused.status, 400);
        assert.match((await refused.json()).error.message, /cannot have the name "\[x\]", because of the "\["/);
        continue;
      }
      const { calls, content } = await ask(server, body);
      assert.deepEqual([calls.map((call) => call.name), content], [[name], ''], name);
      const { q, ...rest } = JSON.parse(calls[0].arguments);
      assert.ok(Number.isInteger(q) && q >= 0 && q <= 9, calls[0].arguments);
      assert.deepEqual(rest, {});
    }
    const likely = Object.fromEntries(tokens.slice(0, 1).map((token) => [token, 20]));
    for (const [turn, [name, choice]] of Object.entries({ auto: 'auto', none: 'none', required: 'required', named }).entries()) {
      let obeyed = 0, called = 0, cut = 0;
      // Other seeds for each syntax and choice, so that few of them ask in all ways, too.
      for (let sample = 0, seed = number + 3 * turn; sample < samples; ++sample, ++seed) {
        const [parallel, stream, enable_thinking] = [seed % 2 === 1, (seed >> 1) % 2 === 1, ((seed >> 2) + seed) % 2 === 1];
        const body = {
          messages: [{ role: 'user', content: 'Paint it.' }], tools, tool_choice: choice, parallel_tool_calls: parallel, stream, seed,
          temperature: 2, max_tokens: 400, thinking_budget: 4, chat_template_kwargs: { enable_thinking },
          ...(name === 'auto' || name === 'none' ? { logit_bias: likely } : {}),
        };
        const answer = await ask(server, body);
        const why = wrong(answer, choice, parallel);
        if (!process.env.CAIRN_SAMPLES) assert.equal(why, undefined, `${name}, seed ${seed}`);
        if (why) console.log(`${syntax}, ${name}, seed ${seed}: ${why.slice(0, 300)}`);
        obeyed += why ? 0 : 1;
        called += answer.calls.length > 0 ? 1 : 0;
        cut += answer.finish === 'length' && answer.calls.length === 1 && answer.calls.some((call) => !isJson(call.arguments)) ? 1 : 0;
      }
      table.push(`${syntax.padEnd(22)} ${name.padEnd(9)} obeyed ${obeyed}/${samples}, with calls ${called}, of them cut in the first one ${cut}`);
    }
  });
}
