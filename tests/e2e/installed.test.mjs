// What `cmake --install` puts into a folder, as the Debian package has it: a program that finds its demonstration model,
// the licence, the pages and the units of systemd.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { program } from './server.mjs';

const build = path.dirname(fs.realpathSync(program));
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-installed-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));
const at = (...parts) => path.join(folder, 'usr', ...parts);
const text = (...parts) => fs.readFileSync(at(...parts), 'utf8');

before(() => {
  const done = spawnSync('cmake', ['--install', build, '--prefix', at()], { encoding: 'utf8', timeout: 120_000 });
  assert.equal(done.status, 0, done.stderr);
});

test('the program talks without the checkout', () => {
  const home = path.join(folder, 'home');
  const env = { PATH: '/usr/bin:/bin', HOME: home, CAIRN_PORT: '1' };
  const chat = spawnSync(at('bin/cairn'), ['chat', '-n', '8', '--temp', '0'], { input: 'Hello!\n', encoding: 'utf8', env, cwd: folder, timeout: 60_000 });
  assert.equal(chat.status, 0, chat.stderr);
  assert.match(chat.stdout, /\w+/);
  fs.rmSync(at('share/cairn/guide.gguf'));
  const without = spawnSync(at('bin/cairn'), ['chat'], { input: 'Hello!\n', encoding: 'utf8', env, cwd: folder, timeout: 60_000 });
  assert.equal(without.status, 1);
  assert.match(without.stderr, /^cairn: the demo model is missing: .* Talk to another one: cairn run qwen3:4b$/m);
});

test('the licence, the notices, the pages and the licences of what is compiled in come along', () => {
  const papers = ['share', 'doc', 'cairn'];
  assert.match(text(...papers, 'LICENSE'), /Apache License\s+Version 2\.0/);
  for (const name of ['NOTICE', 'CHANGELOG.md', 'README.md', 'SECURITY.md', 'CONTRIBUTING.md', 'docs/install.md', 'docs/troubleshooting.md']) assert.ok(text(...papers, name).length > 200, name);
  assert.ok(fs.readdirSync(at(...papers, 'licenses')).length > 5);
});

test('a service of the machine and one of a user are there', () => {
  assert.match(text('lib/systemd/system/cairn.service'), /^ExecStart=\/usr\/bin\/cairn serve --config \/etc\/cairn\/cairn\.toml$/m);
  assert.match(text('lib/systemd/user/cairn.service'), /^ExecStart=\/usr\/bin\/env cairn serve --config %E\/cairn\/cairn\.toml$/m);
});
