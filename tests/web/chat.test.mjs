// Talking to the real program through its page.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { serve } from '../e2e/server.mjs';
import { answered, findings, guide, say, startBrowser, stopBrowser, visit } from './browser.mjs';
import { front } from './front.mjs';

const slow = { text: 'word '.repeat(400), pieces: 400, pauseMs: 25 };
let server;
before(async () => {
  server = await serve(guide, ['--temp', '0', '--predict', '300']);
  await startBrowser();
});
after(async () => {
  await stopBrowser();
  await server.stop();
});

test('the first visit leads to a first answer with its numbers', async () => {
  const begun = performance.now();
  const { page, done } = await visit(server.url);
  await page.getByRole('heading', { name: 'Ask anything' }).waitFor();
  console.log(`first visit: ready after ${Math.round(performance.now() - begun)} ms`);
  await say(page, 'Tell me a story about a fox.');
  const last = await answered(page);
  const text = await last.locator('.markdown').innerText();
  assert.ok(text.length > 40, text);
  assert.match(await last.locator('.stats').innerText(), /guide · .* tokens\/s · first token .* · \d+ tokens · cached \d+ of \d+ prompt tokens/);
  await say(page, 'Tell me a story about a cat.');
  assert.match(await (await answered(page)).locator('.stats').innerText(), /cached [1-9]\d* of/);
  assert.equal(await page.title(), 'Tell me a story about a fox. – Cairn');
  await done();
});

test('the times under an answer are the server\'s, and those of the browser are in the tooltip', async () => {
  const timings = { queue_ms: 2, prompt_n: 6, prompt_ms: 40, predicted_n: 40, predicted_ms: 400, predicted_per_second: 97.5 };
  const before = await front(server.url, { answers: { timed: { text: 'one two three', timings } } });
  const { page, done } = await visit(before.url);
  await say(page, 'Count [timed]');
  const stats = (await answered(page)).locator('.stats');
  assert.match(await stats.innerText(), /97\.5 tokens\/s · first token 42 ms · /);
  assert.match(await stats.getAttribute('title'),
    /^Server: waited 2\.0 ms, read 6 prompt tokens in 40 ms, answered in 400 ms\nThis browser: first token after .+, .+ tokens\/s$/);
  await done();
  await before.stop();
});

test('while the server reads a long prompt, the page tells how far it is', async () => {
  const before = await front(server.url, { answers: { long: { text: 'Read.', progress: [[0, 4000], [1500, 4000], [4000, 4000]] } } });
  const { page, done } = await visit(before.url);
  await say(page, 'Read this [long]');
  await page.locator('.stats', { hasText: 'reading 1,500 of 4,000 tokens' }).waitFor();
  assert.doesNotMatch(await (await answered(page)).locator('.stats').innerText(), /reading/);
  await done();
  await before.stop();
});

test('Escape stops an answer at once, and what had come stays', async () => {
  const before = await front(server.url, { answers: { slow } });
  const { page, done } = await visit(before.url);
  await say(page, 'Go on and on [slow]');
  await page.locator('.message.assistant', { hasText: 'word word word' }).waitFor();
  const begun = performance.now();
  await page.keyboard.press('Escape');
  const last = await answered(page);
  console.log(`stop: ${Math.round(performance.now() - begun)} ms`);
  assert.match(await last.locator('.stats').innerText(), /stopped/);
  const text = await last.locator('.markdown').innerText();
  assert.ok(text.length < slow.text.length / 2);
  await page.waitForTimeout(200);
  assert.equal(await last.locator('.markdown').innerText(), text);
  await done();
  await before.stop();
});

test('an edited message and another answer are branches that one can go back to', async () => {
  const { page, done } = await visit(server.url);
  await say(page, 'What is 12 + 30?');
  const first = await (await answered(page)).locator('.markdown').last().innerText();
  assert.match(first, /42/);
  await page.hover('.message.user');
  await page.getByLabel('Edit message').click();
  await page.getByLabel('Your message').fill('What is 20 + 31?');
  await page.keyboard.press('Enter');
  await page.locator('.message.assistant', { hasText: '51' }).waitFor();
  await answered(page);
  const branches = page.locator('.message.user .branches');
  assert.equal(await branches.innerText(), '2 / 2');
  await branches.getByLabel('Previous branch').click();
  assert.equal(await (await answered(page)).locator('.markdown').last().innerText(), first);
  await page.getByLabel('Answer again').click();
  await page.locator('.message.assistant .branches', { hasText: '2 / 2' }).waitFor();
  await answered(page);
  await done();
});

test('thinking is folded, and opens', async () => {
  const { page, done } = await visit(server.url);
  await say(page, 'What is 23 + 45?');
  const last = await answered(page);
  assert.match(await last.locator('.thinking summary').innerText(), /^Thought/);
  assert.equal(await last.locator('.thinking .markdown').count(), 0);
  await last.locator('.thinking summary').click();
  assert.match(await last.locator('.thinking .markdown').innerText(), /3|5|8/);
  assert.match(await last.locator('.markdown').last().innerText(), /68/);
  await done();
});

test('a tool is called, its result typed in, and the answer goes on', async () => {
  const { page, done } = await visit(server.url);
  await page.keyboard.press('Alt+s');
  await page.locator('.field', { hasText: 'Tools' }).getByRole('button', { name: 'Insert an example' }).click();
  await say(page, 'What is the weather in Oslo?');
  const call = page.getByRole('region', { name: 'Call of get_weather' });
  await call.waitFor();
  assert.match(await call.innerText(), /"city": "Oslo"/);
  await page.getByLabel('Result of get_weather').fill('{"weather": "sunny"}');
  await page.getByRole('button', { name: 'Send result' }).click();
  await page.getByRole('region', { name: 'Result of get_weather' }).waitFor();
  const last = await answered(page);
  assert.match(await last.innerText(), /sunny/i);
  assert.deepEqual(await findings(page), []);
  await done();
});

test('an answer follows the schema', async () => {
  const { page, done } = await visit(server.url);
  await page.keyboard.press('Alt+s');
  await page.locator('.field', { hasText: 'JSON Schema' }).getByRole('button', { name: 'Insert an example' }).click();
  await page.getByLabel('JSON Schema for answers').fill('{');
  await page.getByText('This is not JSON').waitFor();
  await page.getByLabel('JSON Schema for answers').fill('{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]}');
  await say(page, 'Ada is 36 years old. Write it as JSON.');
  const last = await answered(page);
  const value = JSON.parse(await last.locator('pre code').innerText());
  assert.equal(Number.isInteger(value.age), true, JSON.stringify(value));
  await done();
});

test('probabilities of tokens are shown on demand, with what else might have come', async () => {
  const { page, done } = await visit(server.url);
  await page.keyboard.press('Alt+s');
  await page.getByLabel('Show token probabilities').check();
  assert.equal(await page.getByLabel('Temperature').getAttribute('placeholder'), '0');
  await say(page, 'Hello!');
  const last = await answered(page);
  await last.getByLabel('Probabilities').click();
  const tokens = await last.locator('.heat-text span').count();
  assert.ok(tokens > 1);
  assert.equal(await last.locator('.heat-table tr').count(), 5);
  await last.locator('.heat-text').focus();
  await page.keyboard.press('ArrowRight');
  assert.match(await last.locator('.heat-table caption').innerText(), new RegExp(`Token 2 of ${tokens}`));
  await done();
});

test('settings speak as other programs do', async () => {
  const { page, done } = await visit(server.url);
  await page.keyboard.press('Alt+s');
  await page.getByLabel('System prompt').waitFor();
  assert.equal(await page.getByLabel('Thinking').locator('option').first().innerText(), 'automatic');
  for (const label of ['Show token probabilities', 'Maximum tokens', 'Tools', 'Theme']) assert.equal(await page.getByLabel(label).count(), 1, label);
  await done();
});

test('the theme is chosen in the settings, and stays', async () => {
  const { page, done } = await visit(server.url, { colorScheme: 'light' });
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await back();
  await page.keyboard.press('Alt+s');
  await page.getByLabel('Theme').selectOption('dark');
  const dark = await back();
  assert.notEqual(dark, light);
  await page.reload();
  await page.locator('.app').waitFor();
  assert.equal(await back(), dark);
  await page.keyboard.press('Alt+s');
  await page.getByLabel('Theme').selectOption('automatic');
  assert.equal(await back(), light);
  await done();
});

test('a starter asks the model at once, and the model is shown with its state and how full its context is', async () => {
  const { page, done } = await visit(server.url);
  const starters = page.getByRole('group', { name: 'Questions to start with' }).getByRole('button');
  await starters.first().waitFor();
  assert.equal(await starters.count(), 4);
  const chip = page.locator('.top .chip');
  assert.equal(await chip.innerText(), 'loaded · context 2,048');
  assert.match(await chip.getAttribute('title'), /qwen3 Q8_0, 5\.7 MiB/);
  await starters.filter({ hasText: '23 + 45' }).click();
  assert.match(await (await answered(page)).innerText(), /68/);
  assert.match(await chip.innerText(), /^loaded · context [1-9]\d* of 2,048$/);
  await done();
});

test('what is shown in grey is what is used, where the endpoint has other defaults, too', async () => {
  const raw = await serve(guide, ['--api-sampling', 'openai', '--top-k', '7', '--predict', '8']);
  for (const [upstream, sent] of [[server, [undefined, undefined]], [raw, [0.8, 7]]]) {
    const before = await front(upstream.url);
    const { page, done } = await visit(before.url);
    await say(page, 'Hello!');
    await answered(page);
    await page.keyboard.press('Alt+s');
    const shown = await page.getByLabel('Temperature').getAttribute('placeholder');
    assert.equal(shown, upstream === raw ? '0.8' : '0');
    const { temperature, top_k } = JSON.parse(before.state.requests.find(({ path }) => path === '/v1/chat/completions').body);
    assert.deepEqual([temperature, top_k], sent);
    await done();
    await before.stop();
  }
  await raw.stop();
});

test('a server that wants a key is given one, and keeps it only if asked', async () => {
  const before = await front(server.url, { key: 'sesame' });
  const { page, done } = await visit(before.url);
  const dialog = page.getByRole('dialog', { name: 'This server wants a key' });
  await page.locator('header .model-name', { hasText: 'Key needed' }).waitFor();
  // The label stands clear of its field.
  const gap = await dialog.getByLabel('API key').evaluate((input) => {
    const range = document.createRange();
    range.selectNode(input.parentElement.firstChild);
    return input.getBoundingClientRect().top - range.getBoundingClientRect().bottom;
  });
  assert.ok(gap >= 3, `${gap} px between the label and its field`);
  await dialog.getByLabel('API key').fill('wrong');
  await page.keyboard.press('Enter');
  await dialog.getByText('not accepted').waitFor();
  await dialog.getByLabel('API key').fill('sesame');
  assert.deepEqual(await findings(page), []);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Ask anything' }).waitFor();
  await say(page, 'Hello!');
  await answered(page);
  assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes('sesame')), false);
  await page.reload();
  await dialog.getByLabel('API key').fill('sesame');
  await dialog.getByLabel('Remember').check();
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'detached' });
  await page.reload();
  await say(page, 'Hello again!');
  await answered(page);
  await done();
  await before.stop();
});

test('another model is chosen, and several answer beside each other', async () => {
  const before = await front(server.url, { models: ['second'] });
  const { page, done } = await visit(before.url);
  const picker = page.locator('.picker .model-name');
  await picker.click();
  await page.locator('.menu .check', { hasText: 'second' }).getByRole('button').click();
  await say(page, 'Hello!');
  assert.match(await (await answered(page)).locator('.stats').innerText(), /^second/);
  assert.equal(JSON.parse(before.state.requests.findLast(({ path }) => path === '/v1/chat/completions').body).model, 'second');
  await picker.click();
  await page.locator('.menu .check', { hasText: 'guide' }).getByRole('checkbox').check();
  await page.keyboard.press('Escape');
  await say(page, 'What is 10 + 11?');
  await answered(page);
  assert.equal(await page.locator('.answer').count(), 2);
  await page.getByRole('region', { name: 'Answer of guide' }).getByRole('button', { name: 'Go on from here' }).click();
  await say(page, 'Thank you');
  await answered(page);
  await done();
  await before.stop();
});

test('a message that is sent before the list of models has come is answered', async () => {
  const before = await front(server.url, { listMs: 1500 });
  const { page, done } = await visit(before.url);
  await say(page, 'What is 4 + 5?');
  assert.match(await (await answered(page)).innerText(), /9/);
  await done();
  await before.stop();
});

test('a conversation outlives the page, and travels as a file', async () => {
  const { page, done } = await visit(server.url);
  await say(page, 'Repeat: the heron waits');
  const text = await (await answered(page)).locator('.markdown').innerText();
  await page.reload();
  assert.equal(await (await answered(page)).locator('.markdown').innerText(), text);
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export' }).click()]);
  const saved = path.join(os.tmpdir(), `cairn-export-${process.pid}.json`);
  await file.saveAs(saved);
  await done();
  const other = await visit(server.url);
  const [chooser] = await Promise.all([other.page.waitForEvent('filechooser'), other.page.getByRole('button', { name: 'Import' }).click()]);
  await chooser.setFiles(saved);
  assert.equal(await (await answered(other.page)).locator('.markdown').innerText(), text);
  fs.rmSync(saved);
  await other.done();
});

test('lists of tasks have boxes, and code can be wrapped and downloaded', async () => {
  const text = `- [ ] buy milk\n- [x] sell eggs\n- [ ]no task\n\n\`\`\`python\n${'print(1); '.repeat(60)}\n\`\`\`\n`;
  const before = await front(server.url, { answers: { tasks: text } });
  const { page, done } = await visit(before.url);
  await say(page, 'What is to be done? [tasks]');
  const last = await answered(page);
  assert.equal(await last.getByRole('img', { name: 'to do' }).count(), 1);
  assert.equal(await last.getByRole('img', { name: 'done' }).count(), 1);
  assert.deepEqual(await last.locator('li').allInnerTexts(), ['☐ buy milk', '☑ sell eggs', '[ ]no task']);
  const wide = () => last.locator('pre').evaluate((element) => element.scrollWidth > element.clientWidth);
  assert.equal(await wide(), true);
  await last.getByRole('button', { name: 'Wrap' }).click();
  assert.equal(await wide(), false);
  const [file] = await Promise.all([page.waitForEvent('download'), last.getByRole('button', { name: 'Download' }).click()]);
  assert.equal(file.suggestedFilename(), 'code.py');
  assert.equal(fs.readFileSync(await file.path(), 'utf8').trim(), 'print(1); '.repeat(60).trim());
  assert.deepEqual(await findings(page), []);
  await done();
  await before.stop();
});

test('a text file goes with a message, and what is no text is refused', async () => {
  const before = await front(server.url, { answers: { ok: 'Read.' } });
  const { page, done } = await visit(before.url);
  const attach = async (name, bytes) => {
    const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.getByLabel('Attach text files').click()]);
    await chooser.setFiles({ name, mimeType: 'text/plain', buffer: Buffer.from(bytes) });
  };
  await attach('photo.bin', [0xff, 0xd8, 0x00]);
  await page.getByText('photo.bin is not a text file').waitFor();
  await attach('notes.txt', 'buy milk');
  await page.locator('.chips', { hasText: 'notes.txt' }).waitFor();
  await say(page, 'What is to be bought? [ok]');
  await answered(page);
  const sent = JSON.parse(before.state.requests.findLast(({ path }) => path === '/v1/chat/completions').body);
  assert.match(sent.messages.at(-1).content, /^notes\.txt:\n```\nbuy milk\n```\n\nWhat is/);
  await done();
  await before.stop();
});

test('a server that goes away in mid answer is told of, and the conversation goes on once it is back', async () => {
  let before = await front(server.url, { answers: { slow } });
  const { port } = new URL(before.url);
  const { page, done } = await visit(before.url);
  await say(page, 'Go on and on [slow]');
  await page.locator('.message.assistant', { hasText: 'word word word' }).waitFor();
  await before.stop();
  await page.locator('.error', { hasText: 'The connection to the server broke in the middle of the answer.' }).waitFor();
  await page.getByText('Server not reachable').waitFor();
  before = await front(server.url, { port: Number(port) });
  await page.locator('.model-name', { hasText: 'guide' }).waitFor();
  await page.reload();
  await page.locator('.message.assistant', { hasText: 'word word word' }).waitFor();
  await page.getByLabel('Answer again').click();
  await page.locator('.branches', { hasText: '2 / 2' }).waitFor();
  await answered(page);
  await done();
  await before.stop();
});
