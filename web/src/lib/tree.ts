// A conversation as a tree: each message has a parent, and of each message's children one is chosen.

export type Role = 'user' | 'assistant' | 'tool';

export interface Call {
  id: string;
  name: string;
  arguments: string;
}

export interface TextFile {
  name: string;
  text: string;
}

export interface TokenProbability {
  text: string;
  logprob: number;
  top: { text: string; logprob: number }[];
}

export interface Stats {
  promptTokens?: number;
  cachedTokens?: number;
  tokens?: number;
  /** From sending to the first token, as this page saw it. */
  firstTokenMs?: number;
  /** As the server measured it, or this page where the server does not say. */
  tokensPerSecond?: number;
  /** Tokens per second as this page saw them. */
  seenPerSecond?: number;
  /** What the server says of its time: waiting for its turn, reading what was not cached of the prompt, and answering. */
  server?: { queueMs: number; promptMs: number; promptTokens?: number | undefined; answerMs?: number | undefined };
}

export interface Message {
  id: string;
  conversation: string;
  parent: string | null;
  role: Role;
  content: string;
  created: number;
  thinking?: string;
  thinkingMs?: number;
  calls?: Call[];
  /** Of a tool's result: the call that it answers. */
  callId?: string;
  files?: TextFile[];
  model?: string;
  /** Answers of several models to one prompt have this in common. */
  group?: string;
  stats?: Stats;
  probabilities?: TokenProbability[];
  finish?: string;
  error?: string;
}

const kRoot = '';

export class Tree {
  private readonly byId = new Map<string, Message>();
  private readonly children = new Map<string, string[]>();

  constructor(
    messages: Iterable<Message>,
    /** The chosen child by its parent's id; '' is the beginning. */
    readonly chosen: Record<string, string>,
  ) {
    for (const message of [...messages].sort((a, b) => a.created - b.created)) this.insert(message);
  }

  get size() {
    return this.byId.size;
  }
  get(id: string) {
    return this.byId.get(id);
  }
  all(): Message[] {
    return [...this.byId.values()];
  }

  /** Adds a message and chooses it, unless an answer of its group has been chosen already. */
  add(message: Message) {
    this.insert(message);
    const before = this.byId.get(this.chosen[message.parent ?? kRoot] ?? '');
    if (before && message.group !== undefined && before.group === message.group) return;
    this.choose(message.id);
  }

  choose(id: string) {
    const message = this.byId.get(id);
    if (message) this.chosen[message.parent ?? kRoot] = id;
  }

  siblings(id: string): string[] {
    const message = this.byId.get(id);
    return message ? (this.children.get(message.parent ?? kRoot) ?? []) : [];
  }

  /** Answers of several models to one prompt, this one among them. */
  group(id: string): Message[] {
    const message = this.byId.get(id);
    if (!message || message.group === undefined) return message ? [message] : [];
    return this.siblings(id)
      .map((each) => this.byId.get(each)!)
      .filter((each) => each.group === message.group);
  }

  /** The branches at a message: one for each sibling, but one for a whole group. */
  branches(id: string): string[] {
    const seen = new Set<string>();
    return this.siblings(id).filter((each) => {
      const { group } = this.byId.get(each)!;
      if (group === undefined) return true;
      if (seen.has(group)) return false;
      seen.add(group);
      return true;
    });
  }

  /** From the beginning to the end, along what is chosen. */
  path(): Message[] {
    const found: Message[] = [];
    let at = kRoot;
    for (;;) {
      const all = this.children.get(at) ?? [];
      const wanted = this.chosen[at];
      const next = wanted !== undefined && this.byId.has(wanted) ? wanted : all[all.length - 1];
      if (next === undefined) return found;
      found.push(this.byId.get(next)!);
      at = next;
    }
  }

  /** From the beginning to this message. */
  pathTo(id: string | null): Message[] {
    const found: Message[] = [];
    for (let at = id; at !== null; ) {
      const message = this.byId.get(at);
      if (!message) break;
      found.push(message);
      at = message.parent;
    }
    return found.reverse();
  }

  private insert(message: Message) {
    this.byId.set(message.id, message);
    const at = message.parent ?? kRoot;
    const list = this.children.get(at);
    if (list) list.push(message.id);
    else this.children.set(at, [message.id]);
  }
}
