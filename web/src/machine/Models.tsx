// Models, and where the server can do it, loading, unloading and pulling them.
import { useEffect, useState } from 'preact/hooks';
import { request } from '../lib/api';
import { bytes, number } from '../lib/format';
import type { Reading } from '../lib/rates';
import { actions, contextOf, lookForModels, models, notice, stateOf } from '../state';
import { FetchForm, Fetching, FetchProblem } from '../views/Fetching';

/** While a model is being loaded. */
const kLookEveryMs = 2000;

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
      {actions.value.includes('pull') && (
        <>
          <FetchForm label="Model to fetch" button="Fetch" />
          <Fetching />
          <FetchProblem />
        </>
      )}
    </section>
  );
}
