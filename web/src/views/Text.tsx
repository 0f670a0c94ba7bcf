// Text of a model, whatever it is.
import { memo } from 'preact/compat';
import { useMemo, useState } from 'preact/hooks';
import { kBlockMax, pieces, splitBlocks } from '../lib/blocks';
import { bytes, showBidi, escapeHtml } from '../lib/format';
import { blockHtml, codeHtml, formulasReady } from '../markdown';
import { copyText } from './parts';

/** Of longer texts only the beginning is shown until somebody asks for the rest. */
const kShownMax = 200_000;
const kPieceMax = 4_000;

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

const Block = memo(function Block({ text, ready }: { text: string; ready: boolean }) {
  const long = text.length > kBlockMax;
  const html = useMemo(() => (long ? '' : blockHtml(text)), [text, ready]);
  if (long) return <PlainText text={text} />;
  return <div class="block" dir="auto" dangerouslySetInnerHTML={{ __html: html }} />;
});

function ShowAll({ text, onShow }: { text: string; onShow: () => void }) {
  return (
    <button type="button" class="quiet" onClick={onShow}>
      Show all of it ({bytes(text.length)})
    </button>
  );
}

function copyCode(event: MouseEvent) {
  const button = (event.target as Element).closest('button.copy');
  const code = button?.closest('.code')?.querySelector('code')?.textContent;
  if (!button || code === undefined || code === null) return;
  void copyText(code).then(() => {
    button.textContent = 'Copied';
    setTimeout(() => (button.textContent = 'Copy'), 1200);
  });
}

export function Markdown({ text }: { text: string }) {
  const [all, setAll] = useState(false);
  const cut = !all && text.length > kShownMax;
  const shown = cut ? text.slice(0, kShownMax) : text;
  const ready = formulasReady.value;
  return (
    <div class="markdown" onClick={copyCode}>
      {splitBlocks(shown).map((block, at) => (
        <Block key={at} text={block} ready={ready} />
      ))}
      {cut && <ShowAll text={text} onShow={() => setAll(true)} />}
    </div>
  );
}

/** Code or data, with colours if it is not too long. */
export function Code({ text, language }: { text: string; language: string }) {
  const [all, setAll] = useState(false);
  const html = useMemo(() => (text.length <= kBlockMax ? codeHtml(text, language) : ''), [text, language]);
  if (text.length <= kBlockMax)
    return (
      <pre class="data" dir="ltr" tabIndex={0}>
        <code dangerouslySetInnerHTML={{ __html: html }} />
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
