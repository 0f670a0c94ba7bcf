// Runs the program in a terminal, as a person has it, through pty_host.py.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { program } from './server.mjs';

const kWaitMs = 30_000;
const running = new Set();
after(() => running.forEach((child) => child.kill('SIGKILL')));

export class Terminal {
  #seen = '';
  #read = 0;
  #child;
  #ended;

  // `env` is added to the environment; a variable that is undefined is left out.
  constructor(args, { env = {}, columns = 80, rows = 24 } = {}) {
    const all = { ...process.env, TERM: 'xterm-256color', NO_COLOR: undefined, ...env };
    for (const name of Object.keys(all)) if (all[name] === undefined) delete all[name];
    const host = fileURLToPath(new URL('pty_host.py', import.meta.url));
    this.#child = spawn('python3', [host, columns, rows, program, ...args].map(String), { env: all, stdio: ['pipe', 'pipe', 'pipe', 'pipe'] });
    running.add(this.#child);
    let told = '';
    this.#child.stdout.setEncoding('utf8').on('data', (text) => { this.#seen += text; });
    this.#child.stderr.setEncoding('utf8').on('data', (text) => { told += text; });
    this.#child.stdin.on('error', () => {});
    this.#ended = new Promise((resolve, reject) => {
      this.#child.on('close', () => {
        running.delete(this.#child);
        try { resolve(JSON.parse(told)); } catch { reject(new Error(`pty_host.py: ${told}`)); }
      });
    });
  }

  get seen() { return this.#seen; }

  type(text) { this.#child.stdin.write(text); }
  resize(columns, rows) { this.#child.stdio[3].write(`size ${columns} ${rows}\n`); }
  signal(number) { this.#child.stdio[3].write(`signal ${number}\n`); }

  // Waits until what is seen since the last match matches, and returns the match.
  async until(pattern) {
    for (const end = Date.now() + kWaitMs; ;) {
      const match = this.#seen.slice(this.#read).match(pattern);
      if (match) {
        this.#read += match.index + match[0].length;
        return match;
      }
      if (Date.now() > end) assert.fail(`${pattern} is not in ${JSON.stringify(this.#seen.slice(this.#read))}`);
      await new Promise((done) => { setTimeout(done, 10); });
    }
  }

  // The end of the program: its exit code, below 0 a signal, and whether the terminal edits lines and echoes as before.
  async end() {
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), kWaitMs);
    try { return await this.#ended; } finally { clearTimeout(timer); }
  }
}
