import { factsOf } from '../base/proxy-mode.ts';
import { withDefaultPort } from './value/bind-address.ts';
import type { ReadConfig } from './config-document.ts';
import { gateNotes } from './value/feature-gates.ts';
import { FLAGS, type Flag, SETTINGS } from './flags/flag-table.ts';
import { sectionNotes } from './mode-section.ts';
import { modeNotes } from './mode-notes.ts';
import { DEFAULTS, type GivenSettings, type Settings } from './flags/settings.ts';

/** The effective settings, and log lines about settings that are ignored, deprecated or unknown. */
export interface CompleteConfig {
  readonly settings: Settings;
  readonly notes: readonly string[];
}

function withPort(address: string, port: number): string {
  return port === 0 ? '' : withDefaultPort(address, port);
}

function completeFromFlags(given: GivenSettings): Settings {
  const isIpvs = factsOf(given.mode)?.hasIpvs === true;
  // The sync periods of the other mode have no effect: reset them.
  const other = isIpvs ? 'iptables' : 'ipvs';
  const settings = {
    ...DEFAULTS,
    ...(isIpvs ? { 'ipvs.minSyncPeriod': SETTINGS['ipvs.minSyncPeriod'].flagFallback } : {}),
    ...given,
    [`${other}.syncPeriod`]: DEFAULTS[`${other}.syncPeriod`],
    [`${other}.minSyncPeriod`]: DEFAULTS[`${other}.minSyncPeriod`],
  };
  // --write-config-to does not write the deprecated port flags.
  const { healthzPort, metricsPort } = given.writeConfigTo === undefined ? settings : DEFAULTS;
  return {
    ...settings,
    healthzBindAddress: withPort(settings.healthzBindAddress, healthzPort),
    metricsBindAddress: withPort(settings.metricsBindAddress, metricsPort),
  };
}

/** Returns whether --config overrides a flag: port flags, and fields of the file except logging and the node's name. */
function yieldsToFile({ key, inFile, group }: Flag): boolean {
  if (key === 'healthzPort' || key === 'metricsPort') return true;
  return inFile && group !== 'Logging' && key !== 'hostnameOverride';
}

function completeFromFile({ fields, own, warnings }: ReadConfig, given: GivenSettings): CompleteConfig {
  const overruled = FLAGS.filter((flag) => flag.key in given && (yieldsToFile(flag) || flag.key in own));
  const { endpointCheck, serviceAnnotations } = own;
  const settings = {
    ...fields,
    ...given,
    ...Object.fromEntries(overruled.filter(({ inFile }) => inFile).map(({ key }) => [key, fields[key]])),
    hostnameOverride: given.hostnameOverride || fields.hostnameOverride,
    ...(serviceAnnotations === undefined ? {} : { serviceAnnotations }),
    ...(endpointCheck === undefined ? {} : { endpointCheck }),
    'logging.vmodule': [...(given['logging.vmodule'] ?? []), ...fields['logging.vmodule']],
  };
  const names = overruled.map(({ name }) => `--${name}`).join(', ');
  return { settings, notes: [...warnings, ...(names === '' ? [] : [`ignored, because --config is given: ${names}`])] };
}

function flagNotes(given: GivenSettings): string[] {
  return FLAGS.filter(({ key }) => key in given).flatMap(({ name, deprecated, ignored }) => {
    if (ignored !== undefined) return [`--${name} has no effect: ${ignored}`];
    return deprecated === undefined ? [] : [`--${name} is deprecated: ${deprecated}`];
  });
}

/** Warns about empty addresses, which disable a server here but mean the default in a written file. */
function addressNotes(settings: Settings): string[] {
  if (settings.writeConfigTo === undefined) return [];
  return (['healthzBindAddress', 'metricsBindAddress'] as const)
    .filter((path) => settings[path] === '')
    .map((path) => `${path} is empty here, but in a file that --config reads, an empty value means the default`);
}

/**
 * Returns a note if --manifests makes the kubeconfig unused. This is not an error, because all nodes may share one
 * configuration file.
 */
function sourceNotes(settings: Settings): string[] {
  return settings.manifests === undefined || settings['clientConnection.kubeconfig'] === ''
    ? []
    : ['clientConnection.kubeconfig has no effect with --manifests: no API server is asked'];
}

/** Returns a note if no Service is selected whose real servers could have metrics. */
function metricsNotes({ serviceMetrics, serviceMetricsSelector, serviceMetricsRealServers }: Settings): string[] {
  return !serviceMetricsRealServers || serviceMetrics || serviceMetricsSelector !== undefined
    ? []
    : ['--service-metrics-real-servers has no effect without --service-metrics or --service-metrics-selector'];
}

/** Merges flags and file as kube-proxy does: the file overrides all but logging flags and the node's name. */
export function completeConfig(given: GivenSettings, file: ReadConfig | undefined): CompleteConfig {
  const { settings, notes } =
    file === undefined ? { settings: completeFromFlags(given), notes: [] } : completeFromFile(file, given);
  return {
    settings,
    notes: [
      ...notes,
      ...flagNotes(given),
      ...gateNotes(settings.featureGates, settings.mode),
      ...addressNotes(settings),
      ...sourceNotes(settings),
      ...metricsNotes(settings),
      ...modeNotes(settings, file?.own ?? {}),
      ...sectionNotes(settings, given),
    ],
  };
}
