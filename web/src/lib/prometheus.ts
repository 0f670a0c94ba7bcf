// Histograms out of a Prometheus text, and what of them happened between two readings.

export interface Histogram {
  /** Upper bounds, rising; the last one is Infinity. */
  bounds: number[];
  /** Observations in each bucket, not summed up. */
  counts: number[];
  sum: number;
}

const kLine = /^([A-Za-z_:][\w:]*)(?:\{([^}]*)\})?\s+([^\s]+)/;

/** The histogram whose name ends with `suffix`, over all labels but its buckets' bounds; null if there is none. */
export function histogram(text: string, suffix: string): Histogram | null {
  const cumulative = new Map<number, number>();
  let sum = 0;
  for (const line of text.split('\n')) {
    const found = kLine.exec(line);
    if (!found) continue;
    const [, name, labels = '', value] = found as unknown as [string, string, string | undefined, string];
    if (name.endsWith(`${suffix}_sum`)) sum += Number(value);
    if (!name.endsWith(`${suffix}_bucket`)) continue;
    const le = /(?:^|,)\s*le="([^"]*)"/.exec(labels)?.[1];
    if (le === undefined) continue;
    const bound = le === '+Inf' ? Infinity : Number(le);
    cumulative.set(bound, (cumulative.get(bound) ?? 0) + Number(value));
  }
  if (cumulative.size === 0) return null;
  const bounds = [...cumulative.keys()].sort((a, b) => a - b);
  const counts = bounds.map((bound, i) => cumulative.get(bound)! - (i > 0 ? cumulative.get(bounds[i - 1]!)! : 0));
  return { bounds, counts, sum };
}

export function since(before: Histogram | null, now: Histogram): Histogram {
  if (!before || before.bounds.length !== now.bounds.length) return now;
  const counts = now.counts.map((count, i) => count - before.counts[i]!);
  if (counts.some((count) => count < 0)) return now; // the server has begun anew
  return { bounds: now.bounds, counts, sum: now.sum - before.sum };
}

export const count = (histogram: Histogram) => histogram.counts.reduce((all, each) => all + each, 0);
export const mean = (histogram: Histogram) => (count(histogram) > 0 ? histogram.sum / count(histogram) : NaN);

/** The quantile, taken to lie evenly in its bucket; NaN of an empty histogram. */
export function quantile(histogram: Histogram, share: number): number {
  const all = count(histogram);
  if (all === 0) return NaN;
  let rank = share * all;
  for (let i = 0; i < histogram.bounds.length; ++i) {
    const here = histogram.counts[i]!;
    if (here === 0 || rank > here) {
      rank -= here;
      continue;
    }
    const low = i > 0 ? histogram.bounds[i - 1]! : 0;
    const high = histogram.bounds[i]!;
    return high === Infinity ? low : low + ((high - low) * rank) / here;
  }
  return NaN;
}
