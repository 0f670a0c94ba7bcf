// Requests to the server that the page comes from.
import { signal } from '@preact/signals';

const kStorageKey = 'cairn-key';

/** Set while the server asks for a key; resolves with whether there is one. */
export const keyWanted = signal<{ answer: (given: boolean) => void; wrong: boolean } | null>(null);

let key = readStored();

function readStored(): string {
  try {
    return localStorage.getItem(kStorageKey) ?? '';
  } catch {
    return '';
  }
}

export function hasKey() {
  return key !== '';
}

/** Uses a key from now on; `remember` keeps it in this browser. */
export function setKey(value: string, remember: boolean) {
  key = value;
  try {
    if (remember && value !== '') localStorage.setItem(kStorageKey, value);
    else localStorage.removeItem(kStorageKey);
  } catch {
    // Without storage it is kept as long as the page.
  }
}

/** A failure in words for the user. */
export class RequestError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

async function messageOf(response: Response): Promise<string> {
  const text = await response.text().catch(() => '');
  try {
    const { error } = JSON.parse(text) as { error?: { message?: string } | string };
    const message = typeof error === 'string' ? error : error?.message;
    if (message) return message;
  } catch {
    // Not the server's own words, then.
  }
  return `The server answered ${response.status} ${response.statusText}.`;
}

let asking: Promise<boolean> | null = null;

function askForKey(wrong: boolean): Promise<boolean> {
  asking ??= new Promise<boolean>((resolve) => {
    keyWanted.value = {
      wrong,
      answer: (given) => {
        keyWanted.value = null;
        asking = null;
        resolve(given);
      },
    };
  });
  return asking;
}

/** As fetch, with the key; asks for one where the server wants it. Throws RequestError unless it is a success. */
export async function request(path: string, options: RequestInit = {}): Promise<Response> {
  for (;;) {
    const headers = new Headers(options.headers);
    const used = key;
    if (used !== '') headers.set('Authorization', `Bearer ${used}`);
    let response: Response;
    try {
      response = await fetch(path, { ...options, headers, cache: 'no-store' });
    } catch (error) {
      if ((error as Error).name === 'AbortError') throw error;
      throw new RequestError('The server cannot be reached.', 0);
    }
    if (response.ok) return response;
    if (response.status === 401) {
      if (key !== used || (await askForKey(used !== ''))) continue;
    }
    throw new RequestError(await messageOf(response), response.status);
  }
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await request(path, { signal: signal ?? null })).json()) as T;
}

export function postJson(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  return request(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal: signal ?? null,
  });
}
