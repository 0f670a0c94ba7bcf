// The program's own subcommands, as a person would use them.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { makeHuggingFaceFolder } from './hf_folder.mjs';
import { cairn, fixtures, parameters, program, serve, story, storyWithControls, tiny, withoutHoles } from './server.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-cli-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));

function fails(args, pattern, options) {
  const run = cairn(args, options);
  assert.notEqual(run.status, 0, `${args.join(' ')} should fail`);
  assert.equal(run.signal, null);
  assert.match(run.stderr, pattern);
  return run;
}

test('generate tells a story, and curl gets the same text', async () => {
  const flags = ['-p', 'Once upon a time', '-n', '60', '--temp', '0', '-q'];
  const run = cairn(['generate', story, ...flags]);
  assert.equal(run.status, 0, run.stderr);
  assert.match(run.stdout, /\b(was|there|little|day)\b/);
  const server = await serve(story);
  const body = JSON.stringify({ prompt: 'Once upon a time', max_tokens: 60, temperature: 0 });
  const reply = execFileSync('curl', ['-s', server.url + '/v1/completions', '-H', 'Content-Type: application/json', '-d', body]);
  await server.stop();
  assert.equal(JSON.parse(reply).choices[0].text + '\n', run.stdout);
});

test('the version is that of the file VERSION, with the commit where there is one', () => {
  const version = fs.readFileSync(new URL('../../VERSION', import.meta.url), 'utf8').trim();
  const told = cairn(['--version']).stdout;
  assert.ok(told.startsWith(`cairn ${version}`), told);
  assert.match(told, /^cairn \d+\.\d+\.\d+(?: \(commit [0-9a-f]{12}\+?\))?\n$/);
  assert.match(cairn(['doctor', '--port', '0']).stdout, new RegExp(`^ok +cairn +${told.slice('cairn '.length).trim().replace(/[.()+]/g, '\\$&')}$`, 'm'));
});

test('logits are the same bytes for any chunk size and number of threads', () => {
  const run = (...more) => {
    const done = cairn(['logits', tiny, '--tokens', Array.from({ length: 40 }, (_, i) => (i * 37) % 300).join(','), ...more]);
    assert.equal(done.status, 0, done.stderr);
    return done.stdout;
  };
  const whole = run();
  const { positions, logits } = JSON.parse(whole);
  assert.equal(positions.length, logits.length);
  assert.equal(logits[0].length, 316);
  for (const more of [['--chunk', '7'], ['--chunk', '1'], ['--threads', '1'], ['--threads', '2']]) assert.equal(run(...more), whole, more.join(' '));
});

test('perplexity is the same for any number of threads, and a model is at no distance from itself', () => {
  const text = path.join(folder, 'text.txt');
  const more = path.join(folder, 'more.txt');
  fs.writeFileSync(text, 'Once upon a time there was a little girl who liked to play in the garden. '.repeat(20));
  fs.writeFileSync(more, 'One day she found a big red ball and she was very happy. '.repeat(20));
  const saved = path.join(folder, 'logits.kld');
  const run = (args, options) => {
    const done = cairn(['perplexity', story, ...args, '--json'], options);
    assert.equal(done.status, 0, done.stderr);
    const { seconds, tokens_per_s, backend, ...numbers } = JSON.parse(done.stdout);
    assert.ok(tokens_per_s > 0);
    return numbers;
  };
  const base = run([text, more, '-c', '64', '--save-logits', saved]);
  assert.ok(base.perplexity > 1 && base.perplexity < 100, `perplexity ${base.perplexity}`);
  assert.equal(base.positions, base.windows * 31);
  const input = fs.readFileSync(text, 'utf8') + fs.readFileSync(more, 'utf8');
  assert.deepEqual(run(['-', '-c', '64', '--threads', '1'], { input }), base);
  const strided = run([text, '-c', '64', '--stride', '16', '--chunks', '5']);
  assert.equal(strided.positions, 5 * 16);

  const compared = run([text, more, '--against', saved]);
  assert.equal(compared.perplexity, base.perplexity);
  assert.ok(Math.abs(compared.kl_mean) < 1e-4 && compared.same_first === 1);
  // The file has the tokens: no text is needed.
  assert.deepEqual(run(['--against', saved]), compared);
  const small = path.join(folder, 'story-q4_0.gguf');
  assert.equal(cairn(['quantize', story, small, 'Q4_0']).status, 0);
  const quantised = cairn(['perplexity', small, '--against', saved]);
  assert.match(quantised.stdout, /KL divergence, mean +0\.\d+ ± 0\.\d+/);
  assert.match(quantised.stdout, /same most likely token/);

  fails(['perplexity', story], /which text/);
  fails(['perplexity', story, text, '-c', '8192'], /the text has \d+ tokens, but one window takes 8192/);
  fails(['perplexity', story, text, more, text, more, '-c', '1024'], /context/);
  fails(['perplexity', story, path.join(folder, 'none.txt')], /the text: \S+none\.txt is no file/);
  fails(['perplexity', story, more, '--against', saved], /another text/);
  fails(['perplexity', story, '--against', text], /no file of log-probabilities/);
  fails(['perplexity', tiny, '--against', saved], /vocabulary/);
  fails(['perplexity', story, text, '-c', '64', '--stride', '64'], /gaps/);
  fails(['perplexity', path.join(fixtures, 'models', 'bert.gguf'), text], /encoder/);
  fs.writeFileSync(saved, fs.readFileSync(saved).subarray(0, 5000));
  fails(['perplexity', story, '--against', saved], /not written to its end/);
});

test('inspect prints the memory plan, the chat template, metadata and, if asked for, tensors', () => {
  const run = cairn(['inspect', tiny]);
  assert.equal(run.status, 0, run.stderr);
  assert.match(run.stdout, /^Model\n[^]*\nMemory to run it\n[^]*per token +[\d.]+ \w+ of the weights are read\n[^]*\nChat template: \d+ bytes[^]*\n {2}\{[^]*\nTensors: \d+ [^]*\nMetadata: [^]*llama\.block_count/);
  assert.doesNotMatch(run.stdout, /token_embd\.weight/);
  const listed = cairn(['inspect', tiny, '--tensors']).stdout;
  assert.ok(listed.startsWith(run.stdout.slice(0, 200)));
  assert.match(listed, /\nEach tensor [^]*token_embd\.weight/);
  const json = JSON.parse(cairn(['inspect', tiny, '--json']).stdout);
  assert.ok(JSON.stringify(json).includes('blk.0.attn_q.weight'));
});

test('inspect plans the memory of contexts, from a file without weights, too', { skip: withoutHoles(folder) }, () => {
  const hollow = path.join(folder, 'hollow.gguf');
  const made = cairn(['synth', hollow, '--preset', 'flash', '--hollow']);
  assert.equal(made.status, 0, made.stderr);
  assert.ok(fs.statSync(hollow).size > 80e9);
  const flags = ['inspect', hollow, '--ctx', '32768', '--ctx', '1048576', '--memory', '256GiB'];
  const { plans } = JSON.parse(cairn([...flags, '--json']).stdout).memory;
  assert.deepEqual(plans.map((plan) => [plan.context_tokens, plan.sequences]), [[32768, 1], [32768, 4], [1048576, 1], [1048576, 4]]);
  for (const plan of plans) assert.equal(plan.bytes, plan.weight_bytes + plan.scratch_bytes + plan.kv_bytes + plan.index_bytes);
  assert.ok(plans[2].kv_bytes > 4 * plans[0].kv_bytes && plans[2].kv_bytes < 16e9);
  assert.match(cairn(flags).stdout, /1048576 .*GiB/);
  const withMtp = path.join(folder, 'mtp.gguf');
  const planned = (...more) => JSON.parse(cairn(['inspect', withMtp, '--ctx', '256', '--json', ...more]).stdout).memory;
  assert.equal(cairn(['synth', withMtp, '--arch', 'deepseek4', '--set', 'nextn_predict_layers=1', '--hollow']).status, 0);
  const [plain] = planned().plans, [ahead] = planned('--speculate', '4').plans;
  assert.ok(ahead.weight_bytes > plain.weight_bytes && ahead.kv_bytes > plain.kv_bytes && ahead.scratch_bytes > plain.scratch_bytes);
  assert.deepEqual(planned('--speculate', '0').plans[0], plain);
  assert.match(planned('--draft', tiny).why_not, /is a model, not a drafting head/);
  fs.rmSync(withMtp);
  const beyond = cairn(['inspect', tiny, '--ctx', '4096']);
  assert.match(beyond.stdout, /not known: .*4096/);
  fs.rmSync(hollow);
});

test('--kv-type takes every type of keys and values, and no other', () => {
  const types = ['f32', 'f16', 'bf16', 'q8_0'];
  const tokens = Array.from({ length: 40 }, (_, i) => (i * 37) % 300).join(',');
  const kvBytes = {}, logits = {};
  for (const type of types) {
    const [plan] = JSON.parse(cairn(['inspect', tiny, '--ctx', '256', '--kv-type', type, '--json']).stdout).memory.plans;
    assert.equal(plan.kv_type, type);
    kvBytes[type] = plan.kv_bytes;
    const run = cairn(['logits', tiny, '--tokens', tokens, '--kv-type', type]);
    assert.equal(run.status, 0, run.stderr);
    logits[type] = JSON.parse(run.stdout).logits.flat();
  }
  assert.equal(kvBytes.bf16 * 2, kvBytes.f32);
  const error = (type) => logits[type].reduce((sum, value, i) => sum + (value - logits.f32[i]) ** 2, 0);
  assert.ok(error('f16') > 0 && error('bf16') > 4 * error('f16'), `${error('f16')} ${error('bf16')}`);
  for (const type of ['bf16', 'q8_0']) {
    const run = cairn(['generate', story, '-p', 'Once upon a time', '-n', '40', '--temp', '0', '-q', '--kv-type', type]);
    assert.equal(run.status, 0, run.stderr);
    assert.match(run.stdout, /\b(was|there|little|day)\b/);
    const bench = cairn(['bench', 'model', story, '--prompt', '40', '--answer', '4', '--kv-type', type]);
    assert.equal(bench.status, 0, bench.stderr);
  }
  for (const command of ['generate', 'inspect', 'serve']) fails([command, tiny, '--kv-type', 'bf8'], /--kv-type takes f32, f16, bf16 or q8_0, not bf8/);
});

test('quantize writes a smaller model that still runs', () => {
  const out = path.join(folder, 'out.gguf');
  const source = path.join(fixtures, 'models', 'quant-llama-f16.gguf');
  for (const type of ['Q8_0', 'Q4_0', 'Q4_K_M', 'Q6_K', 'BF16']) {
    const run = cairn(['quantize', source, out, type]);
    assert.equal(run.status, 0, run.stderr);
    assert.ok(fs.statSync(out).size <= fs.statSync(source).size);
    assert.equal(cairn(['generate', out, '-p', 'a', '-n', '4', '-q']).status, 0);
  }
  fails(['quantize', source, out, 'Q9_9'], /TYPE takes .*Q4_K_M.*, not Q9_9/);
  fails(['quantize', source, source, 'Q8_0'], /would replace the input/);
});

test('convert makes a model that runs of a folder from Hugging Face', () => {
  const source = makeHuggingFaceFolder(path.join(folder, 'Tiny-Llama'));
  const out = path.join(folder, 'tiny-llama.gguf');
  for (const [type, wanted] of [['auto', /llama F32/], ['Q8_0', /llama Q8_0/], ['BF16', /llama BF16/]]) {
    const run = cairn(['convert', source, out, '--type', type]);
    assert.equal(run.status, 0, run.stderr);
    assert.match(run.stdout, wanted);
    const answer = cairn(['generate', out, '-p', 'ab', '-n', '4', '-q']);
    assert.equal(answer.status, 0, answer.stderr);
  }
  const before = fs.readFileSync(out);
  fs.writeFileSync(path.join(source, 'model.safetensors'), 'damaged');
  fails(['convert', source, out], /model\.safetensors.*header/);
  assert.deepEqual(fs.readFileSync(out), before, 'a run that fails leaves the old file');
  assert.deepEqual(fs.readdirSync(folder).filter((name) => name.endsWith('.partial')), []);
  fails(['convert', source, out, '--type', 'Q9_9'], /--type takes auto, .*Q4_K_M.*, not Q9_9/);
  fails(['convert', path.join(folder, 'none'), out], /config\.json/);
});

test('synth writes models that run, the same ones for the same seed', () => {
  const out = path.join(folder, 'synth.gguf');
  const again = path.join(folder, 'again.gguf');
  for (const flags of [['--arch', 'llama'], ['--arch', 'moe', '--type', 'Q4_K_M', '--tensor-type', '_exps=IQ2_XXS']]) {
    const run = cairn(['synth', out, ...flags]);
    assert.equal(run.status, 0, run.stderr);
    assert.match(run.stdout, /tensors.*parameters.*bytes/);
    assert.equal(cairn(['synth', again, ...flags, '--threads', '1']).status, 0);
    assert.ok(fs.readFileSync(out).equals(fs.readFileSync(again)));
    const told = cairn(['generate', out, '-p', 'a', '-n', '4', '-q', '--temp', '0']);
    assert.equal(told.status, 0, told.stderr);
  }
  const planned = cairn(['synth', '--preset', 'flash', '--ratios', '0,4', '--dry-run']);
  assert.match(planned.stdout, /blk\.1\.ffn_down_exps\.weight +Q2_K +2048 x 4096 x 256 +704643072/);
  assert.doesNotMatch(planned.stdout, /blk\.2\./);
  fails(['synth', out, '--arch', 'lama'], /lama.*llama, qwen3/);
  fails(['synth', out], /--arch or --preset/);
  fails(['synth', out, '--arch', 'llama', '--width', '96', '--tensor-type', 'ffn_up=Q4_K'], /blocks of 256.*blk\.0\.ffn_up\.weight/);
  fails(['synth', path.join(folder, 'none', 'x.gguf'), '--arch', 'llama'], /cannot create/);
});

test('--pack-cache keeps packed weights beside the model, and changes no answer', () => {
  const model = path.join(folder, 'packed.gguf');
  assert.equal(cairn(['quantize', story, model, 'Q8_0']).status, 0);
  const tell = (flags) => cairn(['generate', model, '-p', 'Once upon a time', '-n', '20', '--temp', '0', '-q', ...flags]);
  const without = tell([]);
  assert.equal(without.status, 0, without.stderr);
  const first = tell(['--pack-cache']);
  const { mtimeMs } = fs.statSync(`${model}.packed`);
  const second = tell(['--pack-cache']);
  assert.deepEqual([first.stdout, second.stdout], [without.stdout, without.stdout]);
  assert.equal(fs.statSync(`${model}.packed`).mtimeMs, mtimeMs);
});

test('tokenize and render speak JSON lines and survive bad ones', () => {
  const lines = '{"text":"hello"}\nnot json\n{"text":"a b","add_special":true}\n';
  const ids = cairn(['tokenize', story, '--jsonl'], { input: lines }).stdout.trim().split('\n').map(JSON.parse);
  assert.equal(ids.length, 3);
  assert.ok(Array.isArray(ids[0].ids) && ids[1].error && Array.isArray(ids[2].ids));
  const conversations = '{"messages":[{"role":"user","content":"Hi"}],"add_generation_prompt":true}\nnope\n';
  const rendered = cairn(['render', tiny, '--jsonl'], { input: conversations }).stdout.trim().split('\n').map(JSON.parse);
  assert.match(rendered[0].rendered, /<\|im_start\|>user\nHi<\|im_end\|>/);
  assert.ok(rendered[1].error);
});

test('standard input that cannot be read is an error of every command that reads it', () => {
  const input = fs.openSync(folder, 'r');
  for (const args of [['chat', story], ['run', story, 'Hi'], ['render', tiny], ['tokenize', story, '--jsonl'], ['tokenize', story],
    ['grammar', 'check', '--jsonl'], ['grammar', 'sample', story, '--jsonl'], ['generate', story, '-p', '-'], ['key', '--read'],
    ['perplexity', story, '-']]) {
    const run = cairn(args, { stdio: [input, 'pipe', 'pipe'] });
    assert.deepEqual([run.status, run.stdout], [1, ''], args.join(' '));
    assert.match(run.stderr, /^cairn: (?:.*: )?standard input cannot be read: Is a directory\n$/m, args.join(' '));
  }
  fs.closeSync(input);
});

test('generate and chat hold answers to a schema, a grammar and an expression', async () => {
  const write = (name, text) => {
    fs.writeFileSync(path.join(folder, name), text);
    return path.join(folder, name);
  };
  const schema = write('schema.json', JSON.stringify({ type: 'object', properties: { n: { type: 'integer', minimum: 0, maximum: 9 }, ok: { type: 'boolean' } }, required: ['n', 'ok'], additionalProperties: false }));
  const gbnf = write('yes.gbnf', 'root ::= "yes" | "no" " never"?\n');
  const lark = write('yes.lark', 'start: "up" | "down"\n');
  const isObject = (text) => {
    const value = JSON.parse(text);
    assert.deepEqual(Object.keys(value), ['n', 'ok']);
    assert.ok(Number.isInteger(value.n) && value.n >= 0 && value.n <= 9 && typeof value.ok === 'boolean', text);
  };
  const forms = [
    [['--json-schema', schema], isObject],
    [['--grammar', gbnf], (text) => assert.match(text, /^(yes|no( never)?)$/)],
    [['--grammar', lark], (text) => assert.match(text, /^(up|down)$/)],
    [['--regex', '[a-f]{3}-[0-9]{2}'], (text) => assert.match(text, /^[a-f]{3}-[0-9]{2}$/)],
  ];
  const server = await serve(story);
  for (const [flags, check] of forms) {
    for (const seed of ['1', '2', '3']) check(cairn(['generate', story, '-p', 'Once', '--temp', '2', '--seed', seed, '-q', ...flags]).stdout.trimEnd());
    for (const target of [[story], ['--url', server.url]]) {
      const run = cairn(['chat', ...target, '--temp', '2', ...flags], { input: 'Hello\n' });
      assert.equal(run.status, 0, run.stderr);
      check(run.stdout.trim());
    }
  }
  await server.stop();
  const cut = cairn(['generate', story, '-p', 'Once', '-n', '2', '-q', '--json-schema', schema]);
  assert.match(cut.stderr, /--max-tokens.*--json-schema/);
  const never = write('never.json', '{"type": "string", "not": {}}');
  for (const command of [['generate', story, '-p', 'x'], ['chat', story]]) {
    fails([...command, '--json-schema', path.join(folder, 'none.json')], /--json-schema: \S+ is no file/);
    fails([...command, '--json-schema', gbnf], /not JSON/);
    fails([...command, '--json-schema', never], /--json-schema/);
    fails([...command, '--grammar', write('bad.gbnf', 'root ::= other')], /--grammar.*other/s);
    fails([...command, '--regex', '(a'], /--regex/);
    fails([...command, '--regex', 'a', '--grammar', gbnf], /exclude/);
  }
});

test('chat holds a conversation with a file and with a server', async () => {
  const input = 'Hello there\n/help\n/clear\nAgain\n/exit\n';
  const local = cairn(['chat', story, '-n', '12', '--temp', '0'], { input });
  assert.equal(local.status, 0, local.stderr);
  assert.match(local.stdout, /\/clear/);
  const server = await serve(story);
  const remote = cairn(['chat', '--url', server.url, '-n', '12', '--temp', '0'], { input });
  await server.stop();
  assert.equal(remote.status, 0, remote.stderr);
  assert.equal(remote.stdout, local.stdout);
  assert.match(cairn(['chat', '--url', server.url], { input }).stderr, /cannot connect/);
});

test('chat and run tell the template of the thinking what their flags say, and else what a server tells it', async () => {
  const write = (name, text) => {
    fs.writeFileSync(path.join(folder, name), text);
    return path.join(folder, name);
  };
  // Its error says what it is told.
  const telling = write('telling.jinja', "{{ messages[0].content }}{% if messages[0].content == 'Tell' %}"
    + "{{ raise_exception('thinking is ' ~ enable_thinking ~ ', mood is ' ~ mood) }}{% endif %}</think>");
  const told = (...flags) => {
    const said = (run) => run.stderr.match(/thinking is .*?, mood is \w*/)?.[0];
    const [talked, asked, ran] = [cairn(['chat', tiny, '--chat-template', telling, ...flags], { input: 'Tell\n' }),
      cairn(['chat', '--url', telltale.url, ...flags], { input: 'Tell\n' }),
      cairn(['run', tiny, '--chat-template', telling, ...flags, 'Tell'])].map(said);
    assert.equal(ran, talked);
    assert.equal(asked, talked);
    return talked;
  };
  const telltale = await serve(tiny, ['--chat-template', telling]);
  assert.equal(told(), 'thinking is True, mood is ');
  assert.equal(told('--reasoning', 'auto'), 'thinking is True, mood is ');
  assert.equal(told('--reasoning', 'on'), 'thinking is True, mood is ');
  assert.equal(told('--reasoning', 'off'), 'thinking is False, mood is ');
  assert.equal(told('--chat-template-kwargs', '{"enable_thinking": false, "mood": "blue"}'), 'thinking is False, mood is blue');
  assert.equal(told('--reasoning-budget', '7'), 'thinking is True, mood is ');
  assert.equal(told('--reasoning-budget', '0'), 'thinking is False, mood is ');
  await telltale.stop();

  // Published templates with a switch: the command writes what a server with its flags writes.
  for (const name of ['Qwen-Qwen3-0.6B', 'deepseek-ai-DeepSeek-V3.1']) {
    const template = ['--chat-template', path.join(fixtures, 'chat-templates', `${name}.jinja`)];
    const answers = [];
    for (const flags of [[], ['--reasoning', 'off'], ['--chat-template-kwargs', '{"thinking": false, "enable_thinking": false}']]) {
      const server = await serve(story, [...template, ...flags]);
      const [local, remote] = [[story, ...template, ...flags], ['--url', server.url]].map((target) =>
        cairn(['chat', ...target, '-n', '24', '--temp', '0'], { input: 'Hello there\n' }));
      await server.stop();
      assert.equal(local.status, 0, local.stderr);
      assert.equal(remote.status, 0, remote.stderr);
      assert.equal(local.stdout, remote.stdout, `${name} ${flags.join(' ')}`);
      answers.push(local.stdout);
    }
    assert.notEqual(answers[1], answers[0], name);
    assert.equal(answers[2], answers[1], name);
  }
});

test('chat and run close the thinking at --reasoning-budget', async () => {
  const template = ['--chat-template', path.join(fixtures, 'chat-templates', 'deepseek-ai-DeepSeek-V3.1.jinja')];
  const server = await serve(story, template);
  const written = (...flags) => {
    const [ran, talked, asked] = [cairn(['run', story, ...template, ...flags, 'Hello']), cairn(['chat', story, ...template, ...flags], { input: 'Hello\n' }),
      cairn(['chat', '--url', server.url, ...flags], { input: 'Hello\n' })].map(({ status, stdout, stderr }) => (assert.equal(status, 0, stderr), stdout.trim()));
    assert.equal(talked, ran);
    assert.equal(asked, ran);
    return ran;
  };
  const flags = ['-n', '60', '--temp', '0'];
  assert.equal(written(...flags), '', 'this model does not end its thinking, which is not shown here');
  assert.match(written(...flags, '--reasoning-budget', '8'), /\w/);
  assert.match(written(...flags, '--reasoning-budget', '0'), /\w/);
  await server.stop();
});

test('run and chat hold the final message of a model that writes Harmony to a form, as a server does', async () => {
  const controls = ['<|start|>', '<|channel|>', '<|constrain|>', '<|message|>', '<|end|>', '<|call|>', '<|return|>'];
  const model = storyWithControls(controls, [], 4096);
  const template = ['--chat-template', path.join(fixtures, 'chat-templates', 'openai-gpt-oss-120b.jinja')];
  const schema = path.join(folder, 'told.json');
  fs.writeFileSync(schema, JSON.stringify({ type: 'object', properties: { told: { type: 'string', minLength: 8, maxLength: 40 } }, required: ['told'], additionalProperties: false }));
  const forms = [
    [['--json-schema', schema], (text) => assert.deepEqual(Object.keys(JSON.parse(text)), ['told'])],
    [['--regex', '[a-z ]{8,40}[.]'], (text) => assert.match(text, /^[a-z ]{8,40}[.]$/)],
  ];
  for (const thinking of [['--reasoning', 'off'], []]) {
    const server = await serve(model, [...template, ...thinking]);
    for (const [form, check] of forms) {
      for (const text of ['Tell', 'Once upon a time']) {
        const flags = ['--temp', '0', ...form];
        const remote = cairn(['chat', '--url', server.url, ...flags], { input: `${text}\n` });
        for (const [command, options] of [[['run', model, text], {}], [['chat', model], { input: `${text}\n` }]]) {
          const run = cairn([...command, ...template, ...thinking, ...flags], options);
          assert.equal(run.status, 0, run.stderr);
          check(run.stdout.trim());
          assert.equal(run.stdout, remote.stdout);
        }
      }
    }
    await server.stop();
  }
});

// The body that `cairn chat --url` sends.
async function chatRequest(flags) {
  let body = '';
  const listener = http.createServer((request, reply) => {
    request.on('data', (bytes) => { body += bytes; });
    request.on('end', () => {
      reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
      reply.end('data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n');
    });
  });
  await new Promise((done) => { listener.listen(0, '127.0.0.1', done); });
  const child = spawn(program, ['chat', '--url', `http://127.0.0.1:${listener.address().port}`, ...flags], { stdio: ['pipe', 'ignore', 'inherit'] });
  child.stdin.end('Hello\n');
  assert.equal(await new Promise((done) => { child.on('exit', done); }), 0);
  listener.close();
  return JSON.parse(body);
}

test('chat sends a server what was given, and nothing else', async () => {
  const rest = { messages: [{ role: 'user', content: 'Hello' }], stream: true };
  assert.deepEqual(await chatRequest([]), rest);
  assert.deepEqual(await chatRequest(['--temp', '0', '--top-k', '-1', '--seed', '7', '--sampler-seq', 'kt', '-n', '3']),
    { ...rest, temperature: 0, top_k: 0, seed: 7, samplers: ['top_k', 'temperature'], max_tokens: 3 });
  assert.deepEqual(await chatRequest(parameters.flatMap(([, flag, value]) => [flag, value])),
    { ...rest, ...Object.fromEntries(parameters.map(([name, , value]) => [name, Number(value)])) });
});

test('every sampling parameter is a flag with the same range in every command', () => {
  const all = parameters.flatMap(([, flag, value]) => [flag, value]);
  const done = cairn(['generate', story, '-p', 'Once', '-n', '3', '-q', '--seed', '1', ...all]);
  assert.equal(done.status, 0, done.stderr);
  assert.equal(done.stdout, cairn(['generate', story, '-p', 'Once', '-n', '3', '-q', '--seed', '1']).stdout);
  const shown = cairn(['config', 'show', '-m', story, ...all]);
  assert.equal(shown.status, 0, shown.stderr);
  for (const [, flag, value] of parameters) assert.ok(shown.stdout.includes(`\n${flag.slice(2)} = ${value}  # the command line\n`), flag);
  for (const command of [['generate', tiny, '-p', 'x'], ['chat', tiny], ['run', tiny, 'Hi'], ['frames', 'none', '-p', 'x'], ['serve', tiny]]) {
    const help = cairn([command[0], '--help-all']).stdout;
    for (const [, flag] of parameters) assert.match(help, new RegExp(`^ +${flag}[, ]`, 'm'), command[0]);
    fails([...command, '--temp', '1001'], /--temp.*from 0 to 1000, not 1001/);
    fails([...command, '--repeat-penalty', '0'], /--repeat-penalty.*above 0 and at most 10, not 0/);
    fails([...command, '--samplers', 'best'], /--samplers.*no step "best"/);
    fails([...command, '--samplers', 'top_k', '--sampling-seq', 'k'], /exclude/);
  }
  const one = ['generate', story, '-p', 'Once', '-n', '20', '-q', '--temp', '1.5', '--seed', '3'];
  assert.equal(cairn([...one, '--top-k', '1']).stdout, cairn([...one, '--min-p', '1']).stdout);
  const uncut = [...one, '--top-k', '0', '--top-p', '1', '--min-p', '0'];
  assert.notEqual(cairn([...uncut, '--top-n-sigma', '0.5']).stdout, cairn(uncut).stdout);
});

test('a seed gives the same chat with a file and with a server', async () => {
  const flags = ['-n', '12', '--temp', '1.2', '--seed', '5', '--min-p', '0.02'];
  const local = cairn(['chat', story, ...flags], { input: 'Hello there\n' });
  assert.equal(local.status, 0, local.stderr);
  const server = await serve(story);
  const remote = cairn(['chat', '--url', server.url, ...flags], { input: 'Hello there\n' });
  await server.stop();
  assert.equal(remote.stdout, local.stdout);
});

test('files that cannot be used are refused in one line that says why', () => {
  const bytes = fs.readFileSync(tiny);
  const write = (name, content) => {
    const file = path.join(folder, name);
    fs.writeFileSync(file, content);
    return file;
  };
  const one = (args, pattern) => assert.equal(fails(args, pattern).stderr.trim().split('\n').length, 1);
  one(['inspect', path.join(folder, 'none.gguf')], /no such file/);
  one(['inspect', folder], /is a folder: name one of the GGUF files in it/);
  one(['inspect', write('empty.gguf', '')], /the file is empty/);
  one(['inspect', write('text.gguf', 'hello world, this is no model')], /GGUF/);
  one(['inspect', write('cut.gguf', bytes.subarray(0, bytes.length - 1000))], /cut short|truncated|ends/);
  one(['generate', write('cut2.gguf', bytes.subarray(0, 5000)), '-p', 'x'], /cut short|truncated|ends/);
  const other = Buffer.from(bytes);
  other.write('lloma', other.indexOf('llama', other.indexOf('general.architecture')));
  fails(['generate', write('arch.gguf', other), '-p', 'x'], /lloma.*llama/s);
  fails(['generate', tiny, '-p', 'x', '--ctx', '9999999'], /context/);
  fails(['generate', tiny, '-p', 'x', '--isa', 'sse9'], /sse9.*generic/s);
  fails(['generate', tiny, '-p', 'x', '--gpu-layers', '99999999'], /--gpu-layers/);
  fails(['generate', tiny, '-p', 'x', '--gpu-layers', '1'], /CUDA/);
  fails(['generate', tiny, '-p', 'x', '--gpu-layers', 'some'], /--gpu-layers/);
  fails(['serve', tiny, '--host', 'no such host'], /no such host/);
  fails(['serve', tiny, '--kv-host-bytes', '1GiB', '--no-prefix-cache'], /--no-prefix-cache excludes --kv-host-bytes: give one of them/);
  fails(['generate', tiny], /prompt/);
  fails(['frobnicate'], /there is no command frobnicate; cairn --help lists the commands/);
  fails(['generate', tiny, '-p', '-'], /UTF-8/, { input: Buffer.from([0x61, 0xff]) });
});

test('a model too big for memory says how much is needed', () => {
  fails(['generate', tiny, '-p', 'x', '--kv-bytes', '900TiB'], /not enough memory.*needed.*available/);
});

test('every command that loads a model takes the same flags for where and how it is computed', () => {
  const flags = ['--kv-type', '--gpu-layers', '--threads', '--isa', '--pack-cache', '--no-rounding', '--steer', '--steer-attn', '--steer-ffn', '--log-level'];
  for (const command of [['serve'], ['chat'], ['generate'], ['logits'], ['perplexity'], ['bench', 'model']]) {
    const help = cairn([...command, '--help-all']).stdout;
    for (const flag of flags) assert.match(help, new RegExp(`${flag}\\b`), command.join(' '));
  }
  const logits = (...more) => {
    const run = cairn(['logits', tiny, '--tokens', '1,2,3', ...more]);
    assert.equal(run.status, 0, run.stderr);
    return JSON.parse(run.stdout).logits.flat();
  };
  const plain = logits('--isa', 'generic');
  const layers = 2, embedding = 64;
  const directions = path.join(folder, 'directions.bin');
  fs.writeFileSync(directions, Buffer.from(new Float32Array(layers * embedding).fill(embedding ** -0.5).buffer));
  assert.notDeepEqual(logits('--isa', 'generic', '--steer', directions, '--steer-ffn', '1'), plain);
  fails(['logits', tiny, '--tokens', '1', '--isa', 'sse9'], /sse9/);
});

test('only commands with conversations take flags of the chat template', () => {
  for (const flags of [['--reasoning', 'off'], ['--chat-template-kwargs', '{}'], ['--chat-template', path.join(fixtures, 'chat-templates', 'Qwen-Qwen3-0.6B.jinja')]]) {
    for (const command of [['serve'], ['chat'], ['run']]) assert.match(cairn([...command, '--help-all']).stdout, new RegExp(`${flags[0]}\\b`));
    fails(['generate', tiny, '-p', 'x', ...flags], new RegExp(flags[0]));
  }
});

test('help names every subcommand', () => {
  const run = cairn(['--help']);
  assert.equal(run.status, 0);
  for (const name of ['serve', 'chat', 'generate', 'inspect', 'convert', 'quantize', 'synth', 'perplexity', 'logits', 'tokenize', 'render', 'bench', 'ps', 'stop', 'show']) assert.match(run.stdout, new RegExp(`\\b${name}\\b`));
});
