// Where the server has no model: some that fit its machine, each a click away.
import { useEffect, useState } from 'preact/hooks';
import { getJson, RequestError } from '../lib/api';
import { bytes } from '../lib/format';
import { fetching, fetchModel, lookForModels } from '../state';
import { FetchForm, Fetching, FetchProblem } from './Fetching';

interface Proposal {
  name: string;
  size_bytes: number;
  tokens_per_second: number | null;
  good_for: string;
  fits: 'yes' | 'tight';
}
interface Proposals {
  data: Proposal[];
  available_bytes: number;
  pull: boolean;
}

/** Somebody may fetch a model without this page. */
const kLookEveryMs = 5000;

/** "unsloth/Qwen3.5-9B-GGUF:Q4_K_M" is Qwen3.5-9B to people. */
const shortName = (name: string) => name.replace(/^.*\//, '').replace(/-GGUF(:.*)?$/, '');
const speed = (rate: number | null) => (rate === null ? '' : rate < 1 ? 'less than 1 token/s' : `about ${Math.round(rate)} tokens/s`);

function Card({ model }: { model: Proposal }) {
  const facts = [bytes(model.size_bytes), speed(model.tokens_per_second), model.fits === 'tight' ? 'fits tightly' : ''];
  return (
    <button type="button" class="card" disabled={fetching.value !== null} onClick={() => void fetchModel(model.name)}>
      <strong>{shortName(model.name)}</strong>
      <span>{model.good_for}</span>
      <span>{facts.filter(Boolean).join(' · ')}</span>
      {shortName(model.name) !== model.name && <small>{model.name}</small>}
    </button>
  );
}

function Choice({ offer }: { offer: Proposals }) {
  if (!offer.pull)
    return (
      <p>
        This server downloads no models for its pages: it was started with <code>--no-pull</code>, or can be reached from other
        machines. On its machine, <code>cairn pull {offer.data[0]?.name ?? 'NAME'}</code> gets one.
      </p>
    );
  return (
    <>
      <p>
        {offer.data.length > 0
          ? 'These fit into its free memory. The speed is an estimate, from how fast that memory is read; people read five to eight tokens per second.'
          : `None of the usual ones fits into its free memory of ${bytes(offer.available_bytes)}.`}
      </p>
      <ul class="cards" aria-label="Models that fit">
        {offer.data.map((model) => (
          <li key={model.name}>
            <Card model={model} />
          </li>
        ))}
      </ul>
      <p class="note">Or any other, by its name at Ollama or Hugging Face:</p>
      <FetchForm label="Name of a model" button="Get it" />
      <Fetching />
      <FetchProblem />
    </>
  );
}

export function FirstModel() {
  const [offer, setOffer] = useState<Proposals | null>(null);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    getJson<Proposals>('v1/proposals').then(setOffer, (error: Error) => {
      const forbidden = error instanceof RequestError && error.status === 403;
      setProblem(forbidden ? 'Your key may not get models: ask whoever runs this server.' : error.message);
    });
    const timer = setInterval(() => {
      if (fetching.peek() === null) void lookForModels();
    }, kLookEveryMs);
    return () => clearInterval(timer);
  }, []);
  return (
    <section class="welcome first" aria-labelledby="first-title">
      <h1 id="first-title">Get a model</h1>
      <p>This server has no model yet.</p>
      {problem && <p class="problem">{problem}</p>}
      {offer ? <Choice offer={offer} /> : !problem && <p role="status">Looking what fits this machine…</p>}
    </section>
  );
}
