import type { Trial } from './trial.ts';

/** What the user may choose; the settings of the cluster itself are passed on. */
export interface TrialSettings {
  readonly trials: readonly Trial[];
  /** Arguments for the settings of `make cluster`. */
  readonly cluster: readonly string[];
}

export class TrialSettingsError extends Error {
  override readonly name = 'TrialSettingsError';
}

/** Reads arguments like `TRIAL=name`; TRIAL=all selects every trial that the chosen service proxy can have. */
export function parseTrialSettings(argv: readonly string[], trials: readonly Trial[]): TrialSettings {
  const isOwn = (argument: string): boolean => argument.startsWith('TRIAL=');
  const name = argv.findLast(isOwn)?.slice('TRIAL='.length).trim() ?? '';
  const cluster = argv.filter((argument) => !isOwn(argument));
  const selected = name === 'all' ? trials : trials.filter((trial) => trial.name === name);
  if (selected.length === 0) {
    const names = trials.map((trial) => `  ${trial.name}: ${trial.what}`);
    throw new TrialSettingsError(`TRIAL=${name} is not all and not one of these trials:\n${names.join('\n')}`);
  }
  return { trials: selected, cluster };
}

/** Trials that can share a cluster, in their order: those that need the same settings. */
export function groupBySettings(trials: readonly Trial[]): readonly (readonly Trial[])[] {
  return [...Map.groupBy(trials, ({ settings = [] }) => settings.join(' ')).values()];
}
