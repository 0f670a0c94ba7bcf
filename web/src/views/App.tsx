// The frame: conversations at the side, the models above, and what is open.
import type { ComponentType } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { hasKey, keyWanted, setKey } from '../lib/api';
import { bytes } from '../lib/format';
import {
  busy as isBusy,
  changes,
  changeSettings,
  chosenInfo,
  chosenModels,
  contextOf,
  contextUsed,
  conversations,
  current,
  exportConversations,
  importConversations,
  lookForDefaults,
  lookForModels,
  models,
  newConversation,
  remove,
  rename,
  route,
  server,
  settingsOpen,
  sidebarOpen,
  stateOf,
  stop,
} from '../state';
import { Chat } from './Chat';
import { Dialog, download, Icon, IconButton, Notice, pickFiles } from './parts';
import { Settings } from './Settings';

/** While a model is being loaded. */
const kLookEveryMs = 2000;
/** Models that answer one prompt at most. */
const kSideBySideMax = 4;

function Sidebar({ onHelp }: { onHelp: () => void }) {
  const [renaming, setRenaming] = useState('');
  const exportAll = async (ids: string[], name: string) => download(`${name}.json`, await exportConversations(ids));
  return (
    <nav class="sidebar" aria-label="Conversations">
      <header>
        <a class="brand" href="#/" aria-label="Cairn, a new conversation">
          Cairn
        </a>
        <IconButton icon="close" label="Close the list" class="icon-button only-narrow" onClick={() => (sidebarOpen.value = false)} />
      </header>
      <button type="button" class="new" onClick={newConversation}>
        <Icon name="plus" /> New conversation
      </button>
      <ul class="conversations">
        {conversations.value.map((each) => {
          const open = each.id === current.value?.id && route.value === 'chat';
          return (
            <li class={open ? 'open' : ''}>
              {renaming === each.id ? (
                <input
                  aria-label="Title"
                  value={each.title}
                  autofocus
                  onBlur={() => setRenaming('')}
                  onKeyDown={(event) => {
                    if (event.key === 'Escape') setRenaming('');
                    if (event.key !== 'Enter') return;
                    void rename(each.id, event.currentTarget.value);
                    setRenaming('');
                  }}
                />
              ) : (
                <>
                  <a href={`#/c/${each.id}`} aria-current={open ? 'page' : undefined} title={each.title}>
                    {each.title}
                  </a>
                  {open && (
                    <span class="tools">
                      <IconButton icon="edit" label="Rename" onClick={() => setRenaming(each.id)} />
                      <IconButton
                        icon="trash"
                        label="Delete"
                        onClick={() => confirm(`Delete "${each.title}"?`) && void remove(each.id)}
                      />
                    </span>
                  )}
                </>
              )}
            </li>
          );
        })}
      </ul>
      <footer>
        <a href="#/machine" class={route.value === 'machine' ? 'wide on' : 'wide'} aria-current={route.value === 'machine' ? 'page' : undefined}>
          Machine
        </a>
        <button type="button" class="link" onClick={() => void pickFiles('.json', false).then(async ([file]) => file && importConversations(await file.text()))}>
          Import
        </button>
        <button
          type="button"
          class="link"
          disabled={conversations.value.length === 0}
          onClick={() => void exportAll(conversations.value.map(({ id }) => id), 'cairn-conversations')}
        >
          Export
        </button>
        <button type="button" class="link" onClick={onHelp}>
          Help
        </button>
      </footer>
    </nav>
  );
}

function ModelPicker() {
  const known = models.value;
  const chosen = chosenModels.value;
  const [open, setOpen] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return undefined;
    const close = (event: Event) => {
      if (event instanceof KeyboardEvent ? event.key === 'Escape' : !place.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener('pointerdown', close);
    addEventListener('keydown', close);
    return () => {
      removeEventListener('pointerdown', close);
      removeEventListener('keydown', close);
    };
  }, [open]);
  useEffect(() => void lookForDefaults(), [chosen[0]]);
  const text = keyWanted.value ? 'Key needed' : { unknown: 'Connecting…', loading: 'Loading the model…', away: 'Server not reachable', ready: 'No model' }[server.value];
  if (known.length <= 1 || server.value !== 'ready')
    return (
      <span class="model-name" role="status">
        {server.value !== 'ready' ? text : (known[0]?.id ?? text)}
      </span>
    );
  return (
    <div class="picker" ref={place}>
      <button type="button" class="model-name" aria-expanded={open} aria-controls="models" onClick={() => setOpen(!open)}>
        {chosen.join(' and ')}
      </button>
      {open && (
        <div id="models" class="menu" role="group" aria-label="Models that answer">
          {known.map(({ id }) => (
            <label class="check">
              <input
                type="checkbox"
                checked={chosen.includes(id)}
                disabled={!chosen.includes(id) && chosen.length >= kSideBySideMax}
                onChange={(event) => {
                  const rest = chosen.filter((each) => each !== id);
                  changeSettings({ models: event.currentTarget.checked ? [...rest, id] : rest });
                }}
              />
              {id}
              <button
                type="button"
                class="quiet"
                onClick={() => {
                  changeSettings({ models: [id] });
                  setOpen(false);
                }}
              >
                only this
              </button>
            </label>
          ))}
          <p class="note">With several, each answers beside the others.</p>
        </div>
      )}
    </div>
  );
}

/** How far the model is, and how much of its context the conversation has filled. */
function ModelChip() {
  const info = chosenInfo.value;
  const state = info && stateOf(info);
  const loading = state === 'loading' || (state !== undefined && isBusy.value && state !== 'loaded');
  useEffect(() => {
    if (!loading) return undefined;
    const timer = setInterval(() => void lookForModels(), kLookEveryMs);
    return () => clearInterval(timer);
  }, [loading]);
  if (!info || server.value !== 'ready') return null;
  const used = contextUsed.value;
  const most = contextOf(info);
  const shown = info.error ? 'failed' : stateOf(info);
  const kind = [info.architecture, info.quantization].filter(Boolean).join(' ');
  const title = [
    [kind, info.size_bytes ? bytes(info.size_bytes) : ''].filter(Boolean).join(', '),
    info.error ?? '',
    'The context is what the model can look at together: your messages and its answers, in tokens.',
  ];
  return (
    <span class="chip" title={title.filter(Boolean).join('. ')}>
      <span class={`state ${shown}`}>{shown}</span>
      {most !== undefined && (
        <>
          <span class="dot"> · </span>
          {`context ${used > 0 ? `${used.toLocaleString('en')} of ` : ''}${most.toLocaleString('en')}`}
        </>
      )}
    </span>
  );
}

function KeyDialog() {
  const wanted = keyWanted.value;
  const input = useRef<HTMLInputElement>(null);
  const keep = useRef<HTMLInputElement>(null);
  if (!wanted) return null;
  return (
    <Dialog title="This server wants a key" onClose={() => wanted.answer(false)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setKey(input.current!.value.trim(), keep.current!.checked);
          wanted.answer(true);
        }}
      >
        {wanted.wrong && <p class="problem">The key that was used is not accepted.</p>}
        <label class="field">
          API key
          <input ref={input} type="password" autocomplete="off" required autofocus />
        </label>
        <label class="check">
          <input ref={keep} type="checkbox" /> Remember it in this browser
        </label>
        <div class="row end">
          <button type="button" class="quiet" onClick={() => wanted.answer(false)}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Use it
          </button>
        </div>
      </form>
    </Dialog>
  );
}

const kKeys = [
  ['Enter', 'Send the message'],
  ['Shift + Enter', 'New line'],
  ['Escape', 'Stop the answer'],
  ['/', 'Go to the message'],
  ['Alt + N', 'New conversation'],
  ['Alt + S', 'Settings of the conversation'],
  ['Alt + M', 'Machine'],
  ['?', 'This list'],
] as const;

function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys and more" onClose={onClose}>
      <table class="keys">
        <tbody>
          {kKeys.map(([key, what]) => (
            <tr>
              <th scope="row">
                <kbd>{key}</kbd>
              </th>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <div class="row">
        <button
          type="button"
          class="quiet"
          onClick={() => {
            setKey('', false);
            keyWanted.value = { wrong: false, answer: () => { keyWanted.value = null; void lookForModels(); } };
            onClose();
          }}
        >
          {hasKey() ? 'Change the API key' : 'Enter an API key'}
        </button>
        <a class="quiet" href="assets/licences.txt" target="_blank" rel="noopener">
          Licences
        </a>
        <span class="spread" />
        <button type="button" class="primary" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

function isTyping(target: EventTarget | null) {
  return target instanceof Element && target.closest('input, textarea, select, dialog, [role=application]') !== null;
}

function useKeys(help: () => void) {
  // Before the first paint: keys work as soon as the page is there.
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key === 'Escape' && !document.querySelector('dialog[open]')) return stop();
      const action = event.altKey && !event.ctrlKey && !event.metaKey ? event.code : '';
      if (action === 'KeyN') newConversation();
      else if (action === 'KeyS') settingsOpen.value = !settingsOpen.value;
      else if (action === 'KeyM') location.hash = '/machine';
      else if (isTyping(event.target)) return;
      else if (event.key === '/') document.getElementById('message')?.focus();
      else if (event.key === '?') help();
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}

function MachinePlace() {
  const [View, setView] = useState<ComponentType | null>(null);
  useEffect(() => void import('../machine/Machine').then((module) => setView(() => module.Machine)), []);
  return View ? <View /> : <p class="note">Loading…</p>;
}

export function App() {
  const [help, setHelp] = useState(false);
  useKeys(() => setHelp(true));
  const chat = route.value === 'chat';
  void changes.value;
  const title = chat ? current.value?.title : 'Machine';
  useEffect(() => {
    document.title = title ? `${title} – Cairn` : 'Cairn';
  }, [title]);
  return (
    <div class={`app${sidebarOpen.value ? ' sidebar-open' : ''}${settingsOpen.value && chat ? ' settings-open' : ''}`}>
      <a class="skip" href="#message" onClick={(event) => {
        event.preventDefault();
        document.getElementById('message')?.focus();
      }}>
        To the message
      </a>
      <Sidebar onHelp={() => setHelp(true)} />
      <div class="shade" onClick={() => (sidebarOpen.value = false)} />
      <main>
        <header class="top">
          <IconButton icon="menu" label="Show conversations" class="icon-button only-narrow" onClick={() => (sidebarOpen.value = true)} />
          {chat ? <ModelPicker /> : <h1 class="model-name">Machine</h1>}
          {chat && <ModelChip />}
          <span class="spread" />
          {chat && (
            <IconButton
              icon="sliders"
              label="Settings"
              aria-expanded={settingsOpen.value}
              onClick={() => (settingsOpen.value = !settingsOpen.value)}
            />
          )}
        </header>
        {chat ? <Chat /> : <MachinePlace />}
      </main>
      {settingsOpen.value && chat && <Settings />}
      <KeyDialog />
      {help && <Help onClose={() => setHelp(false)} />}
      <Notice />
    </div>
  );
}
