// Server-sent events from the bytes of a response, as far as this page needs them: the data of each event.

/** Cuts text that comes in pieces into the data of its events. */
export class EventParser {
  private rest = '';

  /** The data of the events that `text` completes, in their order. */
  feed(text: string): string[] {
    this.rest += text;
    const found: string[] = [];
    for (;;) {
      const end = this.rest.search(/\r?\n\r?\n/);
      if (end < 0) return found;
      const event = this.rest.slice(0, end);
      this.rest = this.rest.slice(end).replace(/^\r?\n\r?\n/, '');
      const data = event
        .split(/\r?\n/)
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(line.startsWith('data: ') ? 6 : 5));
      if (data.length > 0) found.push(data.join('\n'));
    }
  }
}

/** Reads a response to its end and hands over each event's data. */
export async function readEvents(response: Response, take: (data: string) => void): Promise<void> {
  const parser = new EventParser();
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    for (const data of parser.feed(decoder.decode(value, { stream: true }))) take(data);
  }
}
