// A hub on loopback that speaks Hugging Face's protocol and that of Ollama's registry. Files come from a second address,
// as from the stores of the real ones. As a program it offers one file under every name: node hub_server.mjs FILE.gguf
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const sha256 = (bytes) => crypto.createHash('sha256').update(bytes).digest('hex');

function listen(handler) {
  const server = http.createServer(handler);
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve({ server, url: `http://127.0.0.1:${server.address().port}` })));
}

// `repositories`: {'org/repo': {'m.gguf': bytes}}; `models`: {'library/qwen3': {'4b': bytes}}; `any`: bytes for all else.
//
// What a test sets: `cuts` (so many answers of the store end early), `status` and `store_status` (instead of every answer),
// `flip` (the last byte is another one), `more` (bytes at the end that no list counts), `page` (a web page), `loop`
// (redirects without an end), `slow` (milliseconds between pieces of 64 KiB), `ranges` (false: none), `token` (needed).
export async function startHub({ repositories = {}, models = {}, any = null } = {}) {
  const hub = { cuts: 0, ranges: true, requests: [] };
  const blobs = new Map();
  const blob = (bytes) => {
    const digest = sha256(bytes);
    blobs.set(digest, bytes);
    return digest;
  };
  const json = (reply, status, value, headers = {}) => {
    reply.writeHead(status, { 'content-type': 'application/json', ...headers });
    reply.end(JSON.stringify(value));
  };
  const note = (place, request) => hub.requests.push({ place, path: request.url, headers: request.headers });

  const store = await listen(async (request, reply) => {
    note('store', request);
    if (hub.store_status) return json(reply, hub.store_status, { error: 'out of order' });
    if (hub.page) {
      reply.writeHead(200, { 'content-type': 'text/html' });
      return reply.end('<!DOCTYPE html><p>Please log in to this network.');
    }
    let bytes = Buffer.from(blobs.get(request.url.match(/[0-9a-f]{64}/)[0]));
    if (hub.flip) bytes[bytes.length - 1] ^= 1;
    if (hub.more) bytes = Buffer.concat([bytes, Buffer.alloc(hub.more)]);
    const range = hub.ranges && request.headers.range?.match(/bytes=(\d+)-(\d+)/);
    const begin = range ? Number(range[1]) : 0;
    const end = range ? Math.min(Number(range[2]) + 1, bytes.length) : bytes.length;
    const part = bytes.subarray(begin, end);
    const headers = { 'content-length': part.length, 'content-type': 'application/octet-stream' };
    reply.writeHead(range ? 206 : 200, range ? { ...headers, 'content-range': `bytes ${begin}-${end - 1}/${bytes.length}` } : headers);
    if (hub.cuts > 0) {
      --hub.cuts;
      const length = 1 + Math.floor(Math.random() * (part.length - 1) / 2);
      return reply.write(part.subarray(0, length), () => setTimeout(() => request.socket.destroy(), 20));
    }
    if (!hub.slow) return reply.end(part);
    for (let at = 0; at < part.length && !request.socket.destroyed; at += 65536) {
      reply.write(part.subarray(at, at + 65536));
      await new Promise((resolve) => setTimeout(resolve, hub.slow));
    }
    reply.end();
  });

  const front = await listen((request, reply) => {
    note('hub', request);
    if (hub.status) return json(reply, hub.status, { error: 'no entry' });
    if (hub.token && request.headers.authorization !== `Bearer ${hub.token}`) return json(reply, 401, { error: 'Invalid credentials.' });
    if (hub.loop && !request.url.startsWith('/api/')) return reply.writeHead(302, { location: `/again${request.url}` }).end();
    const send = (bytes) => reply.writeHead(302, { location: `${store.url}/signed/${blob(bytes)}?key=1` }).end();
    let found = request.url.match(/^\/api\/models\/([^/]+\/[^/]+)\/tree\/main\?recursive=true(&page=2)?$/);
    if (found) {
      const files = repositories[found[1]] ?? (any && { 'model-Q4_K_M.gguf': any, 'model-Q8_0.gguf': any });
      if (!files) return json(reply, 404, { error: 'Repository not found' });
      const list = Object.entries(files).map(([path, bytes]) => ({
        type: 'file', oid: 'f00', path, size: bytes.length, lfs: { oid: blob(bytes), size: bytes.length, pointerSize: 134 },
      }));
      list.unshift({ type: 'directory', oid: 'd00', path: 'sub', size: 0 }, { type: 'file', oid: 'r00', path: 'README.md', size: 5 });
      // In two pages.
      const [first, second] = [list.slice(0, 3), list.slice(3)];
      if (found[2]) return json(reply, 200, second);
      return json(reply, 200, first, { link: `<${front.url}/api/models/${found[1]}/tree/main?recursive=true&page=2>; rel="next"` });
    }
    found = request.url.match(/^\/([^/]+\/[^/]+)\/resolve\/main\/(.+)$/);
    if (found) {
      const bytes = repositories[found[1]]?.[decodeURIComponent(found[2])] ?? any;
      return bytes ? send(bytes) : json(reply, 404, { error: 'Entry not found' });
    }
    found = request.url.match(/^\/v2\/([^/]+\/[^/]+)\/manifests\/(.+)$/);
    if (found) {
      const bytes = models[found[1]]?.[found[2]] ?? any;
      if (!bytes) return json(reply, 404, { errors: [{ code: 'MANIFEST_UNKNOWN', message: 'manifest unknown' }] });
      const layer = (kind, content) => ({
        mediaType: `application/vnd.ollama.image.${kind}`, digest: `sha256:${blob(content)}`, size: content.length,
      });
      return json(reply, 200, {
        schemaVersion: 2, mediaType: 'application/vnd.docker.distribution.manifest.v2+json',
        config: layer('config', Buffer.from('{}')),
        layers: [layer('model', bytes), layer('license', Buffer.from('free')), layer('params', Buffer.from('{"stop":["x"]}'))],
      });
    }
    found = request.url.match(/^\/v2\/[^/]+\/[^/]+\/blobs\/sha256:([0-9a-f]{64})$/);
    if (found && blobs.has(found[1])) return send(blobs.get(found[1]));
    return json(reply, 404, { error: 'not found' });
  });
  hub.url = front.url;
  hub.environment = { HF_ENDPOINT: front.url, CAIRN_OLLAMA_REGISTRY: front.url, NO_PROXY: '127.0.0.1' };
  hub.stored = () => hub.requests.filter((request) => request.place === 'store');
  hub.reset = () => {
    for (const key of ['status', 'store_status', 'flip', 'more', 'page', 'loop', 'slow', 'token']) delete hub[key];
    Object.assign(hub, { cuts: 0, ranges: true, requests: [] });
  };
  hub.stop = () => {
    for (const { server } of [front, store]) {
      server.close();
      server.closeAllConnections();
    }
  };
  return hub;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const hub = await startHub({ any: fs.readFileSync(process.argv[2]) });
  console.log(hub.url);
}
