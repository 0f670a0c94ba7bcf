// cairn chat and cairn run as a person has them: in a terminal. A server of the test's own takes what is sent.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startHub } from './hub_server.mjs';
import { cairn, fixtures, serve, story } from './server.mjs';
import { Terminal } from './terminal.mjs';

const guide = fileURLToPath(new URL('../../models/guide/guide.gguf', import.meta.url));
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-terminal-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));

// What the server got, and how it answers: a list of events, between which it waits.
let got = [];
let answer = [];
const text = (content) => ({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });
const stub = http.createServer(async (request, response) => {
  let body = '';
  for await (const bytes of request.setEncoding('utf8')) body += bytes;
  if (request.url === '/props') return response.end(JSON.stringify({ default_generation_settings: { n_ctx: 4096 } }));
  if (request.url === '/v1/models') return response.end(JSON.stringify({ data: [{ id: 'red-one' }, { id: 'red-two' }, { id: 'blue' }] }));
  if (request.url !== '/v1/chat/completions') return response.writeHead(404).end('{}');
  got.push(JSON.parse(body));
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const event of answer) {
    if (response.destroyed) return undefined;
    if (typeof event === 'number') await new Promise((done) => { setTimeout(done, event); });
    else response.write(`data: ${JSON.stringify(event)}\n\n`);
  }
  return response.end('data: [DONE]\n\n');
});
let url;
let hub;
before(async () => {
  hub = await startHub({ any: fs.readFileSync(guide) });
  await new Promise((done) => { stub.listen(0, '127.0.0.1', done); });
  url = `http://127.0.0.1:${stub.address().port}`;
});
after(() => {
  stub.close();
  hub.stop();
});

const said = () => got.map(({ messages }) => messages.at(-1).content);
let runs = 0;
// A chat with the server, at its first prompt. Each has a history of its own unless the test names a state folder.
async function chat({ state = path.join(folder, `state-${++runs}`), args = [], answers = [text('ok')], ...options } = {}) {
  got = [];
  answer = answers;
  const terminal = new Terminal(['chat', '--url', url, ...args], { ...options, env: { XDG_STATE_HOME: state, ...options.env } });
  await terminal.until(/Type a message[^]*> /);
  return terminal;
}
// Types a message and waits for its answer and the next prompt.
async function ask(terminal, typed, pattern = /ok[^]*?> /) {
  terminal.type(typed);
  return terminal.until(pattern);
}
async function leave(terminal) {
  terminal.type('/exit\r');
  assert.deepEqual(await terminal.end(), { code: 0, edits: true, echoes: true });
}

test('a paste is one message, however long it is and whether or not the terminal marks it', async () => {
  const terminal = await chat();
  await ask(terminal, 'Sum this up:\nfirst line\nsecond line\n');
  terminal.type('\x1b[200~one\r\ntwo\n\x1b[201~');
  await terminal.until(/two/);
  await ask(terminal, '\r');
  const long = `${'x'.repeat(6_000)}end`;
  await ask(terminal, `${long}\r`);
  const lines = Array.from({ length: 20_000 }, (_, i) => `line ${i}: ü "\t\\`).join('\n');
  await ask(terminal, `\x1b[200~${lines}\x1b[201~\r`);
  await leave(terminal);
  assert.deepEqual(said().slice(0, 2), ['Sum this up:\nfirst line\nsecond line', 'one\ntwo\n']);
  assert.ok(said()[2] === long, `${said()[2].length} characters of ${long.length}`);
  assert.ok(said()[3] === lines, `${said()[3].length} characters of ${lines.length}`);
});

test('a line is edited, also with wide characters and in a terminal that changes its size', async () => {
  const terminal = await chat({ columns: 20 });
  await ask(terminal, 'hello wrld\x1b[D\x1b[D\x1b[Do\r');
  await ask(terminal, '本\x01日\x05語\x7f!\r');
  terminal.type('a text that is longer than a row of this terminal');
  await terminal.until(/terminal/);
  terminal.resize(60, 24);
  await terminal.until(/> a text that is longer than a row of this terminal/);
  await ask(terminal, '\x17end\r');
  terminal.type('dropped\x03');
  await terminal.until(/\^C\r+\n/);
  await ask(terminal, 'kept\r');
  await leave(terminal);
  assert.deepEqual(said(), ['hello world', '日本!', 'a text that is longer than a row of this end', 'kept']);
});

test('a message has several lines by Alt-Enter, a backslash, or three quotes', async () => {
  const terminal = await chat();
  await ask(terminal, 'one\x1b\rtwo\r');
  terminal.type('one\\\r');
  await terminal.until(/one\r+\n {2}/);
  await ask(terminal, 'two\r');
  terminal.type('"""\r');
  await terminal.until(/"""\r+\n {2}/);
  await ask(terminal, 'one\\\r\rtwo"""\r');
  await leave(terminal);
  assert.deepEqual(said(), ['one\ntwo', 'one\ntwo', 'one\\\n\ntwo']);
});

test('messages are recalled, also by a later run, unless --no-history says otherwise', async () => {
  const state = path.join(folder, 'remembered');
  const file = path.join(state, 'cairn', 'history');
  let terminal = await chat({ state });
  await ask(terminal, 'first\r');
  await ask(terminal, 'second\r');
  await ask(terminal, '\x1b[A\x1b[A\r');
  await leave(terminal);
  assert.deepEqual(said(), ['first', 'second', 'first']);
  assert.equal(fs.statSync(file).mode & 0o777, 0o600);
  terminal = await chat({ state });
  await ask(terminal, 'sec\x12!\r');
  await leave(terminal);
  assert.deepEqual(said(), ['second!']);
  const kept = fs.readFileSync(file, 'utf8');
  terminal = await chat({ state, args: ['--no-history'] });
  await ask(terminal, 'secret\r');
  await ask(terminal, '\x1b[A\x1b[A\x1b[A\r');
  await leave(terminal);
  assert.deepEqual(said(), ['secret', 'secret']);
  assert.equal(fs.readFileSync(file, 'utf8'), kept);
});

test('Ctrl-C stops an answer, Ctrl-D leaves, and a signal that ends the program leaves the terminal as it was', async () => {
  let terminal = await chat({ answers: [text('begun '), ...Array.from({ length: 600 }, () => 50), text('never')] });
  terminal.type('Tell\r');
  await terminal.until(/begun/);
  terminal.type('\x03');
  await terminal.until(/stopped[^]*> /);
  terminal.type('\x04');
  assert.deepEqual(await terminal.end(), { code: 0, edits: true, echoes: true });
  assert.doesNotMatch(terminal.seen, /never/);
  for (const number of [15, 1, 3]) {
    terminal = await chat();
    terminal.signal(number);
    assert.deepEqual(await terminal.end(), { code: -number, edits: true, echoes: true });
    assert.ok(terminal.seen.endsWith('\x1b[?2004l'), 'pastes are not marked any more');
  }
});

test('a paste whose first line looks like a command is a message, but for a system message of several lines', async () => {
  const terminal = await chat();
  const pasted = ['/exit', '/clear', '/retry', '/help', '/set temp 0.5', '/save talk.json'].map((command) => `${command}\nthis matters`);
  for (const [i, each] of pasted.entries()) {
    terminal.type(`\x1b[200~${each}\x1b[201~`);
    await terminal.until(/this matters/);
    await ask(terminal, '\r');
    assert.equal(got.length, i + 1, each);
  }
  await ask(terminal, '\x1b[200~/system Be kind.\nAnd brief.\x1b[201~\r', /The system message is set[^]*> /);
  await ask(terminal, 'Hello\r');
  await leave(terminal);
  assert.deepEqual(said(), [...pasted, 'Hello']);
  assert.equal(got.at(-1).messages.length, 2 * pasted.length + 2);
  assert.deepEqual(got.at(-1).messages[0], { role: 'system', content: 'Be kind.\nAnd brief.' });
});

test('what looks like a command is no message', async () => {
  const terminal = await chat();
  await ask(terminal, '/hlep\r', /there is no command \/hlep; did you mean \/help\?[^]*> /);
  await ask(terminal, '/nonsense here\r', /there is no command \/nonsense; [^]*> /);
  await ask(terminal, '/help\r', /\/retry[^]*Alt-Enter[^]*> /);
  await ask(terminal, '/etc/hosts has what?\r');
  await ask(terminal, ' /foo\r');
  await leave(terminal);
  assert.deepEqual(said(), ['/etc/hosts has what?', ' /foo']);
});

test('the Tab key completes commands, names of models and settings, and files', async () => {
  fs.writeFileSync(path.join(folder, 'notes about it.txt'), '');
  const terminal = await chat();
  terminal.type('/s\t\t');
  await terminal.until(/\/save {2}\/set {2}\/show {2}\/stats/);
  await ask(terminal, '\x15/mod\tbl\t\r', /blue of http[^]*> /);
  await ask(terminal, '/model r\tt\t\r', /red-two of http[^]*> /);
  await ask(terminal, '/set min\t\x17\x17/set see\t7\r', /seed is 7[^]*> /);
  await ask(terminal, `Read ${folder}/not\t\x7f please\r`);
  await leave(terminal);
  assert.deepEqual(said(), [`Read ${folder}/notes about it.txt please`]);
  assert.deepEqual([got[0].model, got[0].seed], ['red-two', 7]);
});

test('while one waits a line says what for, and is gone with the answer; a dim one has its numbers', async () => {
  const reading = (processed) => ({ choices: [], prompt_progress: { total: 2600, cache: 80, processed, time_ms: 10 } });
  const timings = { cache_n: 80, prompt_n: 2520, predicted_n: 12, predicted_ms: 500 };
  const answers = [reading(1280), 900, text('An **answer** with `code`.'), { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], timings }];
  let terminal = await chat({ answers });
  await ask(terminal, 'x\r', /\r\x1b\[Kreading 1,280 of 2,600 tokens, [\d.]+ tokens\/s[^\n]*\r\x1b\[KAn \x1b\[1manswer\x1b\[22m with \x1b\[36mcode\x1b\[39m\.\r\n\x1b\[2m12 tokens · 22\.0 tokens\/s · [\d.]+ s to the first · [\d.]+ s · context 2,612 of 4,096\x1b\[0m\r\n[^]*> /);
  assert.equal(got[0].return_progress, true);
  await leave(terminal);
  terminal = await chat({ answers, env: { NO_COLOR: '1' } });
  await ask(terminal, 'x\r', /An \*\*answer\*\* with `code`\.\r\n12 tokens/);
  await leave(terminal);
  assert.doesNotMatch(terminal.seen, /\x1b\[\d*m/);
  terminal = await chat({ answers, args: ['--stats', 'off'] });
  await ask(terminal, 'x\r', /code[^]*?> /);
  await leave(terminal);
  assert.doesNotMatch(terminal.seen, /12 tokens/);
});

test('the doctor says what it measures while one waits for that', async () => {
  const terminal = new Terminal(['doctor', story, '--port', '0'], { columns: 200 });
  const [, measured] = await terminal.until(/\r\x1b\[Kmeasuring how fast this machine reads memory\r\x1b\[K[^]*?memory speed +(not measured|[\d.]+ GB\/s)/);
  assert.ok(measured);
  assert.equal((await terminal.end()).code, 0);
});

// A home without a model, and a hub that has the demonstration model under every name.
const newHome = () => {
  const home = path.join(folder, `home-${++runs}`);
  const gone = Object.fromEntries(['HF_HOME', 'HF_HUB_CACHE', 'LLAMA_CACHE', 'OLLAMA_MODELS'].map((name) => [name, undefined]));
  return { ...gone, ...hub.environment, HOME: home, XDG_DATA_HOME: path.join(home, 'data'), XDG_CACHE_HOME: path.join(home, 'cache'), XDG_STATE_HOME: path.join(home, 'state') };
};

test('where there is no model, one key gets one of those that fit, and the conversation begins', async () => {
  for (const command of ['list', 'chat']) {
    const env = newHome();
    const terminal = new Terminal([command], { env, columns: 120 });
    await terminal.until(/ 1 {2}cairn run \S+ +# [\d.]+ \wiB, [^]*Press 1(?: to \d)? to get one and talk to it, or any other key to \w[^.]*\. /);
    terminal.type('1');
    await terminal.until(/pulling [^]*tokens · [^]*> /);
    await ask(terminal, 'Hello!\r', /tokens · [^]*> /);
    await leave(terminal);
    assert.equal(fs.readdirSync(path.join(env.XDG_DATA_HOME, 'cairn/models')).length, 1);
  }
});

test('another key leaves cairn list, and begins the demonstration in cairn chat', async () => {
  const env = newHome();
  const list = new Terminal(['list'], { env });
  await list.until(/or any other key to leave\. /);
  list.type('\x1b[A');
  assert.deepEqual(await list.end(), { code: 0, edits: true, echoes: true });
  const chat = new Terminal(['chat'], { env });
  await chat.until(/or any other key to talk to the small demonstration model\. /);
  chat.type('x');
  await chat.until(/This is Cairn's small demonstration model\.[^]*> /);
  await leave(chat);
  const stopped = new Terminal(['chat'], { env });
  await stopped.until(/Press 1/);
  stopped.type('\x03');
  assert.deepEqual(await stopped.end(), { code: 1, edits: true, echoes: true });
  const plain = new Terminal(['list'], { env: { ...env, TERM: 'dumb' } });
  assert.equal((await plain.end()).code, 0);
  assert.match(plain.seen, /cairn run \S+ +#/);
  assert.doesNotMatch(plain.seen, /Press/);
});

test('no text of an answer moves the cursor', async () => {
  const terminal = await chat({ answers: [text('a\x1b[2Jb\rc')] });
  await ask(terminal, 'x\r', /a\^\[\[2Jb\^Mc[^]*> /);
  await leave(terminal);
});

test('a terminal that moves no cursor has plain lines', async () => {
  got = [];
  answer = [text('**ok**')];
  const terminal = new Terminal(['chat', '--url', url], { env: { TERM: 'dumb', XDG_STATE_HOME: path.join(folder, 'dumb') } });
  await terminal.until(/> /);
  await ask(terminal, 'one\\\n', /one/);
  await ask(terminal, 'two\n', /\*\*ok\*\*[^]*> /);
  await ask(terminal, '/hlep\n', /\/help/);
  terminal.type('/exit\n');
  assert.equal((await terminal.end()).code, 0);
  assert.deepEqual(said(), ['one\ntwo']);
  assert.doesNotMatch(terminal.seen, /\x1b/);
});

test('a server that is not there, or wants a key, is told of before the first message', async () => {
  const closed = http.createServer();
  await new Promise((done) => { closed.listen(0, '127.0.0.1', done); });
  const nobody = `http://127.0.0.1:${closed.address().port}`;
  await new Promise((done) => { closed.close(done); });
  const alone = new Terminal(['chat', '--url', nobody]);
  assert.equal((await alone.end()).code, 1);
  assert.match(alone.seen, /no server answers at [^]*cannot connect[^]*start one with: cairn serve/);
  const keyed = await serve(story, ['--api-key', 'abc']);
  const locked = new Terminal(['chat', '--url', keyed.url]);
  assert.equal((await locked.end()).code, 1);
  assert.match(locked.seen, /--api-key or CAIRN_API_KEY/);
  await keyed.stop();
});

test('chat alone begins with the server that it has found and its model, and with --url as well', async () => {
  const server = await serve(story, ['-t', '1']);
  for (const [args, env] of [[['chat'], { CAIRN_PORT: String(server.port) }], [['chat', '--url', server.url], {}]]) {
    const terminal = new Terminal([...args, '-n', '4'], { env: { XDG_STATE_HOME: path.join(folder, 'found'), ...env } });
    await terminal.until(/stories260K-f32 of http:\/\/127\.0\.0\.1:\d+[^]*Type a message[^]*> /);
    await ask(terminal, 'Once\r', /4 tokens · [^]*> /);
    await leave(terminal);
  }
  await server.stop();
});

test('a local model: one line about it, no log, and commands that change, repeat, save and load', async () => {
  const saved = path.join(folder, 'talk.json');
  const env = { XDG_STATE_HOME: path.join(folder, 'local'), XDG_DATA_HOME: path.join(folder, 'data') };
  const terminal = new Terminal(['chat', guide, '-n', '8'], { env });
  await terminal.until(/guide \w+ · [\d,]+ tokens · [\d.]+ \w+ · cpu[^]*> /);
  assert.doesNotMatch(terminal.seen, /\d\d:\d\d:\d\d/);
  await ask(terminal, '/set temp 0\r', /temperature is 0[^]*> /);
  await ask(terminal, '/set tmp 0\r', /there is no setting tmp; did you mean temp\?/);
  await ask(terminal, '/set top_p 7\r', /top_p must be a number from 0 to 1, not 7/);
  await ask(terminal, 'Tell me a story.\r', /8 tokens · [^]*> /);
  await ask(terminal, '/retry\r', /8 tokens · [^]*> /);
  await ask(terminal, '/stats\r', /2 answers, 16 tokens[^]*> /);
  await ask(terminal, '/system Be short.\r', /The system message is set[^]*> /);
  await ask(terminal, `/save ${saved}\r`, /3 messages are in[^]*> /);
  await ask(terminal, '/show\r', /system: Be short\.\r\ntemperature 0[^]*messages: 2[^]*> /);
  await ask(terminal, '/clear\r', /forgotten[^]*> /);
  await ask(terminal, '/retry\r', /no message to answer again/);
  await ask(terminal, `/load ${saved}\r`, /goes on from 3 messages[^]*> /);
  await ask(terminal, `/load ${story}\r`, /\/load: \S+ [^]*> /);
  fs.writeFileSync(path.join(folder, 'other.txt'), 'mine');
  await ask(terminal, `/save ${folder}/other.txt\r`, /already exists[^]*> /);
  await ask(terminal, `/model ${path.join(fixtures, 'models', 'llama.gguf')}\r`, /llama F32 · [^]*> /);
  await ask(terminal, '/model no-such\r', /neither a file nor a model no-such[^]*> /);
  await ask(terminal, '/show\r', /model: llama F32 [^]*messages: 2[^]*> /);
  terminal.type('/bye\r');
  assert.deepEqual(await terminal.end(), { code: 0, edits: true, echoes: true });
  const later = new Terminal(['chat', guide, '-n', '8', '--load', saved], { env });
  await later.until(/goes on from 3 messages[^]*> /);
  await ask(later, '/show\r', /system: Be short\.[^]*messages: 2[^]*> /);
  await leave(later);
  const told = new Terminal(['chat', guide, '--load', saved, '--system', 'Be long.'], { env });
  await told.until(/goes on from 3 messages[^]*> /);
  await ask(told, '/show\r', /system: Be long\.[^]*messages: 2[^]*> /);
  await leave(told);
  for (const [file, pattern] of [[story, /^cairn: --load: \S+ /], [path.join(folder, 'none.json'), /^cairn: --load: \S+none\.json is no file/], [path.join(folder, 'other.txt'), /\S+other\.txt is not a saved conversation/]]) {
    const refused = cairn(['chat', guide, '--load', file], { input: 'Hi\n' });
    assert.notEqual(refused.status, 0);
    assert.match(refused.stderr, pattern);
  }
  assert.equal(fs.readFileSync(path.join(folder, 'other.txt'), 'utf8'), 'mine');
  const { model, messages } = JSON.parse(fs.readFileSync(saved, 'utf8'));
  assert.equal(model, 'guide');
  assert.deepEqual(messages.map(({ role }) => role), ['system', 'user', 'assistant']);
  assert.equal(fs.statSync(saved).mode & 0o777, 0o600);
  // Both answers at temperature 0 are the same text, which is the saved one.
  assert.ok(terminal.seen.split(messages[2].content.trim().split('\n')[0]).length > 2);
});

test('a local model says how far it has read a prompt, too', async () => {
  // Slow enough to wait for: kernels without vectors, on one thread.
  const terminal = new Terminal(['chat', guide, '--isa', 'generic', '-t', '1', '-n', '2', '--no-history']);
  await terminal.until(/Type a message[^]*> /);
  const [, read, of] = await ask(terminal, `${'The ferry leaves at nine. '.repeat(16)}\r`, /\r\x1b\[Kreading ([\d,]+) of ([\d,]+) tokens[^\n]*\r\x1b\[K[^]*2 tokens · [^]*> /);
  assert.ok(Number(read) < Number(of) && Number(of) > 100, `${read} of ${of}`);
  await leave(terminal);
});

const echo = path.join(folder, 'echo.jinja');
fs.writeFileSync(echo, '{% for message in messages %}{{ message.role }}:{{ message.content }}\n{% endfor %}{{ raise_exception(messages | length ~ " messages, the last " ~ (messages | last).content | tojson) }}');
// What `cairn run` and `cairn chat` understood as messages, told by a template that refuses them.
const understood = (args, input) => {
  const run = cairn([...args, '--chat-template', echo], { input });
  return [...run.stderr.matchAll(/\d+ messages, the last ("(?:[^"\\]|\\.)*")/g)].map(([, last]) => JSON.parse(last));
};

test('run: what standard input holds and TEXT are one message', () => {
  assert.deepEqual(understood(['run', story, 'What does it say?'], 'The ferry leaves\r\nat nine.\n'), ['The ferry leaves\nat nine.\n\nWhat does it say?']);
  assert.deepEqual(understood(['run', story], 'Sum this up:\r\nfirst line\r\n\r\n/exit\r\n'), ['Sum this up:\nfirst line\n\n/exit']);
  assert.deepEqual(understood(['run', story, 'Hi', 'there'], ''), ['Hi there']);
  for (const [args, input] of [[[], '\n'], [[], ' \n\t\r\n\n'], [['  ', '\n'], ' ']]) {
    const none = cairn(['run', story, ...args], { input });
    assert.equal(none.status, 1);
    assert.match(none.stderr, /there is no message: give a TEXT, or write it to standard input/);
  }
});

test('chat: standard input is a text as it is for run, and what is none is refused', () => {
  assert.deepEqual(understood(['chat', story], '\ufeffHello!\n'), ['Hello!']);
  assert.deepEqual(understood(['chat', story], '\ufeff/exit\nnever\n'), []);
  assert.deepEqual(understood(['chat', story], Buffer.from('\ufeffHällo!\r\n/exit\r\n', 'utf16le')), ['Hällo!']);
  for (const [bytes, pattern] of [[[0x61, 0, 0x62], /line 2 of standard input has a NUL character at byte 1/],
    [[0x63, 0x61, 0x66, 0xe9], /line 2 of standard input is not valid UTF-8 at byte 3/]]) {
    const input = Buffer.concat([Buffer.from('Hi\n'), Buffer.from(bytes), Buffer.from('\nnever\n')]);
    assert.deepEqual(understood(['chat', story], input), ['Hi']);
    const run = cairn(['chat', story, '-n', '1'], { input });
    assert.equal(run.status, 1);
    assert.match(run.stderr, pattern);
  }
});

test('chat: each line of standard input is a message, whatever ends it, and blocks are one', () => {
  assert.deepEqual(understood(['chat', story], 'Hello!\r\n\r\n/exit\r\nnever\r\n'), ['Hello!']);
  assert.deepEqual(understood(['chat', story], 'one\ntwo\\\nthree\n"""\nfour\n\nfive"""\nsix'), ['one', 'two\nthree', 'four\n\nfive', 'six']);
  const wrong = cairn(['chat', story], { input: '/hlep\n' });
  assert.match(wrong.stderr, /there is no command \/hlep; did you mean \/help\?/);
  assert.equal(wrong.status, 1);
});

test('the log stays out of a talk unless it is asked for', () => {
  const quiet = cairn(['run', guide, 'Hi', '-n', '2'], { input: '' });
  assert.equal(quiet.stderr, '');
  assert.match(cairn(['run', guide, 'Hi', '-n', '2', '--log-level', 'info'], { input: '' }).stderr, /info memory:/);
  assert.match(cairn(['run', guide, 'Hi', '-n', '2', '--stats', 'on'], { input: '' }).stderr, /^2 tokens · .* context \d+ of [\d,]+ · cut off at --max-tokens\n$/);
});

test('chat --url sends what was given and nothing else', async () => {
  let terminal = await chat();
  await ask(terminal, 'one\r');
  await leave(terminal);
  assert.deepEqual(Object.keys(got[0]).sort(), ['messages', 'return_progress', 'stream']);
  terminal = await chat({ args: ['--top-k', '3'] });
  await ask(terminal, '/set temp 0.5\r', /0\.5[^]*> /);
  await ask(terminal, 'one\r');
  await ask(terminal, '/set temp default\r', /default again[^]*> /);
  await ask(terminal, 'two\r');
  await leave(terminal);
  assert.deepEqual(got.map(({ temperature, top_k: k, top_p: p }) => [temperature, k, p]), [[0.5, 3, undefined], [undefined, 3, undefined]]);
});
