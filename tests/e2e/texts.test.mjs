// Text files in any dress, wherever an option names one; addresses in every form.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { cairn, certificateIn, program, serve, story, tiny } from './server.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-texts-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));
const file = (name, bytes) => {
  fs.writeFileSync(path.join(folder, name), bytes);
  return path.join(folder, name);
};
const utf16 = (text, big) => (big ? Buffer.from(`\ufeff${text}`, 'utf16le').swap16() : Buffer.from(`\ufeff${text}`, 'utf16le'));
const words = 'Once upon a time there was a girl who liked to play — in the garden. '.repeat(20);
certificateIn(folder, 'tls');
const certificate = fs.readFileSync(path.join(folder, 'tls.pem'), 'utf8');
const key = fs.readFileSync(path.join(folder, 'tls-key.pem'), 'utf8');

// Every place where a text file is named: what it may hold, the command that reads it, and what errors call it.
const generate = ['generate', tiny, '-p', 'x', '-n', '8', '-q', '--temp', '0'];
const atStart = ['serve', story, '--port', '0', '--no-pull', '--drain-seconds', '0'];
const places = {
  'a JSON schema': ['{\n"const": "é"}\n', (name) => [...generate, '--json-schema', name], '--json-schema'],
  'a GBNF grammar': ['root ::= "a"\n# é\n', (name) => [...generate, '--grammar', name], '--grammar'],
  'a Lark grammar': ['start: "a"\n// é\n', (name) => [...generate, '--grammar', name], '--grammar'],
  'the form of a chat': ['{"const": "é"}', (name) => ['chat', story, '-n', '8', '--json-schema', name], '--json-schema'],
  'a template of a chat': ['{{ messages[0].content }}\n{# é #}', (name) => ['run', story, 'Hi', '-n', '4', '--temp', '0', '--chat-template', name], '--chat-template'],
  'a template to render': ['{{ messages }}\né\n', (name) => ['render', '--template', name], '--template'],
  'a config': ['port = 1\n# é\n', (name) => ['config', 'check', name], 'the config file'],
  'a config of the command line': ['port = 1\n# é\n', (name) => ['config', 'show', '--config', name], 'the config file'],
  'a text to predict': [words, (name) => ['perplexity', story, name, '-c', '64', '--json'], 'the text'],
  'a template at the start': ['{{ messages[0].content }}\n{# é #}', (name) => [...atStart, '--chat-template', name], '--chat-template'],
  'a config at the start': ['temp = 0.5\n# é\n', (name) => [...atStart, '--config', name], 'the config file'],
  'a key file': ['# é\nann sk-0123456789abcdef\n', (name) => [...atStart, '--api-key-file', name], 'the key file'],
  'a certificate': [certificate, (name) => [...atStart, '--tls-cert', name, '--tls-key', path.join(folder, 'tls-key.pem')], 'the TLS certificate'],
  'the key of a certificate': [key, (name) => [...atStart, '--tls-cert', path.join(folder, 'tls.pem'), '--tls-key', name], 'the TLS key'],
};
// Without what differs from run to run.
const plain = (text) => text.replace(/"(?:seconds|tokens_per_s)":[\d.]+/g, '').replaceAll(/\S*\/text\S*/g, '');
const ask = async (args) => {
  if (args[0] !== 'serve') return cairn(args, { input: '{"messages": []}\n', timeout: 20_000 });
  // A server that starts is stopped; one that does not says why.
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], timeout: 60_000 });
  const run = { status: null, stdout: '', stderr: '' };
  child.stderr.setEncoding('utf8').on('data', (text) => {
    run.stderr += text;
    if (!/serving/.test(run.stderr) || run.status === 0) return;
    run.status = 0;
    child.kill();
  });
  const [code] = await once(child, 'close');
  return { ...run, status: run.status ?? code };
};

for (const [what, [text, command, name]] of Object.entries(places)) {
  test(`${what} may have a mark, be UTF-16 and have CR LF; what is no text is refused by name`, async () => {
    const right = await ask(command(file('text', text)));
    assert.equal(right.status, 0, right.stderr);
    const dresses = { mark: `\ufeff${text}`, little: utf16(text, false), big: utf16(text, true) };
    for (const [dress, bytes] of Object.entries(dresses)) {
      const run = await ask(command(file(`text-${dress}`, bytes)));
      assert.equal(run.status, 0, `${dress}: ${run.stderr}`);
      assert.equal(plain(run.stdout), plain(right.stdout), dress);
    }
    const lines = await ask(command(file('text-crlf', text.replaceAll('\n', '\r\n'))));
    assert.equal(lines.status, 0, lines.stderr);

    const pipe = path.join(folder, 'pipe');
    if (!fs.existsSync(pipe)) assert.equal(spawnSync('mkfifo', [pipe]).status, 0);
    const large = path.join(folder, 'large');
    if (!fs.existsSync(large)) {
      fs.writeFileSync(large, '');
      fs.truncateSync(large, 2 ** 31);
    }
    const wrong = [
      [file('text-nul', `${text}\0`), /has a NUL character at byte \d+/],
      [file('text-unmarked', Buffer.from(text, 'utf16le')), /has a NUL character at byte 1:.*UTF-16 without a mark/],
      [file('text-latin', Buffer.from(`${text}caf\xe9`, 'latin1')), /is not valid UTF-8 at byte \d+/],
      [file('text-utf32', Buffer.concat([Buffer.from([0xff, 0xfe, 0, 0]), Buffer.from('x\0\0\0')])), /is UTF-32/],
      [folder, /is no file, but a folder/],
      [path.join(folder, 'none'), /is no file: there is nothing/],
      [pipe, /is no file, but a named pipe/],
      ['/dev/zero', /is no file, but a device/],
      [large, /has over \d+ bytes/],
    ];
    for (const [place, pattern] of wrong) {
      const run = await ask(command(place));
      assert.ok(run.status === 1 || run.status === 2, `${place}: ${run.status} ${run.stderr}`);
      assert.match(run.stderr, pattern, place);
      assert.ok(run.stderr.includes(name), `${place}: ${run.stderr}`);
      assert.doesNotMatch(run.stderr, /unexpected|basic_filebuf/);
    }
  });
}

test('standard input is a text in any dress, too', () => {
  for (const [args, text] of [[['generate', story, '-p', '-', '-n', '4', '-q', '--temp', '0'], 'Once upon'],
    [['tokenize', story], 'Once upon'], [['perplexity', story, '-', '-c', '64', '--chunks', '1', '--json'], words]]) {
    const right = cairn(args, { input: text });
    assert.equal(right.status, 0, right.stderr);
    for (const input of [`\ufeff${text}`, utf16(text, false), utf16(text, true)])
      assert.equal(plain(cairn(args, { input }).stdout), plain(right.stdout));
    assert.match(cairn(args, { input: `${text}\0` }).stderr, /standard input has a NUL character/);
  }
});

test('a template that is empty, or shows no message, is told of', () => {
  assert.match(cairn(['run', story, 'Hi', '--chat-template', file('empty.jinja', '\ufeff')]).stderr, /--chat-template: \S+ is empty/);
  const mute = cairn(['run', story, 'Hi', '-n', '1', '--chat-template', file('mute.jinja', 'Say something:')]);
  assert.equal(mute.status, 0);
  assert.match(mute.stderr, /warning the chat template that --chat-template gives for \S+ does not show what a user says/);
  assert.doesNotMatch(cairn(['run', story, 'Hi', '-n', '1']).stderr, /does not show/);
});

test('an empty value is no value of any option, in no list, and in no config', () => {
  for (const args of [['serve', story, '--api-key', ''], ['serve', story, '--api-key', 'a,,b'], ['serve', story, '--api-key', ','],
    ['serve', story, '--models', ''], ['serve', ''], ['chat', ''], ['run', story, ''], ['list', '--models', ''], ['serve', story, '--port', ''],
    ['serve', story, '--allow-host', ''], ['serve', story, '--alias', 'x,'], ['serve', story, '--cors-origins', ',https://x'],
    ['serve', story, '--rate-limit', 'rpm=1,,tpm=2'], ['generate', story, '-p', 'x', '--grammar', ''], ['generate', story, '-p', 'x', '--stop', ''],
    ['perplexity', story, '--save-logits', ''], ['cache', 'clear', folder, '--tenant', ''], ['key', ''], ['key', 'ann', 'models=a,,b'],
    ['bench', 'serve', '--url', ''], ['bench', 'serve', '--url', 'http://h', '--csv', ''], ['logits', tiny, '--tokens', '1,,2'], ['doctor', '--host', ''],
    ['render', '--template', ''], ['synth', '', '--arch', 'llama'], ['serve', '--pin', ''], ['chat', '--url', '']]) {
    const run = cairn(args, { input: '', timeout: 20_000 });
    assert.ok(run.status === 1 || run.status === 2, `${args.join(' ')}: ${run.status}`);
    assert.match(run.stderr, /empty|not in/i, args.join(' '));
    assert.ok(!fs.existsSync(path.join(folder, 'secret')));
  }
  for (const line of ['host = ""', 'port = ""', 'models = ""', 'api-key = ["a", ""]', 'alias = ["", "x"]', 'tls-cert = ""', 'allow-host = [""]',
    '[model."x"]\ndraft = ""', 'log-format = ""', 'name = ""', 'store = ""', 'frames = ""', 'pin = [""]']) {
    const run = cairn(['config', 'check', file('c.toml', line)]);
    assert.equal(run.status, 1, line);
    assert.match(run.stderr, /empty/, line);
  }
  // An empty variable counts as none.
  const env = { ...process.env };
  for (const option of cairn(['serve', '--help-all']).stdout.matchAll(/--([a-z][a-z-]+)/g)) env[`CAIRN_${option[1].replaceAll('-', '_').toUpperCase()}`] = '';
  assert.equal(cairn(['config', 'show'], { env }).stdout, cairn(['config', 'show']).stdout);
});

test('keys of a config have few parts, and what is large is read or refused at once', () => {
  const size = 1_000_000;
  for (const [text, pattern] of [
    ['a.'.repeat(size / 2) + 'a = 1', /line 1: the key has more than 16 parts/],
    ['\n[' + 'a.'.repeat(size / 2) + 'a]', /line 2: the key has more than 16 parts/],
    ['x = {' + 'a.'.repeat(size / 2) + 'a = 1}', /more than 16 parts/],
    ['x = "a"\n' + '"a" . '.repeat(size / 6) + 'a = 1', /line 2: the key has more than 16 parts/],
    ['x = ' + '['.repeat(size), /line 1/], ['x = ' + '{a='.repeat(size / 3), /line 1/], ['a'.repeat(size) + ' = 1', /there is no option/],
    ['x = "' + 'a.'.repeat(size / 2) + '"', /there is no option x/], ['x = [' + '1,'.repeat(size / 2) + '1]', /more than 1024 values/],
    ['x = """\n' + 'a.b.\n'.repeat(size / 5) + '"""', /there is no option x/], ['#' + '.'.repeat(size) + '\nx = 1', /there is no option x/],
    ['[model.x]\ntemp = 1\n'.repeat(size / 20), /line/], [Array.from({ length: 60_000 }, (_, i) => `key${i} = 1`).join('\n'), /more than 1024 settings/],
    [Array.from({ length: 60_000 }, (_, i) => `[a.b${i}]`).join('\n'), /./], ['[[a]]\n'.repeat(size / 6), /./],
    ['x = {' + Array.from({ length: 60_000 }, (_, i) => `k${i}=1`).join(',') + '}', /there is no option x/],
  ]) {
    const begin = performance.now();
    const run = cairn(['config', 'check', file('large.toml', text)]);
    const ms = performance.now() - begin;
    assert.equal(run.status, 1, text.slice(0, 40));
    assert.match(run.stderr, pattern, text.slice(0, 40));
    assert.ok(ms < 3_000, `${text.slice(0, 40)}: ${ms} ms`);
    if (process.env.SHOW_TIMES) console.log(`${text.slice(0, 30).replaceAll('\n', ' ')}: ${Math.round(ms)} ms`);
  }
});

test('no hint names an empty folder', () => {
  const env = { ...process.env };
  for (const name of ['HOME', 'XDG_DATA_HOME']) delete env[name];
  assert.match(cairn(['list', '--own-models'], { env }).stdout, /no models yet: name their folder with --models FOLDER, or get one/);
});

const over = (socketPath, options = {}) => new Promise((resolve, reject) => {
  const request = http.request({ socketPath, path: '/v1/models', ...options }, (reply) => {
    reply.resume();
    reply.on('end', () => resolve(reply.statusCode));
  });
  request.on('error', reject);
  request.end();
});

test('a server listens on a Unix socket, for one user, by the rules of a loopback address', async () => {
  const socket = path.join(folder, 'http.sock');
  const server = await serve(story, ['--host', `unix:${socket}`, '--port', '7']);
  assert.equal(server.url, `unix:${socket}`);
  assert.match(server.log(), /--port 7 has no effect/);
  assert.equal(fs.statSync(socket).mode & 0o777, 0o600);
  assert.equal(await over(socket), 200);
  assert.ok(server.log().includes(`curl --unix-socket ${socket} http://localhost/`));
  assert.equal(await over(socket, { headers: { host: 'evil.example' } }), 403);
  assert.equal(await over(socket, { headers: { origin: 'https://evil.example' } }), 403);
  const chat = cairn(['chat', '--url', server.url, '-n', '4', '--temp', '0'], { input: 'Hello\n' });
  assert.equal(chat.status, 0, chat.stderr);
  assert.equal(chat.stdout, cairn(['chat', story, '-n', '4', '--temp', '0'], { input: 'Hello\n' }).stdout);
  assert.equal(cairn(['bench', 'serve', '--url', server.url, '--requests', '2', '-n', '2']).status, 0);
  const second = cairn(['serve', story, '--host', `unix:${socket}`]);
  assert.equal(second.status, 1);
  assert.match(second.stderr, /another server does/);
  assert.match(cairn(['doctor', '--host', `unix:${socket}`]).stdout, /FAIL +port/);
  process.kill(server.pid, 'SIGKILL');
  while (server.alive()) await new Promise((done) => setTimeout(done, 10));
  assert.ok(fs.existsSync(socket), 'a server that is killed leaves its file');
  const again = await serve(story, ['--host', `unix://${socket}`, '--api-key', 'sk-0123456789abcdef']);
  assert.equal(await over(socket), 401);
  assert.equal(await over(socket, { headers: { authorization: 'Bearer sk-0123456789abcdef', host: 'any.example' } }), 200);
  await again.stop();
  assert.equal(fs.existsSync(socket), false);
  for (const [args, pattern] of [[['--host', `unix:/${'x'.repeat(200)}`], /path has 201 bytes and the system takes 107/],
    [['--host', 'unix:'], /path is empty/], [['--host', `unix:${file('no-socket', 'x')}`], /not a socket/],
    [['--host', `unix:${socket}`, '--tls-cert', path.join(folder, 'tls.pem'), '--tls-key', path.join(folder, 'tls-key.pem')], /TLS is not for Unix sockets/]]) {
    const run = cairn(['serve', story, ...args]);
    assert.notEqual(run.status, 0);
    assert.match(run.stderr, pattern);
  }
  assert.match(cairn(['chat', '--url', `unix:${socket}`], { input: 'x\n' }).stderr, /cannot connect to unix:/);
});

test('an address may have brackets and a port', async () => {
  for (const [host, pattern] of [['[::1]', /^http:\/\/\[::1\]:\d+$/], ['::1', /^http:\/\/\[::1\]:\d+$/], ['127.0.0.1:0', /^http:\/\/127\.0\.0\.1:\d+$/]]) {
    const server = await serve(story, ['--host', host]);
    assert.match(server.url, pattern);
    assert.equal((await fetch(`${server.url}/health`)).status, 200);
    const chat = cairn(['chat', '--url', server.url, '-n', '2'], { input: 'Hello\n' });
    assert.equal(chat.status, 0, chat.stderr);
    await server.stop();
  }
  for (const [args, pattern] of [[['--host', '127.0.0.1:1', '--port', '2'], /name two ports/], [['--host', '[::1'], /no IPv6 address in brackets/],
    [['--host', 'http://127.0.0.1:8080'], /is a URL/], [['--host', '127.0.0.1:x'], /"x" is no port/]]) {
    const run = cairn(['serve', story, ...args]);
    assert.notEqual(run.status, 0);
    assert.match(run.stderr, pattern);
  }
  const env = { ...process.env, CAIRN_HOST: '[::1]:0' };
  assert.match(cairn(['config', 'show'], { env }).stdout, /host = "\[::1\]:0" {2}# the variable CAIRN_HOST/);
});

test('chat names one of a server\'s models, and a name that it does not have is answered with those that it has', async () => {
  const other = path.join(folder, 'other.gguf');
  fs.copyFileSync(tiny, other);
  const server = await serve(story, [other]);
  const chat = (...args) => cairn(['chat', '--url', server.url, '-n', '4', '--temp', '0', ...args], { input: 'Hello\n' });
  const first = chat('--model', path.basename(story, '.gguf'));
  assert.equal(first.status, 0, first.stderr);
  const second = chat('--model', 'other');
  assert.equal(second.status, 0, second.stderr);
  assert.notEqual(first.stdout, second.stdout);
  assert.equal(chat('-m', 'other:latest').stdout, second.stdout);
  const wrong = chat('--model', 'third');
  assert.equal(wrong.status, 1);
  assert.match(wrong.stderr, /the server has no model third; it has \S+, \S+/);
  await server.stop();
});
