// A browser for tests: pages that record what they must never do.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import axe from 'axe-core';
import { chromium } from 'playwright-core';

const here = path.dirname(fileURLToPath(import.meta.url));
export const guide = path.join(here, '../../models/guide/guide.gguf');
const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/google-chrome'].find((file) => fs.existsSync(file));
const kPatienceMs = 60_000;

// With CAIRN_WEB_DIST=FOLDER the page's files come from that folder, such as web/dist, and only what they ask for from the
// program: who works on the page need not build Cairn after each change.
const dist = process.env.CAIRN_WEB_DIST ? path.resolve(process.env.CAIRN_WEB_DIST) : null;
async function serveFromDist(context) {
  await context.route(({ pathname }) => pathname === '/', async (route) => {
    const response = await route.fetch();
    const { 'content-encoding': _, 'content-length': __, ...headers } = response.headers();
    await route.fulfill({ status: 200, headers, body: fs.readFileSync(path.join(dist, 'index.html')) });
  });
  await context.route(({ pathname }) => pathname.startsWith('/assets/'), (route) =>
    route.fulfill({ path: path.join(dist, new URL(route.request().url()).pathname) }));
}

let browser = null;
export async function startBrowser() {
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
}
export async function stopBrowser() {
  await browser?.close();
}

// A page in a profile of its own. `done` asserts that no script broke, that the policy of contents was never violated, that
// nothing was asked of another server, and that no dialog came up unasked.
export async function visit(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
  context.setDefaultTimeout(kPatienceMs);
  if (dist) await serveFromDist(context);
  const page = await context.newPage();
  const faults = [];
  const { origin } = new URL(url);
  page.on('pageerror', (error) => faults.push(`script: ${error.stack}`));
  page.on('console', (message) => {
    if (/Content Security Policy|Refused to/.test(message.text())) faults.push(`policy: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(`${origin}/`) && !/^(blob|data):/.test(request.url())) faults.push(`elsewhere: ${request.url()}`);
  });
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  context.on('page', (opened) => {
    if (opened !== page) faults.push(`opened: ${opened.url()}`);
  });
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => {
      console.error(`Content Security Policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
  await page.goto(url, { timeout: kPatienceMs });
  await page.locator('.app').waitFor();
  return {
    page,
    faults,
    done: async () => {
      await context.close();
      assert.deepEqual(faults, []);
    },
  };
}

export async function say(page, text) {
  await page.fill('#message', text);
  await page.press('#message', 'Enter');
}

// The last answer, once it is whole.
export async function answered(page) {
  const last = page.locator('.message.assistant').last();
  await last.locator('[aria-label="Answer again"]').last().waitFor();
  return last;
}

// Serious findings of axe-core, in words.
export async function findings(page) {
  // By the debugger's way, which the page's policy does not concern.
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html, any }) => `${html} (${any[0]?.message ?? ''})`).join(' | ')}`);
}
