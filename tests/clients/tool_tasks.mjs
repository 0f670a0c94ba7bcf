// Does a real model's tool calling work through Cairn? Twenty tasks, each of which needs one call of one of eight tools,
// and twenty questions that need none, at temperature 0, over each of four protocols, whole and streamed.
// usage: node tests/clients/tool_tasks.mjs --cairn PROGRAM --model FILE.gguf [--only chat|responses|messages|ollama]
// It ends with 0 if over every protocol at least kRightMin tasks are called rightly, and no text of an answer to a
// question is taken for a call. A small model calls tools for some questions by itself: those are counted apart.
import { spawn } from 'node:child_process';
import { parseArgs } from 'node:util';

const kRightMin = 17;
const kStartMs = 120_000;
const kAnswerMs = 120_000;
const kTokensMax = 200;

const { values: options } = parseArgs({
  options: { cairn: { type: 'string' }, model: { type: 'string' }, only: { type: 'string' }, verbose: { type: 'boolean' } },
});

const text = { type: 'string' };
const tool = (name, description, properties, required = Object.keys(properties)) =>
  ({ name, description, parameters: { type: 'object', properties, required } });
const tools = [
  tool('get_weather', 'The current weather of a city.', { city: text, unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } }, ['city']),
  tool('read_file', 'Reads a text file of the project.', { path: text }),
  tool('write_file', 'Writes a text file of the project, replacing what is there.', { path: text, content: text }),
  tool('run_command', 'Runs a shell command and returns what it prints.', { command: text }),
  tool('search_web', 'Searches the web.', { query: text, count: { type: 'integer', description: 'How many results.' } }, ['query']),
  tool('send_email', 'Sends an email.', { to: text, subject: text, body: text }),
  tool('create_event', 'Adds an event to the calendar.',
    { title: text, date: { type: 'string', description: 'YYYY-MM-DD' }, time: { type: 'string', description: 'HH:MM' } }, ['title', 'date']),
  tool('convert_currency', 'Converts an amount of money.', { amount: { type: 'number' }, from: text, to: text }),
];

const has = (value, pattern) => typeof value === 'string' && pattern.test(value);
const tasks = [
  ['What is the weather in Oslo right now?', 'get_weather', (a) => has(a.city, /oslo/i)],
  ['How warm is it in Nairobi, in celsius?', 'get_weather', (a) => has(a.city, /nairobi/i)],
  ['Is it raining in Lisbon?', 'get_weather', (a) => has(a.city, /lisbon/i)],
  ['Read the file src/main.cpp.', 'read_file', (a) => has(a.path, /src\/main\.cpp$/)],
  ['Show me what is in package.json.', 'read_file', (a) => has(a.path, /package\.json$/)],
  ['What does the file guide/install.md say?', 'read_file', (a) => has(a.path, /guide\/install\.md$/)],
  ['Write the word hello into the file greeting.txt.', 'write_file', (a) => has(a.path, /greeting\.txt$/) && has(a.content, /hello/i)],
  ['Create a file notes/todo.md with the line "- buy milk".', 'write_file', (a) => has(a.path, /notes\/todo\.md$/) && has(a.content, /buy milk/)],
  ['Write a Python script fib.py that prints the first ten Fibonacci numbers.', 'write_file', (a) => has(a.path, /fib\.py$/) && has(a.content, /print/)],
  ['Run the command ls -la.', 'run_command', (a) => has(a.command, /ls -la/)],
  ['Run the tests with npm test.', 'run_command', (a) => has(a.command, /npm (run )?test/)],
  ['How much disk space is free? Use df -h.', 'run_command', (a) => has(a.command, /df -h/)],
  ['Search the web for the history of the bicycle.', 'search_web', (a) => has(a.query, /bicycle/i)],
  ['Find three results on the web about solar panels.', 'search_web', (a) => has(a.query, /solar/i)],
  ['Look up on the web who won the marathon in Berlin.', 'search_web', (a) => has(a.query, /marathon/i)],
  ['Send an email to anna@example.com with the subject Lunch and the text "See you at noon".', 'send_email',
    (a) => a.to === 'anna@example.com' && has(a.subject, /lunch/i) && has(a.body, /noon/i)],
  ['Email bob@example.org, subject Report, body "The report is done."', 'send_email', (a) => a.to === 'bob@example.org' && has(a.body, /report/i)],
  ['Put a dentist appointment into my calendar on 2027-03-04 at 09:30.', 'create_event', (a) => a.date === '2027-03-04' && has(a.title, /dentist/i)],
  ['Convert 250 US dollars to euros.', 'convert_currency', (a) => a.amount === 250 && has(a.from, /usd|dollar/i) && has(a.to, /eur/i)],
  ['How many yen are 40 British pounds?', 'convert_currency', (a) => a.amount === 40 && has(a.from, /gbp|pound/i) && has(a.to, /jpy|yen/i)],
];

const questions = [
  'What is 7 times 8?', 'Write a haiku about the sea.', 'What is the capital of France?', 'Explain recursion in one sentence.',
  'Show me an example of a JSON object with a name and an age.', 'How do I reverse a list in Python?', 'Say good morning in Spanish.',
  'What does the HTTP status 404 mean?', 'Give me a JSON array of three colours.', 'What is the opposite of hot?',
  'Write a JavaScript function that adds two numbers.', 'Who wrote Romeo and Juliet?', 'What is a linked list?',
  'Translate "thank you" to German.', 'Show an example of a package.json with the name demo.', 'How many legs has a spider?',
  'What is the difference between a stack and a queue?', 'Write a SQL query that counts the rows of the table users.',
  'Spell the word necessary.', 'What is the boiling point of water in celsius?',
];

// Each protocol: a request's path and body, and what an answer says: {calls: [{name, arguments}], text}.
const parsed = (json) => { try { return JSON.parse(json); } catch { return { unparsed: json }; } };
const openaiTools = tools.map((each) => ({ type: 'function', function: each }));
const protocols = {
  chat: {
    path: '/v1/chat/completions',
    body: (question) => ({ messages: [{ role: 'user', content: question }], tools: openaiTools, temperature: 0, max_tokens: kTokensMax }),
    whole: (answer) => {
      const { message } = answer.choices[0];
      return { text: message.content ?? '', calls: (message.tool_calls ?? []).map(({ function: f }) => ({ name: f.name, arguments: parsed(f.arguments) })) };
    },
    events: (events) => {
      const calls = [];
      let said = '';
      for (const { choices: [choice] = [] } of events) {
        said += choice?.delta?.content ?? '';
        for (const { index, function: f } of choice?.delta?.tool_calls ?? []) {
          calls[index] ??= { name: f.name, arguments: '' };
          calls[index].arguments += f.arguments ?? '';
        }
      }
      return { text: said, calls: calls.map(({ name, arguments: a }) => ({ name, arguments: parsed(a) })) };
    },
  },
  responses: {
    path: '/v1/responses',
    body: (question) => ({ input: question, tools: tools.map((each) => ({ type: 'function', ...each })), temperature: 0, max_output_tokens: kTokensMax }),
    whole: (answer) => ({
      text: answer.output.filter(({ type }) => type === 'message').flatMap(({ content }) => content.map((part) => part.text)).join(''),
      calls: answer.output.filter(({ type }) => type === 'function_call').map((item) => ({ name: item.name, arguments: parsed(item.arguments) })),
    }),
    events: (events) => protocols.responses.whole(events.findLast(({ response }) => response).response),
  },
  messages: {
    path: '/v1/messages',
    body: (question) => ({
      messages: [{ role: 'user', content: question }], temperature: 0, max_tokens: kTokensMax,
      tools: tools.map(({ parameters, ...each }) => ({ ...each, input_schema: parameters })),
    }),
    whole: (answer) => ({
      text: answer.content.filter(({ type }) => type === 'text').map((block) => block.text).join(''),
      calls: answer.content.filter(({ type }) => type === 'tool_use').map(({ name, input }) => ({ name, arguments: input })),
    }),
    events: (events) => {
      const blocks = [];
      for (const event of events) {
        if (event.type === 'content_block_start') blocks[event.index] = { ...event.content_block, json: '' };
        if (event.type !== 'content_block_delta') continue;
        blocks[event.index].text += event.delta.text ?? '';
        blocks[event.index].json += event.delta.partial_json ?? '';
      }
      return protocols.messages.whole({ content: blocks.map((block) => (block.type === 'tool_use' ? { ...block, input: parsed(block.json) } : block)) });
    },
  },
  ollama: {
    path: '/api/chat',
    body: (question) => ({ messages: [{ role: 'user', content: question }], tools: openaiTools, stream: false, options: { temperature: 0, num_predict: kTokensMax } }),
    whole: ({ message }) => ({ text: message.content, calls: (message.tool_calls ?? []).map(({ function: f }) => ({ name: f.name, arguments: f.arguments })) }),
    events: (events) => ({
      text: events.map(({ message }) => message.content).join(''),
      calls: events.flatMap(({ message }) => protocols.ollama.whole({ message }).calls),
    }),
  },
};

// Whether the model has written a call and nothing else: looked at without Cairn, as JSON in fences or tags.
function isCall(text) {
  const bare = parsed(text.replace(/^[\s]*(```(json)?|<tool_call>)/, '').replace(/(```|<\/tool_call>)?[\s]*$/, ''));
  return tools.some(({ name }) => name === bare.name) && typeof (bare.arguments ?? bare.parameters) === 'object';
}

async function ask(base, model, protocol, question, stream, more = {}) {
  const response = await fetch(base + protocol.path, {
    method: 'POST', headers: { 'content-type': 'application/json' }, signal: AbortSignal.timeout(kAnswerMs),
    body: JSON.stringify({ model, ...protocol.body(question), stream, ...more }),
  });
  const body = await response.text();
  if (!response.ok) throw new Error(`${protocol.path}: ${response.status} ${body}`);
  if (!stream) return protocol.whole(JSON.parse(body));
  const lines = body.split('\n').filter((line) => line.startsWith('data: {') || line.startsWith('{'));
  return protocol.events(lines.map((line) => JSON.parse(line.replace(/^data: /, ''))));
}

async function start() {
  const server = spawn(options.cairn, ['serve', options.model, '--name', 'real', '--port', '0', '--ctx', '8192'], { stdio: ['ignore', 'ignore', 'pipe'] });
  const base = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('the server does not start')), kStartMs);
    let log = '';
    server.stderr.on('data', (piece) => {
      log += piece;
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(log);
      if (found) { clearTimeout(timer); resolve(found[0]); }
    });
    server.on('exit', () => reject(new Error(`the server has ended: ${log}`)));
  });
  return { server, base };
}

const { server, base } = await start();
let good = true;
try {
  for (const [name, protocol] of Object.entries(protocols)) {
    if (options.only && options.only !== name) continue;
    for (const stream of [false, true]) {
      let right = 0;
      let called = 0;
      let taken = 0;
      for (const [question, wanted, check] of tasks) {
        const answer = await ask(base, 'real', protocol, question, stream);
        const call = answer.calls[0];
        const fits = answer.calls.length === 1 && call.name === wanted && check(call.arguments);
        right += fits ? 1 : 0;
        if (!fits) console.log(`  ${name}: ${question}\n    -> ${JSON.stringify(answer)}`);
      }
      for (const question of questions) {
        const answer = await ask(base, 'real', protocol, question, stream);
        if (answer.calls.length === 0) continue;
        ++called;
        const { text: written } = await ask(base, 'real', protocol, question, stream, { tool_call_parsing: 'strict' });
        if (isCall(written)) continue;
        ++taken;
        console.log(`  ${name}: ${question}\n    -> ${JSON.stringify(answer)} of ${JSON.stringify(written)}`);
      }
      console.log(`${name}${stream ? ', streamed' : ''}: ${right} of ${tasks.length} tasks called rightly, ` +
        `${taken} texts of ${questions.length} questions taken for calls (the model called for ${called} by itself)`);
      good &&= right >= kRightMin && taken === 0;
    }
  }
} finally {
  server.kill();
}
process.exit(good ? 0 : 1);
