// Models, and where the server can do it, loading, unloading and pulling them.
import { useEffect, useState } from 'preact/hooks';
import { postJson, request } from '../lib/api';
import { bytes, number } from '../lib/format';
import type { Reading } from '../lib/rates';
import { actions, contextOf, lookForModels, models, notice, stateOf } from '../state';

/** While a model is being loaded. */
const kLookEveryMs = 2000;

interface Progress {
  status?: string;
  total?: number;
  completed?: number;
  error?: string;
}

async function pull(model: string, tell: (progress: Progress) => void) {
  const response = await postJson('api/pull', { model, stream: true });
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const ends = rest.lastIndexOf('\n');
    for (const line of rest.slice(0, Math.max(0, ends)).split('\n')) if (line.trim() !== '') tell(JSON.parse(line) as Progress);
    rest = rest.slice(ends + 1);
  }
}

function Pull() {
  const [name, setName] = useState('');
  const [progress, setProgress] = useState<Progress | null>(null);
  const begin = async () => {
    setProgress({ status: 'starting' });
    try {
      await pull(name.trim(), (told) => {
        if (told.error) throw new Error(told.error);
        setProgress(told);
      });
      await lookForModels();
    } catch (error) {
      notice.value = (error as Error).message;
    }
    setProgress(null);
  };
  return (
    <form
      class="row pull"
      onSubmit={(event) => {
        event.preventDefault();
        void begin();
      }}
    >
      <label class="visually-hidden" for="pull">
        Model to fetch
      </label>
      <input id="pull" placeholder="Name of a model to fetch" value={name} onInput={(event) => setName(event.currentTarget.value)} />
      <button type="submit" class="quiet" disabled={name.trim() === '' || progress !== null}>
        Fetch
      </button>
      {progress && (
        <span role="status">
          {progress.status}
          {progress.total ? (
            <>
              {' '}
              <progress max={progress.total} value={progress.completed ?? 0} /> {bytes(progress.completed ?? 0)} of {bytes(progress.total)}
            </>
          ) : null}
        </span>
      )}
    </form>
  );
}

export function Models({ reading }: { reading: Reading }) {
  const [busy, setBusy] = useState('');
  useEffect(() => {
    void lookForModels();
  }, []);
  const changing = models.value.some((model) => stateOf(model) === 'loading');
  useEffect(() => {
    if (!changing) return undefined;
    const timer = setInterval(() => void lookForModels(), kLookEveryMs);
    return () => clearInterval(timer);
  }, [changing]);
  const change = async (model: string, what: 'load' | 'unload') => {
    setBusy(model);
    try {
      await request(`v1/models/${what}`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ model }),
      });
    } catch (error) {
      notice.value = (error as Error).message;
    }
    await lookForModels();
    setBusy('');
  };
  return (
    <section class="panel">
      <h2>Models</h2>
      <div class="table" tabIndex={0} role="region" aria-label="Models">
        <table>
          <thead>
            <tr>
              <th scope="col">Model</th>
              <th scope="col">Kind</th>
              <th scope="col" class="number">Size</th>
              <th scope="col" class="number">Context</th>
              <th scope="col" class="number">Requests</th>
              <th scope="col" class="number">KV pages in use</th>
              <th scope="col">State</th>
              <th scope="col"><span class="visually-hidden">Change</span></th>
            </tr>
          </thead>
          <tbody>
            {models.value.map((model) => {
              const now = reading.models.find((each) => each.model === model.id);
              const state = stateOf(model);
              const loaded = state === 'loaded' || state === 'ready';
              return (
                <tr key={model.id}>
                  <td>{model.id}</td>
                  <td>{[model.architecture, model.quantization].filter(Boolean).join(' ')}</td>
                  <td class="number">{model.size_bytes ? bytes(model.size_bytes) : ''}</td>
                  <td class="number">{contextOf(model)?.toLocaleString('en')}</td>
                  <td class="number">{now ? `running ${now.active_requests}, waiting ${now.waiting_requests}` : ''}</td>
                  <td class="number">
                    {now && now.pages_total > 0 ? `${number(now.pages_used)} of ${number(now.pages_total)}` : ''}
                  </td>
                  <td title={model.error}>{busy === model.id ? 'changing…' : model.error ? `${state}, failed` : state}</td>
                  <td>
                    {actions.value.includes(loaded ? 'unload' : 'load') && (
                      <button type="button" class="quiet" disabled={busy !== '' || state === 'loading'} onClick={() => void change(model.id, loaded ? 'unload' : 'load')}>
                        {loaded ? 'Unload' : 'Load'}
                      </button>
                    )}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {actions.value.includes('pull') && <Pull />}
    </section>
  );
}
