#!/usr/bin/env node
// Runs real clients against the real program: the answers are scripted inside the model (scripted.mjs), nothing is mocked.
//
// usage: node tests/clients/run.mjs [--quick] [--only NAME]... [--case NAME]... [--cairn PROGRAM]
//                                   [--runs FOLDER]
//   --quick   libraries only
//   --only    a client, with or without its variant: codex, opencode/anthropic, anthropic-py
//   --case    of the agents' cases: task, binary, emoji, image, mcp, helper, cut, broken, resume, abort, fill, window
//   --cairn   the program (default: $CAIRN_PROGRAM, or build/release/cairn)
//   --runs    where logs of every exchange go (default: the cache's folder "runs")
// Installs pinned clients into $XDG_CACHE_HOME/cairn/clients on the first run. Ends with 1 if anything failed that
// known_failures.txt does not list, or if something passed that it lists.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import zlib from 'node:zlib';
import { AGENTS } from './agents.mjs';
import { runAgent } from './agent_run.mjs';
import { cache, installNewNode } from './install.mjs';
import { LIBRARY_SCRIPTS, agentScripts } from './scripts.mjs';
import { writeScriptedModel } from './scripted.mjs';
import { LIBRARIES, runLibrary } from './libraries.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..', '..');
const { values: flags } = parseArgs({ options: {
  quick: { type: 'boolean', default: false },
  only: { type: 'string', multiple: true, default: [] },
  case: { type: 'string', multiple: true, default: [] },
  runs: { type: 'string', default: path.join(cache, 'runs') },
  cairn: { type: 'string', default: process.env.CAIRN_PROGRAM || path.join(root, 'build', 'release', 'cairn') },
} });
const runs = path.resolve(flags.runs);
const wanted = (name, variant) =>
  flags.only.length === 0 || flags.only.includes(name) || flags.only.includes(`${name}/${variant}`);

// Starts `cairn serve` with the scripted model. Returns {port, log(), busy(), stop()}.
async function serve(model, more = []) {
  const child = spawn(flags.cairn, ['serve', model, '--name', 'scripted', '--port', '0', ...more],
    { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  const port = await new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code) => reject(new Error(`cairn serve ended with ${code}: ${log}`)));
    child.stderr.on('data', (bytes) => {
      log += bytes;
      const found = log.match(/serving \S+ on http:\S+:(\d+)/);
      if (found) resolve(Number(found[1]));
    });
  });
  return {
    port,
    log: () => log,
    alive: () => child.exitCode === null && child.signalCode === null,
    busy: async () => {
      const slots = await (await fetch(`http://127.0.0.1:${port}/slots`)).json();
      return slots.some((slot) => slot.is_processing);
    },
    stop: () => child.kill('SIGTERM'),
  };
}

// A PNG of one red dot.
function dot() {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    let crc = ~0;
    for (const byte of body) {
      crc ^= byte;
      for (let bit = 0; bit < 8; ++bit) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
    const ends = Buffer.alloc(8);
    ends.writeUInt32BE(data.length, 0);
    ends.writeUInt32BE(~crc >>> 0, 4);
    return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)]);
  };
  const head = Buffer.from([0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0]);
  const row = zlib.deflateSync(Buffer.from([0, 255, 0, 0]));
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', head), chunk('IDAT', row), chunk('IEND', Buffer.alloc(0))]);
}

// What the agents find in their folder.
function fillWork(work) {
  fs.mkdirSync(work, { recursive: true });
  fs.writeFileSync(path.join(work, 'dot.png'), dot());
  fs.writeFileSync(path.join(work, 'odd.bin'), Buffer.from([97, 0, 98, 27, 91, 51, 49, 109, 255, 254, 8, 10]));
  fs.writeFileSync(path.join(work, 'faces.txt'), `x${'\u{1f600}'.repeat(36000)}\n`);
}

// Lines "client: test" of known_failures.txt.
function knownFailures() {
  const lines = fs.readFileSync(path.join(root, 'tests', 'clients', 'known_failures.txt'), 'utf8').split('\n');
  return new Set(lines.map((line) => line.trim()).filter((line) => line && !line.startsWith('#')));
}

function report(results) {
  const known = knownFailures();
  const counts = { ok: 0, FAIL: 0, known: 0 };
  for (const { client, test, problems, note } of results) {
    let outcome = problems.length > 0 ? 'FAIL' : 'ok';
    if (known.has(`${client}: ${test}`)) {
      if (outcome === 'ok') problems.push('known_failures.txt lists it, but it passes: take its line out');
      outcome = outcome === 'ok' ? 'FAIL' : 'known';
    }
    ++counts[outcome];
    console.log(`${outcome.padEnd(5)} ${client.padEnd(26)} ${test.padEnd(18)} ${note ?? ''}`);
    if (outcome === 'FAIL') for (const problem of problems) console.log(`       ${problem}`);
  }
  fs.writeFileSync(path.join(runs, 'report.json'), JSON.stringify(results, null, 1));
  console.log(`${counts.ok} passed, ${counts.FAIL} failed, ${counts.known} failed as known`);
  return counts.FAIL;
}

fs.mkdirSync(runs, { recursive: true });
const node = installNewNode();
const model = path.join(runs, 'scripted.gguf');
const workOf = (agent) => path.join(runs, agent.name, 'work');
const dialects = AGENTS.flatMap((agent) => Object.values(agent.variants).filter(({ tools }) => tools)
  .map(({ tools, script }) => agentScripts(script, tools, workOf(agent))).concat([agentScripts(agent.name, agent.tools, workOf(agent))]));
const scripts = [...LIBRARY_SCRIPTS, ...dialects.flat()];
writeScriptedModel(model, path.join(root, 'models', 'guide'), scripts, 262144);
const server = await serve(model);
const results = [];
try {
  for (const library of LIBRARIES.filter(({ name }) => wanted(name))) {
    results.push(...await runLibrary(library, { node, server, runs }));
  }
  for (const agent of flags.quick ? [] : AGENTS) {
    for (const variant of Object.keys(agent.variants).filter((variant) => wanted(agent.name, variant))) {
      const place = { node, server, serve: (more) => serve(model, more), folder: path.join(runs, agent.name), work: workOf(agent), fillWork };
      results.push(...await runAgent(agent, variant, flags.case, place));
    }
  }
  if (!server.alive()) results.push({ client: 'cairn', test: 'alive', problems: [`it ended: ${server.log().slice(-400)}`] });
} finally {
  server.stop();
  fs.writeFileSync(path.join(runs, 'cairn.log'), server.log());
}
process.exit(report(results) > 0 ? 1 : 0);
