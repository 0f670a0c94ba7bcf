// Conversations as a file, and back.
import type { Call, Message, TextFile } from './tree';
import { type ChatSettings, kNoSettings } from './settings';

export interface Conversation {
  id: string;
  title: string;
  created: number;
  updated: number;
  chosen: Record<string, string>;
  settings: ChatSettings;
}

export interface Exported {
  format: 'cairn-conversations';
  version: 1;
  conversations: (Conversation & { messages: Message[] })[];
}

export function exported(list: { conversation: Conversation; messages: Message[] }[]): string {
  const file: Exported = {
    format: 'cairn-conversations',
    version: 1,
    conversations: list.map(({ conversation, messages }) => ({ ...conversation, messages })),
  };
  return JSON.stringify(file, null, 1);
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const text = (value: unknown) => (typeof value === 'string' ? value : '');
const number = (value: unknown, otherwise: number) =>
  typeof value === 'number' && Number.isFinite(value) ? value : otherwise;
const list = (value: unknown) => (Array.isArray(value) ? value.filter(isRecord) : []);

/** Reads a file that `exported` has written. Ids are made anew by `newId`. Throws an Error in words for the user. */
export function imported(
  source: string,
  newId: () => string,
): { conversation: Conversation; messages: Message[] }[] {
  let file: unknown;
  try {
    file = JSON.parse(source);
  } catch {
    throw new Error('This file is not JSON.');
  }
  if (!isRecord(file) || file.format !== 'cairn-conversations')
    throw new Error('This file has no conversations of Cairn: "format" is not "cairn-conversations".');
  if (file.version !== 1) throw new Error(`This file has version ${String(file.version)}; only 1 can be read.`);
  return list(file.conversations).map((each, index) => readConversation(each, index, newId));
}

function readConversation(each: Record<string, unknown>, index: number, newId: () => string) {
  const id = newId();
  const ids = new Map<string, string>();
  const source = list(each.messages);
  for (const message of source) ids.set(text(message.id), newId());
  const messages = source.map((message, at): Message => {
    const role = message.role;
    if (role !== 'user' && role !== 'assistant' && role !== 'tool')
      throw new Error(`Message ${at + 1} of conversation ${index + 1} has the role "${String(role)}".`);
    const parent = message.parent === null ? null : ids.get(text(message.parent));
    if (parent === undefined) throw new Error(`Message ${at + 1} of conversation ${index + 1} has no parent in it.`);
    const read: Message = {
      id: ids.get(text(message.id))!,
      conversation: id,
      parent,
      role,
      content: text(message.content),
      created: number(message.created, at),
    };
    if (typeof message.thinking === 'string') read.thinking = message.thinking;
    if (typeof message.callId === 'string') read.callId = message.callId;
    if (typeof message.model === 'string') read.model = message.model;
    if (typeof message.group === 'string') read.group = message.group;
    if (typeof message.finish === 'string') read.finish = message.finish;
    if (typeof message.error === 'string') read.error = message.error;
    const calls = list(message.calls).map(
      (call): Call => ({ id: text(call.id), name: text(call.name), arguments: text(call.arguments) }),
    );
    if (calls.length > 0) read.calls = calls;
    const files = list(message.files).map((kept): TextFile => ({ name: text(kept.name), text: text(kept.text) }));
    if (files.length > 0) read.files = files;
    return read;
  });
  const chosen: Record<string, string> = {};
  for (const [parent, child] of Object.entries(isRecord(each.chosen) ? each.chosen : {})) {
    const from = parent === '' ? '' : ids.get(parent);
    const to = ids.get(text(child));
    if (from !== undefined && to !== undefined) chosen[from] = to;
  }
  checkReachable(messages, index);
  const settings = { ...kNoSettings, ...(isRecord(each.settings) ? each.settings : {}) } as ChatSettings;
  const conversation: Conversation = {
    id,
    title: text(each.title) || 'Imported',
    created: number(each.created, 0),
    updated: number(each.updated, 0),
    chosen,
    settings: {
      models: Array.isArray(settings.models) ? settings.models.filter((name) => typeof name === 'string') : [],
      system: text(settings.system),
      sampling: Object.fromEntries(
        Object.entries(isRecord(settings.sampling) ? settings.sampling : {}).filter(
          ([, value]) => typeof value === 'number' && Number.isFinite(value),
        ),
      ),
      thinking: text(settings.thinking),
      schema: text(settings.schema),
      tools: text(settings.tools),
      probabilities: settings.probabilities === true,
    },
  };
  return { conversation, messages };
}

// Parents that go in a circle would make a conversation without a beginning.
function checkReachable(messages: Message[], index: number) {
  const children = new Map<string | null, Message[]>();
  for (const message of messages) children.set(message.parent, [...(children.get(message.parent) ?? []), message]);
  let reached = 0;
  const next = [...(children.get(null) ?? [])];
  for (let message = next.pop(); message; message = next.pop()) {
    ++reached;
    next.push(...(children.get(message.id) ?? []));
  }
  if (reached !== messages.length)
    throw new Error(`Messages of conversation ${index + 1} do not go back to its beginning.`);
}
