// Writes a GGUF that answers by scripts: what a client is told is fixed, and everything between the model's tokens and the
// client is Cairn's own (tokenizer, chat template, sampler, call parser, cache, protocols). It is not a mock of anything.
//
// How it works. The model has one layer that adds nothing, so that its logits are a function of the last token alone. Each
// step of each script is cut into vocabulary entries that no other step has, and each of those makes the next one the most
// likely by a wide margin. The chat template looks for "[script NAME]" in the user's messages, counts the answers after
// it (or reads "[step N]" in a tool's output, where a client may leave out old answers), and ends the prompt with a token of
// its own for that step (a trigger), from which the step is then written.
import fs from 'node:fs';

const WIDTH = 256;        // embedding length
const FLAGS = 32;         // three groups of so many dimensions say of a token: the answer ends after it, no step goes on
                          // from it, and it ends in a quotation mark
const HEAD = 64;          // size of the only attention head
const PIECE = 7;          // characters of a vocabulary entry of a script
const CERTAIN = 60;       // logit of the token that a step goes on with; the others are noise below 25
const END = '<|im_end|>';
// What a call has whose beginning a request demands: all of it where that is allowed, else the city alone.
const FORCED_BEGIN = '{"city": "Oslo"';
const FORCED_ENDS = [', "degrees": 20, "sunny": true}}\n</tool_call>', '}}\n</tool_call>'];
const SECOND_CHOICE = 0.75;  // how certain the second is
// How agents ask for a summary of a conversation that has filled the context.
const SUMMARY_REQUESTS = ['Your task is to create a detailed summary', 'CONTEXT CHECKPOINT', 'context checkpoint summary',
  'Provide a detailed prompt for continuing', 'anchored summary', 'state_snapshot', 'ummarize the conversation',
  'summary of the conversation', 'summary of our conversation'];

const U32 = 4, I32 = 5, STRING = 8, ARRAY = 9;
const SCALAR_BYTES = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };

// The metadata of a GGUF file: a map from key to {type, value}; numbers stay bytes, arrays are {element, items}. Its `end`
// is where the file goes on.
export function readMetadata(file) {
  const bytes = fs.readFileSync(file);
  let at = 24;
  const u32 = () => (at += 4, bytes.readUInt32LE(at - 4));
  const u64 = () => (at += 8, Number(bytes.readBigUInt64LE(at - 8)));
  const take = (size) => (at += size, bytes.subarray(at - size, at));
  const read = (type) => {
    if (type === STRING) return take(u64()).toString('utf8');
    if (type !== ARRAY) return take(SCALAR_BYTES[type]);
    const element = u32();
    return { element, items: Array.from({ length: u64() }, () => read(element)) };
  };
  const metadata = new Map();
  for (let left = Number(bytes.readBigUInt64LE(16)); left > 0; --left) {
    const key = read(STRING);
    const type = u32();
    metadata.set(key, { type, value: read(type) });
  }
  metadata.end = at;
  return metadata;
}

const u32Bytes = (value) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
};
const u64Bytes = (value) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};
const stringBytes = (text) => {
  const bytes = Buffer.from(text, 'utf8');
  return Buffer.concat([u64Bytes(bytes.length), bytes]);
};
function valueBytes(type, value) {
  if (type === STRING) return stringBytes(value);
  if (type !== ARRAY) return value;
  const items = value.items.map((item) => valueBytes(value.element, item));
  return Buffer.concat([u32Bytes(value.element), u64Bytes(value.items.length), ...items]);
}

export function metadataBytes(metadata) {
  return Buffer.concat([...metadata].flatMap(([key, { type, value }]) => [stringBytes(key), u32Bytes(type), valueBytes(type, value)]));
}

// tensors: [{name, shape, values: Float32Array}], shape with the row length first.
export function writeGguf(file, metadata, tensors) {
  const head = [Buffer.from('GGUF'), u32Bytes(3), u64Bytes(tensors.length), u64Bytes(metadata.size), metadataBytes(metadata)];
  let offset = 0;
  for (const { name, shape, values } of tensors) {
    head.push(stringBytes(name), u32Bytes(shape.length), ...shape.map(u64Bytes), u32Bytes(0), u64Bytes(offset));
    offset += Math.ceil(values.byteLength / 32) * 32;
  }
  const padded = (bytes) => Buffer.concat([bytes, Buffer.alloc(-bytes.length & 31)]);
  const parts = [padded(Buffer.concat(head))];
  for (const { values } of tensors) parts.push(padded(Buffer.from(values.buffer, values.byteOffset, values.byteLength)));
  fs.writeFileSync(file, Buffer.concat(parts));
}

// Byte-level vocabularies write each byte as one printable character.
const BYTE_CHARACTERS = (() => {
  const printable = (byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : next++));
})();
const vocabularyText = (text) => Array.from(Buffer.from(text, 'utf8'), (byte) => BYTE_CHARACTERS[byte]).join('');

// Cuts texts into vocabulary entries that nothing else has.
class Vocabulary {
  constructor(tokens, types) {
    this.tokens = tokens;
    this.types = types;
    this.ids = new Map(tokens.map((token, id) => [token, id]));
  }
  add(token, type) {
    this.ids.set(token, this.tokens.length);
    this.tokens.push(token);
    this.types.push(type);
    return this.tokens.length - 1;
  }
  // The ids of `text` as new entries, each of about PIECE characters; longer where an entry of that text exists.
  pieces(text) {
    const characters = Array.from(text);
    const ends = [];
    const piece = (begin, end) => vocabularyText(characters.slice(begin, end).join(''));
    const fresh = new Set();
    const known = (token) => this.ids.has(token) || fresh.has(token);
    // No entry spans the end of a call: there a call's grammar ends, and with it the tokens that it allows.
    const stops = [...text.matchAll(/<\/tool_call>/g)].map((found) => Array.from(text.slice(0, found.index + found[0].length)).length);
    for (let begin = 0; begin < characters.length;) {
      const limit = stops.find((stop) => stop > begin) ?? characters.length;
      let end = Math.min(begin + PIECE, limit);
      while (end < limit && known(piece(begin, end))) ++end;
      while (known(piece(begin, end)) && ends.length > 0) {  // only at the limit: joins the piece before
        ends.pop();
        begin = ends.at(-1) ?? 0;
      }
      if (known(piece(begin, end))) throw new Error(`a script's whole text is a token already: ${text}`);
      fresh.add(piece(begin, end));
      ends.push(end);
      begin = end;
    }
    return ends.map((end, index) => this.add(piece(ends[index - 1] ?? 0, end), 1));
  }
}

// What the model writes for a step {think?, text?, calls?: [{name, args} or {name, raw}]}.
function stepText(step, thinks) {
  let text = step.think && thinks ? `<think>\n${step.think}\n</think>\n\n` : '';
  text += step.text ?? '';
  for (const call of step.calls ?? []) {
    if (text && !text.endsWith('\n')) text += '\n';
    text += `<tool_call>\n{"name": "${call.name}", "arguments": ${call.raw ?? JSON.stringify(call.args)}}\n</tool_call>`;
  }
  return text;
}
const trigger = (name, step, thinks) => `<|${name}:${step}${thinks ? '' : 'q'}|>`;

// The template of models/guide, with the choice of the script before it and a trigger at the beginning of each answer.
function chatTemplate(source, scripts) {
  const summaryOf = (name) => (name.includes('.') ? `${name.split('.')[0]}.summary` : 'summary');
  const table = scripts.map(({ name, needs, steps }) => `{'name': '${name}', 'mark': '[script ${name}]',
    'needs': '${needs ?? ''}', 'last': ${steps.length - 1}, 'summary': '${summaryOf(name)}'}`);
  const choice = `
{%- set offered = namespace(names=[]) %}
{%- for tool in tools or [] %}
    {%- set function = tool.function if tool.function else tool %}
    {%- set offered.names = offered.names + [function.name] %}
{%- endfor %}
{%- set scripts = [${table.join(',\n    ')}] %}
{%- set requests = [${SUMMARY_REQUESTS.map((text) => `'${text}'`).join(', ')}] %}
{%- set turn = namespace(name='hello', step=0, last=0, summarise=false, summary='summary') %}
{%- macro begin(suffix) %}
    {{- '<|' + turn.name + ':' }}{{- turn.step if turn.step < turn.last else turn.last }}{{- suffix + '|>' }}
{%- endmacro %}
`;
  const chosen = `
    {%- if message.role == 'user' %}
        {%- set turn.summarise = false %}
        {%- for phrase in requests %}
            {%- if phrase in message.content %}{%- set turn.summarise = true %}{%- endif %}
        {%- endfor %}
    {%- endif %}
    {%- if message.role == 'user' and '[script ' in message.content %}
        {%- for script in scripts %}
            {%- if script.mark in message.content %}
                {%- set turn.summary = script.summary %}
                {%- if not script.needs or script.needs in offered.names %}
                    {%- set turn.name = script.name %}
                    {%- set turn.step = 0 %}
                    {%- set turn.last = script.last %}
                {%- endif %}
            {%- endif %}
        {%- endfor %}
    {%- elif message.role == 'tool' and '[step ' in message.content %}
        {%- set turn.step = (message.content.split('[step ')[-1].split(']')[0] | int) + 1 %}
    {%- endif %}`;
  const places = [
    ['{%- macro calls(message) %}', `${choice}{%- macro calls(message) %}`],
    ["{%- for message in messages %}\n    {%- if message.role == 'user' or",
      `{%- for message in messages %}${chosen}\n    {%- if message.role == 'user' or`],
    ["{{- '<|im_start|>assistant\\n' }}\n        {%- if loop",
      "{{- '<|im_start|>assistant\\n' + begin('') }}\n        {%- set turn.step = turn.step + 1 %}\n        {%- if loop"],
    ["    {{- '<|im_start|>assistant\\n' }}\n    {%- if not thinks %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}",
      `    {%- if turn.summarise %}{%- set turn.name = turn.summary %}{%- set turn.last = 0 %}{%- endif %}
    {{- '<|im_start|>assistant\\n' + begin('') }}
    {%- if not thinks %}{{- '<think>\\n\\n</think>\\n\\n' + begin('q') }}{%- endif %}`],
  ];
  for (const [from, to] of places) {
    if (!source.includes(from)) throw new Error(`the guide's template has no longer: ${from}`);
    source = source.replace(from, () => to);
  }
  return source;
}

// Every number is drawn from a generator of its own, so that the file is the same every time.
function signs(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state & 0x80000000 ? 1 : -1;
  };
}

// `next`: for each token that a step goes on from, the token that follows.
// `fallbacks`: what follows other tokens: {name} after a quotation mark, {args} after the rest; after both, {short} is the
// second choice.
function weights(tokens, next, end, fallbacks) {
  const embeddings = new Float32Array(tokens.length * WIDTH);
  const output = new Float32Array(tokens.length * WIDTH);
  const sign = signs(7);
  tokens.forEach((token, id) => {
    const row = embeddings.subarray(id * WIDTH, (id + 1) * WIDTH);
    for (let d = 0; d < WIDTH; ++d) row[d] = sign();
    row.fill(next.get(id) === end ? 1 : -1, 0, FLAGS);
    row.fill(next.has(id) ? -1 : 1, FLAGS, 2 * FLAGS);
    row.fill(token.endsWith('"') ? 1 : -1, 2 * FLAGS, 3 * FLAGS);
  });
  const follow = (id, follower, certain) => {
    for (let d = 3 * FLAGS; d < WIDTH; ++d) {
      output[follower * WIDTH + d] += certain / (WIDTH - 3 * FLAGS) * embeddings[id * WIDTH + d];
    }
  };
  for (const [id, follower] of next) if (follower !== end) follow(id, follower, CERTAIN);
  for (const id of [fallbacks.name, fallbacks.args]) follow(id, fallbacks.short, SECOND_CHOICE * CERTAIN);
  const pull = (id, group, by) => output.fill(by / FLAGS, id * WIDTH + group * FLAGS, id * WIDTH + (group + 1) * FLAGS);
  pull(end, 0, CERTAIN);
  for (const [id, quote] of [[fallbacks.name, 1], [fallbacks.args, -1]]) {
    pull(id, 1, CERTAIN);
    pull(id, 2, quote * CERTAIN / 2);
  }
  const constant = (count, value) => new Float32Array(count).fill(value);
  const tensors = [
    ['token_embd.weight', [WIDTH, tokens.length], embeddings], ['output.weight', [WIDTH, tokens.length], output],
    ['output_norm.weight', [WIDTH], constant(WIDTH, 1)], ['blk.0.attn_norm.weight', [WIDTH], constant(WIDTH, 1)],
    ['blk.0.attn_q.weight', [WIDTH, HEAD], constant(WIDTH * HEAD, 0)],
    ['blk.0.attn_k.weight', [WIDTH, HEAD], constant(WIDTH * HEAD, 0)],
    ['blk.0.attn_v.weight', [WIDTH, HEAD], constant(WIDTH * HEAD, 0)],
    ['blk.0.attn_q_norm.weight', [HEAD], constant(HEAD, 1)], ['blk.0.attn_k_norm.weight', [HEAD], constant(HEAD, 1)],
    ['blk.0.attn_output.weight', [HEAD, WIDTH], constant(WIDTH * HEAD, 0)],
    ['blk.0.ffn_norm.weight', [WIDTH], constant(WIDTH, 1)],
    ['blk.0.ffn_gate.weight', [WIDTH, HEAD], constant(WIDTH * HEAD, 0)],
    ['blk.0.ffn_up.weight', [WIDTH, HEAD], constant(WIDTH * HEAD, 0)],
    ['blk.0.ffn_down.weight', [HEAD, WIDTH], constant(WIDTH * HEAD, 0)],
  ];
  return tensors.map(([name, shape, values]) => ({ name, shape, values }));
}

// Writes `file` from the folder of the demonstration model (its vocabulary and its template).
// scripts: [{name, needs?: a tool without which the script is not played, steps}]; "hello" and "summary" must be there.
export function writeScriptedModel(file, guide, scripts, context) {
  const metadata = readMetadata(`${guide}/guide.gguf`);
  const tokens = metadata.get('tokenizer.ggml.tokens').value.items;
  const types = metadata.get('tokenizer.ggml.token_type').value.items.map((bytes) => bytes.readInt32LE());
  const vocabulary = new Vocabulary(tokens, types);
  const end = vocabulary.ids.get(END);
  const next = new Map();
  const chain = (first, ids) => [first, ...ids].forEach((id, index, all) => next.set(id, all[index + 1] ?? end));
  // After anything that is no step, for example the beginning of a call that a request demands.
  const add = (text) => vocabulary.add(vocabularyText(text), 1);
  const [args, name] = [FORCED_BEGIN, `get_weather", "arguments": ${FORCED_BEGIN}`].map(add);
  const [whole, short] = FORCED_ENDS.map(add);
  for (const id of [args, name]) next.set(id, whole);
  for (const id of [whole, short]) next.set(id, end);
  const steps = scripts.flatMap(({ name, steps }) => steps.map((step, index) => ({ name, index, step })));
  for (const { name, index, step } of steps) {
    const ids = vocabulary.pieces(stepText(step, true));
    chain(vocabulary.add(trigger(name, index, true), 3), ids);
    chain(vocabulary.add(trigger(name, index, false), 3), step.think ? vocabulary.pieces(stepText(step, false)) : ids);
  }
  const u32 = (key, value) => metadata.set(`qwen3.${key}`, { type: U32, value: u32Bytes(value) });
  metadata.set('general.name', { type: STRING, value: 'Scripted' });
  metadata.set('general.file_type', { type: U32, value: u32Bytes(0) });
  metadata.delete('general.quantization_version');
  for (const [key, value] of [['block_count', 1], ['context_length', context], ['embedding_length', WIDTH],
    ['feed_forward_length', HEAD], ['vocab_size', tokens.length], ['attention.head_count', 1],
    ['attention.head_count_kv', 1]]) u32(key, value);
  metadata.set('tokenizer.ggml.token_type', { type: ARRAY, value: { element: I32, items: types.map(u32Bytes) } });
  const template = chatTemplate(fs.readFileSync(`${guide}/template.jinja`, 'utf8'), scripts);
  metadata.set('tokenizer.chat_template', { type: STRING, value: template });
  writeGguf(file, metadata, weights(tokens, next, end, { args, name, short }));
}
