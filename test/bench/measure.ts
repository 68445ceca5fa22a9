/** One line of the output. */
export interface Measurement {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** The same thing done by what is named in `against`, in the same unit; null where there is nothing to compare with. */
  readonly baseline: number | null;
  readonly against: string | null;
  /** How many times the value goes into the baseline: above 1 is better than the baseline. */
  readonly ratio: number | null;
  /** Runs whose median this is. */
  readonly n: number;
  /** native or uml. */
  readonly kernel: string;
}

export interface Compared {
  readonly name: string;
  readonly unit: string;
  readonly values: readonly number[];
  readonly against?: string;
  readonly baselines?: readonly number[];
}

const KERNEL = process.env['KERNEL_USED'] ?? 'none';

/** One JSON object a line on stdout, for programs; progress and a table on stderr, for people. */
export class Measurements {
  readonly #all: Measurement[] = [];

  progress(text: string): void {
    process.stderr.write(`bench: ${text}\n`);
  }

  add({ name, unit, values, against, baselines }: Compared): Measurement {
    const value = median(values);
    const baseline = baselines === undefined ? null : median(baselines);
    const measurement: Measurement = {
      name,
      value: round(value),
      unit,
      baseline: baseline === null ? null : round(baseline),
      against: against ?? null,
      ratio: baseline === null || value === 0 ? null : round(baseline / value),
      n: values.length,
      kernel: KERNEL,
    };
    this.#all.push(measurement);
    process.stdout.write(`${JSON.stringify(measurement)}\n`);
    return measurement;
  }

  table(): void {
    const rows = this.#all.map(({ name, value, unit, baseline, against, ratio, n }) => [
      name,
      `${value} ${unit}`,
      baseline === null ? '' : `${baseline} ${unit}`,
      ratio === null ? '' : `${ratio}x`,
      String(n),
      against ?? '',
    ]);
    const all = [['measure', 'ours', 'baseline', 'ratio', 'n', 'baseline is'], ...rows];
    const widths = all[0]?.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0))) ?? [];
    for (const row of all) {
      process.stderr.write(
        `${row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
      );
    }
    process.stderr.write(`kernel: ${KERNEL}; times are medians\n`);
  }
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const upper = sorted[sorted.length >> 1];
  const lower = sorted[(sorted.length - 1) >> 1];
  if (upper === undefined || lower === undefined) throw new Error('no values');
  return (upper + lower) / 2;
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
