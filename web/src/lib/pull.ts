// Having the server fetch a model from a hub.
import { postJson } from './api';

export interface PullProgress {
  status?: string;
  /** Bytes. */
  total?: number;
  completed?: number;
}

/** What is still to come of a stream of lines, and those that are whole. */
export function wholeLines(text: string): { lines: string[]; rest: string } {
  const end = text.lastIndexOf('\n') + 1;
  return { lines: text.slice(0, end).split('\n').filter((line) => line.trim() !== ''), rest: text.slice(end) };
}

/** Returns once the model is there. Throws what went wrong, in words; an AbortError if it was stopped. */
export async function pull(model: string, tell: (progress: PullProgress) => void, signal: AbortSignal) {
  const response = await postJson('api/pull', { model, stream: true }, signal);
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let text = '';
  let last: PullProgress = {};
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const { lines, rest } = wholeLines(text + decoder.decode(value, { stream: true }));
    text = rest;
    for (const line of lines) {
      const { error, ...progress } = JSON.parse(line) as PullProgress & { error?: string };
      if (error) throw new Error(error);
      last = progress;
    }
    tell(last);
  }
  if (last.status !== 'success') throw new Error('The connection to the server ended before the download did. What has come is kept.');
}
