// Starts the real program for a test and stops it afterwards.
import { spawn, spawnSync } from 'node:child_process';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { after } from 'node:test';
import { metadataBytes, readMetadata, writeGguf } from '../clients/scripted.mjs';

export const program = process.env.CAIRN_PROGRAM;
export const fixtures = process.env.CAIRN_TEST_DATA;
export const story = path.join(fixtures, 'trained', 'stories260K-f32.gguf');
export const tiny = path.join(fixtures, 'models', 'llama.gguf');

// The sampling parameters of docs/sampling.md's table, which a unit test compares with the program: name, first flag and
// default.
export const parameters = fs.readFileSync(new URL('../../docs/sampling.md', import.meta.url), 'utf8')
  .split('| parameter | flag | default | off |')[1].split('\n\n')[0].split('\n').slice(2)
  .map((row) => row.match(/^\| `(\w+)`[^|]* \| `(--[\w-]+)`[^|]* \| (\S+) \|/).slice(1));

// A copy of the story model whose file says that it was trained for so many tokens. Far beyond the real number what it
// writes is odd, but they are tokens.
export const storyTrainedFor = (tokens) => trainedFor(story, 'llama', tokens);

// A copy of a model file of the test data, for texts of so many tokens.
export function trainedFor(file, architecture, tokens) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-long-'));
  process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
  const bytes = fs.readFileSync(file);
  const key = `${architecture}.context_length`;
  const type = bytes.indexOf(key) + key.length;
  assert.equal(bytes.readUInt32LE(type), 4);  // a u32
  bytes.writeUInt32LE(tokens, type + 4);
  const copy = path.join(folder, 'long.gguf');
  fs.writeFileSync(copy, bytes);
  return copy;
}

// A copy of the story model with further metadata by their keys: integers, and floats where they are none.
export function storyWith(numbers) {
  const entry = (key, type, value) => {
    const name = Buffer.from(key);
    const head = Buffer.alloc(8 + name.length + 4);
    head.writeBigUInt64LE(BigInt(name.length), 0);
    name.copy(head, 8);
    head.writeUInt32LE(type, 8 + name.length);
    return Buffer.concat([head, value]);
  };
  const u32 = (number) => {
    const value = Buffer.alloc(4);
    value.writeUInt32LE(number);
    return value;
  };
  const text = (length) => Buffer.concat([u32(length), u32(0), Buffer.alloc(length, 'x')]);
  const f32 = (number) => Buffer.from(Float32Array.of(number).buffer);
  const entries = Object.entries(numbers).map(([key, number]) =>
    Number.isInteger(number) ? entry(key, 4, u32(number)) : entry(key, 6, f32(number)));
  // Tensors stay where alignment wants them.
  const bytesOf = (list) => list.reduce((sum, each) => sum + each.length, 0);
  const padding = (32 - ((bytesOf(entries) + bytesOf([entry('test.padding', 8, text(0))])) % 32)) % 32;
  entries.push(entry('test.padding', 8, text(padding)));
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-story-'));
  process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
  const bytes = fs.readFileSync(story);
  const kHeaderBytes = 24;
  bytes.writeBigUInt64LE(bytes.readBigUInt64LE(16) + BigInt(entries.length), 16);
  const copy = path.join(folder, 'with.gguf');
  fs.writeFileSync(copy, Buffer.concat([bytes.subarray(0, kHeaderBytes), ...entries, bytes.subarray(kHeaderBytes)]));
  return copy;
}

// A copy of the story model, trained for so many tokens as its file says, whose last tokens are these control tokens, and
// before them these texts.
export function storyWithControls(controls, texts, tokens) {
  const bytes = fs.readFileSync(story);
  const metadata = readMetadata(story);
  const u32 = (number) => Buffer.from(Uint32Array.of(number).buffer);
  metadata.get('llama.context_length').value = u32(tokens);
  const vocabulary = metadata.get('tokenizer.ggml.tokens').value.items;
  const types = metadata.get('tokenizer.ggml.token_type').value.items;
  const kControl = 3, kUserDefined = 4;
  [...controls, ...texts].forEach((text, index) => {
    vocabulary[vocabulary.length - 1 - index] = text;
    types[types.length - 1 - index] = u32(index < controls.length ? kControl : kUserDefined);
  });
  // The list of tensors ends where alignment begins.
  let at = metadata.end;
  for (let left = Number(bytes.readBigUInt64LE(8)); left > 0; --left) {
    at += 8 + Number(bytes.readBigUInt64LE(at));
    at += 4 + 8 * bytes.readUInt32LE(at) + 4 + 8;
  }
  const padded = (part) => Buffer.concat([part, Buffer.alloc(-part.length & 31)]);
  const head = Buffer.concat([bytes.subarray(0, 24), metadataBytes(metadata), bytes.subarray(metadata.end, at)]);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-story-'));
  process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
  const copy = path.join(folder, 'controls.gguf');
  fs.writeFileSync(copy, Buffer.concat([padded(head), bytes.subarray(at + (-at & 31))]));
  return copy;
}

// A LoRA adapter for the story model, which changes the queries of its layers. The seed says how.
export function storyAdapter(name, seed) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-lora-'));
  process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
  const width = 64, rank = 2, layers = 5;
  let state = seed;
  const random = () => { state = (state * 48271) % 2147483647; return state / 2147483647 - 0.5; };
  const matrix = (matrixName, cols, rows) => ({ name: matrixName, shape: [cols, rows], values: Float32Array.from({ length: cols * rows }, random) });
  const tensors = Array.from({ length: layers }, (_, layer) => `blk.${layer}.attn_q.weight`)
    .flatMap((tensor) => [matrix(`${tensor}.lora_a`, width, rank), matrix(`${tensor}.lora_b`, rank, width)]);
  const text = (value) => ({ type: 8, value });
  const metadata = new Map([['general.type', text('adapter')], ['general.architecture', text('llama')], ['adapter.type', text('lora')],
    ['adapter.lora.alpha', { type: 6, value: Buffer.from(Float32Array.of(4).buffer) }]]);
  const file = path.join(folder, name);
  writeGguf(file, metadata, tensors);
  return file;
}

// Why tests of hollow files cannot run in this folder, or false: where files have no holes, they would fill the disk.
export function withoutHoles(folder) {
  const probe = path.join(folder, 'holes');
  fs.writeFileSync(probe, '');
  fs.truncateSync(probe, 1 << 20);
  const { blocks } = fs.statSync(probe);
  fs.rmSync(probe);
  return blocks * 512 < 1 << 20 ? false : `${folder} is on a file system without holes, which hollow files would fill`;
}

// Runs `cairn` to its end. Returns {status, stdout, stderr}; stdout as bytes with {encoding: null}.
export function cairn(args, options = {}) {
  return spawnSync(program, args, { encoding: 'utf8', timeout: 120_000, maxBuffer: 1 << 28, ...options });
}

// The names of all commands, as the program lists them: [['serve'], ['config', 'check'], ...].
export function commands(above = []) {
  const lists = cairn([...above, '--help']).stdout.split(/\nCommands[^\n]*:\n/).slice(1);
  if (lists.length === 0) return [above];
  const names = lists.flatMap((list) => [...list.split('\n\n')[0].matchAll(/^ {2}(\w+)(?:,| )/gm)].map(([, name]) => name));
  return names.flatMap((name) => commands([...above, name]));
}

// Servers that a failed test did not stop. The test's process would wait for them for ever. What stops a server at the end
// of a suite comes first.
const running = new Set();
const kStopMs = 30_000;
if (process.env.NODE_TEST_CONTEXT) after(() => { setTimeout(() => running.forEach((child) => child.kill('SIGKILL')), kStopMs).unref(); });

// `before`: a command that runs the rest of its arguments, e.g. ['nice', '-n', '19'].
// `model`: null serves the catalog, which flags may name.
export async function serve(model, flags = [], before = []) {
  const [command, ...args] = [...before, program, 'serve', ...(model === null ? [] : [model]), ...(flags.includes('--port') ? [] : ['--port', '0']), ...flags];
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  running.add(child);
  child.on('exit', () => running.delete(child));
  let log = '';
  const url = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no address within 60 s: ${log}`)), 60_000);
    child.stderr.on('data', (bytes) => {
      log += bytes;
      const found = log.match(/serving .+ on ((?:https?|unix):[^\s"]+)/);
      if (found) {
        clearTimeout(timer);
        resolve(found[1]);
      }
    });
    child.on('exit', (code) => reject(new Error(`cairn serve ended with ${code}: ${log}`)));
  });
  const exited = new Promise((resolve) => child.on('exit', (code, signal) => resolve({ code, signal })));
  return {
    url,
    port: Number(new URL(url).port),
    log: () => log,
    pid: child.pid,
    alive: () => child.exitCode === null && child.signalCode === null,
    // Ends as a user would, and says how the program ended and what it wrote.
    stop: async () => {
      child.kill('SIGTERM');
      const end = await exited;
      if (end.code !== 0) console.error(`cairn serve ended with ${end.code ?? end.signal}; the end of its log:\n${log.slice(-20_000)}`);
      return { ...end, log };
    },
    post: (route, body, init = {}) =>
      fetch(url + route, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
        ...init,
      }),
  };
}

// Makes a certificate for this machine, NAME.pem with NAME-key.pem, of the authority whose own is ca.pem in the folder.
// Returns the flags of a server that has it.
export function certificateIn(folder, name) {
  const openssl = (...args) => {
    const done = spawnSync('openssl', args, { cwd: folder, encoding: 'utf8', timeout: 60_000 });
    assert.equal(done.status, 0, done.stderr);
  };
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  if (!fs.existsSync(path.join(folder, 'ca.pem'))) {
    openssl('req', '-x509', ...newKey, '-days', '2', '-subj', '/CN=Cairn tests', '-keyout', 'ca-key.pem', '-out', 'ca.pem');
    fs.writeFileSync(path.join(folder, 'names'), 'subjectAltName=DNS:localhost,IP:127.0.0.1\n');
  }
  openssl('req', ...newKey, '-subj', `/CN=${name}`, '-keyout', `${name}-key.pem`, '-out', `${name}.csr`);
  openssl('x509', '-req', '-in', `${name}.csr`, '-CA', 'ca.pem', '-CAkey', 'ca-key.pem', '-CAcreateserial', '-days', '2', '-extfile', 'names', '-out', `${name}.pem`);
  return ['--tls-cert', path.join(folder, `${name}.pem`), '--tls-key', path.join(folder, `${name}-key.pem`)];
}

// Waits for a text of the log, which comes through a pipe of its own; fails after 10 s.
export async function logged(server, pattern) {
  for (let tries = 0; tries < 200 && !pattern.test(server.log()); ++tries) await new Promise((done) => { setTimeout(done, 50); });
  assert.match(server.log(), pattern);
}
