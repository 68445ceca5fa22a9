import { availableParallelism } from 'node:os';

/** What a measure has to reach, and whether it did. */
export interface Verdict {
  readonly text: string;
  readonly reached: boolean;
}

/** One line of the output. */
export interface Measurement {
  /** Which file of lab/bench/row measured it. */
  readonly row: string;
  readonly name: string;
  /** Median of ours. */
  readonly value: number;
  readonly p99: number;
  readonly unit: string;
  /**
   * Median of the same thing done by what is named in `against`, in the same unit; null where there is nothing to
   * compare with.
   */
  readonly baseline: number | null;
  readonly baselineP99: number | null;
  readonly against: string | null;
  /** How many times the baseline ours costs, of the medians: 1 is the same, BELOW 1 IS BETTER than the baseline. */
  readonly ratio: number | null;
  /** Runs whose median this is, of ours and of the baseline alike. */
  readonly n: number;
  /** native or uml. */
  readonly kernel: string;
  readonly cpus: number;
  /** Version of Node. */
  readonly node: string;
  /** Day, UTC. */
  readonly date: string;
  readonly target?: Verdict;
}

/** A target of the project, which the report shows as reached or not. */
export interface Target {
  /** The target in words: "at most 1.3 x the floor". */
  readonly text: string;
  readonly reached: (measured: Omit<Measurement, 'target'>) => boolean;
}

export interface Compared {
  readonly name: string;
  readonly unit: string;
  /** Less is better, in every measure. */
  readonly values: readonly number[];
  readonly against?: string;
  readonly baselines?: readonly number[];
  readonly target?: Target;
  /**
   * `make bench-guard` compares the ratio with the recorded one: only where it does not depend on what else the
   * machine does.
   */
  readonly guarded?: boolean;
}

/** A target on `ratio`: ours costs at most this many times the baseline. */
export function ratioAtMost(limit: number, text: string): Target {
  return { text, reached: ({ ratio }) => ratio !== null && ratio <= limit };
}

/** A target on the median. */
export function valueAtMost(limit: number, text: string): Target {
  return { text, reached: ({ value }) => value <= limit };
}

const KERNEL = process.env['KERNEL_USED'] ?? 'none';

/** What one row found: one JSON object a line on stdout, for programs; progress on stderr, for people. */
export class Measurements {
  readonly row: string;
  readonly all: Measurement[] = [];
  /** By name: the least of ours over the least of the baseline, which noise disturbs least. */
  readonly guarded = new Map<string, number>();

  constructor(row: string) {
    this.row = row;
  }

  progress(text: string): void {
    process.stderr.write(`bench: ${this.row}: ${text}\n`);
  }

  add({ name, unit, values, against, baselines, target, guarded }: Compared): Measurement {
    const value = median(values);
    const baseline = baselines === undefined ? null : median(baselines);
    const measured = {
      row: this.row,
      name,
      value: round(value),
      p99: round(percentile(values, 99)),
      unit,
      baseline: baseline === null ? null : round(baseline),
      baselineP99: baselines === undefined ? null : round(percentile(baselines, 99)),
      against: against ?? null,
      ratio: baseline === null || baseline === 0 ? null : round(value / baseline),
      n: values.length,
      kernel: KERNEL,
      cpus: availableParallelism(),
      node: process.version,
      date: new Date().toISOString().slice(0, 10),
    };
    const verdict = target === undefined ? {} : { target: { text: target.text, reached: target.reached(measured) } };
    const measurement: Measurement = { ...measured, ...verdict };
    this.all.push(measurement);
    if (guarded === true && baselines !== undefined) {
      this.guarded.set(name, round(Math.min(...values) / Math.min(...baselines)));
    }
    process.stdout.write(`${JSON.stringify(measurement)}\n`);
    return measurement;
  }
}

/** Of those in lab/results/performance.json. */
export function measureNamed(measured: readonly Measurement[], name: string): Measurement {
  const found = measured.find((measurement) => measurement.name === name);
  if (found === undefined) throw new Error(`lab/results/performance.json has no measure "${name}"`);
  return found;
}

/** The same of a row beside kube-proxy, whatever the size of its cluster. */
export function besideKubeProxy(measured: readonly Measurement[], what: string, mode: string): Measurement {
  const end = `, beside kube-proxy in ${mode} mode`;
  const found = measured.find(({ name }) => name.startsWith(`${what} at `) && name.endsWith(end));
  return found ?? measureNamed(measured, what + end);
}

/** A table for people, on stderr. */
export function printTable(all: readonly Measurement[]): void {
  const rows = all.map(({ name, value, p99, unit, baseline, ratio, n, against, target }) => [
    name,
    `${value} ${unit}`,
    String(p99),
    baseline === null ? '' : `${baseline} ${unit}`,
    ratio === null ? '' : `${ratio}x`,
    String(n),
    target === undefined ? '' : `${target.reached ? 'reached' : 'NOT REACHED'}: ${target.text}`,
    against ?? '',
  ]);
  const lines = [['measure', 'ours', 'p99', 'baseline', 'ratio', 'n', 'target', 'baseline is'], ...rows];
  const widths = lines[0]?.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0))) ?? [];
  for (const line of lines) {
    const cells = line.map((cell, column) => cell.padEnd(widths[column] ?? 0));
    process.stderr.write(`${cells.join('  ').trimEnd()}\n`);
  }
  process.stderr.write(`kernel: ${KERNEL}; medians; ratio: ours over the baseline, below 1 is better\n`);
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const upper = sorted[sorted.length >> 1];
  const lower = sorted[(sorted.length - 1) >> 1];
  if (upper === undefined || lower === undefined) throw new Error('no values');
  return (upper + lower) / 2;
}

/** The nearest rank: of fewer than a hundred values, p99 is the greatest. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const value = sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)];
  if (value === undefined) throw new Error('no values');
  return value;
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}

/** Milliseconds that something took. */
export async function timed(run: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await run();
  return performance.now() - start;
}
