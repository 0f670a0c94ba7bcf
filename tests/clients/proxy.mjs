// A proxy on loopback that passes everything on to Cairn as it is, and keeps each exchange for the checks and as a file.
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const LIMITS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'];

// The request with the tokens of its answer limited, in the field that it uses (or its protocol does).
function limited(url, body, tokens) {
  if (url.startsWith('/api/')) return { ...body, options: { ...body.options, num_predict: tokens } };
  const field = LIMITS.find((name) => name in body) ?? (url.includes('/responses') ? 'max_output_tokens' : 'max_tokens');
  return { ...body, [field]: tokens };
}

// Records are {n, method, url, headers, request, status, answer, ms, aborted}: `request` is the parsed body (or its text)
// as the client sent it, `answer` the text that Cairn gave. `cutAt(tokens)` limits the next answer to a request with tools,
// as a context's end would. `onAnswer` is called with each piece of an answer.
export async function startProxy(target, folder) {
  fs.mkdirSync(folder, { recursive: true });
  const state = { records: [], onAnswer: null, cut: 0 };
  const server = http.createServer((request, response) => {
    const record = { n: state.records.length + 1, method: request.method, url: request.url, headers: request.headers };
    const started = Date.now();
    state.records.push(record);
    const save = () => {
      record.ms = Date.now() - started;
      fs.writeFileSync(path.join(folder, `${String(record.n).padStart(3, '0')}.json`), JSON.stringify(record, null, 1));
    };
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      let bytes = Buffer.concat(parts);
      const headers = { ...request.headers };
      try {
        record.request = JSON.parse(bytes.toString('utf8'));
        if (state.cut && record.request.tools?.length > 0) {
          bytes = Buffer.from(JSON.stringify(limited(request.url, record.request, state.cut)));
          record.cut = state.cut;
          delete headers['transfer-encoding'];
          headers['content-length'] = bytes.length;
        }
      } catch {
        record.request = bytes.toString('utf8');
      }
      const answer = [];
      const finish = (more) => {
        Object.assign(record, more, { answer: Buffer.concat(answer).toString('utf8') });
        save();
      };
      const options = { host: '127.0.0.1', port: target, method: request.method, path: request.url, headers };
      const onward = http.request(options, (from) => {
        record.status = from.statusCode;
        if (record.cut && record.status === 200) state.cut = 0;
        response.writeHead(from.statusCode, from.headers);
        from.on('data', (part) => {
          answer.push(part);
          response.write(part);
          state.onAnswer?.(record);
        });
        from.on('end', () => {
          response.end();
          finish({});
        });
        from.on('error', () => finish({ aborted: true }));
      });
      onward.on('error', (error) => {
        if (!record.status) response.destroy();
        finish({ error: String(error) });
      });
      response.on('close', () => {
        if (!response.writableEnded) {
          record.aborted = true;
          onward.destroy();
        }
      });
      onward.end(bytes);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    records: state.records,
    cutAt: (tokens) => { state.cut = tokens; },
    onAnswer: (call) => { state.onAnswer = call; },
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
