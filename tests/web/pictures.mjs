// Makes the pictures of docs/images, or others in FOLDER: node tests/web/pictures.mjs [FOLDER], with CAIRN_PROGRAM and
// CAIRN_TEST_DATA as for the tests.
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { serve } from '../e2e/server.mjs';
import { answered, guide, say, startBrowser, stopBrowser, visit } from './browser.mjs';

const folder = process.argv[2] ?? path.join(path.dirname(fileURLToPath(import.meta.url)), '../../docs/images');
const kClients = 24;
const kLoadMs = 40_000;
const server = await serve(guide, ['--temp', '0.7', '--seed', '1']);

async function talk(page) {
  for (const text of ['What is Cairn?', 'What is 23 + 45?']) {
    await say(page, text);
    await answered(page);
  }
  await page.locator('.thinking summary').last().click();
  await page.waitForTimeout(300);
}

async function picturesOfTalks() {
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
}

// Asks for stories until then, and fails with how far it came.
async function client(number, end) {
  for (let turn = 0; Date.now() < end; ++turn) {
    const begun = performance.now();
    try {
      await (await server.post('/v1/chat/completions', {
        messages: [{ role: 'system', content: 'You tell short stories.' }, { role: 'user', content: `Tell me story ${turn} about cat ${number}.` }],
        max_tokens: 60 + number * 10,
      })).text();
    } catch (error) {
      throw new Error(`client ${number}, story ${turn}, ${Math.round(performance.now() - begun)} ms after it was sent`, { cause: error });
    }
  }
}

async function picturesOfTheMachine() {
  const pages = await Promise.all(['light', 'dark'].map((colorScheme) =>
    visit(`${server.url}/#/machine`, { colorScheme, viewport: { width: 1100, height: 900 } })));
  await pages[0].page.waitForTimeout(kLoadMs / 2);
  await pages[0].page.screenshot({ path: path.join(folder, 'machine-light.png') });
  await pages[1].page.screenshot({ path: path.join(folder, 'machine-dark.png') });
  for (const { done } of pages) await done();
}

try {
  await startBrowser();
  await picturesOfTalks();
  const end = Date.now() + kLoadMs;
  await Promise.all([picturesOfTheMachine(), ...Array.from({ length: kClients }, (_, number) => client(number, end))]);
} finally {
  await stopBrowser();
  await server.stop();  // tells how it ended, if not well
}
