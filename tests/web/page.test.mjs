// How the page looks and behaves: sizes, phones, long conversations, accessibility, the machine.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { serve } from '../e2e/server.mjs';
import { answered, findings, guide, say, startBrowser, stopBrowser, visit } from './browser.mjs';

let server;
before(async () => {
  server = await serve(guide, ['--temp', '0']);
  await startBrowser();
});
after(async () => {
  await stopBrowser();
  await server.stop();
});

// Times between frames while `work` goes on.
async function frames(page, work) {
  await page.evaluate(() => {
    window.gaps = [];
    let last = performance.now();
    const step = (now) => {
      if (!window.gaps) return;
      window.gaps.push(now - last);
      last = now;
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  await work();
  const gaps = await page.evaluate(() => {
    const found = window.gaps;
    window.gaps = null;
    return found;
  });
  gaps.sort((a, b) => a - b);
  const at = (share) => Math.round(gaps[Math.min(gaps.length - 1, Math.floor(gaps.length * share))]);
  return { count: gaps.length, median: at(0.5), p95: at(0.95), most: at(1) };
}

test('a conversation of 2,000 messages stays smooth', async () => {
  const messages = [];
  for (let i = 0; i < 2000; ++i) {
    const user = i % 2 === 0;
    const content = user ? `Question ${i}` : `Answer **${i}** with \`code\`\n\n\`\`\`js\nconst x = ${i};\n\`\`\`\n\n- one\n- two\n\n${'Some words of it. '.repeat(i % 20)}`;
    messages.push({ id: `m${i}`, parent: i > 0 ? `m${i - 1}` : null, role: user ? 'user' : 'assistant', content, created: i + 1 });
  }
  const file = path.join(os.tmpdir(), `cairn-long-${process.pid}.json`);
  fs.writeFileSync(file, JSON.stringify({ format: 'cairn-conversations', version: 1, conversations: [{ title: 'Long', messages }] }));
  const { page, done } = await visit(server.url);
  const begun = performance.now();
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.getByRole('button', { name: 'Import' }).click()]);
  await chooser.setFiles(file);
  await page.getByText('Answer 1999').waitFor();
  fs.rmSync(file);
  const opened = Math.round(performance.now() - begun);
  const scroll = await frames(page, () => page.evaluate(async () => {
    const box = document.querySelector('.scroll');
    for (let i = 0; i < 100; ++i) {
      box.scrollTop -= 400;
      await new Promise(requestAnimationFrame);
    }
  }));
  const shown = await page.locator('.message').count();
  const typing = await frames(page, () => page.locator('#message').pressSequentially('Hello to you and all', { delay: 20 }));
  await page.fill('#message', '');
  const answering = await frames(page, async () => {
    await say(page, 'Hello!');
    await answered(page);
  });
  const text = ({ count, median, p95, most }) => `${count} frames, median ${median} ms, 95 % below ${p95} ms, longest ${most} ms`;
  console.log(`2,000 messages: open after ${opened} ms, ${shown} of them laid out\n  scrolling: ${text(scroll)}\n  typing: ${text(typing)}\n  answering: ${text(answering)}`);
  assert.ok(shown < 200, `${shown} messages are laid out`);
  assert.ok(scroll.median < 100 && typing.median < 100 && answering.median < 100);
  await done();
});

test('a phone shows all of it without scrolling sideways', async () => {
  const { page, done } = await visit(server.url, { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
  await say(page, 'What is the command to serve a model?');
  await answered(page);
  const fits = () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
  assert.ok(await fits());
  await page.getByLabel('Show conversations').click();
  await page.getByRole('link', { name: 'Machine' }).click();
  await page.getByText('Throughput').waitFor();
  assert.ok(await fits());
  await page.getByLabel('Show conversations').click();
  await page.getByRole('button', { name: 'New conversation' }).click();
  await page.getByLabel('Settings', { exact: true }).click();
  await page.getByLabel('System prompt').fill('Be brief.');
  assert.ok(await fits());
  await done();
});

for (const colorScheme of ['light', 'dark']) {
  test(`axe-core has no serious findings in ${colorScheme}`, async () => {
    const { page, done } = await visit(server.url, { colorScheme });
    await page.getByRole('heading', { name: 'Ask anything' }).waitFor();
    assert.deepEqual(await findings(page), []);
    await page.keyboard.press('Alt+s');
    await page.getByLabel('Show token probabilities').check();
    await say(page, 'What is 23 + 45?');
    const last = await answered(page);
    await last.locator('.thinking summary').click();
    assert.deepEqual(await findings(page), []);
    await last.getByLabel('Probabilities').click();
    assert.deepEqual(await findings(page), []);
    await page.locator('.top').click();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys and more' }).waitFor();
    assert.deepEqual(await findings(page), []);
    await page.keyboard.press('Escape');
    await page.keyboard.press('Alt+m');
    await page.getByText('Throughput').waitFor();
    await page.waitForTimeout(1500);
    assert.deepEqual(await findings(page), []);
    await done();
  });
}

test('the machine shows a running request, which can be cancelled', async () => {
  const { page, done } = await visit(`${server.url}/#/machine`);
  await page.getByText('No request is running.').waitFor();
  const running = server.post('/completion', { prompt: 'One', n_predict: 1900, ignore_eos: true, stream: true, temperature: 1 });
  const cancel = page.getByRole('button', { name: /^Cancel cmpl-/ });
  // It may be over before anybody has seen it: a small model is fast.
  const text = (await running).text();
  await Promise.race([cancel.waitFor(), text]);
  if (await cancel.count() > 0) await cancel.click({ timeout: 2000 }).catch(() => {});
  await text;
  await page.getByText('No request is running.').waitFor();
  assert.match(await page.locator('.facts').innerText(), /Generating[^]*Memory[^]*planned/);
  assert.ok(await page.locator('.plot canvas').count() >= 6);
  assert.equal(await page.locator('.log').count(), 0);
  await page.locator('summary', { hasText: 'Log' }).click();
  assert.match(await page.locator('.log').innerText(), /serving guide on/);
  const models = page.locator('.panel', { hasText: 'Models' }).first();
  assert.match(await models.innerText(), /guide\s+qwen3/);
  // Pages that are only kept are not in use.
  const stats = await (await fetch(`${server.url}/stats`)).json();
  assert.ok(stats.pages_cached > 0, JSON.stringify(stats));
  await models.getByText(/^0 of \d/).waitFor();
  await done();
});

test('opening the machine asks for nothing that the server refuses', async () => {
  const { page, done } = await visit(server.url);
  const refused = [];
  page.on('response', (response) => {
    if (response.status() >= 400) refused.push(`${response.request().method()} ${response.url()}: ${response.status()}`);
  });
  await page.keyboard.press('Alt+m');
  await page.getByRole('button', { name: 'Unload' }).waitFor();
  await page.getByLabel('Model to fetch').waitFor();
  await page.waitForTimeout(1500);
  assert.deepEqual(refused, []);
  await done();
});

test('the machine offers what the server lets whoever asks do', async () => {
  const { page, done } = await visit(server.url);
  await page.route('**/v1/models', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), actions: ['unload'] } });
  });
  await page.keyboard.press('Alt+m');
  await page.getByRole('button', { name: 'Unload' }).waitFor();
  await page.getByLabel('Model to fetch').waitFor({ state: 'detached' });
  await page.route('**/v1/models', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), actions: [] } });
  });
  await page.keyboard.press('Alt+n');
  await page.keyboard.press('Alt+m');
  await page.getByRole('button', { name: 'Unload' }).waitFor({ state: 'detached' });
  await done();
});

test('the machine draws axes once there is data, and each term has a tooltip', async () => {
  const { page, done } = await visit(`${server.url}/#/machine`);
  const plot = (title) => page.locator('.plot', { has: page.locator('strong', { hasText: title }) });
  await plot('Throughput').locator('canvas').waitFor();
  for (const title of ['Prompts from cache', 'Between tokens']) {
    assert.match(await plot(title).innerText(), /No data yet/);
    assert.equal(await plot(title).locator('canvas, .bar').count(), 0);
  }
  assert.match(await page.locator('.facts').innerText(), /Running\s+0\s+waiting 0/);
  await page.getByRole('cell', { name: 'running 0, waiting 0' }).waitFor();
  const untold = await page.locator('.fact:not([title]), .plot strong:not([title])').allInnerTexts();
  assert.deepEqual(untold, []);
  await (await server.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello!' }] })).text();
  await plot('Prompts from cache').locator('canvas').waitFor();
  await plot('Between tokens').locator('.bar').first().waitFor();
  await done();
});
