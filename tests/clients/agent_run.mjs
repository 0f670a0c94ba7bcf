// One agent in one variant: each case is a run of the client without a terminal, then the checks.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { installNode, versions } from './install.mjs';
import { startProxy } from './proxy.mjs';
import { HELLO, longText } from './scripts.mjs';

const RUN_MS = 120_000;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const sent = (records, word) => records.some(({ request }) => JSON.stringify(request ?? '').includes(word));

// Runs the client to its end, or until `stop` resolves, when it gets SIGINT. Returns {code, output, timedOut}.
async function runClient(command, args, env, cwd, stop) {
  const child = spawn(command, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  child.stdout.on('data', (bytes) => { output += bytes; });
  child.stderr.on('data', (bytes) => { output += bytes; });
  const kill = (signal) => {
    try {
      process.kill(-child.pid, signal);
    } catch { /* it has ended */ }
  };
  let timedOut = false;
  const timer = setTimeout(() => { timedOut = true; kill('SIGKILL'); }, RUN_MS);
  stop?.then(() => {
    kill('SIGINT');
    setTimeout(() => kill('SIGKILL'), 10_000).unref();
  });
  const code = await new Promise((resolve) => {
    child.on('error', (error) => { output += error; resolve(-1); });
    child.on('close', (status, signal) => resolve(status ?? signal));
  });
  clearTimeout(timer);
  kill('SIGKILL');
  return { code, output, timedOut };
}

// Ends what a client left running (Cline has a daemon): the processes with its home.
function endLeftovers(home) {
  for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      if (fs.readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(`HOME=${home}`)) process.kill(Number(pid), 'SIGKILL');
    } catch { /* it has ended, or is another user's */ }
  }
}

// Problems of the exchanges: what the client sends by itself must not be refused, but for its probes of other servers.
function exchangeProblems(records, probes = []) {
  const problems = [];
  for (const { n, method, url, status, answer, error, aborted } of records) {
    if (probes.includes(`${method} ${url}`)) continue;
    if (error && !aborted) problems.push(`exchange ${n}: ${method} ${url}: ${error}`);
    if (status >= 400) problems.push(`exchange ${n}: ${method} ${url} -> ${status} ${(answer ?? '').slice(0, 300)}`);
  }
  return problems;
}

// A file's text without its last line end, which some tools leave out; null if there is none.
const written = (file) => (fs.existsSync(file) ? fs.readFileSync(file, 'utf8').replace(/\n$/, '') : null);

// What each case expects beside answers without an error: problems as texts. `run` is {code, output, records}.
const CHECKS = {
  task: ({ records }, work) => {
    const problems = ['first-42', 'one-42', 'two-42'].filter((word) => !sent(records, word))
      .map((word) => `no request has the output of the command that says ${word}`);
    const text = written(path.join(work, 'hello.txt'));
    if (text !== HELLO.replace('hello', 'goodbye').trimEnd()) problems.push(`hello.txt is ${JSON.stringify(text)}`);
    return problems;
  },
  binary: ({ records }) => (sent(records, 'odd-42') ? [] : ['no request has the output of the command with the odd bytes']),
  cut: (run, work, agent) => {
    const text = written(path.join(work, 'long.txt'));
    if (text === null || text === longText(agent).trimEnd()) return [];
    return [`a cut call was run: long.txt ends with ${JSON.stringify(text.slice(-40))}`];
  },
  broken: (run, work) => (fs.existsSync(path.join(work, 'broken.txt')) ? ['a broken call was run'] : []),
  resume: ({ records }) => ['first-42', 'again-42'].filter((word) => !sent(records, word))
    .map((word) => `no request has ${word}`),
  fill: (run, work) => (fs.existsSync(path.join(work, 'after.txt')) ? [] : ['it did not go on after the full context']),
};
// The last words of each case's script, which the client must show.
const LAST_WORDS = {
  task: 'The task is done by', binary: 'The odd bytes are seen by', emoji: 'The faces are seen by', image: 'The picture is seen by',
  resume: 'The session goes on for', fill: 'It went on after the',
};

const promptTokens = (records) => Math.max(0, ...records.flatMap(({ answer }) =>
  [...(answer ?? '').matchAll(/"(?:prompt_tokens|input_tokens|prompt_eval_count)":(\d+)/g)].map((found) => Number(found[1]))));

export async function runAgent(agent, variantName, only, place) {
  const variant = agent.variants[variantName];
  const folder = installNode(agent.name, agent.packages);
  const client = `${agent.name}/${variantName}`;
  const name = variant.script ?? agent.name;
  const bin = path.join(folder, 'node_modules', '.bin', agent.bin);
  const results = [];
  let filled = 0;
  for (const test of ['task', 'binary', 'emoji', 'image', 'cut', 'broken', 'resume', 'abort', 'fill']) {
    if (only.length > 0 && !only.includes(test)) continue;
    const home = path.join(place.folder, variantName, test);
    fs.rmSync(home, { recursive: true, force: true });
    fs.rmSync(place.work, { recursive: true, force: true });
    fs.mkdirSync(home, { recursive: true });
    place.fillWork(place.work);
    const server = test === 'fill' ? await place.serve(['--ctx', String(filled + 24000)]) : place.server;
    const proxy = await startProxy(server.port, path.join(home, 'exchanges'));
    const env = { HOME: home, USER: 'cairn', LANG: 'C.UTF-8', TERM: 'dumb', NO_COLOR: '1', SHELL: '/bin/bash',
      PATH: `${place.node}:${process.env.PATH}`, ...variant.env(home, proxy.url) };
    const start = (script, again, stop) => runClient(bin,
      variant.args(`Please do what the script says. [script ${name}.${script}]`, again, home), env, place.work, stop);
    const problems = [];
    let run;
    try {
      variant.configure?.(home, proxy.url);
      if (variant.setup) {
        const setup = await runClient(bin, variant.setup(proxy.url), env, place.work);
        if (setup.code !== 0) problems.push(`its setup ended with ${setup.code}: ${setup.output.slice(-300)}`);
      }
      if (test === 'cut') proxy.cutAt(70);
      if (test === 'resume') await start('task', false);
      let stop = null;
      if (test === 'abort') stop = new Promise((resolve) => proxy.onAnswer(({ request }) => request?.tools?.length > 0 && resolve()));
      run = { ...await start({ resume: 'again', abort: 'long' }[test] ?? test, test === 'resume', stop), records: proxy.records };
      fs.writeFileSync(path.join(home, 'output.txt'), run.output);
      if (run.timedOut) problems.push(`it did not end within ${RUN_MS / 1000} s`);
      if (test === 'abort') {
        await pause(1500);
        if (await server.busy()) problems.push('Cairn still works 1.5 s after the client was stopped');
      } else {
        const words = LAST_WORDS[test];
        if (words && !run.output.includes(`${words} ${name}`) && !run.output.includes(`${words} summary for ${name}`) &&
            !run.output.includes(`${words} full context of ${name}`)) {
          problems.push(`it did not say "${words}" (exit ${run.code}): ${run.output.slice(-300)}`);
        }
      }
      // A full context is refused once; what counts is that the client goes on.
      const exchanges = test === 'fill' ? [] : exchangeProblems(run.records, agent.probes);
      problems.push(...exchanges, ...(CHECKS[test]?.(run, place.work, name) ?? []));
      if (test === 'task') filled = promptTokens(run.records);
    } finally {
      endLeftovers(home);
      proxy.close();
      if (server !== place.server) server.stop();
    }
    results.push({ client, version: versions[agent.packages[0]], test, problems: [...new Set(problems.map((text) => text.replace(/\s+/g, ' ')))], folder: home,
      note: `${run.records.length} exchanges` });
    console.log(`${client} ${test}: ${problems.length > 0 ? `FAIL ${problems.map((p) => p.slice(0, 400)).join('\n   ')}` : 'ok'}`);
  }
  return results;
}
