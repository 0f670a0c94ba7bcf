// Makes the pictures of docs/images: node tests/web/pictures.mjs, with CAIRN_PROGRAM and CAIRN_TEST_DATA as for the tests.
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { serve } from '../e2e/server.mjs';
import { answered, guide, say, startBrowser, stopBrowser, visit } from './browser.mjs';

const folder = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../docs/images');
const kClients = 24;
const kLoadMs = 40_000;
const server = await serve(guide, ['--temp', '0.7', '--seed', '1']);
await startBrowser();

async function talk(page) {
  for (const text of ['What is Cairn?', 'What is 23 + 45?']) {
    await say(page, text);
    await answered(page);
  }
  await page.locator('.thinking summary').last().click();
  await page.waitForTimeout(300);
}

// Before it is looked at.
await (await server.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello!' }] })).text();
for (const colorScheme of ['light', 'dark']) {
  const { page, done } = await visit(server.url, { colorScheme, viewport: { width: 1100, height: 700 } });
  await talk(page);
  await page.screenshot({ path: path.join(folder, `chat-${colorScheme}.png`) });
  await done();
}
const phone = await visit(server.url, { viewport: { width: 390, height: 760 }, hasTouch: true, isMobile: true });
await talk(phone.page);
await phone.page.screenshot({ path: path.join(folder, 'chat-phone.png') });
await phone.done();

const end = Date.now() + kLoadMs;
const clients = Array.from({ length: kClients }, async (_, client) => {
  for (let turn = 0; Date.now() < end; ++turn) {
    await (await server.post('/v1/chat/completions', {
      messages: [{ role: 'system', content: 'You tell short stories.' }, { role: 'user', content: `Tell me story ${turn} about cat ${client}.` }],
      max_tokens: 60 + client * 10,
    })).text();
  }
});
const pages = await Promise.all(['light', 'dark'].map((colorScheme) =>
  visit(`${server.url}/#/machine`, { colorScheme, viewport: { width: 1100, height: 900 } })));
await pages[0].page.waitForTimeout(kLoadMs / 2);
await pages[0].page.screenshot({ path: path.join(folder, 'machine-light.png') });
await pages[1].page.screenshot({ path: path.join(folder, 'machine-dark.png') });
await Promise.all(clients);
for (const { done } of pages) await done();
await stopBrowser();
await server.stop();
