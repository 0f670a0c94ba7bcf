// What the program says to somebody who starts it for the first time, or takes a wrong turn: help, and errors that say what
// is taken and what to do.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { cairn, commands, parameters, tiny } from './server.mjs';
import { Terminal } from './terminal.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-help-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));

const all = commands();
const helps = new Map(all.map((words) => [words.join(' '), cairn([...words, '--help-all']).stdout]));
// The rows of flags: [{ names, value, text }].
function flagsOf(help) {
  const rows = help.replaceAll(/\n {30}(?=\S)/g, '  ').split('\n').filter((line) => /^ {2}--?\w/.test(line));
  return rows.map((line) => {
    const [, names, value, text] = line.match(/^ {2}(-(?:[^\s]+, )*[^\s]+)(?: (\S+))? +(.*)$/) ?? assert.fail(line);
    return { names: names.split(', '), value, text: text.replaceAll('  ', ' ') };
  });
}
// An error of the command line: one line, and the exit code of such errors.
function wrong(args, message) {
  const run = cairn(args, { input: '' });
  assert.equal(run.status, 2, `${args.join(' ')}: ${run.stderr}`);
  assert.equal(run.stdout, '');
  if (message instanceof RegExp) assert.match(run.stderr, message);
  else assert.equal(run.stderr, `cairn: ${message}\n`);
  assert.equal(run.stderr.trimEnd().split('\n').length, 1, run.stderr);
}

test('without a command the program prints its first steps and its commands', () => {
  const help = cairn([]);
  assert.equal(help.status, 0);
  assert.equal(help.stderr, '');
  assert.match(help.stdout, /^Examples:\n {2}cairn run qwen3:4b /m);
  for (const args of [['--help'], ['-h'], ['help']]) assert.equal(cairn(args).stdout, help.stdout, args.join(' '));
  for (const name of ['serve', 'chat', 'generate', 'inspect', 'imatrix', 'quantize', 'synth', 'perplexity', 'logits', 'tokenize', 'render', 'bench', 'help', 'version'])
    assert.match(help.stdout, new RegExp(`^ {2}${name}(?:, \\w+)? +[A-Z]`, 'm'));
  assert.equal(cairn(['version']).stdout, cairn(['--version']).stdout);
});

test('cairn help prints the help of any command', () => {
  for (const words of [['serve'], ['config', 'show'], ['bench'], ['ls'], ['help']]) {
    assert.equal(cairn(['help', ...words]).stdout, cairn([...words, '--help']).stdout, words.join(' '));
    assert.equal(cairn(['help', ...words, '--all']).stdout, cairn([...words, '--help-all']).stdout, words.join(' '));
  }
  wrong(['help', 'srve'], 'there is no command srve; did you mean serve?');
});

test('a command that has others lists them', () => {
  for (const [name, ...inner] of [['config', 'check', 'show'], ['bench', 'serve', 'model'], ['grammar', 'check', 'sample', 'keywords'], ['cache', 'list', 'verify', 'clear']]) {
    const run = cairn([name]);
    assert.equal(run.status, 0, run.stderr);
    assert.equal(run.stdout, cairn([name, '--help']).stdout);
    for (const each of inner) assert.match(run.stdout, new RegExp(`^ {2}${each} +[A-Z]`, 'm'));
  }
});

test('a command that there is not has the nearest ones named', () => {
  wrong(['srve'], 'there is no command srve; did you mean serve?');
  wrong(['srve', '--help'], 'there is no command srve; did you mean serve?');
  wrong(['config', 'shw'], 'there is no command cairn config shw; did you mean show?');
  wrong(['nonsense'], 'there is no command nonsense; cairn --help lists the commands');
  wrong(['\x1b[2J'], /there is no command \\x1b\[2J;/);
});

test('a flag that there is not has the nearest ones named', () => {
  wrong(['serve', '--prot', '1'], 'cairn serve has no flag --prot; did you mean --port? cairn serve --help-all lists its flags');
  wrong(['serve', '--prot=1'], /no flag --prot; did you mean --port\?/);
  wrong(['serve', '-port', '1'], /no flag -port; did you mean --port\?/);
  wrong(['serve', '--layers', '9'], /did you mean --gpu-layers\?/);
  wrong(['chat', '--queue-max', '1'], /cairn chat has no flag --queue-max; it is a flag of cairn serve; cairn chat --help-all lists its flags/);
  wrong(['--port', '80', 'serve'], '--port belongs behind its command: cairn serve --port');
  wrong(['list', '--xyzzy'], 'cairn list has no flag --xyzzy; cairn list --help-all lists its flags');
  wrong(['list', 'what'], 'cairn list has no use for what; see cairn list --help');
});

test('a value that is not taken is told, with the flag as it was typed and what it takes', () => {
  wrong(['serve', '--port', '99999'], '--port takes 0 to 65535, not 99999; see cairn serve --help');
  wrong(['serve', '--port', 'http'], '--port takes a whole number, 0 to 65535, not http; see cairn serve --help');
  wrong(['serve', '--max-tokens', '-3'], '--max-tokens takes -1 or more, not -3; see cairn serve --help');
  wrong(['serve', '-n', '-3'], /^cairn: -n takes -1 or more, not -3;/);
  wrong(['serve', '--n-predict=-3'], /^cairn: --n-predict takes -1 or more, not -3;/);
  wrong(['serve', '--compress', 'gzip'], '--compress takes none, whole or all, not gzip; see cairn serve --help');
  wrong(['serve', '--memory', 'much'], '--memory takes a size such as 512MiB or 24GiB, not much; see cairn serve --help');
  wrong(['serve', '--kv-bytes', '0'], /^cairn: --kv-bytes takes a size above 0/);
  wrong(['serve', '--gpu-layers', 'some'], /^cairn: --gpu-layers takes auto or all, or 0 or more, not some;/);
  wrong(['serve', '--idle-unload', 'soon'], /^cairn: --idle-unload takes a time such as 30s, 5m or 1h30m, or off, not soon;/);
  wrong(['serve', '--port'], '--port needs a value: --port N; see cairn serve --help');
  wrong(['serve', '--port', '1', '--port', '2'], '--port is given 2 times; give it once; see cairn serve --help');
  wrong(['serve', '--pull=x'], /^cairn: --pull is a switch, which takes no value/);
  wrong(['generate', tiny], /^cairn: cairn generate needs -p, --prompt TEXT: Text to continue/);
  wrong(['pull'], /^cairn: cairn pull needs NAME: .*; see cairn pull --help$/m);
  wrong(['frames', 'x'], /^cairn: cairn frames needs exactly one of these: -p, --prompt TEXT, -m, --message TEXT, --metrics, INPUT;/);
  wrong(['frames', 'x', '-p', 'a', '-m', 'b'], /needs exactly one of these/);
  wrong(['serve', '--tls-cert', 'x'], '--tls-cert needs --tls-key as well; see cairn serve --help');
  wrong(['bench', 'serve', '--url', 'http://h', '--rate', '1', '--clients', '2'], '--clients excludes --rate: give one of them');
  wrong(['serve', '--chat-template', path.join(folder, 'none.jinja')], /^cairn: --chat-template: \S+none\.jinja is no file/);
});

test('every flag with a range, a size or a choice says what it takes', () => {
  const sampled = new Set(parameters.map(([, flag]) => flag));  // values under a range may mean something
  let tried = 0;
  for (const words of all) {
    for (const { names, value, text } of flagsOf(helps.get(words.join(' ')))) {
      if (!/^(?:N|SIZE|TIME\|off|[\w-]+(?:\|[\w-]+)+|N\|.*)$/.test(value ?? '')) continue;
      const flag = names.at(-1);
      if (words[0] === 'synth' && value === 'N' && !/\(\d/.test(text)) continue;  // keys of the file, checked with its architecture
      wrong([...words, flag, 'x:y'], new RegExp(`^cairn: ${flag} (?:takes|must be) .*, not x:y; see cairn ${words.join(' ')} --help$`, 'm'));
      const [, low, high] = (names.some((each) => sampled.has(each)) ? null : text.match(/\((-?\d+) (?:to (\d+)|or more)[;)]/)) ?? [];
      if (high) wrong([...words, flag, String(Number(high) + 1)], new RegExp(`^cairn: ${flag} (?:takes|must be) .*, not \\d+;`));
      if (low) wrong([...words, flag, String(Number(low) - 1)], new RegExp(`^cairn: ${flag} (?:takes|must be) .*, not -?\\d+;`));
      ++tried;
    }
  }
  assert.ok(tried > 200, String(tried));
});

test('help is short, in lines that fit, without the words of a program', () => {
  for (const words of all) {
    const name = words.join(' ');
    const help = cairn([...words, '--help']).stdout;
    assert.match(help, new RegExp(`^Usage: cairn ${name}`, 'm'), name);
    assert.match(help, new RegExp(`^Examples?:\n.*cairn ${name}`, 'm'), name);
    assert.ok(flagsOf(help).length <= 20, `${name} has ${flagsOf(help).length} flags in its help`);
    for (const text of [help, helps.get(name)]) {
      assert.doesNotMatch(text, /\{(?:false|true)\}|ENUM|:POSITIVE|:NONNEG|INT\b|UINT|FLOAT|Excludes|Needs:|TEXT:|\bin \[/, name);
      for (const line of text.split('\n')) {
        const isPreformatted = /^ {2}(?:cairn|echo) /.test(line) || /^ {2}\w+ {2,}/.test(line);
        assert.ok(line.length <= 80 || isPreformatted, line);
      }
    }
    for (const { text, names } of flagsOf(helps.get(name))) assert.match(text, /^[A-Z0-9\-].*[^.;,\s]$/, `${name} ${names}`);
    // What --help leaves out, --help-all has.
    const shown = flagsOf(helps.get(name)).flatMap(({ names }) => names);
    for (const { names } of flagsOf(help)) for (const flag of names) assert.ok(shown.includes(flag), `${name} ${flag}`);
  }
  assert.doesNotMatch(cairn(['chat', '--help']).stdout, /--no-rounding|--steer/);
  assert.match(helps.get('chat'), /--no-rounding[^]*--steer-attn/);
});

test('help is as wide as the terminal', async () => {
  for (const columns of [60, 100]) {
    const terminal = new Terminal(['serve', '--help-all'], { columns, rows: 50 });
    await terminal.end();
    const lines = terminal.seen.replaceAll(/\x1b\[[0-9;]*m/g, '').split(/\r?\n/).filter((line) => !/^ {2}-/.test(line) && line.trim().includes(' '));
    const longest = Math.max(...lines.map((line) => line.length));
    assert.ok(longest <= columns && longest > columns - 12, `${columns}: ${longest}`);
  }
});

test('cairn config show has what is set; --all has everything, and what holds where nothing is set', () => {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('CAIRN_')));
  const show = (...flags) => {
    const run = cairn(['config', 'show', ...flags], { env });
    assert.equal(run.status, 0, run.stderr);
    return run.stdout;
  };
  assert.match(show(), /^# \d+ other settings have their defaults: cairn config show --all\n$/);
  assert.match(show('--port', '9000', '--compress', 'all'), /^port = 9000 {2}# the command line\ncompress = "all" {2}# the command line\n# \d+ other settings/);
  const every = show('--all', '--port', '9000');
  assert.match(every, /^# ---- Where the server listens ----$/m);
  assert.match(every, /^\n# Port; 0 picks a free one\nport = 9000 {2}# the command line$/m);
  assert.match(every, /^parallel-max = 64 {2}# default$/m);
  assert.match(every, /^# no-web is not set: false$/m);
  assert.match(every, /^log-requests = true {2}# default$/m);
  assert.match(every, /^# ctx is not set: what the model was trained for, if memory allows$/m);
  assert.ok(!/^all /m.test(every));
  // Whatever is not set says what that means, and the whole is a config file.
  const unset = [...every.matchAll(/^# (\S+) is not set: (.*)$/gm)];
  assert.ok(unset.length > 20);
  for (const [, name, otherwise] of unset) assert.ok(otherwise !== '', name);
  const file = path.join(folder, 'all.toml');
  fs.writeFileSync(file, every);
  const checked = cairn(['config', 'check', file], { env });
  assert.equal(checked.status, 0, checked.stderr);
});

test('a machine without models is told how to get one', () => {
  const env = { ...process.env, HOME: folder, XDG_DATA_HOME: path.join(folder, 'data'), XDG_CACHE_HOME: path.join(folder, 'cache'), HF_HOME: folder, OLLAMA_MODELS: folder };
  assert.match(cairn(['doctor', '--port', '0'], { env }).stdout, /^warn +models +none yet; these fit this machine:\n {2}cairn run \S+ +# /m);
  assert.match(cairn(['list'], { env }).stdout, /There are no models yet: put GGUF files into .*\n {2}cairn run \S+ +# /);
});
