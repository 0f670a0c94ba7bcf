// A small MCP server over stdio with two tools: add (answers with a text) and pic (with a text and a picture).
import fs from 'node:fs';
import process from 'node:process';
import readline from 'node:readline';

const tools = [
  { name: 'add', description: 'Adds a note', inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] } },
  { name: 'pic', description: 'Gives a picture', inputSchema: { type: 'object', properties: {} } },
];
const picture = () => ({ type: 'image', mimeType: 'image/png', data: fs.readFileSync(process.argv[2]).toString('base64') });
const METHODS = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'note', version: '1' } }),
  'tools/list': () => ({ tools }),
  'tools/call': ({ name }) => ({ content: [{ type: 'text', text: `${name}-${40 + 2}` }, ...(name === 'pic' ? [picture()] : [])] }),
  ping: () => ({}),
};
readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const answer = METHODS[method] ? { result: METHODS[method](params) } : { error: { code: -32601, message: `no ${method}` } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...answer })}\n`);
});
