// `cairn gguf`: what its commands write is checked by checksums, a kill leaves the old file and nothing else after the
// next run, and errors say what to do.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { after, before, test } from 'node:test';
import { cairn, program, story, tiny } from './server.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-gguf-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));
const at = (name) => path.join(folder, name);
const bytes = (file) => fs.readFileSync(file);
const sha256 = (data) => createHash('sha256').update(data).digest('hex');
const gguf = (...args) => cairn(['gguf', ...args]);
function done(...args) {
  const { status, stdout, stderr } = gguf(...args);
  assert.equal(status, 0, stderr);
  return stdout;
}

// Large enough to be killed while it is written; its tensors are holes.
const large = at('large.gguf');
const partials = () => fs.readdirSync(folder).filter((name) => name.endsWith('.partial'));
before(() => {
  const made = cairn(['synth', large, '--arch', 'llama', '--layers', '4', '--width', '1024', '--heads', '8', '--ffn', '4096',
    '--vocab', '512', '--type', 'F16', '--hollow']);
  assert.equal(made.status, 0, made.stderr);
  assert.ok(fs.statSync(large).size > 100 << 20, String(fs.statSync(large).size));
});

// Kills the command once `count` of its unfinished files are there and the last one has bytes.
async function killed(count, ...args) {
  const child = spawn(program, ['gguf', ...args], { stdio: 'ignore' });
  const ended = new Promise((resolve) => { child.on('exit', (code, signal) => resolve(signal ?? code)); });
  let running = true;
  ended.then(() => { running = false; });
  while (running) {
    const found = partials();
    const size = (name) => { try { return fs.statSync(at(name)).size; } catch { return 0; } };
    if (found.length >= count && found.every((name) => size(name) > 0)) break;
    await new Promise(setImmediate);
  }
  child.kill('SIGKILL');
  assert.equal(await ended, 'SIGKILL', 'it was killed while it wrote');
  assert.notEqual(partials().length, 0);
}

async function survivesKill(outputs, count, ...args) {
  for (const output of outputs) fs.writeFileSync(at(output), `old ${output}`);
  await killed(count, ...args);
  for (const output of outputs) assert.equal(fs.readFileSync(at(output), 'utf8'), `old ${output}`);
  done(...args);
  assert.deepEqual(partials(), []);
}

test('kill -9 leaves the old file, and the next run no litter', async () => {
  const input = sha256(bytes(large));
  await survivesKill(['out.gguf'], 1, 'set', large, at('out.gguf'), 'general.name=x');
  await survivesKill(['out.gguf'], 1, 'remove', large, at('out.gguf'), 'general.name');
  await survivesKill(['out.gguf'], 1, 'splice', large, at('out.gguf'), '--from', large, '--tensors', 'ffn');
  const parts = ['part-00001-of-00003.gguf', 'part-00002-of-00003.gguf', 'part-00003-of-00003.gguf'];
  await survivesKill(parts, 2, 'split', large, at('part'), '--max-tensors', '15');
  await survivesKill(['out.gguf'], 1, 'merge', at(parts[0]), at('out.gguf'));
  assert.equal(sha256(bytes(at('out.gguf'))), input);
  assert.equal(sha256(bytes(large)), input, 'the input is never changed');
  for (const file of ['out.gguf', ...parts]) fs.rmSync(at(file));
});

test('splice takes tensors byte for byte, and diff finds exactly those', () => {
  const q8 = at('q8.gguf');
  assert.equal(cairn(['quantize', story, q8, 'Q8_0']).status, 0);
  const sums = (file) => {
    const list = done('verify', file, '--sha256-tensors').trim().split('\n').map((line) => line.split('  '));
    return new Map(list.map(([sum, name]) => [name.slice(name.indexOf(':') + 1), sum]));
  };
  assert.match(done('splice', story, at('spliced.gguf'), '--from', q8, '--tensors', 'blk\\.0\\.ffn'), /tensors? \(.* of /);
  const [a, b, spliced] = [sums(story), sums(q8), sums(at('spliced.gguf'))];
  assert.deepEqual([...spliced.keys()], [...a.keys()]);
  let taken = 0;
  for (const [name, sum] of spliced) {
    const from = /blk\.0\.ffn/.test(name);
    assert.equal(sum, (from ? b : a).get(name), name);
    if (from && a.get(name) !== b.get(name)) taken += 1;
  }
  assert.ok(taken > 0);
  const { status, stdout } = gguf('diff', story, at('spliced.gguf'), '--json');
  assert.equal(status, 1);
  const found = JSON.parse(stdout);
  assert.equal(found.same, false);
  assert.deepEqual(found.metadata, []);
  assert.equal(found.tensors.length, taken);
  assert.ok(found.tensors.every((one) => /blk\.0\.ffn/.test(one.tensor)), stdout);
  const back = gguf('splice', at('spliced.gguf'), at('back.gguf'), '--from', story, '--tensors', 'ffn');
  assert.equal(back.status, 0, back.stderr);
  assert.equal(gguf('diff', story, at('back.gguf')).status, 0);
  assert.equal(sha256(bytes(at('back.gguf'))), sha256(bytes(story)));
});

test('a changed chat template is the one that is rendered', () => {
  fs.writeFileSync(at('template.jinja'), 'Hello {{ messages[0].content }}!');
  done('set', story, at('template.gguf'), 'general.name=Greeter', '--chat-template', at('template.jinja'));
  const input = `${JSON.stringify({ messages: [{ role: 'user', content: 'you' }] })}\n`;
  const rendered = cairn(['render', at('template.gguf')], { input });
  assert.equal(rendered.status, 0, rendered.stderr);
  assert.match(JSON.parse(rendered.stdout).rendered, /Hello you!/);
  fs.writeFileSync(at('broken.jinja'), 'Hello\n{% if %}');
  const broken = gguf('set', story, at('broken.gguf'), '--chat-template', at('broken.jinja'));
  assert.equal(broken.status, 1);
  assert.match(broken.stderr, /--chat-template .*broken\.jinja: .*/);
  assert.match(broken.stderr, /line 2/);
  assert.equal(fs.existsSync(at('broken.gguf')), false);
});

test('verify finds damage, numbers that are none, and other checksums', () => {
  const copy = at('copy.gguf');
  fs.copyFileSync(story, copy);
  const sum = sha256(bytes(copy));
  assert.equal(done('verify', copy, '--sha256'), `${sum}  copy.gguf\n`);
  assert.match(done('verify', copy), /structure .*\nweights .* all finite\n$/);
  fs.writeFileSync(`${copy}.sha256`, `${sum}  copy.gguf\n`);
  assert.match(done('verify', copy), /SHA-256 .*copy\.gguf\.sha256 says/);
  const list = at('tensors.sha256');
  fs.writeFileSync(list, done('verify', copy, '--sha256-tensors'));
  assert.match(done('verify', copy, '--check', list), /SHA-256 .* says/);

  // One bit of the last tensor: only the checksums can tell.
  const data = bytes(copy);
  data[data.length - 40] ^= 1;
  fs.writeFileSync(copy, data);
  const other = gguf('verify', copy, '--check', list);
  assert.equal(other.status, 1);
  assert.match(other.stdout, /WRONG {2}copy\.gguf: SHA-256 is [0-9a-f]{64}, not [0-9a-f]{64} as .*copy\.gguf\.sha256 says/);
  assert.match(other.stdout, /WRONG {2}copy\.gguf:\S+: SHA-256 is/);
  fs.rmSync(`${copy}.sha256`);

  fs.writeFileSync(list, `${sum}  another.gguf\n`);
  assert.match(gguf('verify', copy, '--check', list).stdout, /the list has no checksum of this model; it names another\.gguf/);
  fs.writeFileSync(list, 'nonsense\n');
  assert.match(gguf('verify', copy, '--check', list).stderr, /line 1 is no SHA-256 checksum/);

  fs.truncateSync(copy, data.length - 100);
  const cut = gguf('verify', copy);
  assert.equal(cut.status, 1);
  assert.match(cut.stderr, /the file is cut short: tensor .* download it again/);

  // A blob of a hub's cache, which is called by its checksum.
  const blob = at(sha256(bytes(story)));
  fs.copyFileSync(story, blob);
  fs.symlinkSync(blob, at('linked.gguf'));
  assert.match(done('verify', at('linked.gguf')), /SHA-256 .*the name of its blob says/);
  fs.appendFileSync(blob, 'x');
  assert.match(gguf('verify', at('linked.gguf')).stdout, /WRONG {2}linked\.gguf: SHA-256 is/);
});

test('a weight that is not finite is found, with its place', () => {
  const f32 = at('f32.gguf');
  assert.equal(cairn(['quantize', tiny, f32, 'F32']).status, 0);
  const data = bytes(f32);
  data.writeFloatLE(Infinity, data.length - 64);
  fs.writeFileSync(f32, data);
  const { status, stdout } = gguf('verify', f32);
  assert.equal(status, 1);
  assert.match(stdout, /WRONG {2}\S+: 1 weight is not finite; the first, in row \d+, column \d+, is inf/);
});

test('errors say what is wrong and what to do', () => {
  const wrong = (pattern, status, ...args) => {
    const run = gguf(...args);
    assert.equal(run.status, status, run.stderr);
    assert.match(run.stderr, pattern);
  };
  wrong(/takes KEY=VALUE or KEY:TYPE=VALUE, not general\.name: there is no =/, 2, 'set', story, at('x.gguf'), 'general.name');
  wrong(/nothing is to be changed; give KEY=VALUE, --remove or --chat-template/, 1, 'set', story, at('x.gguf'));
  wrong(/the output .* would replace the input; give it another name/, 1, 'set', story, story, 'a=1');
  wrong(/is not a part of a split model/, 1, 'merge', story, at('x.gguf'));
  wrong(/the metadata alone takes .* more than a part may have/, 1, 'split', story, at('x'), '--max-size', '1KiB');
  wrong(/no tensor of .* has a name that 'nothing' matches; cairn inspect --tensors lists them/, 1, 'splice', story,
    at('x.gguf'), '--from', story, '--tensors', 'nothing');
  wrong(/no such file/, 2, 'diff', story, at('none.gguf'));
  wrong(/there is no command cairn gguf sett; did you mean set\?/, 2, 'sett');
  assert.deepEqual(fs.readdirSync(folder).filter((name) => name.startsWith('x')), []);
  assert.match(gguf().stdout, /Commands:\n {2}set .*\n {2}remove /);
});
