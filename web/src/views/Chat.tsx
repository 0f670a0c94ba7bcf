// The conversation and where one writes.
import { memo } from 'preact/compat';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Message, TextFile } from '../lib/tree';
import { bytes } from '../lib/format';
import { busy, changes, chosenInfo, current, notice, path, running, send, server, stop, tickOf, withoutModel } from '../state';
import { FirstModel } from './FirstModel';
import { MessageView } from './Message';
import { Icon, IconButton, pickFiles } from './parts';

/** Messages this far outside of what is seen are laid out. */
const kMargin = '1200px';
const kHeightGuess = 120;
const kFileBytesMax = 1 << 20;

const watched = new WeakMap<Element, (seen: boolean) => void>();
const observers = new WeakMap<Element, IntersectionObserver>();

/** The observer of what is in a scrolled box, with a margin: it has to be the box's own. */
function observerOf(box: Element): IntersectionObserver {
  let found = observers.get(box);
  if (!found) {
    found = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) watched.get(entry.target)?.(entry.isIntersecting);
      },
      { root: box, rootMargin: `${kMargin} 0px` },
    );
    observers.set(box, found);
  }
  return found;
}

/** A message that is there while it is near what is seen, and else a place of its height. */
const Lazy = memo(
  function Lazy({ message, last }: { message: Message; last: boolean; version: number }) {
    const place = useRef<HTMLElement>(null);
    const height = useRef(kHeightGuess);
    const [near, setNear] = useState(last);
    useLayoutEffect(() => {
      const element = place.current!;
      watched.set(element, (seen) => {
        if (!seen && element.offsetHeight > 0) height.current = element.offsetHeight;
        setNear(seen);
      });
      const observer = observerOf(element.closest('.scroll')!);
      observer.observe(element);
      return () => observer.unobserve(element);
    }, []);
    const shown = near || last;
    return (
      <article ref={place} style={shown ? undefined : { height: `${height.current}px` }}>
        {shown && <MessageView message={message} last={last} />}
      </article>
    );
  },
  (before, now) => before.message === now.message && before.last === now.last && before.version === now.version,
);

const kNearEnd = 80;

function Messages() {
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const [away, setAway] = useState(false);
  const list = path.value;
  const id = current.value?.id;

  // Follows the end while the reader is there.
  useEffect(() => {
    const element = box.current!;
    const inside = element.firstElementChild!;
    const follow = new ResizeObserver(() => {
      if (atEnd.current) element.scrollTop = element.scrollHeight;
    });
    follow.observe(inside);
    return () => follow.disconnect();
  }, []);
  useLayoutEffect(() => {
    atEnd.current = true;
    box.current!.scrollTop = box.current!.scrollHeight;
  }, [id]);
  const last = list.at(-1);
  useLayoutEffect(() => {
    if (last?.role === 'user' || (last && running.peek().has(last.id))) {
      atEnd.current = true;
      box.current!.scrollTop = box.current!.scrollHeight;
    }
  }, [last?.id]);

  return (
    <div
      class="scroll"
      ref={box}
      onScroll={(event) => {
        const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
        atEnd.current = scrollHeight - scrollTop - clientHeight < kNearEnd;
        setAway(!atEnd.current);
      }}
    >
      <div class="column" role="log" aria-live="off" aria-label="Conversation">
        {list.map((message) => (
          <Lazy key={message.id} message={message} last={message === last} version={changes.value} />
        ))}
        {withoutModel.value ? <FirstModel /> : list.length === 0 && <Welcome />}
      </div>
      {away && (
        <button
          type="button"
          class="to-end"
          onClick={() => {
            atEnd.current = true;
            box.current!.scrollTo({ top: box.current!.scrollHeight });
          }}
        >
          Scroll to the end
        </button>
      )}
    </div>
  );
}

/** What the demonstration model can answer, and what any other can. */
const kGuideStarters = ['What is Cairn?', 'How do I serve a model?', 'What is 23 + 45?', 'Tell me a short story about a fox.'];
const kStarters = [
  'Explain what a hash table is, with a small example.',
  'Write a shell command that lists the ten largest files in a folder.',
  'Suggest three quick dinners with rice and eggs.',
  'Tell me a short story about a lighthouse.',
];

function Starters({ model }: { model: string }) {
  return (
    <div class="starters" role="group" aria-label="Questions to start with">
      {(model === 'guide' ? kGuideStarters : kStarters).map((text) => (
        <button type="button" key={text} onClick={() => send(text, [])}>
          {text}
        </button>
      ))}
    </div>
  );
}

function Welcome() {
  const model = chosenInfo.value;
  return (
    <div class="welcome">
      <h1>{server.value === 'ready' ? 'Ask anything' : server.value === 'loading' ? 'Loading the model' : 'Cairn'}</h1>
      {server.value === 'ready' && model && (
        <p>
          {model.id} runs on this server. What you write stays in this browser and on the server.
        </p>
      )}
      {server.value === 'ready' && model && <Starters model={model.id} />}
      {server.value === 'loading' && <p>This page continues by itself once the model is ready.</p>}
      {server.value === 'away' && <p>The server does not answer. This page tries again by itself.</p>}
    </div>
  );
}

async function readFile(file: File): Promise<TextFile | null> {
  if (file.size > kFileBytesMax) {
    notice.value = `${file.name} has ${bytes(file.size)}; files of up to ${bytes(kFileBytesMax)} can be attached.`;
    return null;
  }
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    if (text.includes('\0')) throw new TypeError('NUL');
    return { name: file.name, text };
  } catch {
    notice.value = `${file.name} is not a text file (UTF-8).`;
    return null;
  }
}

/** Tells screen readers of an answer once it is whole: piece by piece would be noise. */
function Announcer() {
  const [said, setSaid] = useState('');
  const last = path.value.at(-1);
  const live = last !== undefined && running.value.has(last.id);
  const was = useRef(false);
  if (last) void tickOf(last.id).value;
  useEffect(() => {
    if (was.current && !live && last?.role === 'assistant') setSaid(last.error ?? last.content.slice(0, 2000));
    if (live && !was.current) setSaid('The model answers.');
    was.current = live;
  }, [live, last?.id]);
  return (
    <div class="visually-hidden" role="status">
      {said}
    </div>
  );
}

function Composer() {
  const area = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState('');
  const [files, setFiles] = useState<TextFile[]>([]);
  const [over, setOver] = useState(false);
  const id = current.value?.id;
  const none = withoutModel.value;
  useEffect(() => area.current?.focus(), [id, none]);
  useLayoutEffect(() => {
    const element = area.current!;
    element.style.height = 'auto';
    element.style.height = `${Math.min(element.scrollHeight, innerHeight * 0.4)}px`;
  }, [text]);

  const attach = async (list: Iterable<File>) => {
    for (const file of list) {
      const read = await readFile(file);
      if (read) setFiles((before) => [...before, read]);
    }
  };
  // A message that is sent while the page connects waits for the list of models.
  const ready = !none && (server.value === 'ready' || server.value === 'unknown') && (text.trim() !== '' || files.length > 0);
  const submit = () => {
    if (!ready || busy.value) return;
    send(text.trim(), files);
    setText('');
    setFiles([]);
  };
  return (
    <form
      class={over ? 'composer over' : 'composer'}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void attach(event.dataTransfer?.files ?? []);
      }}
    >
      {files.length > 0 && (
        <ul class="chips" aria-label="Attached files">
          {files.map((file) => (
            <li>
              {file.name} <small>{bytes(file.text.length)}</small>
              <IconButton
                icon="close"
                label={`Leave out ${file.name}`}
                onClick={() => setFiles(files.filter((each) => each !== file))}
              />
            </li>
          ))}
        </ul>
      )}
      <textarea
        ref={area}
        id="message"
        rows={1}
        dir="auto"
        value={text}
        placeholder="Write a message"
        aria-label="Message"
        aria-describedby="hint"
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          submit();
        }}
        onPaste={(event) => {
          const pasted = event.clipboardData?.files;
          if (pasted && pasted.length > 0) {
            event.preventDefault();
            void attach(pasted);
          }
        }}
      />
      <div class="row">
        <IconButton icon="clip" label="Attach text files" onClick={() => void pickFiles('', true).then(attach)} />
        <span id="hint" class={none ? 'hint always' : 'hint'}>
          {none ? 'Your message stays here until there is a model.' : 'Enter to send, Shift+Enter for a new line'}
        </span>
        <span class="spread" />
        {busy.value ? (
          <button type="button" class="round" aria-label="Stop (Escape)" title="Stop (Escape)" onClick={stop}>
            <Icon name="stop" />
          </button>
        ) : (
          <button type="submit" class="round" disabled={!ready} aria-label="Send" title="Send (Enter)">
            <Icon name="up" />
          </button>
        )}
      </div>
    </form>
  );
}

export function Chat() {
  return (
    <>
      <Messages />
      <div class="bottom">
        <Composer />
      </div>
      <Announcer />
    </>
  );
}
