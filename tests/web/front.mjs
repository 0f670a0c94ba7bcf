// Stands before the real server and answers what no model here can be brought to write, asks for a key, or shows a second
// model; everything else, the page with its headers first, passes through.
import http from 'node:http';

// How long each step of reading a prompt takes.
const kProgressMs = 1500;

const event = (value) => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`;
const chunk = (delta, more = {}) => event({ choices: [{ index: 0, delta, finish_reason: null, ...more }] });

function readBody(request) {
  return new Promise((resolve) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => resolve(Buffer.concat(parts)));
  });
}

// `answers`: the texts, or {thinking, text, pieces, progress: [[processed, total]], timings}, by what the last user message asks for with "[name]". `key`: without it
// requests of the API are answered 401. `models`: names of models beside the server's own, whose answers are its own.
// `listMs`: how long the list of models takes.
export async function front(upstream, { answers = {}, key = '', models = [], port = 0, listMs = 0 } = {}) {
  const state = { requests: [], key };
  const target = new URL(upstream);
  const server = http.createServer(async (request, response) => {
    const body = await readBody(request);
    state.requests.push({ path: request.url, body: body.toString(), headers: request.headers });
    const api = request.url.startsWith('/v1/') || request.url.startsWith('/props');
    if (api && state.key && request.headers.authorization !== `Bearer ${state.key}`) {
      response.writeHead(401, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify({ error: { message: 'no key, or one that is not known', type: 'invalid_api_key' } }));
      return;
    }
    if (request.url === '/v1/models') await new Promise((resolve) => { setTimeout(resolve, listMs); });
    if (request.url === '/v1/chat/completions') {
      const { messages } = JSON.parse(body);
      const asked = messages.findLast(({ role }) => role === 'user').content;
      const name = /\[([\w-]+)\]/.exec(asked)?.[1];
      if (answers[name]) return write(response, answers[name]);
    }
    let sent = body;
    if (body.length > 0 && models.length > 0) {
      const parsed = JSON.parse(body);
      if (models.includes(parsed.model)) delete parsed.model;
      sent = Buffer.from(JSON.stringify(parsed));
    }
    const headers = { ...request.headers, host: target.host, 'content-length': String(sent.length) };
    if (models.length > 0) delete headers['accept-encoding'];
    const passed = http.request({ host: target.hostname, port: target.port, path: request.url, method: request.method, headers },
      (answer) => {
        if (request.url === '/v1/models' && models.length > 0) return addModels(answer, response, models);
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
        answer.on('error', () => response.destroy());
        answer.on('aborted', () => response.destroy());
      });
    passed.on('error', () => response.destroy());
    response.on('close', () => passed.destroy());
    passed.end(sent);
  });
  await new Promise((resolve) => { server.listen(port, '127.0.0.1', resolve); });
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    state,
    // Lets new requests go elsewhere.
    move: (url) => { target.port = new URL(url).port; },
    stop: () => new Promise((resolve) => { server.close(resolve); server.closeAllConnections(); }),
  };
}

async function addModels(answer, response, models) {
  const parts = [];
  for await (const part of answer) parts.push(part);
  const list = JSON.parse(Buffer.concat(parts));
  for (const id of models) list.data.push({ ...list.data[0], id });
  response.writeHead(200, { 'Content-Type': 'application/json' });
  response.end(JSON.stringify(list));
}

async function write(response, answer) {
  const { thinking = '', text = '', calls = null, progress = [], timings, pieces = 40, pauseMs = 5 } = typeof answer === 'string' ? { text: answer } : answer;
  response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  const size = Math.max(1, Math.ceil(text.length / pieces));
  for (const [processed, total] of progress) {
    response.write(event({ choices: [{ index: 0, delta: {}, finish_reason: null }], prompt_progress: { total, cache: 0, processed, time_ms: 1 } }));
    await new Promise((resolve) => { setTimeout(resolve, kProgressMs); });
  }
  if (thinking) response.write(chunk({ reasoning_content: thinking }));
  if (calls) response.write(chunk({ tool_calls: calls }));
  for (let at = 0; at < text.length && !response.destroyed; at += size) {
    response.write(chunk({ content: text.slice(at, at + size) }));
    await new Promise((resolve) => { setTimeout(resolve, pauseMs); });
  }
  response.write(chunk({}, { finish_reason: calls ? 'tool_calls' : 'stop' }));
  response.write(event({ choices: [], usage: { prompt_tokens: 10, completion_tokens: pieces, prompt_tokens_details: { cached_tokens: 4 } }, ...(timings && { timings }) }));
  response.end(event('[DONE]'));
}
