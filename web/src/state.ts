// What the page shows, and what users do with it.
import { batch, computed, signal } from '@preact/signals';
import { Answer } from './lib/answer';
import { getJson, postJson, RequestError } from './lib/api';
import { type Conversation, exported, imported } from './lib/exchange';
import { pull, type PullProgress } from './lib/pull';
import { readEvents } from './lib/sse';
import { type ChatSettings, kFurtherFields, kNoSettings, kSamplingFields, kUsualFields, requestBody } from './lib/settings';
import { plural } from './lib/format';
import { Store } from './lib/store';
import { type Call, type Message, type TextFile, Tree } from './lib/tree';

export interface ModelInfo {
  id: string;
  context_length?: number;
  architecture?: string;
  quantization?: string;
  parameters?: number;
  size_bytes?: number;
  /** Of servers that load and unload models. */
  state?: string;
  status?: { value?: string };
  error?: string;
  meta?: { n_ctx?: number };
}

export type Server = 'unknown' | 'ready' | 'loading' | 'away';

export const server = signal<Server>('unknown');
export const models = signal<ModelInfo[]>([]);
/** What the server lets whoever asks do with models: "load", "unload", "pull". */
export const actions = signal<string[]>([]);
/** What the server uses for settings that a request leaves out, by their names in a request. */
export const defaults = signal<Record<string, number | undefined>>({});
export const route = signal<'chat' | 'machine'>('chat');
export const conversations = signal<Conversation[]>([]);
export const current = signal<Conversation | null>(null);
/** Counts changes of the current conversation's tree. */
export const changes = signal(0);
export const notice = signal('');
/** Messages that are being answered, with what stops each. */
export const running = signal<ReadonlyMap<string, AbortController>>(new Map());
export const settingsOpen = signal(false);
export const sidebarOpen = signal(false);

let tree = new Tree([], {});
let store: Store;

/** Of messages that wait for their first token: how far the prompt has been read. */
export const promptRead = new Map<string, { total?: number; processed?: number }>();

/** Counts changes of one message while its text comes in. */
const ticks = new Map<string, ReturnType<typeof signal<number>>>();

export const path = computed<Message[]>(() => {
  void changes.value;
  return current.value ? tree.path() : [];
});
export const currentTree = () => tree;
export const settings = computed<ChatSettings>(() => {
  void changes.value;
  return current.value?.settings ?? kNoSettings;
});
export const chosenModels = computed<string[]>(() => {
  const known = models.value.map(({ id }) => id);
  const wanted = settings.value.models.filter((id) => known.includes(id));
  return wanted.length > 0 ? wanted : known.slice(0, 1);
});
export const stateOf = (model: ModelInfo) => model.state ?? model.status?.value ?? 'loaded';
export const contextOf = (model: ModelInfo) => model.context_length ?? model.meta?.n_ctx;
/** The first of the models that answer. */
export const chosenInfo = computed(() => models.value.find(({ id }) => id === chosenModels.value[0]));
/** Tokens of the conversation so far, as the server counted them for the last answer; 0 before there is one. */
export const contextUsed = computed(() => {
  void running.value;
  const stats = path.value.findLast(({ stats }) => stats?.promptTokens !== undefined)?.stats;
  return (stats?.promptTokens ?? 0) + (stats?.tokens ?? 0);
});
export const busy = computed(() => running.value.size > 0);

export function tickOf(id: string) {
  let found = ticks.get(id);
  if (!found) {
    found = signal(0);
    ticks.set(id, found);
  }
  return found;
}

const newId = () => {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
};

const changed = () => {
  changes.value = changes.peek() + 1;
};

function tell(error: unknown) {
  notice.value = error instanceof Error ? error.message : String(error);
}

// ---- The server ----

const kLookAgainMs = 1500;
let lookAgain: ReturnType<typeof setTimeout> | undefined;
/** Once the server has been asked for its models. */
let listed: Promise<void> = Promise.resolve();

export async function lookForModels() {
  try {
    const list = await getJson<{ data: (ModelInfo & { object?: string })[]; actions?: string[] }>('v1/models');
    batch(() => {
      models.value = list.data;
      actions.value = list.actions ?? [];
      server.value = 'ready';
    });
    if (list.data.length === 0) return;
    void lookForDefaults();
    if (unanswered !== null) void answerTo(unanswered);
  } catch (error) {
    server.value = error instanceof RequestError && error.status === 503 ? 'loading' : 'away';
    clearTimeout(lookAgain);
    lookAgain = setTimeout(lookForModels, kLookAgainMs);
  }
}

/** The server's endpoint for chats has OpenAI's sampling (--api-sampling openai), so the page asks for what it shows. */
let asksForDefaults: boolean | undefined; // undefined: that is not known yet

/** What the server uses for a model, by the names of these fields. */
async function defaultsOf(model: string | undefined, fields: { name: string }[]): Promise<Record<string, number>> {
  interface Props {
    default_generation_settings?: { params?: Record<string, unknown> };
    api_sampling?: string;
  }
  const props = await getJson<Props>(`props${model ? `?model=${encodeURIComponent(model)}` : ''}`);
  asksForDefaults = props.api_sampling === 'openai';
  const params = props.default_generation_settings?.params ?? {};
  const known = ({ name }: { name: string }): [string, number][] => {
    const value = params[name];
    return typeof value === 'number' ? [[name, value]] : [];
  };
  return Object.fromEntries(fields.flatMap(known));
}

export async function lookForDefaults() {
  try {
    defaults.value = await defaultsOf(chosenModels.value[0], [...kUsualFields, ...kFurtherFields]);
  } catch {
    defaults.value = {};
  }
}

/** What a request asks of the sampler. */
async function samplingFor(model: string): Promise<Record<string, number>> {
  const own = current.peek()!.settings.sampling;
  if (asksForDefaults === false) return own;
  const shown = await defaultsOf(model, kSamplingFields);
  return asksForDefaults ? { ...shown, ...own } : own;
}

/** The server has been asked, and has no model. */
export const withoutModel = computed(() => server.value === 'ready' && models.value.length === 0);

/** The model that the server fetches for this page. */
export const fetching = signal<{ name: string; progress: PullProgress; stopper: AbortController } | null>(null);
export const fetchProblem = signal('');

/** Has the server fetch a model, and load it where it is the first. */
export async function fetchModel(name: string) {
  if (fetching.peek() !== null) return;
  const stopper = new AbortController();
  const first = models.peek().length === 0;
  fetchProblem.value = '';
  fetching.value = { name, progress: {}, stopper };
  try {
    await pull(name, (progress) => (fetching.value = { name, progress, stopper }), stopper.signal);
    await lookForModels();
    const [made] = models.peek();
    if (first && made) {
      await postJson('v1/models/load', { model: made.id });
      await lookForModels();
    }
  } catch (error) {
    const stopped = (error as Error).name === 'AbortError';
    fetchProblem.value = stopped ? `Stopped. What has come of ${name} is kept, and the next download goes on from there.` : (error as Error).message;
    if (!withoutModel.peek() && route.peek() === 'chat') tell(fetchProblem.value);
  }
  fetching.value = null;
}

// ---- Conversations ----

/** Reads what the browser has kept: before anything is shown, since one could write to it. */
export async function prepare() {
  store = await Store.open();
  conversations.value = await store.conversations();
}

export async function start() {
  listed = lookForModels();
  const follow = () => {
    const hash = decodeURIComponent(location.hash.slice(1));
    route.value = hash === '/machine' ? 'machine' : 'chat';
    sidebarOpen.value = false;
    const id = /^\/c\/(.+)$/.exec(hash)?.[1];
    if (id !== undefined && id !== current.peek()?.id) void open(id);
    if (hash === '' || hash === '/') void open(null);
  };
  addEventListener('hashchange', follow);
  addEventListener('pagehide', () => void keepRunning());
  follow();
  await listed;
}

async function open(id: string | null) {
  stop();
  const found = id === null ? null : conversations.peek().find((each) => each.id === id);
  if (id !== null && !found) {
    location.hash = '';
    return;
  }
  const messages = found ? await store.messages(found.id) : [];
  tree = new Tree(messages, found?.chosen ?? {});
  ticks.clear();
  batch(() => {
    current.value = found ?? null;
    changed();
  });
}

/** The conversation that is open; a new one has the settings that were set before its first message. */
function ensureConversation(): Conversation {
  const open = current.peek();
  if (open) return open;
  const now = Date.now();
  const made: Conversation = {
    id: newId(),
    title: 'New conversation',
    created: now,
    updated: now,
    chosen: {},
    settings: structuredClone(kNoSettings),
  };
  tree = new Tree([], made.chosen);
  batch(() => {
    current.value = made;
    conversations.value = [made, ...conversations.peek()];
    changed();
  });
  history.replaceState(null, '', `#/c/${made.id}`);
  return made;
}

async function keep(messages: Message[], conversation = current.peek()) {
  if (!conversation) return;
  conversation.updated = Date.now();
  try {
    await store.keep(conversation, messages);
  } catch (error) {
    notice.value = `This browser could not keep the conversation: ${(error as Error).message}`;
  }
}

async function keepRunning() {
  const found = [...running.peek().keys()].map((id) => tree.get(id)).filter((each) => each !== undefined);
  if (found.length > 0) await keep(found);
}

export function newConversation() {
  location.hash = '';
  route.value = 'chat';
}

export async function rename(id: string, title: string) {
  const found = conversations.peek().find((each) => each.id === id);
  if (!found || title.trim() === '') return;
  found.title = title.trim();
  conversations.value = [...conversations.peek()];
  await store.keep(found);
}

export async function remove(id: string) {
  if (current.peek()?.id === id) stop();
  await store.remove(id);
  conversations.value = conversations.peek().filter((each) => each.id !== id);
  if (current.peek()?.id === id) newConversation();
}

export function changeSettings(change: Partial<ChatSettings>) {
  const conversation = ensureConversation();
  conversation.settings = { ...conversation.settings, ...change };
  changed();
  void keep([]);
}

export async function exportConversations(ids: string[]): Promise<string> {
  const list = conversations.peek().filter(({ id }) => ids.includes(id));
  return exported(
    await Promise.all(
      list.map(async (conversation) => ({ conversation, messages: await store.messages(conversation.id) })),
    ),
  );
}

export async function importConversations(source: string) {
  try {
    const read = imported(source, newId);
    for (const { conversation, messages } of read) await store.keep(conversation, messages);
    conversations.value = [...read.map(({ conversation }) => conversation), ...conversations.peek()];
    if (read[0]) location.hash = `/c/${read[0].conversation.id}`;
    notice.value = `Imported ${plural(read.length, 'conversation')}.`;
  } catch (error) {
    tell(error);
  }
}

// ---- Messages ----

/** Messages are told apart by their times, which are their order. */
let lastCreated = 0;

function addMessage(parent: string | null, more: Pick<Message, 'role' | 'content'> & Partial<Message>): Message {
  const conversation = ensureConversation();
  lastCreated = Math.max(Date.now(), lastCreated + 1);
  const message: Message = { id: newId(), conversation: conversation.id, parent, created: lastCreated, ...more };
  tree.add(message);
  return message;
}

export function send(content: string, files: TextFile[]) {
  const conversation = ensureConversation();
  const last = tree.path().at(-1);
  const first = last === undefined;
  const message = addMessage(last?.id ?? null, { role: 'user', content });
  if (files.length > 0) message.files = files;
  if (first) {
    conversation.title = titleOf(content || files[0]!.name);
    conversations.value = [...conversations.peek()];
  }
  changed();
  void keep([message]);
  void answerTo(message.id);
}

const titleOf = (content: string) => {
  const line = content.trim().split('\n')[0]!;
  return line.length > 60 ? `${line.slice(0, 57)}…` : line;
};

/** Writes a message anew, as a branch beside it. */
export function edit(id: string, content: string) {
  const before = tree.get(id);
  if (!before || before.role !== 'user') return;
  stop();
  const message = addMessage(before.parent, { role: 'user', content });
  if (before.files) message.files = before.files;
  changed();
  void keep([message]);
  void answerTo(message.id);
}

export function regenerate(id: string) {
  const before = tree.get(id);
  if (!before || before.parent === null) return;
  stop();
  void answerTo(before.parent);
}

export function choose(id: string) {
  tree.choose(id);
  changed();
  void keep([]);
}

/** Gives the results of an answer's calls, and goes on. */
export function giveResults(id: string, calls: Call[], results: string[]) {
  let parent = id;
  const made: Message[] = [];
  calls.forEach((call, index) => {
    const message = addMessage(parent, { role: 'tool', content: results[index] ?? '', callId: call.id });
    parent = message.id;
    made.push(message);
  });
  changed();
  void keep(made);
  void answerTo(parent);
}

/** A message that was sent before the page knew that there is no model; it is answered once there is one. */
let unanswered: string | null = null;

/** Asks every chosen model to answer the message. */
async function answerTo(parent: string) {
  unanswered = null;
  // Who types fast is there before the list of models.
  if (chosenModels.peek().length === 0) await listed;
  if (!tree.get(parent)) return;
  const names = chosenModels.peek();
  if (names.length === 0) {
    unanswered = parent;
    return;
  }
  const group = names.length > 1 ? newId() : undefined;
  for (const model of names) {
    void ask(addMessage(parent, { role: 'assistant', content: '', model, ...(group !== undefined && { group }) }));
  }
  changed();
}

export function stop() {
  for (const each of running.peek().values()) each.abort();
}

const kKeepEveryMs = 1000;
/** Text is shown as often as this, and less often where showing it takes long. */
const kShowEveryMs = 40;
const kShowShare = 6;

async function ask(message: Message) {
  const controller = new AbortController();
  running.value = new Map(running.peek()).set(message.id, controller);
  const answer = new Answer(message, () => performance.now());
  const tick = tickOf(message.id);
  let kept = performance.now();
  let waiting = false;
  let pause = kShowEveryMs;
  const show = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      requestAnimationFrame(() => {
        waiting = false;
        const begun = performance.now();
        if (message.stats && !answer.whole && answer.rateNow !== undefined) message.stats.tokensPerSecond = answer.rateNow;
        tick.value = tick.peek()! + 1;
        // Rendering and layout happen before the next task.
        setTimeout(() => {
          pause = Math.max(kShowEveryMs, (performance.now() - begun) * kShowShare);
        });
      });
    }, pause);
  };
  try {
    const { settings: own } = current.peek()!;
    const path = tree.pathTo(message.parent);
    const sampling = await samplingFor(message.model!);
    const body = requestBody({ ...own, sampling }, message.model!, path);
    const response = await postJson('v1/chat/completions', body, controller.signal);
    await readEvents(response, (data) => {
      answer.take(data);
      if (answer.read) promptRead.set(message.id, answer.read);
      show();
      if (performance.now() - kept > kKeepEveryMs) {
        kept = performance.now();
        void keep([message]);
      }
    });
    if (!answer.whole) message.error = 'The connection ended before the answer did.';
  } catch (error) {
    if ((error as Error).name === 'AbortError') message.finish = 'stopped';
    else if (error instanceof TypeError) message.error = 'The connection to the server broke in the middle of the answer.';
    else message.error = (error as Error).message;
    if (error instanceof TypeError || (error instanceof RequestError && error.status === 0)) {
      server.value = 'away';
      void lookForModels();
    }
  }
  promptRead.delete(message.id);
  // What is shown as whole outlives the page.
  const conversation = conversations.peek().find(({ id }) => id === message.conversation);
  if (conversation) await keep([message], conversation);
  const left = new Map(running.peek());
  left.delete(message.id);
  batch(() => {
    running.value = left;
    tick.value = tick.peek()! + 1;
  });
}
