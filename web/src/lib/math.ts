// Formulas in Markdown: $...$ and \(...\) in a line, $$...$$ and \[...\] as blocks.
import type { MarkdownIt } from 'markdown-it';

/** Finds the ends of formulas in a text, each part of which is searched once, however many formulas might begin there. */
export class FormulaEnds {
  private found = new Map<string, { from: number; end: number }>();
  constructor(readonly text: string) {}

  /** Where the first `close` at or after `from` is; Infinity: there is none. A dollar behind a backslash is text. */
  next(close: string, from: number): number {
    const known = this.found.get(close);
    if (known && known.from <= from && from <= known.end) return known.end;
    let end = this.text.indexOf(close, from);
    while (end >= 0 && close[0] === '$' && this.text[end - 1] === '\\') end = this.text.indexOf(close, end + 1);
    if (end < 0) end = Infinity;
    this.found.set(close, { from, end });
    return end;
  }
}

/** Where a formula that begins at `at` ends, by `max`, and how it is shown; null if none begins there. */
export function formulaAt(
  text: string,
  at: number,
  ends = new FormulaEnds(text),
  max = text.length,
): { tex: string; end: number; display: boolean } | null {
  const two = text.slice(at, at + 2);
  const close = two === '$$' ? '$$' : two === '\\(' ? '\\)' : two === '\\[' ? '\\]' : text[at] === '$' ? '$' : '';
  if (close === '') return null;
  const begin = at + (close === '$' ? 1 : 2);
  const end = ends.next(close, begin);
  if (end + close.length > max) return null;
  const tex = text.slice(begin, end);
  if (tex.trim() === '') return null;
  if (close === '$') {
    // As Pandoc has it, so that "$5 and $6" is no formula.
    if (/\s/.test(text[begin]! + text[end - 1]!) || /\d/.test(text[end + 1] ?? '')) return null;
    if (ends.next('\n\n', begin) < end) return null;
  }
  return { tex, end: end + close.length, display: close === '$$' || close === '\\]' };
}

/** Adds tokens `formula` to the parser; `block` says whether one is a block. */
export function addFormulas(markdown: MarkdownIt) {
  const ends = new WeakMap<object, FormulaEnds>();
  markdown.inline.ruler.before('escape', 'formula', (state, silent) => {
    if (!ends.has(state)) ends.set(state, new FormulaEnds(state.src));
    const found = formulaAt(state.src, state.pos, ends.get(state), state.posMax);
    if (!found) return false;
    if (!silent) {
      const token = state.push('formula', '', 0);
      token.content = found.tex;
      token.block = found.display;
    }
    state.pos = found.end;
    return true;
  });
}
