import { withDefaultPort } from './bind-address.ts';
import type { ReadConfig } from './config-document.ts';
import { type FieldPath, type FieldValues, defaultValues, withFields } from './config-fields.ts';
import { gateNotes } from './feature-gates.ts';
import { FLAGS } from './flag-table.ts';
import { type FlagValues, numberFlag, textFlag } from './flag-values.ts';
import type { VModule } from './value-kind.ts';

/** The effective fields, and what the log should say about how they came about. */
export interface CompleteConfig {
  readonly values: FieldValues;
  readonly notes: readonly string[];
}

/**
 * Flags alone leave the shortest time between syncs at what kube-proxy runs with: its defaults are built for the empty mode, which
 * takes the iptables value of 1s. A file with mode: ipvs gets 0s.
 */
const FLAG_ONLY_MIN_SYNC_PERIOD = 1000;

/** Flags of a sync period count only in the mode that they are for. */
function isForOtherMode(field: FieldPath, mode: string): boolean {
  if (field === 'iptables.syncPeriod' || field === 'iptables.minSyncPeriod') return mode === 'ipvs';
  return (field === 'ipvs.syncPeriod' || field === 'ipvs.minSyncPeriod') && mode !== 'ipvs';
}

function withPort(address: string, port: number): string {
  return port === 0 ? '' : withDefaultPort(address, port);
}

function overrideNodeName(values: FieldValues, flags: FlagValues): FieldValues {
  const name = textFlag(flags, 'hostname-override');
  return name === '' ? values : { ...values, hostnameOverride: name };
}

function flagNotes(flags: FlagValues): string[] {
  return FLAGS.filter(({ name }) => flags.has(name)).flatMap(({ name, deprecated, ignored }) => {
    if (ignored !== undefined) return [`--${name} has no effect: ${ignored}`];
    return deprecated === undefined ? [] : [`--${name} is deprecated: ${deprecated}`];
  });
}

function completeFromFlags(flags: FlagValues): FieldValues {
  const mode = textFlag(flags, 'proxy-mode');
  const changes = new Map<FieldPath, unknown>();
  for (const { name, field } of FLAGS) {
    if (field !== undefined && flags.has(name) && !isForOtherMode(field, mode)) changes.set(field, flags.get(name));
  }
  if (mode === 'ipvs' && !flags.has('ipvs-min-sync-period')) {
    changes.set('ipvs.minSyncPeriod', FLAG_ONLY_MIN_SYNC_PERIOD);
  }
  const values = withFields(defaultValues(), changes);
  // What is written to a file does not know the deprecated flags.
  const ports: FlagValues = flags.has('write-config-to') ? new Map() : flags;
  return {
    ...values,
    healthzBindAddress: withPort(values.healthzBindAddress, numberFlag(ports, 'healthz-port', 10_256)),
    metricsBindAddress: withPort(values.metricsBindAddress, numberFlag(ports, 'metrics-port', 10_249)),
  };
}

function completeFromFile(file: ReadConfig, flags: FlagValues): CompleteConfig {
  const changes = new Map<FieldPath, unknown>();
  const overruled: string[] = [];
  for (const { name, field, group } of FLAGS) {
    if (field === undefined || !flags.has(name) || field === 'hostnameOverride') continue;
    if (group !== 'Logging') overruled.push(`--${name}`);
    else if (field !== 'logging.vmodule') changes.set(field, flags.get(name));
  }
  for (const name of ['healthz-port', 'metrics-port']) if (flags.has(name)) overruled.push(`--${name}`);
  const vmodule = flags.get('vmodule') as readonly VModule[] | undefined;
  if (vmodule !== undefined) changes.set('logging.vmodule', [...vmodule, ...file.values['logging.vmodule']]);
  return {
    values: withFields(file.values, changes),
    notes: [
      ...file.warnings,
      ...(overruled.length > 0 ? [`ignored, because --config is given: ${overruled.join(', ')}`] : []),
    ],
  };
}

/** Puts flags and file together as kube-proxy does: the file replaces what flags built, but for logging and the node's name. */
export function completeConfig(flags: FlagValues, file: ReadConfig | undefined): CompleteConfig {
  const base = file === undefined ? { values: completeFromFlags(flags), notes: [] } : completeFromFile(file, flags);
  const values = overrideNodeName(base.values, flags);
  const notes = [...base.notes, ...flagNotes(flags), ...gateNotes(values.featureGates), ...addressNotes(values, flags)];
  return { values, notes };
}

/** A file cannot say "no server": an empty address in it means the default. */
function addressNotes(values: FieldValues, flags: FlagValues): string[] {
  if (!flags.has('write-config-to')) return [];
  return (['healthzBindAddress', 'metricsBindAddress'] as const)
    .filter((path) => values[path] === '')
    .map((path) => `${path} is empty, which a file cannot say: read again it takes its default`);
}
