// Formulas in Markdown: $...$ and \(...\) in a line, $$...$$ and \[...\] as blocks.
import type { MarkdownIt } from 'markdown-it';

/** Where a formula that begins at `at` ends, and how it is shown; null if none begins there. */
export function formulaAt(text: string, at: number): { tex: string; end: number; display: boolean } | null {
  const two = text.slice(at, at + 2);
  const close = two === '$$' ? '$$' : two === '\\(' ? '\\)' : two === '\\[' ? '\\]' : text[at] === '$' ? '$' : '';
  if (close === '') return null;
  const begin = at + (close === '$' ? 1 : 2);
  let end = begin;
  for (;;) {
    end = text.indexOf(close, end);
    if (end < 0) return null;
    if (close[0] === '\\' || text[end - 1] !== '\\') break;
    ++end;
  }
  const tex = text.slice(begin, end);
  if (tex.trim() === '') return null;
  if (close === '$') {
    // As Pandoc has it, so that "$5 and $6" is no formula.
    if (/^\s|\s$/.test(tex) || /\d/.test(text[end + 1] ?? '') || tex.includes('\n\n')) return null;
  }
  return { tex, end: end + close.length, display: close === '$$' || close === '\\]' };
}

/** Adds tokens `formula` to the parser; `block` says whether one is a block. */
export function addFormulas(markdown: MarkdownIt) {
  markdown.inline.ruler.before('escape', 'formula', (state, silent) => {
    const found = formulaAt(state.src, state.pos);
    if (!found || found.end > state.posMax) return false;
    if (!silent) {
      const token = state.push('formula', '', 0);
      token.content = found.tex;
      token.block = found.display;
    }
    state.pos = found.end;
    return true;
  });
}
