// Content that means harm: nothing of it runs, and nothing of it stands still.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { serve } from '../e2e/server.mjs';
import { answered, guide, say, startBrowser, stopBrowser, visit } from './browser.mjs';
import { front } from './front.mjs';

const run = 'window.hacked = true; alert(1)';
const evil = [
  `<script>${run}</script>`,
  `<img src=x onerror="${run}">`,
  `<svg onload="${run}"><a xlink:href="javascript:${run}">x</a></svg>`,
  `<iframe srcdoc="<script>parent.hacked = true</script>"></iframe>`,
  `<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror='${run}'&gt;">`,
  `<form action="https://evil.example/"><input name="a"><button>Send</button></form>`,
  `<style>* { background: url(https://evil.example/a.png) }</style>`,
  `<link rel="stylesheet" href="https://evil.example/a.css"><base href="https://evil.example/"><meta http-equiv="refresh" content="0;url=https://evil.example/">`,
  `[click](javascript:${encodeURIComponent(run)}) [data](data:text/html,<script>${run}</script>) <javascript:${run}>`,
  `![picture](https://evil.example/pixel.png) ![x](x"onerror="${run})`,
  `$\\href{javascript:${run}}{x}$ $\\includegraphics{https://evil.example/a.png}$ $\\style{color:red" onload="${run}}{y}$`,
  '```"><img src=x onerror=alert(1)>\ncode\n```',
  '`\u202E<b>turned</b>` and \u202Eturned text',
  `<details open ontoggle="${run}"><template><script>${run}</script></template></details>`,
].join('\n\n');

const rows = Array.from({ length: 5000 }, (_, i) => `| ${i} | ${'cell '.repeat(5)} | x |`).join('\n');
const bomb = `$${'\\def\\a{\\b\\b}\\def\\b{\\c\\c}\\def\\c{\\d\\d}\\def\\d{\\a\\a}'}\\a$ $${'{'.repeat(900)}x${'}'.repeat(900)}$`;
const answers = {
  evil,
  table: { text: `| a | b | c |\n|---|---|---|\n${rows}`, pieces: 60 },
  line: { text: 'x'.repeat(1 << 20), pieces: 60 },
  code: { text: `\`\`\`js\n${'const a = 1; '.repeat(1 << 16)}\n\`\`\``, pieces: 60 },
  nested: { text: `${'> '.repeat(5000)}deep\n\n${'- '.repeat(2000)}x\n\n${'['.repeat(15000)}\n\n${'*a_'.repeat(6000)}\n\n${bomb}`, pieces: 20 },
  bidi: `\u202E${'abc '.repeat(50)}\n\nNext \u2067paragraph\n\n\`\`\`\nif (x) { \u202E// \u2066 evil \u2069\u2066 }\n\`\`\``,
  thinking: { thinking: evil, text: 'Done.' },
  call: {
    calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: `<img src=x onerror=alert(1)>`, arguments: JSON.stringify({ a: evil }) } }],
  },
};

let server, before_;
before(async () => {
  server = await serve(guide);
  before_ = await front(server.url, { answers });
  await startBrowser();
});
after(async () => {
  await stopBrowser();
  await before_.stop();
  await server.stop();
});

// The longest time in which the page did nothing else, in ms.
const watchTasks = (page) =>
  page.addInitScript(() => {
    window.longest = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
    }).observe({ type: 'longtask', buffered: true });
  });

for (const name of Object.keys(answers)) {
  test(`"${name}" runs nothing and stops nothing`, async () => {
    const { page, done } = await visit(before_.url);
    await watchTasks(page);
    await page.reload();
    await page.getByRole('heading', { name: 'Ask anything' }).waitFor();
    await page.evaluate(() => { window.longest = 0; });
    await say(page, `Show me [${name}]`);
    const last = await answered(page);
    if (name === 'thinking') await last.locator('.thinking summary').click();
    if (name === 'call') {
      await last.getByRole('textbox').fill(evil);
      await last.getByRole('button', { name: 'Send result' }).click();
      await answered(page);
    }
    const more = last.getByRole('button', { name: /^Show all/ });
    if (await more.count() > 0) await more.first().click();
    await page.waitForTimeout(500);
    const state = await page.evaluate(() => ({
      hacked: window.hacked === true,
      longest: Math.round(window.longest),
      at: location.href,
      dangerous: [...document.querySelectorAll('.message *')].filter((element) =>
        /^(script|iframe|img|style|link|base|meta|object|embed|template)$/i.test(element.tagName) ||
        [...element.attributes].some(({ name: attribute, value }) => /^on/i.test(attribute) || /^\s*(javascript|data):/i.test(value))).map((element) => element.outerHTML),
      sideways: document.documentElement.scrollWidth > innerWidth,
    }));
    console.log(`${name}: longest task ${state.longest} ms`);
    assert.equal(state.hacked, false);
    assert.deepEqual(state.dangerous, []);
    assert.equal(state.sideways, false);
    assert.ok(state.at.startsWith(before_.url), state.at);
    assert.ok(state.longest < 2000, `a task took ${state.longest} ms`);
    if (name === 'bidi') assert.ok(await last.locator('pre .bidi').count() >= 3);
    await done();
  });
}
