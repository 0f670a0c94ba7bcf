// The panel of what a conversation asks of the server.
import { useEffect, useState } from 'preact/hooks';
import { kFurtherFields, kUsualFields, type NumberField, problemWith } from '../lib/settings';
import { changeSettings, defaults, settings, settingsOpen } from '../state';
import { applyTheme, theme, type Theme } from '../theme';
import { IconButton } from './parts';

const kSchemaExample = `{
  "type": "object",
  "properties": {
    "name": { "type": "string" },
    "age": { "type": "integer" }
  },
  "required": ["name", "age"]
}`;
const kToolsExample = `[{
  "type": "function",
  "function": {
    "name": "get_weather",
    "description": "The weather in a city",
    "parameters": {
      "type": "object",
      "properties": { "city": { "type": "string" } },
      "required": ["city"]
    }
  }
}]`;

/** JSON that counts once it is right. */
function JsonField({ kind, label, example }: { kind: 'schema' | 'tools'; label: string; example: string }) {
  const kept = settings.value[kind];
  const [text, setText] = useState(kept);
  useEffect(() => setText(kept), [kept]);
  const problem = problemWith(kind, text);
  const change = (value: string) => {
    setText(value);
    if (problemWith(kind, value) === '') changeSettings({ [kind]: value });
  };
  return (
    <div class="field">
      <label for={`setting-${kind}`}>{label}</label>
      <textarea
        id={`setting-${kind}`}
        class="mono"
        rows={text === '' ? 2 : 8}
        spellcheck={false}
        value={text}
        placeholder="None"
        aria-invalid={problem !== ''}
        aria-describedby={`setting-${kind}-problem`}
        onInput={(event) => change(event.currentTarget.value)}
      />
      <p class="problem" id={`setting-${kind}-problem`} role="status">
        {problem}
      </p>
      {text === '' ? (
        <button type="button" class="quiet" onClick={() => change(example)}>
          Insert an example
        </button>
      ) : (
        <button type="button" class="quiet" onClick={() => change('')}>
          Remove
        </button>
      )}
    </div>
  );
}

function Sampling() {
  const { sampling } = settings.value;
  const set = (name: string, text: string) => {
    const rest = { ...sampling };
    const value = Number(text);
    if (text.trim() === '' || !Number.isFinite(value)) delete rest[name];
    else rest[name] = value;
    changeSettings({ sampling: rest });
  };
  const shown = (name: string) => {
    const value = defaults.value[name];
    if (value === undefined) return 'automatic';
    if (value < 0 && name === 'seed') return 'random';
    if (value < 0 && name === 'max_tokens') return 'no limit';
    return String(Math.round(value * 1e4) / 1e4);
  };
  const field = ({ name, label, text, min, max, step }: NumberField) => (
    <div class="number-field" title={text}>
      <label for={`setting-${name}`}>{label}</label>
      <input
        id={`setting-${name}`}
        type="number"
        inputMode="decimal"
        min={min}
        max={max}
        step={step}
        placeholder={shown(name)}
        value={sampling[name] ?? ''}
        onChange={(event) => set(name, event.currentTarget.value)}
      />
    </div>
  );
  const further = kFurtherFields.filter(({ name }) => sampling[name] !== undefined).length;
  return (
    <fieldset>
      <legend>Sampling</legend>
      <p class="note">The server uses its own value, shown in grey, where a field is empty.</p>
      {kUsualFields.map(field)}
      <details>
        <summary>Further parameters{further > 0 ? `, of which ${further} set` : ''}</summary>
        {kFurtherFields.map(field)}
      </details>
    </fieldset>
  );
}

export function Settings() {
  const { system, thinking, probabilities } = settings.value;
  return (
    <aside class="settings" aria-label="Settings of this conversation">
      <header>
        <h2>Settings</h2>
        <IconButton icon="close" label="Close settings" onClick={() => (settingsOpen.value = false)} />
      </header>
      <div class="field">
        <label for="setting-system">System prompt</label>
        <textarea
          id="setting-system"
          rows={3}
          dir="auto"
          value={system}
          placeholder="None"
          onInput={(event) => changeSettings({ system: event.currentTarget.value })}
        />
      </div>
      <div class="number-field">
        <label for="setting-thinking">Thinking</label>
        <select
          id="setting-thinking"
          value={thinking}
          onChange={(event) => changeSettings({ thinking: event.currentTarget.value })}
        >
          <option value="">automatic</option>
          <option value="none">off</option>
          <option value="low">low</option>
          <option value="medium">medium</option>
          <option value="high">high</option>
        </select>
      </div>
      <label class="check" title="Each answer then has a button that colours its tokens by how likely they were">
        <input
          type="checkbox"
          checked={probabilities}
          onChange={(event) => changeSettings({ probabilities: event.currentTarget.checked })}
        />
        Show token probabilities
      </label>
      <Sampling />
      <JsonField kind="schema" label="JSON Schema for answers" example={kSchemaExample} />
      <JsonField kind="tools" label="Tools" example={kToolsExample} />
      <fieldset>
        <legend>This browser</legend>
        <div class="number-field">
          <label for="setting-theme">Theme</label>
          <select id="setting-theme" value={theme.value} onChange={(event) => applyTheme(event.currentTarget.value as Theme)}>
            <option value="auto">automatic</option>
            <option value="light">light</option>
            <option value="dark">dark</option>
          </select>
        </div>
      </fieldset>
    </aside>
  );
}
