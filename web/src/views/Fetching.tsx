// A model that is being fetched: how far it is, and a button that stops it.
import { useEffect, useRef } from 'preact/hooks';
import { bytes } from '../lib/format';
import { fetching, fetchModel, fetchProblem } from '../state';

/** Screen readers are told each of so many parts. */
const kToldParts = 10;

export function Fetching() {
  const now = fetching.value;
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => place.current?.scrollIntoView({ block: 'nearest' }), [now?.name]);
  if (!now) return null;
  const { status = 'starting', total = 0, completed = 0 } = now.progress;
  const part = total > 0 ? Math.floor((completed / total) * kToldParts) : 0;
  return (
    <div class="fetching" ref={place}>
      <div class="row">
        <strong>{now.name}</strong>
        <span class="spread" />
        <button type="button" class="quiet" onClick={() => now.stopper.abort()}>
          Cancel
        </button>
      </div>
      <progress max={Math.max(total, 1)} value={total > 0 ? completed : undefined} aria-label={`Download of ${now.name}`} />
      <p class="note">
        {status}
        {total > 0 && `: ${bytes(completed)} of ${bytes(total)}`}
      </p>
      <span class="visually-hidden" role="status">
        {total > 0 ? `${(part * 100) / kToldParts} percent` : status}
      </span>
    </div>
  );
}

/** A name that is typed. */
export function FetchForm({ label, button }: { label: string; button: string }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <form
      class="row pull"
      onSubmit={(event) => {
        event.preventDefault();
        const name = input.current!.value.trim();
        if (name !== '') void fetchModel(name);
      }}
    >
      <label class="visually-hidden" for="pull">
        {label}
      </label>
      <input ref={input} id="pull" placeholder="qwen3:4b or ORG/REPO:Q4_K_M" required autocomplete="off" spellcheck={false} />
      <button type="submit" class="quiet" disabled={fetching.value !== null}>
        {button}
      </button>
    </form>
  );
}

/** Why the last one was not fetched. */
export function FetchProblem() {
  return (
    <p class="problem" role="alert">
      {fetchProblem.value}
    </p>
  );
}
