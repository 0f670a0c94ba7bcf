// Markdown as HTML that can do nothing but be read.
import { signal } from '@preact/signals';
import DOMPurify from 'dompurify';
import MarkdownIt from 'markdown-it';
import { escapeHtml, showBidi } from './lib/format';
import { addFormulas } from './lib/math';

/** Longer formulas are shown as they are written. */
const kFormulaMax = 2_000;

type Formulas = { renderToString: (tex: string, options: object) => string };
let formulas: Formulas | null = null;
/** Turns true when formulas can be shown, which are loaded with the first one. */
export const formulasReady = signal(false);
let loading = false;

function loadFormulas() {
  if (loading) return;
  loading = true;
  void import('temml').then((module) => {
    formulas = ((module as { default?: unknown }).default ?? module) as Formulas;
    formulasReady.value = true;
  });
}

function formula(tex: string, display: boolean): string {
  const plain = `<code class="formula">${escapeHtml(tex)}</code>`;
  if (tex.length > kFormulaMax) return plain;
  if (!formulas) {
    loadFormulas();
    return plain;
  }
  try {
    const html = formulas.renderToString(tex, { displayMode: display, throwOnError: true, maxExpand: 200, maxSize: [20, 20] });
    const shown = html.replace(/ style="[^"]*"/g, '');
    return display ? `<span class="formula-block">${shown}</span>` : shown;
  } catch {
    return plain;
  }
}

const markdown = new MarkdownIt({ html: false, linkify: false, typographer: false });
addFormulas(markdown);
markdown.renderer.rules.formula = (tokens, at) => formula(tokens[at]!.content, tokens[at]!.block);
const fence = (code: string, language: string) => `
<div class="code"><div class="code-head"><span>${escapeHtml(language || 'text')}</span>
<span class="code-actions"><button type="button" class="wrap" aria-pressed="false">Wrap</button>
<button type="button" class="save">Download</button>
<button type="button" class="copy">Copy</button></span></div><pre tabindex="0" dir="ltr"><code${
  language === '' ? '' : ` data-language="${escapeHtml(language)}"`
}>${showBidi(escapeHtml(code))}</code></pre></div>`;
markdown.renderer.rules.fence = (tokens, at) =>
  fence(tokens[at]!.content, tokens[at]!.info.trim().split(/\s/)[0]!.slice(0, 30).toLowerCase());
markdown.renderer.rules.code_block = (tokens, at) => fence(tokens[at]!.content, '');
markdown.renderer.rules.code_inline = (tokens, at) =>
  `<code dir="ltr">${showBidi(escapeHtml(tokens[at]!.content))}</code>`;
// An item of a list that begins with [ ] or [x] is a task, with a mark that is text: nothing here can be ticked.
const kTask = /^\[([ xX])\]\s+/;
markdown.core.ruler.after('inline', 'tasks', (state) => {
  state.tokens.forEach((token, at, all) => {
    const item = all[at - 2];
    const first = token.children?.[0];
    const found = kTask.exec(first?.content ?? '');
    if (token.type !== 'inline' || item?.type !== 'list_item_open' || !first || first.type !== 'text' || !found) return;
    first.content = first.content.slice(found[0].length);
    item.attrJoin('class', 'task-item');
    const mark = new state.Token('task', 'span', 0);
    mark.content = found[1] === ' ' ? '' : 'x';
    token.children!.unshift(mark);
  });
});
markdown.renderer.rules.task = (tokens, at) =>
  tokens[at]!.content === ''
    ? '<span class="task" role="img" aria-label="to do">☐</span> '
    : '<span class="task done" role="img" aria-label="done">☑</span> ';
// Nothing is fetched from elsewhere: a picture is its text, and a link to it.
markdown.renderer.rules.image = (tokens, at) => {
  const source = String(tokens[at]!.attrGet('src') ?? '');
  return `<a href="${escapeHtml(source)}">${escapeHtml(tokens[at]!.content || 'picture')}</a>`;
};
markdown.renderer.rules.table_open = () => '<div class="table" tabindex="0"><table>';
markdown.renderer.rules.table_close = () => '</table></div>';
for (const cell of ['th_open', 'td_open'])
  markdown.renderer.rules[cell] = (tokens, at) => {
    const align = /text-align:(\w+)/.exec(String(tokens[at]!.attrGet('style') ?? ''))?.[1];
    return `<${tokens[at]!.tag}${align ? ` class="${align}"` : ''}>`;
  };

const kAllowed = {
  USE_PROFILES: { html: true, mathMl: true },
  FORBID_TAGS: ['style', 'form', 'input', 'textarea', 'select', 'img', 'picture', 'video', 'audio', 'source', 'svg', 'map', 'dialog'],
  FORBID_ATTR: ['style', 'id', 'name', 'src', 'srcset', 'background', 'action', 'popover'],
  ADD_ATTR: ['display'],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
};

DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName !== 'A') return;
  node.setAttribute('target', '_blank');
  node.setAttribute('rel', 'noopener noreferrer nofollow');
});

/** The HTML of a block of Markdown. */
export function blockHtml(text: string): string {
  return DOMPurify.sanitize(markdown.render(text), kAllowed);
}
