// Text of a model, whatever it is.
import { memo } from 'preact/compat';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { kBlockMax, pieces, splitBlocks } from '../lib/blocks';
import { Colours, type Colourist } from '../lib/colours';
import { bytes, escapeHtml, extensionOf, showBidi } from '../lib/format';
import { blockHtml, formulasReady } from '../markdown';
import { copyText, download } from './parts';

/** Of longer texts only the beginning is shown until somebody asks for the rest. */
const kShownMax = 200_000;
const kPieceMax = 4_000;

/** The file of highlight_worker.ts, which build.mjs puts beside this one. */
declare const HIGHLIGHT_WORKER: string;
const colours = new Colours(
  () => new Worker(new URL(HIGHLIGHT_WORKER, import.meta.url), { type: 'module' }) as Colourist,
);

/** Gives colours to an element of code, once they are known. What stands in it stays if it has marks of its own. */
function addColours(element: Element, language: string, gone: () => boolean) {
  if (element.childElementCount > 0) return;
  void colours.of(element.textContent ?? '', language).then((html) => {
    if (html !== '' && !gone()) element.innerHTML = html; // of highlight.js, which escapes what is in the code
  });
}

/** Long text without any form, in pieces of which the browser lays out only those in sight. */
export function PlainText({ text, code = false }: { text: string; code?: boolean }) {
  return (
    <div class={code ? 'plain mono' : 'plain'} dir={code ? 'ltr' : 'auto'}>
      {pieces(text, kPieceMax).map((piece) => (
        <div class="piece" dangerouslySetInnerHTML={{ __html: code ? showBidi(escapeHtml(piece)) : escapeHtml(piece) }} />
      ))}
    </div>
  );
}

const Block = memo(function Block({ text, ready, grows }: { text: string; ready: boolean; grows: boolean }) {
  const long = text.length > kBlockMax;
  const html = useMemo(() => (long ? '' : blockHtml(text)), [text, ready]);
  const shown = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let gone = false;
    if (!grows)
      for (const code of shown.current?.querySelectorAll('code[data-language]') ?? [])
        addColours(code, code.getAttribute('data-language')!, () => gone);
    return () => {
      gone = true;
    };
  }, [html, grows]);
  if (long) return <PlainText text={text} />;
  return <div class="block" dir="auto" ref={shown} dangerouslySetInnerHTML={{ __html: html }} />;
});

function ShowAll({ text, onShow }: { text: string; onShow: () => void }) {
  return (
    <button type="button" class="quiet" onClick={onShow}>
      Show all of it ({bytes(text.length)})
    </button>
  );
}

/** The buttons above a block of code, which lie in the HTML of Markdown. */
function pressCodeButton(event: MouseEvent) {
  const button = (event.target as Element).closest('.code-actions button');
  const place = button?.closest('.code');
  const code = place?.querySelector('code');
  if (!button || !place || !code) return;
  const text = code.textContent ?? '';
  if (button.classList.contains('wrap')) {
    button.setAttribute('aria-pressed', String(place.classList.toggle('wrapped')));
  } else if (button.classList.contains('save')) {
    download(`code.${extensionOf(code.getAttribute('data-language') ?? '')}`, text, 'text/plain');
  } else {
    void copyText(text).then(() => {
      button.textContent = 'Copied';
      setTimeout(() => (button.textContent = 'Copy'), 1200);
    });
  }
}

/** `grows`: more text comes, and the last block gets no colours yet. */
export function Markdown({ text, grows = false }: { text: string; grows?: boolean }) {
  const [all, setAll] = useState(false);
  const cut = !all && text.length > kShownMax;
  const shown = cut ? text.slice(0, kShownMax) : text;
  const ready = formulasReady.value;
  return (
    <div class="markdown" onClick={pressCodeButton}>
      {splitBlocks(shown).map((block, at, all) => (
        <Block key={at} text={block} ready={ready} grows={grows && at === all.length - 1} />
      ))}
      {cut && <ShowAll text={text} onShow={() => setAll(true)} />}
    </div>
  );
}

/** Code or data, with colours if it is not too long. */
export function Code({ text, language }: { text: string; language: string }) {
  const [all, setAll] = useState(false);
  const html = useMemo(() => (text.length <= kBlockMax ? showBidi(escapeHtml(text)) : ''), [text]);
  const shown = useRef<HTMLElement>(null);
  useEffect(() => {
    let gone = false;
    if (shown.current) addColours(shown.current, language, () => gone);
    return () => {
      gone = true;
    };
  }, [html, language]);
  if (text.length <= kBlockMax)
    return (
      <pre class="data" dir="ltr" tabIndex={0}>
        <code ref={shown} dangerouslySetInnerHTML={{ __html: html }} />
      </pre>
    );
  const cut = !all && text.length > kShownMax;
  return (
    <div class="data" tabIndex={0}>
      <PlainText text={cut ? text.slice(0, kShownMax) : text} code />
      {cut && <ShowAll text={text} onShow={() => setAll(true)} />}
    </div>
  );
}
