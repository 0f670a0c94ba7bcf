// docs/first-hour.md: the numbers of its table are those of its cells, Cairn's are no larger than the others' but where the
// page says so, and Cairn's commands do what they are for, as they stand, one row after the other in one home.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startHub } from './hub_server.mjs';
import { program, serve } from './server.mjs';
import { Terminal } from './terminal.mjs';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const guide = path.join(root, 'models/guide/guide.gguf');
const page = fs.readFileSync(path.join(root, 'docs/first-hour.md'), 'utf8');

// Each row: what is to be done, and for each program {said, commands, pages}; null: it cannot.
const rows = page.split('\n').filter((line) => /^\| (?!task )\w/.test(line)).map((line) => {
  const [task, ...cells] = line.slice(2, -2).split(/ (?<!\\)\| /);
  return [task, ...cells.map((cell) => {
    if (cell.startsWith('–')) return null;
    const commands = [...cell.matchAll(/`([^`]+)`/g)].map(([, command]) => command.replaceAll('\\|', '|'));
    const pages = [...cell.matchAll(/\]\(([^)]+)\)|\]\[([^\]]+)\]/g)].map(([, link, name]) => link ?? name);
    return { said: cell.match(/^\*\*(\d+) \/ (\d+)\*\*/).slice(1).map(Number), commands, pages };
  })];
});

test('the table counts its own commands and pages', () => {
  assert.ok(rows.length >= 20, `${rows.length} rows`);
  for (const [task, ...programs] of rows) {
    assert.equal(programs.length, 3, task);
    for (const cell of programs.filter(Boolean)) assert.deepEqual(cell.said, [cell.commands.length, new Set(cell.pages).size], `${task}: ${cell.commands}`);
  }
});

test('Cairn takes more in no row but those that the page names', () => {
  const more = rows.filter(([, ours, ...others]) => others.filter(Boolean).some(({ said }) => ours.said.some((number, i) => number > said[i]))).map(([task]) => task);
  const section = page.split('\n## Where Cairn takes more\n')[1];
  const named = [...section.matchAll(/^\* \*\*(.+?):\*\*/gm)].flatMap(([, tasks]) => tasks.split(', '));
  assert.deepEqual(more.sort(), named.sort());
  assert.match(section, new RegExp(`^In all rows but ${['no', 'one', 'two', 'three'][more.length]}, `));
});

// What is not done here, and why.
const elsewhere = [
  [/^git |quickstart\.sh$/, 'clones, and installs packages'],
  [/^systemctl /, 'changes the machine: operate.test.mjs looks at the unit'],
  [/ claude$/, 'needs Claude Code: tests/clients/run.mjs runs it'],
];

const home = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-first-hour-'));
for (const name of Object.keys(process.env)) if (/^(XDG_|HF_|LLAMA_|OLLAMA_|CAIRN_(?!PROGRAM|TEST_DATA))/.test(name)) delete process.env[name];
process.env.HOME = home;
const models = path.join(home, '.local/share/cairn/models');
let hub, server;
before(async () => {
  hub = await startHub({ any: fs.readFileSync(guide) });
  Object.assign(process.env, hub.environment, { NO_PROXY: '127.0.0.1' });
  fs.mkdirSync(models, { recursive: true });
  fs.symlinkSync(guide, path.join(models, 'gemma3-4b-Q8_0.gguf'));
  fs.symlinkSync(guide, path.join(home, 'FILE.gguf'));
  fs.writeFileSync(path.join(home, 'NOTES.txt'), 'The ferry leaves at nine.\n');
  fs.writeFileSync(path.join(home, 'SCHEMA.json'), '{"type": "object", "properties": {"city": {"type": "string", "maxLength": 9}}, "required": ["city"], "additionalProperties": false}');
  process.chdir(home);
  server = await serve(null);  // the one that `cairn ps` and `cairn stop` find
  process.env.CAIRN_PORT = String(server.port);
});
after(async () => {
  await server.stop();
  hub.stop();
  process.chdir(os.tmpdir());
  fs.rmSync(home, { recursive: true, force: true });
});

const kPatienceMs = 120_000;
const shell = (command, input = '') => new Promise((resolve) => {
  const child = spawn('bash', ['-c', command.replace(/\bcairn (?=[a-z-])/g, `'${program}' `)], { stdio: ['pipe', 'pipe', 'pipe'], timeout: kPatienceMs });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (bytes) => { stdout += bytes; });
  child.stderr.on('data', (bytes) => { stderr += bytes; });
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  child.on('close', (status) => resolve({ status, stdout, stderr }));
});
const pageOf = (url) => new Promise((resolve, reject) => {
  http.get(url, { headers: { accept: 'text/html' } }, (reply) => {
    let body = '';
    reply.on('data', (bytes) => { body += bytes; });
    reply.on('end', () => resolve({ status: reply.statusCode, body }));
  }).on('error', reject);
});
const ask = (to, route, body, headers = {}) => to.post(route, body, { headers: { 'content-type': 'application/json', ...headers } });
const chat = { model: 'qwen3:4b', messages: [{ role: 'user', content: 'Hello!' }], max_tokens: 4 };
const idsOf = async (to, headers = {}) => (await (await fetch(`${to.url}/v1/models`, { headers })).json()).data.map(({ id }) => id);

// Types what a row says into a conversation, and leaves it at the end.
class Talk {
  async begin(args) {
    this.terminal = new Terminal(args);
    await this.terminal.until(/Type a message[^]*> /);
  }
  async type(what) {
    if (what === 'Ctrl-C') {
      this.terminal.type('Tell me a very long story about a fox.\r');
      await this.terminal.until(/story about a fox\.[^]*?\n[^\n]*\w/);
      this.terminal.type('\x03');
      return this.terminal.until(/stopped[^]*> |Ctrl-D or \/exit leaves\.[^]*> /);  // it may be quicker than the key
    }
    if (what === '"""MESSAGE"""') {
      this.terminal.type('"""Hello!\rWho are you?"""\r');
      return this.terminal.until(/Who are you\?"""[^]*tokens · [^]*> /);
    }
    const seen = [[/^\/model /, /gemma3\S* \w+ · [\d,]+ tokens[^]*> /], [/^\/set temp /, /temp\w* is 0\.2[^]*> /], [/^\/save /, /messages are in talk\.json[^]*> /]];
    this.terminal.type(`${what}\r`);
    return this.terminal.until(seen.find(([pattern]) => pattern.test(what))[1]);
  }
  async end() {
    this.terminal.type('/exit\r');
    assert.equal((await this.terminal.end()).code, 0);
  }
}

// What else must be true once the row's commands have been typed: of their output, of the server that one of them started,
// of the home.
const done = {
  'get a model that fits the machine': async () => {
    assert.match((await shell('cairn list')).stdout, /^qwen3:4b /m);
    process.kill(server.pid, 'SIGHUP');
    for (let tries = 0; tries < 200 && !(await idsOf(server)).includes('qwen3:4b'); ++tries) await new Promise((resolve) => { setTimeout(resolve, 25); });
  },
  'get an answer as JSON of a given form': ([{ stdout }]) => assert.deepEqual(Object.keys(JSON.parse(stdout)), ['city']),
  // What it was trained for is what a request gets.
  'use the whole context of a model': async () => {
    await (await ask(server, '/v1/chat/completions', chat)).text();
    const { models: [loaded] } = await (await fetch(`${server.url}/api/ps`)).json();
    const { model_info: info } = await (await ask(server, '/api/show', { model: 'qwen3:4b' })).json();
    assert.ok(loaded.context_length > 0);
    assert.equal(loaded.context_length, info['qwen3.context_length']);
  },
  'find out why it is slow': ([{ stdout }]) => assert.match(stdout, /^ok +memory speed .* GB\/s|^warn +memory speed/m),
  'see what a model is': ([{ stdout }]) => assert.match(stdout, /qwen3/),
  'see what is loaded': ([{ stdout }]) => assert.match(stdout, /^qwen3:4b /m),
  'free the memory of a model': async () => assert.doesNotMatch((await shell('cairn ps')).stdout, /^qwen3:4b /m),
  'serve two models at once': async (_, started) => {
    for (const model of ['qwen3:4b', 'gemma3-4b-Q8_0']) assert.equal((await (await ask(started, '/v1/chat/completions', { ...chat, model })).json()).model, model);
  },
  'talk in the browser': ([{ status, body }]) => assert.ok(status === 200 && body.includes('<title>Cairn')),
  'let a phone in': async ([{ stdout }], started) => {
    const address = stdout.split(' ').find((each) => /^\d+\./.test(each)) ?? '127.0.0.1';
    assert.equal((await pageOf(`http://${address.trim()}:${started.port}/`)).status, 200);
  },
  'ask clients for a key': async (_, started) => {
    assert.equal((await ask(started, '/v1/chat/completions', chat)).status, 401);
    assert.equal((await ask(started, '/v1/chat/completions', chat, { authorization: 'Bearer sk-0123456789abcdef' })).status, 200);
  },
  // As Claude Code asks.
  'connect Claude Code': async (_, started) => {
    const reply = await ask(started, '/v1/messages?beta=true', { ...chat, model: 'claude-sonnet-4-5' }, { authorization: 'Bearer any', 'anthropic-version': '2023-06-01' });
    assert.equal((await reply.json()).type, 'message');
  },
  'delete a model': async () => assert.doesNotMatch((await shell('cairn list')).stdout, /^qwen3:4b /m),
};

for (const [task, { commands }] of rows) {
  test(`${task}: ${commands.join(', ') || 'nothing to do'}`, async () => {
    const outcomes = [];
    let started = null, talk = null;
    const begin = async (args) => { talk = new Talk(); await talk.begin(args); };
    if (/see what is loaded/.test(task)) assert.equal((await ask(server, '/v1/chat/completions', chat)).status, 200);
    try {
      for (const command of commands) {
        if (elsewhere.some(([pattern]) => pattern.test(command))) continue;
        const words = command.match(/"[^"]*"|\S+/g);
        if (/^(?:\w+=\S+ )?cairn serve\b/.test(command)) {
          const flags = words.slice(words.indexOf('serve') + 1);
          started = await serve(null, flags, ['env', ...words.slice(0, words.indexOf('cairn'))]);
        } else if (command.startsWith('http://127.0.0.1:8080')) {
          outcomes.push(await pageOf(started.url));
        } else if (/^cairn run (?!.*["<])/.test(command)) {
          if (talk) await talk.end();
          await begin(words.slice(1));
          if (command.includes('--load')) assert.match(talk.terminal.seen, /goes on from \d+ messages/);
        } else if (/^[/"]|^Ctrl-/.test(command)) {
          if (!talk) await begin(['run', 'qwen3:4b']);
          await talk.type(command);
        } else {
          const outcome = await shell(command);
          assert.equal(outcome.status, 0, outcome.stderr);
          assert.doesNotMatch(outcome.stdout, /"error": ?["{]/);
          outcomes.push(outcome);
        }
      }
      await done[task]?.(outcomes, started);
    } finally {
      await talk?.end();
      await started?.stop();
    }
  });
}
