// Cuts Markdown into blocks that can be rendered one by one, so that only the last one changes while text comes in.

/** A block of more characters is shown as plain text. */
export const kBlockMax = 20_000;

const kFence = /^ {0,3}(`{3,}|~{3,})/;
const kListItem = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;
const kMathOpen = /^ {0,3}(\$\$|\\\[)/;

/**
 * The blocks of `text`, in their order; together they are the text. A block ends at a blank line, unless code or a
 * formula is open there, or the next line belongs to a list or is indented.
 */
export function splitBlocks(text: string): string[] {
  const blocks: string[] = [];
  let begin = 0;
  let at = 0;
  let fence = '';
  let math = '';
  let list = false;
  let blank = false;
  let first = true; // of the block's lines
  while (at < text.length) {
    const found = text.indexOf('\n', at);
    const end = found < 0 ? text.length : found + 1;
    // What decides stands at a line's beginning; lines of a megabyte are not looked through.
    const line = text.slice(at, Math.min(end, at + 200));
    const empty = fence === '' && math === '' && line.trim() === '' && end - at <= 200;
    if (empty) {
      blank = true;
    } else {
      if (blank && !first && fence === '' && math === '') {
        const continues = /^(?: {2}|\t)/.test(line) || (list && kListItem.test(line));
        if (!continues) {
          blocks.push(text.slice(begin, at));
          begin = at;
          first = true;
        }
      }
      if (first) list = kListItem.test(line);
      first = false;
      blank = false;
      if (fence !== '') {
        if (line.trim().startsWith(fence) && /^[`~]+$/.test(line.trim())) fence = '';
      } else if (math !== '') {
        if (text.slice(at, end).trimEnd().endsWith(math)) math = '';
      } else {
        const opened = kFence.exec(line);
        const formula = kMathOpen.exec(line);
        if (opened) fence = opened[1]!;
        else if (formula) {
          const close = formula[1] === '$$' ? '$$' : '\\]';
          const rest = text.slice(at, end).trim().slice(2);
          if (!rest.endsWith(close)) math = close;
        }
      }
    }
    at = end;
  }
  if (begin < text.length) blocks.push(text.slice(begin));
  return blocks;
}

/** Cuts plain text into pieces of about `size` characters, at a line's end where there is one. */
export function pieces(text: string, size: number): string[] {
  const found: string[] = [];
  let at = 0;
  while (at < text.length) {
    let end = Math.min(text.length, at + size);
    if (end < text.length) {
      const line = text.lastIndexOf('\n', end - 1);
      if (line >= at + size / 2) end = line + 1;
      // Not in the middle of a surrogate pair.
      else if (/[\uD800-\uDBFF]/.test(text[end - 1]!)) --end;
    }
    found.push(text.slice(at, end));
    at = end;
  }
  return found;
}
