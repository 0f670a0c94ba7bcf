// Colours of code, which another thread finds out: the page never waits for them, and a text that takes long has none.

/** Longer code, and code with longer lines, is shown without colours. */
export const kColouredMax = 20_000;
export const kColouredLineMax = 1_000;
/** Code that takes longer stays as it is. */
const kColouringMs = 1_000;
const kKeptMax = 200;

export const mayColour = (code: string, language: string) =>
  language !== '' && code.length <= kColouredMax && code.split('\n').every((line) => line.length <= kColouredLineMax);

/** What colours code, one text after the other: a Worker. */
export interface Colourist {
  postMessage(message: { code: string; language: string }): void;
  terminate(): void;
  onmessage: ((event: { data: string }) => void) | null;
  onerror: ((event: never) => void) | null;
}

export class Colours {
  private colourist: Colourist | null = null;
  private last: Promise<unknown> = Promise.resolve();
  private readonly kept = new Map<string, Promise<string>>();

  constructor(
    private readonly make: () => Colourist,
    private readonly longestMs = kColouringMs,
  ) {}

  /** The HTML of the code; '' where it has no colours. */
  of(code: string, language: string): Promise<string> {
    if (!mayColour(code, language)) return Promise.resolve('');
    const key = `${language}\n${code}`;
    const known = this.kept.get(key);
    if (known) return known;
    const html = this.last.then(() => this.colour(code, language));
    this.last = html;
    if (this.kept.size >= kKeptMax) this.kept.delete(this.kept.keys().next().value!);
    this.kept.set(key, html);
    return html;
  }

  private colour(code: string, language: string): Promise<string> {
    return new Promise((resolve) => {
      const give = (html: string, ends: boolean) => {
        clearTimeout(timer);
        if (ends) {
          this.colourist?.terminate();
          this.colourist = null;
        }
        resolve(html);
      };
      const timer = setTimeout(() => give('', true), this.longestMs);
      try {
        this.colourist ??= this.make();
        this.colourist.onmessage = ({ data }) => give(data, false);
        this.colourist.onerror = () => give('', true);
        this.colourist.postMessage({ code, language });
      } catch {
        give('', true); // a browser without workers
      }
    });
  }
}
