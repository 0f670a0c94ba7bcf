// A server without a model: the page proposes some that fit, has one fetched from a hub of the test's own, and talks.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { promisify } from 'node:util';
import { startHub } from '../e2e/hub_server.mjs';
import { program, serve } from '../e2e/server.mjs';
import { answered, findings, guide, say, startBrowser, stopBrowser, visit } from './browser.mjs';

// Small enough for the machine of any test, and enough for four models.
const kMemory = '8GiB';
let hub, folder, models, server;
before(async () => {
  hub = await startHub({ any: fs.readFileSync(guide) });
  await startBrowser();
});
after(async () => {
  await stopBrowser();
  hub.stop();
});
beforeEach(async () => {
  hub.reset();
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-first-'));
  models = path.join(folder, 'models');
});
afterEach(async () => {
  assert.equal((await server.stop()).code, 0);
  fs.rmSync(folder, { recursive: true, force: true });
});

const environment = () => ['env', ...Object.entries({ ...hub.environment, XDG_CACHE_HOME: folder }).map(([name, value]) => `${name}=${value}`)];
const start = async (flags = []) => {
  server = await serve(null, ['--models', models, '--own-models', '--memory', kMemory, ...flags], environment());
};
const cards = (page) => page.getByRole('list', { name: 'Models that fit' }).getByRole('button');

for (const viewport of [{ width: 1300, height: 850 }, { width: 390, height: 844 }])
  for (const colorScheme of ['light', 'dark'])
    test(`four models are proposed, one click gets one, and the chat is ready, at ${viewport.width}x${viewport.height}, ${colorScheme}`, async () => {
      await start(['--temp', '0']);
      const narrow = viewport.width < 500;
      const { page, done } = await visit(server.url, { viewport, colorScheme, ...(narrow && { hasTouch: true, isMobile: true }) });
      await page.getByRole('heading', { name: 'Get a model' }).waitFor();
      await cards(page).first().waitFor();
      assert.equal(await cards(page).count(), 4);
      for (const text of await cards(page).allInnerTexts()) assert.match(text, /[\d.]+ [MG]iB/);
      assert.deepEqual(await findings(page), []);
      const wide = await page.evaluate(() => [document.documentElement, ...document.querySelectorAll('main .scroll')]
        .filter((element) => element.scrollWidth > element.clientWidth + 1).length);
      assert.equal(wide, 0);
      if (narrow) for (const card of await cards(page).all()) assert.ok((await card.boundingBox()).height >= 44);
      // What is typed meanwhile is not lost.
      await say(page, 'What is Cairn?');
      assert.equal(await page.locator('#message').inputValue(), 'What is Cairn?');
      assert.equal(await page.locator('.message').count(), 0);
      await page.getByText('Your message stays here until there is a model.').waitFor();
      hub.slow = 40;
      await cards(page).last().focus();
      await page.keyboard.press('Enter');
      await page.getByRole('progressbar', { name: /^Download of / }).waitFor();
      await page.getByText(/pulling [0-9a-f]{12}: .* of .*iB/).waitFor();
      assert.deepEqual(await findings(page), []);
      await page.getByRole('heading', { name: 'Ask anything' }).waitFor();
      await page.locator('.top .chip .loaded').waitFor({ state: 'attached' });
      assert.equal(await page.locator('#message').inputValue(), 'What is Cairn?');
      await page.press('#message', 'Enter');
      assert.match(await (await answered(page)).innerText(), /Cairn/);
      await done();
    });

test('a download is cancelled, goes on where it was, and errors are told where it was asked for', async () => {
  await start();
  const { page, done } = await visit(server.url);
  const name = page.getByLabel('Name of a model');
  hub.status = 404;
  await name.fill('nobody/nothing');
  await name.press('Enter');
  await page.getByRole('alert').getByText(/answered 404/).waitFor();
  await name.fill('../x');
  await name.press('Enter');
  await page.getByRole('alert').getByText(/is no model's name/).waitFor();
  hub.reset();
  hub.slow = 200;
  await name.fill('story:tiny');
  await page.getByRole('button', { name: 'Get it' }).click();
  await page.getByText(/pulling [0-9a-f]{12}: [1-9][\d.]* \w+ of/).waitFor();
  assert.ok(await cards(page).first().isDisabled());
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('alert').getByText(/Stopped.*is kept/).waitFor();
  await page.waitForFunction(() => !document.querySelector('.fetching'));
  hub.reset();
  await page.getByRole('button', { name: 'Get it' }).click();
  await page.getByRole('heading', { name: 'Ask anything' }).waitFor();
  assert.ok(Number(hub.stored()[0].headers.range.match(/\d+/)[0]) > 0, 'it began anew');
  await done();
});

test('a message that was sent before the page knew is answered by the first model, whoever fetches it', async () => {
  await start(['--temp', '0']);
  const { page, done } = await visit(server.url);
  await page.getByRole('heading', { name: 'Get a model' }).waitFor();
  await page.route('**/v1/models', async (route) => {
    await new Promise((resolve) => { setTimeout(resolve, 1500); });
    await route.continue();
  });
  await page.reload();
  await say(page, 'What is Cairn?');
  await page.getByRole('heading', { name: 'Get a model' }).waitFor();
  assert.equal(await page.locator('.message.user').count(), 1);
  // Beside this process, whose hub it asks.
  await promisify(execFile)(program, ['pull', 'story:tiny', '--models', models], { env: { ...process.env, ...hub.environment } });
  assert.match(await (await answered(page)).innerText(), /Cairn/);
  await done();
});

test('where pages may fetch nothing, the page says so and how it is done', async () => {
  await start(['--no-pull']);
  const { page, done } = await visit(server.url);
  await page.getByText(/--no-pull/).waitFor();
  await page.getByText(/cairn pull \S+/).waitFor();
  assert.equal(await page.getByLabel('Name of a model').count(), 0);
  await done();
});
