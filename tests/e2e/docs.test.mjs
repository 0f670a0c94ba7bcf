// The commands of the documents, run against a real server of the demonstration model. A command that is not run here must
// match a pattern of `elsewhere`, and the script that it names must exist.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { makeHuggingFaceFolder } from './hf_folder.mjs';
import { program, serve, withoutHoles } from './server.mjs';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const guide = path.join(root, 'models/guide/guide.gguf');
const pages = fs.readdirSync(path.join(root, 'docs'), { recursive: true }).filter((name) => name.endsWith('.md'))
  .map((name) => path.join('docs', name)).sort();
const apiPages = pages.filter((name) => name.startsWith('docs/api/'));

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-docs-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
const socket = path.join(folder, 'cairn.sock');
const httpSocket = path.join(folder, 'http.sock');
const text = path.join(folder, 'text.txt');
makeHuggingFaceFolder(path.join(folder, 'Qwen3-4B'));
for (const name of ['qwen3-4b-f16.gguf', 'qwen3-8b-f16.gguf']) fs.symlinkSync(guide, path.join(folder, name));
fs.writeFileSync(text, fs.readFileSync(path.join(root, 'README.md'), 'utf8').slice(0, 5000));

// A hub that has the demonstration model under every name.
let server, unixServer, folderServer, hub, hubUrl;
before(async () => {
  // The folder of keys and values that `cairn cache` looks at.
  await (await serve(guide, ['--kv-disk', path.join(folder, 'kv')])).stop();
  server = await serve(guide, ['--kv-disk', path.join(folder, 'kv-of-server'), '--frames', socket, '--store', path.join(folder, 'responses.db'), '--no-pull']);
  unixServer = await serve(guide, ['--host', `unix:${httpSocket}`]);
  fs.mkdirSync(path.join(folder, 'models'));
  fs.symlinkSync(guide, path.join(folder, 'models', 'guide.gguf'));
  folderServer = await serve(null, ['--models', path.join(folder, 'models'), '--own-models']);
  hub = spawn(process.execPath, [path.join(root, 'tests/e2e/hub_server.mjs'), guide], { stdio: ['ignore', 'pipe', 'inherit'] });
  hubUrl = await new Promise((resolve) => hub.stdout.once('data', (bytes) => resolve(String(bytes).trim())));
});
after(async () => {
  hub.kill();
  await unixServer.stop();
  await folderServer.stop();
  await server.stop();
});

// Commands that are not run here, and why.
const elsewhere = [
  [/^cairn serve\b/, 'the server of this test is one'],
  [/^cairn bench |^node bench\/|^python3 bench\/|^build\/release\/src\/|^\(cd bench\/|^for /, 'a measurement'],
  [/^scripts\/quickstart\.sh|^scripts\/(?:test|web|package)\.sh|^cmake /, 'an installation or a build'],
  [/^cc chat\.c |^c\+\+ -std=c\+\+17 many\.cpp /, 'tests/library/install_test.py builds and runs the examples'],
  [/^(?:sudo |apt-get |docker |tar |systemctl |journalctl |loginctl |(?:mkdir|mv|ln|cp|touch) .*~\/)/, 'changes the machine: docs/install.md'],
  [/^cairn convert my-adapter/, 'src/convert/huggingface/convert_test.cpp makes an adapter and converts it'],
  [/^cairn imatrix |^cairn quantize --(?:fit|imatrix) /, 'tests/e2e/quantising.test.mjs measures with a short text'],
  [/^pip install build\/package\//, 'a wheel, which takes minutes to build'],
  [/^scripts\/fuzz\.sh/, 'takes minutes: scripts/test_rest.sh runs it'],
  [/^node tests\/clients\/|^export |^(?:[A-Z_]+=\S+ +)*(?:claude|copilot|qwen)\b/, 'needs clients that are installed: tests/clients/run.mjs runs them'],
  [/^python3 tests\/data\//, 'makes reference data from packages of its own'],
  [/^gdb |^perf |^heaptrack |^ulimit /, 'needs a debugger or a profiler, which a machine may not allow'],
  [/^(?:CAIRN_SIM_SEED=\d+ )?build\/(?:release|dev)\/(?:src|tests)\//, 'a test that ctest runs'],
];

// One a line, or more lines where one ends with a backslash or within quotes.
function commandsOf(block) {
  const lines = [];
  for (const line of block.replaceAll('\\\n', ' ').split('\n')) {
    const within = lines.length > 0 && lines.at(-1).split("'").length % 2 === 0;
    within ? (lines[lines.length - 1] += '\n' + line) : lines.push(line);
  }
  return lines.map((line) => line.replace(/ +# .*$/, '').replaceAll('build/release/cairn ', 'cairn ').replace(/^build\/release\/cairn$/, 'cairn').trim())
    .filter((line) => line !== '');
}

// The command for this server, this program and a model that is there.
function here(command) {
  // Large shapes are written without their weights: gigabytes are not what is tested.
  const hollow = command.includes('--preset') && !/--hollow|--dry-run/.test(command) ? ' --hollow' : '';
  // What makes models, and asks those that were made, is for a server of a folder.
  const { url } = /api\/(?:create|copy|delete)|"tutor"/.test(command) ? folderServer : server;
  return command.replaceAll('http://127.0.0.1:8080', url).replaceAll('/tmp/cairn.sock', socket).replaceAll('/tmp/cairn-http.sock', httpSocket)
    .replaceAll(/\b(MODEL|BIG|SMALL)\.gguf/g, guide).replaceAll('TEXT.txt', text)
    .replace(/(^|\| |<\()cairn /g, `$1'${program}' `) + hollow;
}

const run = new Map();  // commands of each page
const left = [];  // scripts of commands that are not run
for (const name of ['README.md', ...pages]) {
  for (const [, block] of fs.readFileSync(path.join(root, name), 'utf8').matchAll(/^```sh\n([\s\S]*?)^```/gm)) {
    for (const command of commandsOf(block)) {
      if (elsewhere.some(([pattern]) => pattern.test(command))) {
        left.push(...(command.match(/(?:scripts|bench|tests)\/[\w/.-]+\.(?:sh|mjs|py)/g) ?? []).map((file) => [name, file]));
        continue;
      }
      run.set(name, (run.get(name) ?? 0) + 1);
      test(`${name}: ${command.slice(0, 80)}`, { skip: /--hollow|--preset|hollow\.gguf/.test(command) && withoutHoles(folder) }, () => {
        const done = spawnSync('bash', ['-c', here(command)], {
          cwd: folder, input: 'Hello!\n', encoding: 'utf8', timeout: 120_000,
          env: { ...process.env, HF_ENDPOINT: hubUrl, CAIRN_OLLAMA_REGISTRY: hubUrl, XDG_DATA_HOME: path.join(folder, 'data'),
            CAIRN_PORT: String(server.port) },  // where commands look for a server that are given none
        });
        assert.equal(done.status, 0, done.stderr);
        assert.doesNotMatch(done.stdout, /"error": ?["{]/);
        assert.ok(done.stdout.length > 0);
      });
    }
  }
}

test('the keywords of docs/grammar.md are those of the program', () => {
  const table = spawnSync(program, ['grammar', 'keywords'], { encoding: 'utf8' }).stdout;
  assert.ok(table.split('\n').length > 20);
  assert.ok(fs.readFileSync(path.join(root, 'docs/grammar.md'), 'utf8').includes(`\n${table}`));
});

test('the architectures of docs/models.md are those of the program', () => {
  const table = spawnSync(program, ['inspect', '--supported'], { encoding: 'utf8' }).stdout;
  assert.ok(table.split('\n').length > 50);
  assert.ok(fs.readFileSync(path.join(root, 'docs/models.md'), 'utf8').includes(`\n${table}`));
});

test('every page of the API begins with an example that is run', () => {
  assert.ok(apiPages.length >= 6);
  for (const name of apiPages) {
    const sections = fs.readFileSync(path.join(root, name), 'utf8').split(/^## /m);
    assert.match(sections[0], /^```sh\n/m, name);
    assert.ok(run.get(name) > 0, name);
  }
});

test('every script whose command is not run exists', () => {
  assert.ok(left.length > 0);
  for (const [name, file] of left) assert.ok(fs.existsSync(path.join(root, file)), `${name}: there is no ${file}`);
});
