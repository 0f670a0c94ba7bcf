// One agent in one variant: each case is a run of the client without a terminal, then the checks.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { completedCalls, refusals, sent } from './exchanges.mjs';
import { installNode, versions } from './install.mjs';
import { startProxy } from './proxy.mjs';
import { GREETING, HELLO, longText } from './scripts.mjs';

const RUN_MS = 120_000;
const CUT_TOKENS = 70;      // ends in the middle of the file that the cut call writes
const SMALL_CONTEXT = 64000;  // fourteen outputs of 4500 tokens fill it
const LARGE_CONTEXT = 200000;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

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
    child.on('exit', (status, signal) => setTimeout(() => resolve(status ?? signal), 200));
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

// A file's text without its last line end, which some tools leave out; null if there is none.
const written = (file) => (fs.existsSync(file) ? fs.readFileSync(file, 'utf8').replace(/\n$/, '') : null);
const unsent = (records, words) => words.filter((word) => !sent(records, word))
  .map((word) => `no request has the output of the command that says ${word}`);

// The cases: `script` is the one that is played (default: the case's name), `says` what the client must show at the end,
// `check` gives the problems of a run {records, output, code}, beside refusals (`refused`: they are no problem).
const CASES = {
  task: {
    says: 'The task is done by',
    check: ({ records }, { work }) => {
      const problems = unsent(records, ['first-42', 'one-42', 'two-42']);
      const text = written(path.join(work, 'hello.txt'));
      if (text !== HELLO.replace('hello', 'goodbye').trimEnd()) problems.push(`hello.txt is ${JSON.stringify(text)}`);
      return problems;
    },
  },
  binary: { says: 'The odd bytes are seen by', check: ({ records }) => unsent(records, ['odd-42']) },
  emoji: { says: 'The faces are seen by' },
  image: { says: 'The picture is seen by' },
  mcp: { says: 'The note and the picture are done by', check: ({ records }) => unsent(records, ['add-42', 'pic-42']) },
  helper: { says: 'The helper has answered', check: ({ records }) => unsent(records, ['all is well']) },
  cut: {
    check: ({ records }, { work, name, completesCalls }) => {
      const problems = completedCalls(records.filter((record) => record.cut));
      if (!records.some((record) => record.cut)) problems.push('no answer was cut');
      const text = written(path.join(work, 'long.txt'));
      const half = text !== null && text !== longText(name).trimEnd();
      if (half && !completesCalls) problems.push(`half a file was written, which ends with ${JSON.stringify(text.slice(-40))}`);
      return problems;
    },
  },
  broken: {
    says: 'The broken call is over by',
    check: ({ records }, { work, completesCalls }) => {
      const problems = completedCalls(records);
      if (!completesCalls && fs.existsSync(path.join(work, 'broken.txt'))) problems.push('the broken call was run');
      return problems;
    },
  },
  resume: { script: 'again', again: true, says: 'The session goes on for', check: ({ records }) => unsent(records, ['first-42', 'again-42']) },
  abort: {
    script: 'long', stop: true,
    check: async (run, { server }) => {
      await pause(1500);
      return await server.busy() ? ['Cairn still works 1.5 s after the client was stopped'] : [];
    },
  },
  // The client believes that the context is larger: it is refused once, and has to understand why.
  fill: { says: 'It went on after the', small: true, refused: true },
  // The client is told how large the context is, and sums up before it is full.
  window: { script: 'fill', says: 'It went on after the', small: true, told: true },
};

async function runCase(agent, variant, test, home, { server, node, work }) {
  const { script = test, says, check, again, stop, refused, told, small } = CASES[test];
  const context = told ? SMALL_CONTEXT : LARGE_CONTEXT;
  const name = variant.script ?? agent.name;
  const proxy = await startProxy(server.port, path.join(home, 'exchanges'));
  const env = { HOME: home, USER: 'cairn', LANG: 'C.UTF-8', TERM: 'dumb', NO_COLOR: '1', SHELL: '/bin/bash',
    PATH: `${node}:${process.env.PATH}`, ...variant.env(home, proxy.url, told ? context : null) };
  const bin = path.join(installNode(agent.name, agent.packages), 'node_modules', '.bin', agent.bin);
  const start = (played, goOn, signal) => runClient(bin,
    variant.args(`Please do what the script says. [script ${name}.${played}]`, goOn, home, work), env, work, signal);
  try {
    variant.configure?.(home, proxy.url, context, work);
    if (test === 'cut') proxy.cutAt(CUT_TOKENS);
    if (again) await start('task', false);
    const signal = stop && new Promise((resolve) => proxy.onAnswer(({ request }) => request?.tools?.length > 0 && resolve()));
    const run = { ...await start(script, again, signal), records: proxy.records };
    fs.writeFileSync(path.join(home, 'output.txt'), run.output);
    const problems = run.timedOut ? [`it did not end within ${RUN_MS / 1000} s`] : [];
    // After a summary that has no word of the script any more, it goes on by saying hello.
    const enough = small && [agent.full, GREETING].some((words) => words && run.output.includes(words));
    if (says && !enough && !run.output.includes(says)) problems.push(`it did not say "${says}" (exit ${run.code}): ${run.output.slice(-300)}`);
    if (!refused) problems.push(...refusals(run.records, agent.probes));
    problems.push(...(await check?.(run, { work, name, server, completesCalls: agent.completesCalls }) ?? []));
    return { problems, note: `${run.records.length} exchanges` };
  } finally {
    endLeftovers(home);
    proxy.close();
  }
}

// `place`: {node, server, serve(flags), folder, work, fillWork(work)}. Returns [{client, version, test, problems, note}].
export async function runAgent(agent, variantName, only, place) {
  const client = `${agent.name}/${variantName}`;
  const results = [];
  for (const test of Object.keys(CASES)) {
    if (only.length > 0 && !only.includes(test)) continue;
    if (agent.without?.includes(test) || !(agent.variants[variantName].cases?.includes(test) ?? true)) continue;
    if ((test === 'mcp' && !agent.tools.note) || (test === 'helper' && !agent.tools.helper)) continue;
    const home = path.join(place.folder, variantName, test);
    fs.rmSync(home, { recursive: true, force: true });
    fs.rmSync(place.work, { recursive: true, force: true });
    fs.mkdirSync(home, { recursive: true });
    place.fillWork(place.work);
    const server = CASES[test].small ? await place.serve(['--ctx', String(SMALL_CONTEXT)]) : place.server;
    const { problems, note } = await runCase(agent, agent.variants[variantName], test, home, { ...place, server });
    if (server !== place.server) server.stop();
    results.push({ client, version: versions[agent.packages[0]], test, note,
      problems: [...new Set(problems.map((text) => text.replace(/\s+/g, ' ')))] });
    console.log(`${problems.length > 0 ? 'FAIL' : 'ok  '} ${client} ${test}`);
  }
  return results;
}
