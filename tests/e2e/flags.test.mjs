// Every flag of the commands that write text has an effect: other output, another log, a file, or an error that is about
// it. The flags are those that the program's own help lists, so that a new one needs a row here.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { cairn, parameters, serve, story, storyAdapter } from './server.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-flags-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));
const file = (name, bytes) => {
  fs.writeFileSync(path.join(folder, name), bytes);
  return path.join(folder, name);
};
const model = file('story.gguf', fs.readFileSync(story));
const yarn = ['--rope-scaling', 'yarn', '--rope-scale', '8'];
const directions = file('steer', Buffer.from(Float32Array.from({ length: 5 * 64 }, (_, i) => Math.sin(i)).buffer));
// A template whose error tells what it was given.
const telling = file('telling.jinja', "{{ messages[0].content }}{% if messages[0].content != 'cairnmessage' and mood is defined %}{{ mood }}{% endif %}"
  + "{% if enable_thinking is defined and not enable_thinking %} Not thinking.{% endif %}</think>");

// A flag's value (null: a switch), and flags that it is tried beside.
const rows = {
  ctx: ['1'], 'kv-type': ['q8_0', '--log-level', 'debug'], 'gpu-layers': ['7'], threads: ['3', '--log-level', 'debug'], isa: ['none'],
  'rope-scale': ['8', '--rope-scaling', 'linear'], 'rope-freq-scale': ['0.1'], 'rope-freq-base': ['50'],
  'yarn-ext-factor': ['0', ...yarn], 'yarn-attn-factor': ['9', ...yarn], 'yarn-beta-slow': ['20', ...yarn], 'yarn-orig-ctx': ['16', ...yarn],
  lora: [storyAdapter('a.gguf', 5)], steer: [directions], 'steer-attn': ['50', '--steer', directions], 'steer-ffn': ['50', '--steer', directions],
  'kv-bytes': ['1KiB'], draft: [folder], 'log-level': ['error'], speculate: ['4', '--log-level', 'debug'], prompt: ['Tom'], 'max-tokens': ['2'], stop: ['e'],
  'ignore-eos': [null], quiet: [null], 'json-schema': [file('schema', '{"const": 7}')], grammar: [file('grammar', 'root ::= "yes"')], regex: ['[0-9]{3}'],
  'schema-additional': ['standard', '--json-schema', file('open', '{"type": "object", "properties": {"a": {"type": "integer"}}}')],
  'chat-template-kwargs': ['{"mood": "blue"}', '--chat-template', telling], reasoning: ['off', '--chat-template', telling],
  'reasoning-budget': ['0', '--chat-template', telling], 'chat-template': [file('t', 'Tim {{ messages[0].content }}')], system: ['Be a cat.'], load: [file('talk.json', '[{"role": "user", "content": "The sun was"}, {"role": "assistant", "content": "hot."}]')], seed: ['4', '--temp', '1'], stats: ['on'],
};
// These have tests of their own, for they say nothing of this model, or promise the same text.
const elsewhere = {
  'no-history': 'terminal.test.mjs', 'hf-repo': 'names.test.mjs',
  help: 'every command has it', 'help-all': 'every command has it', url: 'cli.test.mjs', 'api-key': 'access.test.mjs', models: 'pull.test.mjs', 'model-file': 'texts.test.mjs',
  'no-rounding': 'DeepSeek V4 alone: tests/deepseek41', samplers: 'cli.test.mjs', 'sampler-seq': 'cli.test.mjs', 'ignore-eos': 'cli.test.mjs',
  'rope-scaling': 'tests/rope_options_test.cpp', 'yarn-beta-fast': 'tests/rope_options_test.cpp', 'draft-p-min': 'draft_model_test.cpp',
  'power-percent': 'rows.test.mjs', 'power-percent-on-battery': 'engine/power_limit_test.cpp', 'json-instruction': 'rows.test.mjs',
  'gpu-layers': 'tests of GPUs', warmup: 'base/system/mapped_file_test.cpp', 'pack-cache': 'below', threads: 'cli.test.mjs', speculate: 'draft.test.mjs',
};
const sampled = new Set(parameters.map(([, flag]) => flag.slice(2)));  // cli.test.mjs tries each in every command

const text = 'Once upon a time';
const length = (flags) => (flags.includes('--max-tokens') ? [] : ['-n', '12']);
const commands = {
  generate: (flags) => cairn(['generate', model, ...(flags.includes('--prompt') ? [] : ['-p', text]), ...length(flags), ...flags]),
  chat: (flags) => cairn(['chat', model, ...length(flags), ...flags], { input: `${text}\n` }),
  run: (flags) => cairn(['run', model, text, ...length(flags), ...flags]),
};
const kNumbers = /\d\d:\d\d:\d\d\.\d+|[\d.]+ (?:s|ms|tokens\/s|[KMG]iB available)\b/g;
const effects = (run) => [run.status, run.stdout, run.stderr.replaceAll(kNumbers, '')].join('\n');

for (const [command, run] of Object.entries(commands)) {
  test(`every flag of cairn ${command} has an effect`, () => {
    const help = cairn([command, '--help-all']).stdout;
    const names = [...help.matchAll(/^ {2}(?:-\w, )?--([a-z-]+)/gm)].map(([, name]) => name);
    assert.ok(names.length > 30);
    const idle = [];
    for (const name of names) {
      if (sampled.has(name) || elsewhere[name]) continue;
      assert.ok(rows[name], `--${name} of cairn ${command} needs a row in tests/e2e/flags.test.mjs`);
      const [value, ...beside] = rows[name];
      const base = name === 'seed' ? ['--seed', '3', ...beside] : ['--temp', '0', ...beside];
      const without = run(base);
      assert.equal(without.status, 0, without.stderr);
      const flag = value === null ? [`--${name}`] : [`--${name}`, value];
      const withIt = run([...(name === 'seed' ? beside : base), ...flag]);
      if (effects(withIt) === effects(without)) idle.push(`--${name}`);
    }
    assert.deepEqual(idle, []);
  });
}

test('--pack-cache of every command makes its file', () => {
  const guide = fs.readFileSync(new URL('../../models/guide/guide.gguf', import.meta.url));
  for (const [command, words] of [['generate', ['-p', 'x']], ['chat', []], ['run', ['x']]]) {
    const copy = file(`${command}.gguf`, guide);
    assert.equal(cairn([command, copy, ...words, '-n', '1', '--pack-cache'], { input: 'x\n' }).status, 0);
    assert.ok(fs.existsSync(`${copy}.packed`), command);
  }
});

test('an option that loads a model is refused where a server has it', async () => {
  const server = await serve(story);
  for (const flags of [['--ctx', '5'], ['--kv-type', 'q8_0'], ['--draft', story], ['--chat-template', telling], ['--lora', story], ['--pack-cache']]) {
    const run = cairn(['chat', '--url', server.url, ...flags], { input: 'x\n' });
    assert.equal(run.status, 1);
    assert.match(run.stderr, new RegExp(`${flags[0]} has no effect with --url`));
  }
  await server.stop();
});
