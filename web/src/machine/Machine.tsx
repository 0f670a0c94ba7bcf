// What the machine does now.
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { request, RequestError } from '../lib/api';
import { bytes, duration, number, plural } from '../lib/format';
import { type Histogram, histogram, mean, quantile, since } from '../lib/prometheus';
import { type LogLine, type Rates, rates, type Reading } from '../lib/rates';
import { readEvents } from '../lib/sse';
import { notice } from '../state';
import { BarPlot, LinePlot, type Series } from './Plot';
import { Models } from './Models';

/** Readings of five minutes. */
const kReadingsMax = 300;
const kLinesMax = 200;
const kHistogramsEveryMs = 2000;

const readings = signal<Reading[]>([]);
const lines = signal<LogLine[]>([]);
const away = signal('');
const firstToken = signal<Histogram | null>(null);
const betweenTokens = signal<Histogram | null>(null);

function take(reading: Reading) {
  const before = readings.peek();
  // A clock that goes back is another server's.
  const kept = before.length > 0 && before.at(-1)!.time > reading.time ? [] : before.slice(-kReadingsMax + 1);
  readings.value = [...kept, reading];
  const last = kept.length > 0 ? (lines.peek().at(-1)?.number ?? 0) : 0;
  const fresh = reading.log.filter((line) => line.number > last);
  if (fresh.length > 0 || kept.length === 0) lines.value = [...(last > 0 ? lines.peek() : []), ...fresh].slice(-kLinesMax);
}

async function watch(signal: AbortSignal) {
  while (!signal.aborted) {
    try {
      const response = await request('v1/metrics/stream', { signal });
      away.value = '';
      await readEvents(response, (data) => take(JSON.parse(data) as Reading));
      away.value = 'The server has ended the connection.';
    } catch (error) {
      if (signal.aborted) return;
      away.value = error instanceof RequestError ? error.message : 'The connection to the server broke.';
    }
    await new Promise((resolve) => setTimeout(resolve, 1500));
  }
}

/** Histograms where the server has them: Prometheus' text at /metrics. */
async function watchHistograms(signal: AbortSignal) {
  const begun: { first: Histogram | null; between: Histogram | null } = { first: null, between: null };
  while (!signal.aborted) {
    try {
      const text = await (await request('metrics', { signal })).text();
      const first = histogram(text, 'time_to_first_token_seconds');
      const between = histogram(text, 'inter_token_latency_seconds') ?? histogram(text, 'time_per_output_token_seconds');
      begun.first ??= first;
      begun.between ??= between;
      if (first) firstToken.value = since(begun.first, first);
      if (between) betweenTokens.value = since(begun.between, between);
    } catch {
      if (signal.aborted || firstToken.value === null) return;
    }
    await new Promise((resolve) => setTimeout(resolve, kHistogramsEveryMs));
  }
}

async function cancel(id: string) {
  try {
    await request(`v1/requests/${encodeURIComponent(id)}/cancel`, { method: 'POST' });
  } catch (error) {
    notice.value = (error as Error).message;
  }
}

/** The terms in a sentence each: their tooltips. */
const kHelp = {
  generating: 'Tokens of answers that all models write per second, over the last five seconds',
  reading: 'Tokens of prompts that are read per second; those that come from the cache are not counted',
  throughput: 'Tokens per second: written for answers, and read of prompts',
  requests: 'Requests that are being answered, and those that wait for their turn',
  batch: 'A step computes one token for each running answer at once: how many it writes on average',
  pages: 'The KV cache keeps what the model has computed for each token, in pages: the share that running requests use',
  cached: 'The share of prompts that had been computed before and came from the cache',
  memory: 'RAM that the program takes, beside what it planned to take at most',
  firstToken: 'From the arrival of a request to the first token of its answer, as the server measures it',
  betweenTokens: 'The time between two tokens of an answer',
} as const;

function Fact({ label, value, more, help }: { label: string; value: string; more: string; help: string }) {
  return (
    <div class="fact" title={help}>
      <dt>{label}</dt>
      <dd>
        {value}
        <span class="more">{more}</span>
      </dd>
    </div>
  );
}

/** A number at an axis. */
const tick = (value: number) => (value < 10_000 ? String(Number(value.toFixed(2))) : number(value));
const sum = (values: number[]) => values.reduce((all, each) => all + each, 0);

/** Over some readings, so that numbers can be read. */
function recent(all: Reading[], over: number): Rates | null {
  const now = all.at(-1);
  const before = all.at(-1 - over) ?? all[0];
  return now && before && now !== before ? rates(before, now) : null;
}

function Facts({ all }: { all: Reading[] }) {
  const now = all.at(-1);
  const rate = recent(all, 5);
  if (!now) return null;
  const active = sum(now.models.map((model) => model.active_requests));
  const waiting = sum(now.models.map((model) => model.waiting_requests));
  return (
    <dl class="facts">
      <Fact label="Generating" value={number(rate?.tokensPerSecond ?? 0)} more="tokens/s" help={kHelp.generating} />
      <Fact label="Reading" value={number(rate?.promptPerSecond ?? 0)} more="prompt tokens/s" help={kHelp.reading} />
      <Fact label="Running" value={String(active)} more={`waiting ${waiting}`} help={kHelp.requests} />
      <Fact
        label="Batch size"
        value={number(rate?.batch ?? 0)}
        more={rate && Number.isFinite(rate.stepMs) ? `${duration(rate.stepMs)} a step` : 'no step now'}
        help={kHelp.batch}
      />
      <Fact
        label="From cache"
        value={rate && Number.isFinite(rate.cachedShare) ? `${number(rate.cachedShare * 100)} %` : '–'}
        more={rate && Number.isFinite(rate.cachedShare) ? 'of prompts' : 'no prompt now'}
        help={kHelp.cached}
      />
      {now.memory && (
        <Fact label="Memory" value={bytes(now.memory.resident_bytes)} more={`${bytes(now.memory.planned_bytes)} planned`} help={kHelp.memory} />
      )}
    </dl>
  );
}

const kColours = ['--series-1', '--series-2', '--series-3', '--series-4'];

function Plots({ all }: { all: Reading[] }) {
  const offset = useRef(0);
  if (offset.current === 0 && all.length > 0) offset.current = Date.now() / 1000 - all.at(-1)!.time;
  const times = all.map((reading) => reading.time + offset.current);
  const steps = all.map((reading, at) => (at > 0 ? rates(all[at - 1]!, reading) : null));
  const of = (value: (rate: Rates) => number) =>
    steps.map((rate) => {
      const found = rate ? value(rate) : NaN;
      return Number.isFinite(found) ? found : null;
    });
  const total = (value: 'active_requests' | 'waiting_requests') => all.map((reading) => sum(reading.models.map((model) => model[value])));
  const names = all.at(-1)?.models.map(({ model }) => model) ?? [];
  const perModel: Series[] = names.map((label, at) => ({ label, color: kColours[at % kColours.length]! }));
  const pages = names.map((name) =>
    all.map((reading) => {
      const model = reading.models.find((each) => each.model === name);
      return model && model.pages_total > 0 ? (model.pages_used / model.pages_total) * 100 : null;
    }),
  );
  const last = (list: (number | null)[]) => list.findLast((value) => value !== null) ?? NaN;
  const tokens = of((rate) => rate.tokensPerSecond);
  const cached = of((rate) => rate.cachedShare * 100);
  return (
    <div class="plots">
      <LinePlot
        title="Throughput"
        help={kHelp.throughput}
        series={[
          { label: 'generated', color: '--series-1' },
          { label: 'prompt', color: '--series-2' },
        ]}
        data={[times, tokens, of((rate) => rate.promptPerSecond)]}
        format={tick}
        note={`${number(last(tokens))} tokens/s`}
      />
      <LinePlot
        title="Requests"
        help={kHelp.requests}
        series={[
          { label: 'running', color: '--series-1' },
          { label: 'waiting', color: '--series-3' },
        ]}
        data={[times, total('active_requests'), total('waiting_requests')]}
        format={tick}
        whole
      />
      <LinePlot
        title="Batch size"
        help={kHelp.batch}
        series={[{ label: 'tokens a step', color: '--series-1' }]}
        data={[times, of((rate) => rate.batch)]}
        format={tick}
      />
      <LinePlot
        title="KV pages in use"
        help={kHelp.pages}
        series={perModel}
        data={[times, ...pages]}
        format={(value) => `${tick(value)} %`}
        max={100}
      />
      <LinePlot
        title="Prompts from cache"
        help={kHelp.cached}
        series={[{ label: 'share', color: '--series-2' }]}
        data={[times, cached]}
        format={(value) => `${tick(value)} %`}
        max={100}
      />
      {all.at(-1)?.memory && (
        <LinePlot
          title="Memory"
          help={kHelp.memory}
          series={[
            { label: 'in RAM', color: '--series-1' },
            { label: 'planned', color: '--series-4', dashed: true },
          ]}
          data={[times, all.map((reading) => reading.memory?.resident_bytes ?? null), all.map((reading) => reading.memory?.planned_bytes ?? null)]}
          format={bytes}
          inBytes
        />
      )}
      <Latency title="Time to first token" help={kHelp.firstToken} histogram={firstToken.value} />
      <Latency title="Between tokens" help={kHelp.betweenTokens} histogram={betweenTokens.value} />
    </div>
  );
}

function Latency({ title, help, histogram }: { title: string; help: string; histogram: Histogram | null }) {
  if (!histogram) return null;
  const ms = (seconds: number) => duration(seconds * 1000);
  const labels = histogram.bounds.map((bound) => (bound === Infinity ? 'more' : `up to ${ms(bound)}`));
  const note = `mean ${ms(mean(histogram))}, median ${ms(quantile(histogram, 0.5))}, 95 % below ${ms(quantile(histogram, 0.95))}`;
  return <BarPlot title={title} help={help} labels={labels} counts={histogram.counts} note={note} />;
}

function Requests({ reading }: { reading: Reading }) {
  return (
    <section class="panel">
      <h2>Requests</h2>
      {reading.requests.length === 0 ? (
        <p class="note">No request is running.</p>
      ) : (
        <div class="table" tabIndex={0} role="region" aria-label="Requests">
          <table>
            <thead>
              <tr>
                <th scope="col">Request</th>
                <th scope="col">Model</th>
                <th scope="col" class="number">Prompt</th>
                <th scope="col" class="number">Tokens</th>
                <th scope="col" class="number">First token</th>
                <th scope="col" class="number">Age</th>
                <th scope="col"><span class="visually-hidden">Cancel</span></th>
              </tr>
            </thead>
            <tbody>
              {reading.requests.map((each) => (
                <tr key={each.id}>
                  <td><code>{each.id}</code></td>
                  <td>{each.model}</td>
                  <td class="number">{each.prompt_tokens}</td>
                  <td class="number">{each.tokens}</td>
                  <td class="number">{each.first_token_ms === null ? 'waits' : duration(each.first_token_ms)}</td>
                  <td class="number">{duration(each.age * 1000)}</td>
                  <td>
                    <button type="button" class="quiet" aria-label={`Cancel ${each.id}`} onClick={() => void cancel(each.id)}>
                      Cancel
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** The log, folded until somebody wants it. The newest line comes first, so that only the page scrolls. */
function Log() {
  const [open, setOpen] = useState(false);
  return (
    <details class="panel" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <h2>Log</h2> <span class="note">{open ? 'newest line first' : plural(lines.value.length, 'line')}</span>
      </summary>
      {open && lines.value.length > 0 && (
        <ol class="log" aria-label="Last lines of the log, the newest first">
          {[...lines.value].reverse().map((line) => (
            <li key={line.number} class={line.level}>
              <time>{new Date(line.time * 1000).toLocaleTimeString('en-GB')}</time> {line.level !== 'info' && <b>{line.level} </b>}
              {line.text}
            </li>
          ))}
        </ol>
      )}
    </details>
  );
}

export function Machine() {
  useEffect(() => {
    const controller = new AbortController();
    firstToken.value = null;
    betweenTokens.value = null;
    void watch(controller.signal);
    void watchHistograms(controller.signal);
    return () => controller.abort();
  }, []);
  const all = readings.value;
  const now = all.at(-1);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Machine">
      <div class="machine">
        {away.value !== '' && (
          <p class="problem" role="alert">
            {away.value} What is shown is the last that was heard.
          </p>
        )}
        {!now && away.value === '' && <p class="note">Waiting for the server…</p>}
        {now && (
          <>
            <Facts all={all} />
            <Plots all={all} />
            <Models reading={now} />
            <Requests reading={now} />
            <Log />
            <p class="note">{plural(sum(now.models.map((model) => model.total_requests)), 'request')} since the server began.</p>
          </>
        )}
      </div>
    </div>
  );
}
