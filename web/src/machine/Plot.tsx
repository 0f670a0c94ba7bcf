// Plots that grow with time, and histograms.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { theme } from '../theme';

export interface Series {
  label: string;
  color: string; // a custom property of the style sheet
  dashed?: boolean;
}

const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const kHeight = 150;
const clock = (seconds: number) => new Date(seconds * 1000).toLocaleTimeString('en-GB');

/** Steps of seconds: smaller ones would repeat a time. */
const kTimeSteps = [1, 2, 5, 10, 15, 30, 60, 120];
/** Steps of an axis of whole numbers. */
const kWholeSteps = Array.from({ length: 24 }, (_, at) => [1, 2, 5][at % 3]! * 10 ** Math.floor(at / 3));
/** Steps of an axis of bytes. */
const kByteSteps = Array.from({ length: 46 }, (_, power) => 2 ** power);

function axes(format: (value: number) => string, steps: number[] | undefined): uPlot.Axis[] {
  const common = {
    stroke: css('--faint'),
    font: '11px system-ui, sans-serif',
    grid: { stroke: css('--line'), width: 1 },
    ticks: { show: false },
  };
  return [
    { ...common, grid: { show: false }, space: 80, size: 24, incrs: kTimeSteps, values: (_, ticks) => ticks.map(clock) },
    { ...common, values: (_, ticks) => ticks.map(format), size: 52, space: 26, ...(steps && { incrs: steps }) },
  ];
}

interface LinePlotProps {
  title: string;
  /** What the title means, in a sentence. */
  help?: string;
  note?: string;
  series: Series[];
  data: (number | null)[][];
  format: (value: number) => string;
  max?: number;
  inBytes?: boolean;
  /** Of numbers that are never between two whole ones. */
  whole?: boolean;
}

function Lines(props: LinePlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const colours = theme.value;
  const names = props.series.map(({ label }) => label).join('\n');
  useEffect(() => {
    const element = place.current!;
    const made = new uPlot(
      {
        width: Math.max(100, element.clientWidth),
        height: kHeight,
        cursor: { show: false },
        legend: { show: false },
        padding: [8, 28, 0, 0], // the last time stands half beside the plot
        scales: {
          x: { time: true },
          y: { range: (_, __, max) => [0, props.max ?? (max ? max * 1.1 : 1)] },
        },
        axes: axes(props.format, props.inBytes ? kByteSteps : props.whole ? kWholeSteps : undefined),
        series: [
          {},
          ...props.series.map(({ label, color, dashed }) => ({
            label,
            stroke: css(color),
            width: 1.5,
            points: { show: false },
            ...(dashed && { dash: [4, 4] }),
          })),
        ],
      },
      props.data as uPlot.AlignedData,
      element,
    );
    plot.current = made;
    const fit = new ResizeObserver(() => made.setSize({ width: Math.max(100, element.clientWidth), height: kHeight }));
    fit.observe(element);
    return () => {
      fit.disconnect();
      made.destroy();
    };
  }, [names, colours]);
  useEffect(() => plot.current?.setData(props.data as uPlot.AlignedData));
  return <div ref={place} aria-hidden="true" />;
}

/**
 * Lines over time. `data`: times in seconds, then the values of each series; null where there is none. There are no axes
 * before there are values at two times.
 */
export function LinePlot(props: LinePlotProps) {
  const [times = [], ...values] = props.data;
  const drawn = times.length >= 2 && values.some((series) => series.some((value) => value !== null));
  return (
    <figure class="plot">
      <figcaption>
        <strong title={props.help}>{props.title}</strong>
        <span class="keys-line">
          {props.series.map(({ label, color }) => (
            <span class={`key ${color.slice(2)}`}>{label}</span>
          ))}
        </span>
        {drawn && props.note && <span class="now">{props.note}</span>}
      </figcaption>
      {drawn ? <Lines {...props} /> : <p class="none">No data yet</p>}
    </figure>
  );
}

/** Bars of a histogram; the last bucket has no upper end. */
export function BarPlot(props: { title: string; help: string; note: string; labels: string[]; counts: number[] }) {
  const most = Math.max(1, ...props.counts);
  const none = props.counts.every((count) => count === 0);
  return (
    <figure class="plot bars">
      <figcaption>
        <strong title={props.help}>{props.title}</strong>
        {!none && <span class="now">{props.note}</span>}
      </figcaption>
      {none ? (
        <p class="none">No data yet</p>
      ) : (
        <>
          <div class="bar-row" role="img" aria-label={`${props.title}: ${props.note}`}>
            {props.counts.map((count, at) => (
              <div class="bar" title={`${props.labels[at]}: ${count}`}>
                <div class="fill" style={{ height: `${(count / most) * 100}%` }} />
              </div>
            ))}
          </div>
          <div class="bar-labels" aria-hidden="true">
            <span>{props.labels[0]}</span>
            <span>{props.labels.at(-1)}</span>
          </div>
        </>
      )}
    </figure>
  );
}
