// Every view fits its window: only what is meant to scroll does, at the size of a desk and of a phone, in both themes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { serve } from '../e2e/server.mjs';
import { answered, guide, say, startBrowser, stopBrowser, visit } from './browser.mjs';
import { front } from './front.mjs';

const cells = Array.from({ length: 12 }, (_, i) => `a rather long heading ${i}`);
const rich = `## A heading\n\n| ${cells.join(' | ')} |\n|${'---|'.repeat(cells.length)}\n| ${cells.map(() => '6.62607015e-34').join(' | ')} |\n\n`
  + `\`\`\`js\n${'const veryLong = 1; '.repeat(30)}\n\`\`\`\n\n$$${'x^2 + '.repeat(60)}y$$\n\n${'long'.repeat(100)}\n\n${'Some words. '.repeat(400)}`;
const sizes = [{ width: 1300, height: 850 }, { width: 390, height: 844 }];

let server, faced;
before(async () => {
  server = await serve(guide, ['--temp', '0']);
  faced = await front(server.url, { answers: { rich } });
  await startBrowser();
});
after(async () => {
  await stopBrowser();
  await faced.stop();
  await server.stop();
});

// What is wrong with the layout now, in words.
const overflow = (page) => page.evaluate(() => {
  const html = document.documentElement;
  const found = [];
  if (html.scrollHeight > html.clientHeight) found.push(`html is ${html.scrollHeight} high, of ${html.clientHeight}`);
  if (html.scrollWidth > html.clientWidth) found.push(`html is ${html.scrollWidth} wide, of ${html.clientWidth}`);
  for (const element of document.querySelectorAll('main, main .scroll, .settings, .sidebar'))
    if (element.scrollWidth > element.clientWidth + 1) found.push(`${element.className} is ${element.scrollWidth} wide, of ${element.clientWidth}`);
  const scrolls = (element) => element.scrollHeight > element.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(element).overflowY);
  for (const element of document.querySelectorAll('main .scroll *'))
    if (scrolls(element)) found.push(`<${element.localName} class="${element.className}"> scrolls in what scrolls`);
  return found;
});

for (const viewport of sizes)
  for (const colorScheme of ['light', 'dark'])
    test(`no view scrolls twice or sideways at ${viewport.width}x${viewport.height}, ${colorScheme}`, async () => {
      const narrow = viewport.width < 500;
      const { page, done } = await visit(faced.url, { viewport, colorScheme, ...(narrow && { hasTouch: true, isMobile: true }) });
      const fits = async (view) => assert.deepEqual(await overflow(page), [], view);
      await page.getByRole('heading', { name: 'Ask anything' }).waitFor();
      await fits('the beginning');
      if (narrow) {
        await page.getByLabel('Show conversations').click();
        await page.waitForTimeout(300);
        await fits('the list of conversations');
        await page.getByLabel('Close the list').click();
      }
      await page.getByLabel('Settings', { exact: true }).click();
      await page.getByText('Further parameters').click();
      await fits('settings');
      await page.getByLabel('Close settings').click();
      await say(page, 'Show me [rich]');
      await answered(page);
      await fits('a conversation');
      await page.locator('.top').click();
      await page.keyboard.press('?');
      await page.getByRole('dialog').waitFor();
      await fits('help');
      await page.keyboard.press('Escape');
      await page.keyboard.press('Alt+m');
      await page.getByText('Throughput').waitFor();
      await page.waitForTimeout(1500);
      await fits('machine');
      await page.locator('summary', { hasText: 'Log' }).click();
      await page.locator('.log').waitFor();
      await fits('machine with its log');
      await page.locator('.scroll').evaluate((element) => { element.scrollTop = element.scrollHeight; });
      await fits('the end of the machine');
      assert.ok(await page.locator('.log').isVisible());
      await done();
    });

// Buttons, links and fields that a finger would miss; links within a text are as high as its lines.
const small = (page) => page.evaluate(() => {
  const kLeastPx = 44;
  return [...document.querySelectorAll('button, a, select, summary, input, textarea')]
    .filter((element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest('.markdown p, .skip') && !element.matches('.skip'))
    .map((element) => [element, (element.type === 'checkbox' ? element.closest('label') : element).getBoundingClientRect()])
    .filter(([, { width, height }]) => Math.min(width, height) < kLeastPx - 0.5)
    .map(([element, { width, height }]) => `${element.outerHTML.slice(0, 80)}: ${Math.round(width)}x${Math.round(height)}`);
});

test('on a touch screen everything that is pressed is 44 px high and wide, and tables scroll within themselves', async () => {
  const { page, done } = await visit(faced.url, { viewport: sizes[1], hasTouch: true, isMobile: true });
  const fits = async (view) => assert.deepEqual(await small(page), [], view);
  await page.getByRole('group', { name: 'Questions to start with' }).waitFor();
  await fits('the beginning');
  await say(page, 'Show me [rich]');
  const last = await answered(page);
  await fits('a conversation');
  assert.ok(await page.locator('.top .chip').evaluate((element) => element.scrollWidth <= element.clientWidth), 'the model\'s state is cut');
  const table = last.locator('.table');
  assert.ok(await table.evaluate((element) => element.scrollWidth > element.clientWidth));
  assert.ok((await table.locator('td').first().boundingBox()).height < 50, 'a number breaks its line');
  await page.getByLabel('Show conversations').click();
  await page.waitForTimeout(300);
  await fits('the list of conversations');
  await page.getByLabel('Close the list').click();
  await page.getByLabel('Settings', { exact: true }).click();
  await fits('settings');
  await page.getByLabel('Close settings').click();
  await page.keyboard.press('Alt+m');
  await page.getByText('Throughput').waitFor();
  await fits('machine');
  await done();
});
