// The agents: how each is pointed at Cairn, run without a terminal, and what its tools are called. docs/clients.md tells
// people the same settings.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const MODEL = 'scripted';
// The command of an MCP server whose picture is the one in the agent's folder.
const mcpServer = (work) => ['node', fileURLToPath(new URL('mcp_server.mjs', import.meta.url)), `${work}/dot.png`];
const call = (name, args) => ({ name, args });
const write = (file, text) => {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, typeof text === 'string' ? text : JSON.stringify(text, null, 2));
};
const brokenBash = (command) => `{"command": "${command}", "cmd": "${command}", broken`;
const patch = (kind, file, lines) => `*** Begin Patch\n*** ${kind} File: ${file}\n${lines}*** End Patch\n`;
// A shell's own quoting of any text without a single quotation mark.
const printf = (text, file) => `printf '%s' '${text}' > ${file}`;

// Codex without a person who is asked.
const CODEX_ALONE = `approval_policy = "never"
sandbox_mode = "danger-full-access"
[analytics]
enabled = false
`;

// Each agent: {name, packages, bin, tools, variants, ...}, and where it has them:
//   probes          requests that it makes to see whom it talks to
//   without         the cases that it cannot have
//   completesCalls  it runs cut and broken calls as far as they came, whatever the server does
//   full            what it says of a full context, if it does not go on then
// `tools` are as scripts.mjs wants them. A variant is {configure?(home, url, context, work), args(prompt, again, home, work),
// env(home, url, context), cases?, tools?, script?}: `context` is how many tokens the client believes in (env: null if it is
// not told), `again` goes on with the last session, `cases` are the only ones; with tools of its own a variant has a script
// of its own name.
export const AGENTS = [
  {
    name: 'claude-code', packages: ['@anthropic-ai/claude-code'], bin: 'claude', probes: ['HEAD /api/hello'],
    tools: {
      shell: (command) => call('Bash', { command, description: 'Runs it' }),
      write: (file, text) => call('Write', { file_path: file, content: text }),
      edit: (file, from, to) => call('Edit', { file_path: file, old_string: from, new_string: to }),
      read: (file) => call('Read', { file_path: file }), image: (file) => call('Read', { file_path: file }),
      brokenShell: brokenBash,
      find: () => call('ToolSearch', { query: 'select:mcp__note__add,mcp__note__pic', max_results: 5 }),
      note: () => call('mcp__note__add', { text: 'a note' }), picture: () => call('mcp__note__pic', {}),
      helper: (prompt) => call('Agent', { description: 'Says hello', prompt, subagent_type: 'general-purpose', model: 'haiku' }),
    },
    variants: {
      anthropic: {
        args: (prompt, again, home, work) => ['-p', prompt, '--mcp-config',
          JSON.stringify({ mcpServers: { note: { command: mcpServer(work)[0], args: mcpServer(work).slice(1) } } }), '--output-format', 'stream-json', '--verbose', '--permission-mode', 'acceptEdits',
          '--allowedTools', 'Bash Edit Read Write Agent mcp__note__add mcp__note__pic', ...(again ? ['--continue'] : [])],
        env: (home, url, context) => ({ ANTHROPIC_BASE_URL: url, ANTHROPIC_AUTH_TOKEN: 'any', ANTHROPIC_MODEL: MODEL,
          ...(context ? { CLAUDE_CODE_MAX_CONTEXT_TOKENS: String(context) } : {}) }),
      },
    },
  },
  {
    name: 'codex', packages: ['@openai/codex'], bin: 'codex', without: ['fill'],  // ends unless model_context_window is set
    tools: {
      shell: (command) => call('exec_command', { cmd: command }),
      write: (file, text) => call('exec_command', { cmd: printf(text, file) }),
      edit: (file, from, to) => call('exec_command', { cmd: `sed -i s/${from}/${to}/ ${file}` }),
      image: (file) => call('view_image', { path: file }),
      note: () => call('mcp__note__add', { text: 'a note' }), picture: () => call('mcp__note__pic', {}),
      brokenShell: (command) => `{"cmd": "${command}", "command": "${command}", broken`,
    },
    variants: {
      responses: {
        configure: (home, url, context, work) => write(`${home}/.codex/config.toml`, `model = "${MODEL}"
model_provider = "cairn"
model_context_window = ${context}
${CODEX_ALONE}
[model_providers.cairn]
name = "Cairn"
base_url = "${url}/v1"
wire_api = "responses"
env_key = "CAIRN_KEY"
[mcp_servers.note]
command = "${mcpServer(work)[0]}"
args = ${JSON.stringify(mcpServer(work).slice(1))}
`),
        args: (prompt, again) => ['exec', ...(again ? ['resume', '--last'] : []), '--skip-git-repo-check', prompt],
        env: () => ({ CAIRN_KEY: 'any' }),
      },
      // As a server of another kind, whose version or models it asks for.
      ...Object.fromEntries(['ollama', 'lmstudio'].map((provider) => [provider, {
        cases: ['task'],
        configure: (home) => write(`${home}/.codex/config.toml`, CODEX_ALONE),
        args: (prompt) => ['exec', '--oss', '--local-provider', provider, '-m', MODEL, '--skip-git-repo-check', prompt],
        env: (home, url) => ({ CODEX_OSS_BASE_URL: `${url}/v1` }),
      }])),
    },
  },
  {
    name: 'opencode', packages: ['opencode-ai'], bin: 'opencode',
    tools: {
      shell: (command) => call('bash', { command, description: 'Runs it' }),
      write: (file, text) => call('write', { filePath: file, content: text }),
      edit: (file, from, to) => call('edit', { filePath: file, oldString: from, newString: to }),
      read: (file) => call('read', { filePath: file }), image: (file) => call('read', { filePath: file }),
      brokenShell: brokenBash, note: () => call('note_add', { text: 'a note' }), picture: () => call('note_pic', {}),
      helper: (prompt) => call('task', { description: 'Says hello', prompt, subagent_type: 'general' }),
    },
    variants: Object.fromEntries(Object.entries({
      chat: '@ai-sdk/openai-compatible', responses: '@ai-sdk/openai', anthropic: '@ai-sdk/anthropic',
    }).map(([api, npm]) => [api, {
      configure: (home, url, context, work) => write(`${home}/.config/opencode/opencode.json`, {
        $schema: 'https://opencode.ai/config.json', autoupdate: false, share: 'disabled', permission: 'allow',
        provider: { cairn: { npm, name: 'Cairn', options: { baseURL: `${url}/v1`, apiKey: 'any' },
          models: { [MODEL]: { name: MODEL, limit: { context, output: 8000 } } } } },
        mcp: { note: { type: 'local', command: mcpServer(work) } }, model: `cairn/${MODEL}`, small_model: `cairn/${MODEL}`,
      }),
      args: (prompt, again) => ['run', ...(again ? ['--continue'] : []), prompt],
      env: () => ({ OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_LSP_DOWNLOAD: '1' }),
    }])),
  },
  {
    name: 'pi', packages: ['@mariozechner/pi-coding-agent'], bin: 'pi',
    without: ['window'],  // sums up between tasks only
    completesCalls: true,
    tools: {
      shell: (command) => call('bash', { command }),
      write: (file, text) => call('write', { path: file, content: text }),
      edit: (file, from, to) => call('edit', { path: file, edits: [{ oldText: from, newText: to }] }),
      read: (file) => call('read', { path: file }), image: (file) => call('read', { path: file }),
      brokenShell: brokenBash,
    },
    variants: Object.fromEntries(Object.entries({
      chat: 'openai-completions', responses: 'openai-responses', anthropic: 'anthropic-messages',
    }).map(([name, api]) => [name, {
      configure: (home, url, context, work) => write(`${home}/.pi/agent/models.json`, { providers: { cairn: {
        baseUrl: name === 'anthropic' ? url : `${url}/v1`, api, apiKey: 'any',
        models: [{ id: MODEL, name: MODEL, reasoning: true, input: ['text'], contextWindow: context, maxTokens: 8000,
          cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 } }] } } }),
      args: (prompt, again) => ['-p', '--provider', 'cairn', '--model', MODEL, ...(again ? ['--continue'] : []), prompt],
      env: () => ({ PI_OFFLINE: '1' }),
    }])),
  },
  {
    name: 'qwen-code', packages: ['@qwen-code/qwen-code'], bin: 'qwen',
    tools: {
      shell: (command) => call('run_shell_command', { command, is_background: false }),
      write: (file, text) => call('write_file', { file_path: file, content: text }),
      edit: (file, from, to) => call('edit', { file_path: file, old_string: from, new_string: to }),
      read: (file) => call('read_file', { file_path: file }), image: (file) => call('read_file', { file_path: file }),
      brokenShell: brokenBash, readFirst: true,
      find: () => call('tool_search', { query: 'select:mcp__note__add,mcp__note__pic' }),
      note: () => call('tool_call', { name: 'mcp__note__add', arguments: { text: 'a note' } }),
      picture: () => call('tool_call', { name: 'mcp__note__pic', arguments: {} }),
      helper: (prompt) => call('agent', { description: 'Says hello', prompt, subagent_type: 'general-purpose' }),
    },
    variants: {
      chat: {
        configure: (home, url, context, work) => write(`${home}/.qwen/settings.json`, { model: { generationConfig: { contextWindowSize: context } },
          mcpServers: { note: { command: mcpServer(work)[0], args: mcpServer(work).slice(1), trust: true } } }),
        args: (prompt, again) => ['--yolo', '--auth-type', 'openai', ...(again ? ['--continue'] : []), '-p', prompt],
        env: (home, url) => ({ OPENAI_API_KEY: 'any', OPENAI_BASE_URL: `${url}/v1`, OPENAI_MODEL: MODEL }),
      },
      anthropic: {
        configure: (home, url, context, work) => write(`${home}/.qwen/settings.json`, { model: { generationConfig: { contextWindowSize: context } },
          mcpServers: { note: { command: mcpServer(work)[0], args: mcpServer(work).slice(1), trust: true } } }),
        args: (prompt, again) => ['--yolo', '--auth-type', 'anthropic', ...(again ? ['--continue'] : []), '-p', prompt],
        env: (home, url) => ({ ANTHROPIC_API_KEY: 'any', ANTHROPIC_BASE_URL: url, ANTHROPIC_MODEL: MODEL }),
      },
    },
  },
  {
    name: 'continue', packages: ['@continuedev/cli'], bin: 'cn', full: 'Context length exceeded',
    tools: {
      shell: (command) => call('Bash', { command }),
      write: (file, text) => call('Write', { filepath: file, content: text }),
      edit: (file, from, to) => call('Edit', { file_path: file, old_string: from, new_string: to }),
      read: (file) => call('Read', { filepath: file }), image: (file) => call('Read', { filepath: file }),
      brokenShell: brokenBash, readFirst: true,
    },
    variants: Object.fromEntries(Object.entries({
      openai: ['openai', '/v1'], anthropic: ['anthropic', '/v1/'], ollama: ['ollama', '/'], 'llama.cpp': ['llama.cpp', '/'],
    }).map(([name, [provider, base]]) => [name, {
      configure: (home, url, context, work) => write(`${home}/.continue/config.yaml`, `name: Cairn
version: 1.0.0
schema: v1
models:
  - name: ${MODEL}
    provider: ${provider}
    model: ${MODEL}
    apiBase: ${url}${base}
    apiKey: any
    roles: [chat, edit, apply]
    capabilities: [tool_use]
    defaultCompletionOptions:
      contextLength: ${context}
      maxTokens: 8000
`),
      args: (prompt, again, home) => ['-p', '--auto', '--config', `${home}/.continue/config.yaml`, ...(again ? ['--resume'] : []), prompt],
      env: () => ({ CONTINUE_TELEMETRY_ENABLED: '0' }),
    }])),
  },
  {
    name: 'cline', packages: ['cline'], bin: 'cline', without: ['resume', 'window'],  // wants a session's id; has no such setting
    tools: {
      shell: (command) => call('run_commands', { commands: [command] }),
      write: (file, text) => call('editor', { path: file, new_text: text }),
      edit: (file, from, to) => call('editor', { path: file, old_text: from, new_text: to }),
      read: (file) => call('read_files', { files: [{ path: file }] }), image: (file) => call('read_files', { files: [{ path: file }] }),
      brokenShell: (command) => `{"commands": ["${command}"], "command": "${command}", broken`,
    },
    variants: Object.fromEntries(['openai-compatible', 'openai-native', 'lmstudio', 'ollama'].map((provider) => [provider, {
      // Over OpenAI's own API it edits by patches.
      ...(provider === 'openai-native' ? { script: 'cline-patches', tools: {
        shell: (command) => call('run_commands', { commands: [command] }),
        write: (file, text) => call('apply_patch', { input: patch('Add', file, text.replace(/^/gm, '+').replace(/\+$/, '')) }),
        edit: (file, from, to) => call('apply_patch', { input: patch('Update', file, `@@\n-${from}\n+${to}\n`) }),
        read: (file) => call('read_files', { files: [{ path: file }] }), image: (file) => call('read_files', { files: [{ path: file }] }),
        brokenShell: (command) => `{"commands": ["${command}"], "command": "${command}", broken`,
      } } : {}),
      configure: (home, url, context, work) => write(`${home}/.cline/data/settings/providers.json`, { version: 1, lastUsedProvider: provider, modes: {},
        providers: { [provider]: { tokenSource: 'manual', updatedAt: '2026-01-01T00:00:00.000Z', settings: {
          provider, apiKey: 'any', model: MODEL, baseUrl: provider === 'ollama' ? url : `${url}/v1` } } } }),
      args: (prompt) => ['--provider', provider, '--model', MODEL, prompt],
      env: () => ({}),
    }])),
  },
  {
    name: 'copilot', packages: ['@github/copilot'], bin: 'copilot',
    tools: {
      shell: (command) => call('bash', { command, description: 'Runs it' }),
      write: (file, text) => call('create', { path: file, file_text: text }),
      edit: (file, from, to) => call('edit', { path: file, old_str: from, new_str: to }),
      read: (file) => call('view', { path: file }), image: (file) => call('view', { path: file }),
      brokenShell: brokenBash,
    },
    variants: Object.fromEntries(Object.entries({
      completions: { COPILOT_PROVIDER_TYPE: 'openai', COPILOT_PROVIDER_WIRE_API: 'completions' },
      responses: { COPILOT_PROVIDER_TYPE: 'openai', COPILOT_PROVIDER_WIRE_API: 'responses' },
      anthropic: { COPILOT_PROVIDER_TYPE: 'anthropic' },
    }).map(([name, env]) => [name, {
      args: (prompt, again) => ['--allow-all-tools', '--allow-all-paths', ...(again ? ['--continue'] : []), '-p', prompt],
      env: (home, url, context) => ({ ...env, ...(context ? { COPILOT_PROVIDER_MAX_PROMPT_TOKENS: String(context - 8000) } : {}),
        COPILOT_PROVIDER_BASE_URL: name === 'anthropic' ? url : `${url}/v1`,
        COPILOT_PROVIDER_API_KEY: 'any', COPILOT_MODEL: MODEL, COPILOT_OFFLINE: 'true', COPILOT_AUTO_UPDATE: 'false' }),
    }])),
  },
];

