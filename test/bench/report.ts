import type { Measurement } from './measure.ts';

/** A row measured again replaces what it had found before; rows come in the order of the bench, those that are no more go. */
export function mergeRow(
  before: readonly Measurement[],
  row: string,
  measured: readonly Measurement[],
  order: readonly string[],
): Measurement[] {
  const all = [...before.filter((measurement) => measurement.row !== row), ...measured];
  return order.flatMap((name) => all.filter((measurement) => measurement.row === name));
}

/** docs/performance.json: a measurement a line, so that a change of one is one line in a diff. */
export function toJson(all: readonly Measurement[]): string {
  return all.length === 0
    ? '[]\n'
    : `[\n${all.map((measurement) => `  ${JSON.stringify(measurement)}`).join(',\n')}\n]\n`;
}

export interface ReportParts {
  readonly measured: readonly Measurement[];
  /** Markdown with the lines `<!-- targets -->`, `<!-- measures -->` and `<!-- profiles -->` where the tables go. */
  readonly template: string;
  /** Names of pages beside it that hold profiles. */
  readonly profiles: readonly string[];
}

/** docs/performance.md */
export function renderReport({ measured, template, profiles }: ReportParts): string {
  const parts: Record<string, string> = {
    targets: targetsTable(measured),
    measures: measuresTables(measured),
    profiles: profiles.map((name) => `- [${name}](${name})`).join('\n') || 'None yet.',
  };
  return template.replaceAll(/^<!-- (\w+) -->$/gm, (line, name: string) => parts[name] ?? line);
}

function targetsTable(measured: readonly Measurement[]): string {
  const rows = measured.flatMap((measurement) =>
    measurement.target === undefined
      ? []
      : [
          [
            measurement.name,
            measurement.target.text,
            measurement.target.reached ? 'reached' : '**not reached**',
            quantity(measurement.value, measurement.unit),
            ratioText(measurement.ratio),
          ],
        ],
  );
  if (rows.length === 0) return 'Nothing with a target was measured yet.';
  const reached = measured.filter(({ target }) => target?.reached === true).length;
  return `${reached} of ${rows.length} reached.\n\n${table(['measure', 'target', '', 'median', 'ratio'], rows)}`;
}

function measuresTables(measured: readonly Measurement[]): string {
  if (measured.length === 0) return 'Nothing was measured yet.';
  return [...new Set(measured.map(({ row }) => row))]
    .map((row) =>
      rowTable(
        row,
        measured.filter((measurement) => measurement.row === row),
      ),
    )
    .join('\n\n');
}

function rowTable(row: string, measured: readonly Measurement[]): string {
  const where = new Set(
    measured.map(
      ({ kernel, cpus, node, date }) => `${kernel} kernel, ${cpus} CPU${cpus === 1 ? '' : 's'}, Node ${node}, ${date}`,
    ),
  );
  const rows = measured.map(({ name, value, p99, unit, baseline, baselineP99, against, ratio, n }) => [
    name,
    quantity(value, unit),
    quantity(p99, unit),
    baseline === null ? '' : quantity(baseline, unit),
    baselineP99 === null ? '' : quantity(baselineP99, unit),
    ratioText(ratio),
    String(n),
    against ?? '',
  ]);
  const columns = ['measure', 'median', 'p99', 'baseline', 'its p99', 'ratio', 'n', 'baseline is'];
  return `### ${row}\n\n${[...where].join('; ')}.\n\n${table(columns, rows)}`;
}

function quantity(value: number, unit: string): string {
  return `${value.toLocaleString('en-US', { maximumSignificantDigits: 4 })} ${unit}`;
}

function ratioText(ratio: number | null): string {
  if (ratio === null) return '';
  const times = ratio > 0 && ratio <= 0.5 ? ` (${Number((1 / ratio).toPrecision(3))} times less)` : '';
  return `${ratio}x${times}`;
}

function table(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('<', '&lt;')).join(' | ')} |`;
  return [line(columns), `|${columns.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n');
}
