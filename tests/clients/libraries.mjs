// The libraries: each has a program in libraries/ that prints a line of JSON for each of its tests.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { installNode, installPython, pythonVersion, versions } from './install.mjs';
import { startProxy } from './proxy.mjs';

const RUN_MS = 300_000;
const here = path.join(path.dirname(fileURLToPath(import.meta.url)), 'libraries');
const JAVASCRIPT = ['openai', '@anthropic-ai/sdk', 'ollama', 'ai', '@ai-sdk/anthropic', '@ai-sdk/openai', '@ai-sdk/openai-compatible',
  'ollama-ai-provider-v2', '@langchain/anthropic', '@langchain/core', '@langchain/ollama', '@langchain/openai', 'llamaindex',
  '@llamaindex/ollama', '@llamaindex/openai', '@openai/agents', 'zod'];

// {name, program, main}: `main` is the package whose version stands for the library.
export const LIBRARIES = [
  { name: 'openai', program: 'openai.mjs', main: 'openai' },
  { name: 'anthropic', program: 'anthropic.mjs', main: '@anthropic-ai/sdk' },
  { name: 'ollama', program: 'ollama.mjs', main: 'ollama' },
  { name: 'ai-sdk', program: 'ai_sdk.mjs', main: 'ai' },
  { name: 'langchain', program: 'langchain.mjs', main: '@langchain/core' },
  { name: 'llamaindex', program: 'llamaindex.mjs', main: 'llamaindex' },
  { name: 'openai-agents', program: 'openai_agents.mjs', main: '@openai/agents' },
  { name: 'openai-py', program: 'with_openai.py', main: 'openai' },
  { name: 'anthropic-py', program: 'with_anthropic.py', main: 'anthropic' },
  { name: 'ollama-py', program: 'with_ollama.py', main: 'ollama' },
  { name: 'langchain-py', program: 'with_langchain.py', main: 'langchain' },
  { name: 'llamaindex-py', program: 'with_llamaindex.py', main: 'llama-index-core' },
  { name: 'openai-agents-py', program: 'with_openai_agents.py', main: 'openai-agents' },
  { name: 'litellm-py', program: 'with_litellm.py', main: 'litellm' },
  { name: 'instructor-py', program: 'with_instructor.py', main: 'instructor' },
];

export async function runLibrary({ name, program, main }, { node, server, runs }) {
  const python = program.endsWith('.py');
  let command;
  let source = path.join(here, program);
  if (python) {
    command = installPython();
  } else {
    // Beside the packages that it imports.
    const folder = installNode('libraries', JAVASCRIPT);
    fs.cpSync(here, path.join(folder, 'programs'), { recursive: true });
    source = path.join(folder, 'programs', program);
    command = path.join(node, 'node');
  }
  const folder = path.join(runs, name);
  fs.rmSync(folder, { recursive: true, force: true });
  const proxy = await startProxy(server.port, path.join(folder, 'exchanges'));
  const child = spawn(command, [source], { env: { ...process.env, CAIRN_URL: proxy.url, PYTHONDONTWRITEBYTECODE: '1' }, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '', errors = '';
  child.stdout.on('data', (bytes) => { output += bytes; });
  child.stderr.on('data', (bytes) => { errors += bytes; });
  const timer = setTimeout(() => child.kill('SIGKILL'), RUN_MS);
  const code = await new Promise((resolve) => child.on('close', (status, signal) => resolve(status ?? signal)));
  clearTimeout(timer);
  proxy.close();
  const version = python ? pythonVersion(main) : versions[main];
  const results = output.split('\n').filter((line) => line.startsWith('{"test"'))
    .map((line) => ({ client: name, version, ...JSON.parse(line) }));
  if (code !== 0) results.push({ client: name, version, test: 'program', problems: [`it ended with ${code}: ${errors.slice(-600)}`] });
  return results;
}
