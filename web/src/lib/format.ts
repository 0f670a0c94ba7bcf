// Numbers as people read them.

export function bytes(count: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  while (count >= 1024 && at < units.length - 1) {
    count /= 1024;
    ++at;
  }
  return `${count >= 100 ? Math.round(count) : Number(count.toFixed(1))} ${units[at]}`;
}

export function number(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (Math.abs(value) >= 10_000) return `${(value / 1000).toFixed(value >= 100_000 ? 0 : 1)} k`;
  return value >= 100 ? String(Math.round(value)) : value >= 10 ? value.toFixed(1) : String(Number(value.toFixed(2)));
}

export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return '–';
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

export function plural(count: number, one: string): string {
  return `${count.toLocaleString('en')} ${one}${count === 1 ? '' : 's'}`;
}

const kBidi = /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;

/** Replaces characters that turn the direction of text, in HTML, by marks that can be seen. */
export function showBidi(html: string): string {
  return html.replace(kBidi, (character) => {
    const code = character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0');
    return `<span class="bidi" title="U+${code} turns the direction of text"></span>`;
  });
}

const kEscapes: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
export const escapeHtml = (text: string) => text.replace(/[&<>"]/g, (character) => kEscapes[character]!);

const kExtensions: Record<string, string> = {
  javascript: 'js', typescript: 'ts', python: 'py', rust: 'rs', ruby: 'rb', perl: 'pl', kotlin: 'kt', csharp: 'cs', 'c#': 'cs',
  'c++': 'cpp', bash: 'sh', shell: 'sh', zsh: 'sh', markdown: 'md', latex: 'tex', haskell: 'hs', julia: 'jl', text: 'txt',
};
/** What the name of a file in this language ends with. Models write the language as they like: an unknown one is text. */
export const extensionOf = (language: string) =>
  Object.hasOwn(kExtensions, language) ? kExtensions[language]! : /^[a-z][a-z0-9]{0,7}$/.test(language) ? language : 'txt';
