// Installs pinned clients, each group into a folder of the cache, once for each list of versions.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
export const cache = path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'cairn', 'clients');
export const versions = JSON.parse(fs.readFileSync(path.join(here, 'package.json'), 'utf8')).dependencies;

function once(folder, wanted, install) {
  const stamp = path.join(folder, 'installed.txt');
  if (fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === wanted) return;
  console.log(`installing ${path.basename(folder)} into ${folder}`);
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(folder, { recursive: true });
  install();
  fs.writeFileSync(stamp, wanted);
}

// A download may fail by chance.
const ATTEMPTS = 3;

function run(command, args, cwd) {
  for (let left = ATTEMPTS; ; --left) {
    const { status, error } = spawnSync(command, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'], timeout: 900_000 });
    if (status === 0) return;
    if (left === 1) throw new Error(`${command} ${args.join(' ')} in ${cwd}: ${error ?? `ended with ${status}`}`);
  }
}

// Returns the folder whose node_modules hold `packages`.
export function installNode(group, packages) {
  const folder = path.join(cache, group);
  const wanted = packages.map((name) => `${name}@${versions[name]}`);
  once(folder, wanted.join('\n'), () => {
    fs.writeFileSync(path.join(folder, 'package.json'), '{"private": true}');
    run('npm', ['install', '--no-audit', '--no-fund', '--no-package-lock', '--save-exact', '--loglevel=error', ...wanted], folder);
  });
  return folder;
}

// Returns the Python program of a virtual environment with requirements.txt.
export function installPython() {
  const folder = path.join(cache, 'python');
  const list = path.join(here, 'requirements.txt');
  const venv = path.join(folder, 'venv');
  once(folder, fs.readFileSync(list, 'utf8'), () => {
    run('python3', ['-m', 'venv', venv], folder);
    run(path.join(venv, 'bin', 'pip'), ['install', '-q', '--disable-pip-version-check', '-r', list], folder);
  });
  return path.join(venv, 'bin', 'python');
}

// The pinned version of a Python package.
export function pythonVersion(name) {
  const list = fs.readFileSync(path.join(here, 'requirements.txt'), 'utf8').split('\n');
  return list.find((line) => line.startsWith(`${name}==`)).split('==')[1];
}

// The folder of a Node.js that is new enough for every client.
export const installNewNode = () => path.join(installNode('node', ['node']), 'node_modules', 'node', 'bin');
