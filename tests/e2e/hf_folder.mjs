// Makes a folder in Hugging Face's form: a llama of two layers with random weights.
import fs from 'node:fs';
import path from 'node:path';

const width = 32, hidden = 64, layers = 2;

// The letters that byte-level tokenizers write bytes as.
function byteLetters() {
  const printable = [...Array(256).keys()].filter((b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174);
  let next = 256;
  return [...Array(256).keys()].map((b) => String.fromCodePoint(printable.includes(b) ? b : next++));
}

function shapes(vocabulary) {
  const all = { 'model.embed_tokens.weight': [vocabulary, width], 'model.norm.weight': [width] };
  for (let i = 0; i < layers; ++i) {
    const layer = `model.layers.${i}.`;
    for (const name of ['input_layernorm', 'post_attention_layernorm']) all[`${layer}${name}.weight`] = [width];
    for (const name of ['q', 'k', 'v', 'o']) all[`${layer}self_attn.${name}_proj.weight`] = [width, width];
    for (const name of ['gate', 'up']) all[`${layer}mlp.${name}_proj.weight`] = [hidden, width];
    all[`${layer}mlp.down_proj.weight`] = [width, hidden];
  }
  return all;
}

function safetensors(tensors) {
  const header = {}, parts = [];
  let offset = 0, state = 1;
  for (const [name, shape] of Object.entries(tensors)) {
    const values = new Float32Array(shape.reduce((a, b) => a * b, 1));
    for (let i = 0; i < values.length; ++i) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      values[i] = name.includes('norm') ? 1 : state / 2 ** 32 - 0.5;
    }
    header[name] = { dtype: 'F32', shape, data_offsets: [offset, offset + values.byteLength] };
    offset += values.byteLength;
    parts.push(Buffer.from(values.buffer));
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...parts]);
}

/** Writes the files into `folder`, which is made. */
export function makeHuggingFaceFolder(folder) {
  fs.mkdirSync(folder, { recursive: true });
  const tokens = ['<s>', '</s>', ...byteLetters()];
  const json = (name, value) => fs.writeFileSync(path.join(folder, name), JSON.stringify(value));
  json('config.json', {
    architectures: ['LlamaForCausalLM'], hidden_size: width, intermediate_size: hidden, num_hidden_layers: layers,
    num_attention_heads: 2, num_key_value_heads: 2, max_position_embeddings: 256, rms_norm_eps: 1e-5, rope_theta: 10000,
    vocab_size: tokens.length, tie_word_embeddings: true,
  });
  json('tokenizer.json', {
    added_tokens: [{ id: 0, content: '<s>', special: true }, { id: 1, content: '</s>', special: true }],
    pre_tokenizer: { type: 'ByteLevel', use_regex: true },
    model: { type: 'BPE', vocab: Object.fromEntries(tokens.map((token, id) => [token, id])), merges: ['a b'] },
  });
  json('tokenizer_config.json', { bos_token: '<s>', eos_token: '</s>' });
  fs.writeFileSync(path.join(folder, 'model.safetensors'), safetensors(shapes(tokens.length)));
  return folder;
}
