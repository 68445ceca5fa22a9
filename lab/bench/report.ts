import { cell, table } from '../../scripts/markdown.ts';
import type { Measurement } from './measure.ts';

/**
 * A row that is measured again replaces its earlier results. Rows have the order of the bench; rows that no longer
 * exist are removed.
 */
export function mergeRow(
  before: readonly Measurement[],
  row: string,
  measured: readonly Measurement[],
  order: readonly string[],
): Measurement[] {
  const all = [...before.filter((measurement) => measurement.row !== row), ...measured];
  return order.flatMap((name) => all.filter((measurement) => measurement.row === name));
}

/** lab/results/performance.json: a measurement a line, so that a change of one is one line in a diff. */
export function toJson(all: readonly Measurement[]): string {
  return all.length === 0
    ? '[]\n'
    : `[\n${all.map((measurement) => `  ${JSON.stringify(measurement)}`).join(',\n')}\n]\n`;
}

export interface ReportParts {
  readonly measured: readonly Measurement[];
  /** Markdown with the lines `<!-- targets -->` and `<!-- profiles -->`, which the tables replace. */
  readonly template: string;
  /** Names of pages beside it that hold profiles. */
  readonly profiles: readonly string[];
}

/** lab/results/performance.md */
export function renderReport({ measured, template, profiles }: ReportParts): string {
  const parts: Record<string, string> = {
    targets: targetsTable(measured),
    profiles: profiles.map((name) => `- [${name}](../notes/${name})`).join('\n') || 'None yet.',
  };
  return template.replaceAll(/^<!-- (\w+) -->$/gm, (line, name: string) => parts[name] ?? line);
}

/**
 * The measures by which users and developers decide, in the order of the page. All others are in
 * lab/results/performance.json.
 */
export const HEADLINES: readonly string[] = [
  'watch event to kernel, one endpoint more at 10000x5',
  'one endpoint change among 50000 services, on the real kernel, addresses not bound',
  '1000 changes at once at 10000x5',
  'first sync 10000x5: whole, over the floor',
  'default/kubernetes usable in a cold start at 20000x1',
  'full check without change, 10000x10: CPU',
  'event loop held: first sync at 10000x5, the daemon as a process in nftables mode',
  'RSS of the daemon in the image, idle',
  'RSS of the daemon at 10000x10',
  'RSS after 50000 changes on the real kernel',
  'one endpoint change among 10000 services, in nftables mode',
  'first sync 10000x5 in nftables mode: whole, over nft',
  'start to the end of the first sync at 1000x10, beside kube-proxy in nftables mode',
  'one endpoint more at 1000x10, beside kube-proxy in nftables mode',
];

function targetsTable(measured: readonly Measurement[]): string {
  const targets = measured.filter(({ target }) => target !== undefined);
  if (targets.length === 0) return 'No measure with a target has run yet.';
  const headlines = HEADLINES.flatMap((name) => targets.filter((measurement) => measurement.name === name));
  const missed = targets.filter(({ name, target }) => target?.reached === false && !HEADLINES.includes(name));
  const count = `${targets.length - targets.filter(({ target }) => target?.reached === false).length} of ${targets.length}`;
  return [
    table(COLUMNS, headlines.map(targetRow)),
    `In all, ${count} targets are reached; \`lab/results/performance.json\` has them all.`,
    ...(missed.length === 0
      ? []
      : [`Other targets not reached:\n\n${missed.map(({ name }) => `- ${name}`).join('\n')}`]),
  ].join('\n\n');
}

const COLUMNS = ['measure', 'median', 'p99', 'baseline', 'ratio', 'target', 'result', 'n', 'kernel'];

function targetRow({ name, value, p99, unit, baseline, against, ratio, target, n, kernel }: Measurement): string[] {
  return [
    name,
    quantity(value, unit),
    quantity(p99, unit),
    baseline === null ? '' : `${quantity(baseline, unit)} (${against ?? ''})`,
    timesLess(ratio),
    target?.text ?? '',
    target?.reached === true ? 'reached' : '**not reached**',
    String(n),
    kernel,
  ].map(cell);
}

export function quantity(value: number, unit: string): string {
  return `${value.toLocaleString('en-US', { maximumSignificantDigits: 4 })} ${unit}`;
}

/** "0.25x (4 times less)" */
export function timesLess(ratio: number | null): string {
  if (ratio === null) return '';
  const times = ratio > 0 && ratio <= 0.5 ? ` (${Number((1 / ratio).toPrecision(3))} times less)` : '';
  return `${ratio}x${times}`;
}
