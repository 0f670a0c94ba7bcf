// What the commands print and write, where that is not taken: a full disk, a reader that has gone, no standard output.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { makeHuggingFaceFolder } from './hf_folder.mjs';
import { cairn, commands, program, serve, story, tiny } from './server.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-output-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
const file = (name, text) => {
  fs.writeFileSync(path.join(folder, name), text);
  return path.join(folder, name);
};
const config = file('config.toml', 'port = 0\n');
const words = file('words.txt', 'Once upon a time there was a little girl who liked to play in the garden. '.repeat(20));
const graded = file('graded.json', '{"questions": [{"id": "a", "kind": "choice", "outcome": "right"}]}');
const scored = file('scored.jsonl', '{"prompt": "Once", "continuation": " upon a time"}\n');
const template = file('t.jinja', '{{ messages }}');
fs.mkdirSync(path.join(folder, 'none'));

// A run of every command that prints something. A function makes what it needs first.
const runs = {
  'config check': () => [config],
  'config show': () => ['--port', '1'],
  doctor: () => ['--port', '0'],
  help: () => ['serve'],
  version: () => [],
  chat: () => [story, '-n', '4'],
  run: () => [story, '-n', '4', 'Hello'],
  frames: ({ socket }) => [socket, '-m', 'Hello', '-n', '4'],
  generate: () => [story, '-p', 'Once', '-n', '4', '-q'],
  inspect: () => [story],
  list: () => ['--own-models', '--models', path.join(folder, 'none')],
  convert: () => [makeHuggingFaceFolder(path.join(folder, 'hf')), path.join(folder, 'converted.gguf')],
  quantize: () => [story, path.join(folder, 'quantized.gguf'), 'Q8_0'],
  imatrix: () => [story, words, '-c', '64', '--chunks', '1', '-o', path.join(folder, 'imatrix.gguf')],
  synth: () => ['--arch', 'llama', '--dry-run'],
  logits: () => [tiny, '--tokens', '1,2,3'],
  perplexity: () => [story, words, '-c', '64', '--chunks', '1'],
  'eval compare': () => [graded, graded],
  'eval score': () => [story, scored],
  tokenize: () => [story, '-p', 'Once'],
  render: () => ['--template', template],
  'grammar check': () => ['--jsonl'],
  'grammar sample': () => [story, '--jsonl'],
  'grammar keywords': () => [],
  key: () => ['bob'],
  'bench serve': ({ url }) => ['--url', url, '--requests', '1', '-n', '2'],
  'bench model': () => [story, '--prompt', '4', '--answer', '2', '--ctx', '512'],
  'bench context': () => [story, '--depths', '16,32', '--answer', '2'],
  'bench recall': () => [story, '--tokens', '1000', '--scenes', '10', '--facts', '2'],
  'gguf set': () => [story, path.join(folder, 'set.gguf'), 'general.name=x'],
  'gguf remove': () => [story, path.join(folder, 'removed.gguf'), 'general.name'],
  'gguf split': () => [story, path.join(folder, 'parts'), '--max-tensors', '20'],
  'gguf merge': () => {
    assert.equal(cairn(['gguf', 'split', story, path.join(folder, 'whole'), '--max-tensors', '24']).status, 0);
    return [path.join(folder, 'whole-00001-of-00002.gguf'), path.join(folder, 'merged.gguf')];
  },
  'gguf splice': () => [story, path.join(folder, 'spliced.gguf'), '--from', story, '--tensors', 'ffn'],
  'gguf diff': () => [story, story],
  'gguf verify': () => [story],
  ps: ({ url }) => ['--url', url],
  stop: ({ url }) => ['stories', '--url', url],
  show: () => [story],
  'cache list': () => [cache],
  'cache verify': () => [cache],
  'cache clear': () => {
    const copy = fs.mkdtempSync(path.join(folder, 'copy-'));
    fs.cpSync(cache, copy, { recursive: true });
    return [copy];
  },
  rm: () => {
    const pulled = path.join(folder, 'models', 'registry.ollama.ai', 'library', 'm', 'q8.gguf');
    fs.mkdirSync(path.dirname(pulled), { recursive: true });
    fs.writeFileSync(pulled, 'x');
    return ['m:q8', '--models', path.join(folder, 'models')];
  },
};
// These print nothing on standard output, or nothing without a hub (tests/e2e/pull.test.mjs).
const kSilent = ['serve', 'pull'];
const input = '{"messages": [], "schema": {}}\n';

const cache = path.join(folder, 'cache');
await (await serve(story, ['--kv-disk', cache])).stop();
const server = await serve(story, ['--frames', path.join(folder, 's')]);
after(() => server.stop());
const place = { url: server.url, socket: path.join(folder, 's') };

// Runs the command while nobody reads what it prints.
function withoutReader(command) {
  return new Promise((done) => {
    const child = spawn(program, command, { stdio: ['pipe', 'pipe', 'pipe'] });
    child.stdout.destroy();
    let stderr = '';
    child.stderr.on('data', (bytes) => { stderr += bytes; });
    child.on('close', (status, signal) => done({ status, signal, stderr }));
    child.stdin.on('error', () => {});
    child.stdin.end(input);
  });
}

test('every command has a run here', () => {
  assert.deepEqual(commands().map((name) => name.join(' ')).sort(), [...Object.keys(runs), ...kSilent].sort());
});

for (const [name, args] of Object.entries(runs)) {
  test(`cairn ${name} tells that its output was not taken, and says nothing where its reader has gone`, async () => {
    const command = () => [...name.split(' '), ...args(place)];
    const good = cairn(command(), { input });
    assert.equal(good.status, 0, good.stderr);
    assert.notEqual(good.stdout, '');

    const full = fs.openSync('/dev/full', 'w');
    const lost = cairn(command(), { input, stdio: ['pipe', full, 'pipe'] });
    fs.closeSync(full);
    assert.equal(lost.status, 1, lost.stderr);
    assert.equal(lost.stderr.match(/cairn: cannot write to standard output: No space left on device$/gm)?.length, 1, lost.stderr);

    const closed = spawnSync('sh', ['-c', '"$@" >&-', 'sh', program, ...command()], { input, encoding: 'utf8' });
    assert.equal(closed.status, 1, closed.stderr);
    assert.match(closed.stderr, /cairn: cannot write to standard output: Bad file descriptor$/m);

    const { signal, stderr } = await withoutReader(command());
    assert.equal(signal, 'SIGPIPE', stderr);
    assert.doesNotMatch(stderr, /standard output|Broken pipe/);
  });
}

test('help and the version are output, too', () => {
  for (const args of [[], ['--help'], ['--version'], ['config'], ['serve', '--help'], ['config', 'check', '--help']]) {
    const full = fs.openSync('/dev/full', 'w');
    const lost = cairn(args, { stdio: ['ignore', full, 'pipe'] });
    fs.closeSync(full);
    assert.equal(lost.status, 1, args.join(' '));
    assert.match(lost.stderr, /cannot write to standard output/);
  }
});

test('a key that nobody has seen is in no file', () => {
  const keys = path.join(folder, 'keys');
  const full = fs.openSync('/dev/full', 'w');
  assert.equal(cairn(['key', 'bob', '--add-to', keys], { stdio: ['ignore', full, 'pipe'] }).status, 1);
  assert.equal(fs.existsSync(keys), false);
  assert.equal(cairn(['key', 'ann', '--add-to', keys]).status, 0);
  const before = fs.readFileSync(keys, 'utf8');
  assert.equal(cairn(['key', 'bob', '--add-to', keys], { stdio: ['ignore', full, 'pipe'] }).status, 1);
  fs.closeSync(full);
  assert.equal(fs.readFileSync(keys, 'utf8'), before);
  // A line of which only a part has room is taken back.
  const small = spawnSync('bash', ['-c', 'ulimit -f 1; exec "$@"', 'bash', program, 'key', 'x'.repeat(60), '--add-to', keys]);
  assert.equal(small.status, 0);
  fs.writeFileSync(keys, `${before}#${'x'.repeat(1020 - before.length)}\n`);
  const padded = fs.readFileSync(keys, 'utf8');
  const cut = spawnSync('bash', ['-c', 'ulimit -f 1; exec "$@"', 'bash', program, 'key', 'bob', '--add-to', keys], { encoding: 'utf8' });
  assert.equal(cut.status, 1, cut.stderr);
  assert.match(cut.stderr, /cannot write to/);
  assert.equal(fs.readFileSync(keys, 'utf8'), padded);
  const utf16 = file('keys16', Buffer.from(`\ufeff${before}`, 'utf16le'));
  assert.match(cairn(['key', 'bob', '--add-to', utf16]).stderr, /UTF-16, to which no line can be added/);
});

test('no half file stays under the name of a new one, and nothing that is no file is replaced', () => {
  const limited = (...args) => spawnSync('bash', ['-c', 'ulimit -f 4; exec "$@"', 'bash', program, ...args], { encoding: 'utf8' });
  const out = path.join(folder, 'out');
  fs.mkdirSync(out);
  const target = path.join(out, 'file');
  fs.writeFileSync(target, 'as it was');
  for (const command of [['quantize', story, target, 'Q8_0'], ['synth', target, '--arch', 'llama'],
    ['imatrix', story, words, '-c', '64', '--chunks', '1', '-o', target],
    ['perplexity', story, words, '-c', '64', '--chunks', '2', '--save-logits', target],
    ['bench', 'serve', '--url', server.url, '--requests', '200', '-n', '1', '--csv', target]]) {
    const run = limited(...command);
    assert.equal(run.status, 1, command.join(' '));
    assert.match(run.stderr, /cannot write/);
    assert.deepEqual(fs.readdirSync(out), ['file'], command.join(' '));
    assert.equal(fs.readFileSync(target, 'utf8'), 'as it was');
    for (const place_ of [out, '/dev/full']) {
      const wrong = cairn(command.map((word) => (word === target ? place_ : word)));
      assert.equal(wrong.status, 1);
      assert.match(wrong.stderr, /is there, which is no file/);
    }
  }
});
