// What changed between two readings of the server's counters.

export interface ModelMetrics {
  model: string;
  active_requests: number;
  waiting_requests: number;
  total_requests: number;
  cancelled_requests: number;
  tokens_generated: number;
  prompt_tokens_computed: number;
  prompt_tokens_cached: number;
  steps: number;
  step_seconds: number;
  pages_total: number;
  pages_used: number;
  pages_cached: number;
  pages_free: number;
}

export interface RunningRequest {
  id: string;
  model: string;
  choices: number;
  prompt_tokens: number;
  tokens: number;
  /** Seconds since it was accepted. */
  age: number;
  /** null until there is a token. */
  first_token_ms: number | null;
}

export interface LogLine {
  number: number;
  time: number;
  level: string;
  text: string;
}

export interface Memory {
  resident_bytes: number;
  planned_bytes: number;
}

/** The data of an event of v1/metrics/stream. */
export interface Reading {
  /** Seconds of a clock that never goes back. */
  time: number;
  models: ModelMetrics[];
  requests: RunningRequest[];
  log: LogLine[];
  memory?: Memory;
}

export interface Rates {
  tokensPerSecond: number;
  promptPerSecond: number;
  cachedShare: number;
  /** Tokens that a step samples, on average. */
  batch: number;
  stepMs: number;
}

/** Rates of all models together; null where the server has begun anew in between. */
export function rates(before: Reading, now: Reading): Rates | null {
  const seconds = now.time - before.time;
  const sum = (reading: Reading, name: keyof ModelMetrics) =>
    reading.models.reduce((all, model) => all + (model[name] as number), 0);
  const change = (name: keyof ModelMetrics) => sum(now, name) - sum(before, name);
  const tokens = change('tokens_generated');
  if (seconds <= 0 || tokens < 0 || change('steps') < 0) return null;
  const computed = change('prompt_tokens_computed');
  const cached = change('prompt_tokens_cached');
  const steps = change('steps');
  return {
    tokensPerSecond: tokens / seconds,
    promptPerSecond: computed / seconds,
    cachedShare: computed + cached > 0 ? cached / (computed + cached) : NaN,
    batch: steps > 0 ? tokens / steps : 0,
    stepMs: steps > 0 ? (change('step_seconds') / steps) * 1000 : NaN,
  };
}
