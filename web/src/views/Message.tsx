// One message, or the answers of several models beside each other.
import { useMemo, useRef, useState } from 'preact/hooks';
import { duration, number, plural } from '../lib/format';
import type { Call, Message, Stats, TokenProbability } from '../lib/tree';
import { choose, currentTree, edit, giveResults, models, path, promptRead, regenerate, running, settings, stateOf, tickOf } from '../state';
import { CopyButton, IconButton } from './parts';
import { Code, Markdown, PlainText } from './Text';

const pretty = (text: string) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

function Branches({ message }: { message: Message }) {
  const tree = currentTree();
  const all = tree.branches(message.id);
  if (all.length < 2) return null;
  const group = tree.group(message.id).map(({ id }) => id);
  const at = all.findIndex((id) => group.includes(id));
  const go = (step: number) => choose(all[at + step]!);
  return (
    <span class="branches" role="group" aria-label="Branches">
      <IconButton icon="left" label="Previous branch" disabled={at === 0} onClick={() => go(-1)} />
      <span>{`${at + 1} / ${all.length}`}</span>
      <IconButton icon="right" label="Next branch" disabled={at === all.length - 1} onClick={() => go(1)} />
    </span>
  );
}

function UserMessage({ message }: { message: Message }) {
  const [editing, setEditing] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const done = () => {
    const text = area.current!.value;
    setEditing(false);
    if (text.trim() !== '') edit(message.id, text);
  };
  if (editing)
    return (
      <div class="user-text editing">
        <textarea
          ref={area}
          aria-label="Your message"
          rows={Math.min(12, message.content.split('\n').length + 1)}
          autofocus
          onKeyDown={(event) => {
            if (event.key === 'Escape') {
              event.stopPropagation();
              setEditing(false);
            }
            if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
              event.preventDefault();
              done();
            }
          }}
        >
          {message.content}
        </textarea>
        <div class="row end">
          <button type="button" class="quiet" onClick={() => setEditing(false)}>
            Cancel
          </button>
          <button type="button" class="primary" onClick={done}>
            Send
          </button>
        </div>
      </div>
    );
  return (
    <>
      <div class="user-text" dir="auto">
        {message.files?.map((file) => (
          <details class="file">
            <summary>{file.name}</summary>
            <Code text={file.text} language="" />
          </details>
        ))}
        {message.content.length > 20_000 ? <PlainText text={message.content} /> : message.content}
      </div>
      <div class="actions end">
        <Branches message={message} />
        <CopyButton label="Copy message" text={() => message.content} />
        <IconButton icon="edit" label="Edit message" onClick={() => setEditing(true)} />
      </div>
    </>
  );
}

function Thinking({ message, live }: { message: Message; live: boolean }) {
  const [open, setOpen] = useState(false);
  if (!message.thinking) return null;
  const now = live && message.content === '' && !message.calls;
  return (
    <details class="thinking" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {now ? 'Thinking…' : `Thought${message.thinkingMs ? ` for ${duration(message.thinkingMs)}` : ''}`}
      </summary>
      {open && <Markdown text={message.thinking} grows={now} />}
    </details>
  );
}

/** Calls with their results, or with fields for the results that are missing. */
function Calls({ message, live, last }: { message: Message; live: boolean; last: boolean }) {
  const calls = message.calls ?? [];
  const [results, setResults] = useState<string[]>([]);
  if (calls.length === 0) return null;
  const waits = last && !live && message.finish !== 'stopped' && !message.error;
  const set = (at: number, value: string) => setResults(calls.map((_, i) => (i === at ? value : (results[i] ?? ''))));
  return (
    <form
      class="calls"
      onSubmit={(event) => {
        event.preventDefault();
        giveResults(message.id, calls, results);
      }}
    >
      {calls.map((call: Call, at) => (
        <section class="call" aria-label={`Call of ${call.name}`}>
          <h3>
            <span class="tag">call</span> {call.name}
          </h3>
          <Code text={pretty(call.arguments)} language="json" />
          {waits && (
            <textarea
              rows={2}
              placeholder="Result: type or paste what the tool answers"
              aria-label={`Result of ${call.name}`}
              value={results[at] ?? ''}
              onInput={(event) => set(at, event.currentTarget.value)}
            />
          )}
        </section>
      ))}
      {waits && (
        <div class="row end">
          <button type="submit" class="primary">
            {calls.length === 1 ? 'Send result' : 'Send results'}
          </button>
        </div>
      )}
    </form>
  );
}

function ToolResult({ message }: { message: Message }) {
  const call = useMemo(() => {
    const before = currentTree().pathTo(message.parent);
    return before.flatMap(({ calls }) => calls ?? []).find(({ id }) => id === message.callId);
  }, [message]);
  return (
    <section class="call result" aria-label={`Result of ${call?.name ?? 'a tool'}`}>
      <h3>
        <span class="tag">result</span> {call?.name ?? 'tool'}
      </h3>
      <Code text={pretty(message.content)} language="json" />
    </section>
  );
}

const share = (logprob: number) => Math.exp(logprob);
const percent = (logprob: number) => `${(share(logprob) * 100).toFixed(share(logprob) < 0.1 ? 1 : 0)} %`;

/** The tokens of an answer, coloured by how sure the model was; with the arrow keys or a pointer one after the other. */
function HeatMap({ tokens }: { tokens: TokenProbability[] }) {
  const [at, setAt] = useState(0);
  const chosen = tokens[at];
  const step = (event: KeyboardEvent) => {
    const move = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (move === 0) return;
    event.preventDefault();
    setAt(Math.max(0, Math.min(tokens.length - 1, at + move)));
  };
  return (
    <div class="heat">
      <div class="heat-text" tabIndex={0} role="application" aria-label="Tokens; arrow keys go through them" onKeyDown={step}>
        {tokens.map((token, index) => (
          <span
            class={`p${Math.min(4, Math.floor(share(token.logprob) * 5))}${index === at ? ' at' : ''}`}
            onPointerEnter={() => setAt(index)}
          >
            {token.text}
          </span>
        ))}
      </div>
      {chosen && (
        <table class="heat-table" aria-live="polite">
          <caption>
            Token {at + 1} of {tokens.length}
          </caption>
          <tbody>
            {(chosen.top.length > 0 ? chosen.top : [chosen]).map((each) => (
              <tr class={each.text === chosen.text ? 'sampled' : ''}>
                <td>
                  <code>{JSON.stringify(each.text)}</code>
                </td>
                <td class="number">{percent(each.logprob)}</td>
                <td>
                  <meter min={0} max={1} value={share(each.logprob)} aria-label={percent(each.logprob)} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}

/** The server's own times, and below them what this browser saw, which its own work and the network make longer. */
function timesInWords({ server, firstTokenMs, seenPerSecond }: Stats): string {
  const seen = [
    firstTokenMs !== undefined && `first token after ${duration(firstTokenMs)}`,
    seenPerSecond !== undefined && `${number(seenPerSecond)} tokens/s`,
  ].filter(Boolean);
  const lines: string[] = [];
  if (server) {
    const read = server.promptTokens !== undefined ? `read ${plural(server.promptTokens, 'prompt token')}` : 'read the prompt';
    const wrote = server.answerMs !== undefined ? `, answered in ${duration(server.answerMs)}` : '';
    lines.push(`Server: waited ${duration(server.queueMs)}, ${read} in ${duration(server.promptMs)}${wrote}`);
  }
  if (seen.length > 0) lines.push(`This browser: ${seen.join(', ')}`);
  return lines.join('\n');
}

function waitingFor(message: Message): string {
  const read = promptRead.get(message.id);
  if (read?.total && read.processed !== undefined && read.processed < read.total)
    return `reading ${read.processed.toLocaleString('en')} of ${plural(read.total, 'token')}`;
  const model = models.value.find(({ id }) => id === message.model);
  return model && stateOf(model) === 'loading' ? 'loading the model' : 'waiting for the first token';
}

function StatsLine({ message, live }: { message: Message; live: boolean }) {
  // A component that reads any signal is drawn anew only when one of those changes, so it reads this one itself.
  void tickOf(message.id).value;
  const { stats, finish } = message;
  const parts: string[] = [];
  if (message.model && message.group === undefined) parts.push(message.model);
  if (stats?.tokensPerSecond !== undefined) parts.push(`${number(stats.tokensPerSecond)} tokens/s`);
  const firstMs = stats?.server ? stats.server.queueMs + stats.server.promptMs : stats?.firstTokenMs;
  if (firstMs !== undefined) parts.push(`first token ${duration(firstMs)}`);
  if (stats?.tokens !== undefined) parts.push(plural(stats.tokens, 'token'));
  if (stats?.promptTokens !== undefined)
    parts.push(`cached ${(stats.cachedTokens ?? 0).toLocaleString('en')} of ${plural(stats.promptTokens, 'prompt token')}`);
  if (finish === 'length') parts.push('reached the maximum length');
  if (finish === 'stopped') parts.push('stopped');
  if (live && stats?.firstTokenMs === undefined) parts.push(waitingFor(message));
  return (
    <span class="stats" title={stats ? timesInWords(stats) : undefined}>
      {parts.join(' · ')}
    </span>
  );
}

function AssistantMessage({ message, last }: { message: Message; last: boolean }) {
  void tickOf(message.id).value;
  const live = running.value.has(message.id);
  const [heat, setHeat] = useState(false);
  const schema = settings.value.schema.trim() !== '' && !live;
  const json = schema && message.content.trim().startsWith('{') ? pretty(message.content) : null;
  return (
    <>
      <Thinking message={message} live={live} />
      {heat && message.probabilities ? (
        <HeatMap tokens={message.probabilities} />
      ) : json !== null ? (
        <Code text={json} language="json" />
      ) : (
        message.content !== '' && <Markdown text={message.content} grows={live} />
      )}
      {live && message.content === '' && !message.thinking && !message.calls && <span class="caret" />}
      <Calls message={message} live={live} last={last} />
      {message.error && (
        <p class="error" role="alert">
          {message.error}
        </p>
      )}
      <div class="actions">
        <StatsLine message={message} live={live} />
        <Branches message={message} />
        {!live && (
          <>
            {message.probabilities && (
              <IconButton icon="heat" label="Probabilities" aria-pressed={heat} onClick={() => setHeat(!heat)} />
            )}
            {message.content !== '' && <CopyButton label="Copy answer" text={() => message.content} />}
            <IconButton icon="again" label="Answer again" onClick={() => regenerate(message.id)} />
          </>
        )}
      </div>
    </>
  );
}

/** The answers of several models to one prompt. The conversation goes on from the chosen one. */
function Answers({ messages, last }: { messages: Message[]; last: boolean }) {
  const on = path.value.map(({ id }) => id);
  return (
    <div class="answers">
      {messages.map((message) => {
        const chosen = on.includes(message.id);
        return (
          <section class={chosen ? 'answer chosen' : 'answer'} aria-label={`Answer of ${message.model ?? 'a model'}`}>
            <header>
              <strong>{message.model}</strong>
              <button type="button" class="quiet" aria-pressed={chosen} onClick={() => choose(message.id)}>
                {chosen ? 'Goes on from here' : 'Go on from here'}
              </button>
            </header>
            <AssistantMessage message={message} last={last && chosen} />
          </section>
        );
      })}
    </div>
  );
}

const kAuthors = { user: 'You', assistant: 'Model', tool: 'Tool' } as const;

export function MessageView({ message, last }: { message: Message; last: boolean }) {
  const group = message.role === 'assistant' ? currentTree().group(message.id) : [];
  return (
    <div class={`message ${message.role}`}>
      <h2 class="visually-hidden">{kAuthors[message.role]}</h2>
      {message.role === 'user' && <UserMessage message={message} />}
      {message.role === 'tool' && <ToolResult message={message} />}
      {message.role === 'assistant' &&
        (group.length > 1 ? <Answers messages={group} last={last} /> : <AssistantMessage message={message} last={last} />)}
    </div>
  );
}
