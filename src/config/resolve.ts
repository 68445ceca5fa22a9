import { type Cidr, parseCidr } from '../base/cidr.ts';
import { isUnspecified } from '../base/ip.ts';
import { readIp } from '../base/read-ip.ts';
import type { ServiceDefaults } from '../base/service/service-defaults.ts';
import { MODES, isMode, type ProxyMode } from '../base/proxy-mode.ts';
import { toPort } from '../base/port.ts';
import { type BindAddress, parseBindAddress } from './value/bind-address.ts';
import { completeConfig } from './complete.ts';
import type { ReadConfig } from './config-document.ts';
import { resolveGates } from './value/feature-gates.ts';
import { modeFields } from './mode-notes.ts';
import { nodePortSelection } from './value/node-port-selection.ts';
import { DRY_RUN_PORT_OFFSET, OWN_FLAGS } from './flags/own-flags.ts';
import { ConfigError, fieldProblem } from './value/problem.ts';
import type { DetectLocalMode, LoggingConfig, ProxyConfig } from './proxy-config.ts';
import type { ValuesOf } from './flags/setting.ts';
import { DEFAULTS, type GivenSettings, type Settings, section, settingAt } from './flags/settings.ts';
import { type Problem, validate } from './validation.ts';

/** A parsed configuration file, with its path and hash. */
export interface ConfigFile extends ReadConfig {
  readonly path: string;
  readonly sha256: string;
}

function sentence({ key, index, text }: Problem, fromFile: boolean): string {
  const { name, inFile } = settingAt(key);
  if (!inFile) return `--${name}: ${text}`;
  const at = index === undefined ? '' : `[${index}]`;
  // Without a configuration file, the user knows the field by its flag: name the flag too.
  return `${fieldProblem(key + at, text)}${fromFile ? '' : ` (--${name})`}`;
}

/** Returns the errors of flags that exclude or require each other. */
function combinationErrors(given: GivenSettings): string[] {
  const { manifests, force = false, cleanup = false, initOnly = false, dryRun = false } = given;
  const servers = (['master', 'clientConnection.kubeconfig'] as const).filter((key) => given[key]);
  const both = manifests === undefined ? [] : servers.map((key) => `--manifests and --${settingAt(key).name}`);
  return [
    ...both.map((flags) => `${flags} exclude each other: objects come from a directory or from an API server`),
    ...(force && !cleanup ? ['--force requires --cleanup'] : []),
    ...(dryRun && cleanup ? ['--dry-run and --cleanup exclude each other'] : []),
    ...(cleanup && initOnly ? ['--cleanup and --init-only exclude each other'] : []),
    ...(dryRun && initOnly ? ['--dry-run and --init-only exclude each other'] : []),
  ];
}

function checkAll(settings: Settings, given: GivenSettings): void {
  const fromFile = given.config !== undefined;
  const errors = [...validate(settings).map((each) => sentence(each, fromFile)), ...combinationErrors(given)];
  const anyMode = settings.cleanup || settings.writeConfigTo !== undefined;
  // An unknown mode is already an error of validate().
  if (!anyMode && settings.mode === '') errors.push(NO_MODE);
  if (settings.dryRun && MODES[modeOf(settings.mode)].forwards === true) errors.push(NO_DRY_RUN);
  if (errors.length > 0) throw new ConfigError(errors);
}

const NO_MODE =
  'no mode is set, which means iptables in kube-proxy: set --proxy-mode=ipvs (or mode: ipvs), or another mode of docs/modes.md';

const NO_DRY_RUN =
  '--dry-run compares what the kernel has, but in userspace mode only the daemon knows the endpoints: use diff beside it, or choose another mode';

/** Leaves out what has no effect in the mode. */
function withEffect(defaults: ServiceDefaults, { mode }: Pick<Settings, 'mode'>): ServiceDefaults {
  const { annotations: known } = MODES[modeOf(mode)];
  return { ...defaults, annotations: defaults.annotations.filter(({ name }) => known?.includes(name) !== false) };
}

function isWithoutIpvs({ mode }: Pick<Settings, 'mode'>): boolean {
  return !MODES[modeOf(mode)].hasIpvs;
}

/** Returns ipvs mode for an unknown one: it was refused before, or the task (such as --cleanup) needs no mode. */
function modeOf(mode: string): ProxyMode {
  return isMode(mode) ? mode : 'ipvs';
}

function cidrsOf(texts: readonly string[]): Cidr[] {
  return texts.map(parseCidr).filter((cidr) => cidr !== undefined);
}

function loggingOf(settings: Settings): LoggingConfig {
  const format = settings['logging.format'] === 'json' ? 'json' : 'text';
  return {
    format,
    verbosity: settings['logging.verbosity'],
    vmodule: settings['logging.vmodule'],
    splitStream: settings[`logging.options.${format}.splitStream`],
  };
}

function actionOf({ cleanup, initOnly, dryRun }: Settings): ProxyConfig['action'] {
  if (cleanup) return 'cleanup';
  if (initOnly) return 'init-only';
  return dryRun ? 'dry-run' : 'run';
}

/** Returns the address of a server. A dry run listens on a higher port or, above 65535, on a lower one. */
function bindOf(text: string, { dryRun }: Settings): BindAddress | undefined {
  const where = parseBindAddress(text);
  if (where === undefined || !dryRun) return where;
  const port = toPort(where.port + DRY_RUN_PORT_OFFSET) ?? toPort(where.port - DRY_RUN_PORT_OFFSET);
  return port === undefined ? undefined : { ...where, port };
}

/** Returns only the values of the flags that kube-proxy does not have. */
function ownFlags(settings: Settings): ValuesOf<typeof OWN_FLAGS> {
  const keys = Object.keys(OWN_FLAGS) as (keyof typeof OWN_FLAGS)[];
  return Object.fromEntries(keys.map((key) => [key, settings[key]])) as ValuesOf<typeof OWN_FLAGS>;
}

/** As in client-go. */
function acceptOf(settings: Settings): string {
  const type = settings['clientConnection.contentType'] || DEFAULTS['clientConnection.contentType'];
  return settings['clientConnection.acceptContentTypes'] || `${type}, */*`;
}

/** Converts valid settings to the names and types that the rest of the program uses. */
function toConfig(settings: Settings): Omit<ProxyConfig, 'configFile' | 'notes' | 'ownFields' | 'serviceDefaults'> {
  const nodeIp = readIp(settings.bindAddress);
  return {
    ...ownFlags(settings),
    settings,
    mode: modeOf(settings.mode),
    action: actionOf(settings),
    api: {
      kubeconfig: settings['clientConnection.kubeconfig'],
      master: settings.master ?? '',
      // As in client-go, zero means the default.
      qps: settings['clientConnection.qps'] || DEFAULTS['clientConnection.qps'],
      burst: settings['clientConnection.burst'] || DEFAULTS['clientConnection.burst'],
      accept: acceptOf(settings),
    },
    hostnameOverride: settings.hostnameOverride.trim().toLowerCase() || undefined,
    nodeIpOverride: nodeIp === undefined || isUnspecified(nodeIp) ? undefined : nodeIp,
    oomScoreAdj: settings.oomScoreAdj,
    healthzBind: bindOf(settings.healthzBindAddress, settings),
    metricsBind: bindOf(settings.metricsBindAddress, settings),
    // This guard keeps a second proxy from writing to the kernel.
    bindAddressHardFail: settings.bindAddressHardFail && !settings.dryRun,
    profiling: settings.enableProfiling,
    scheduler: settings['ipvs.scheduler'] || 'rr',
    syncPeriod: settings['ipvs.syncPeriod'],
    minSyncPeriod: settings['ipvs.minSyncPeriod'],
    excludeCidrs: cidrsOf(settings['ipvs.excludeCIDRs']),
    strictArp: settings['ipvs.strictARP'],
    ipvsTimeouts: {
      tcp: settings['ipvs.tcpTimeout'],
      tcpFin: settings['ipvs.tcpFinTimeout'],
      udp: settings['ipvs.udpTimeout'],
    },
    masqueradeAll: settings['iptables.masqueradeAll'],
    masqueradeBit: settings['iptables.masqueradeBit'],
    localhostNodePorts: settings['iptables.localhostNodePorts'],
    detectLocalMode: (settings.detectLocalMode || 'ClusterCIDR') as DetectLocalMode,
    clusterCidrs: cidrsOf(settings.clusterCIDR.split(',')),
    bridgeInterface: settings['detectLocal.bridgeInterface'],
    interfaceNamePrefix: settings['detectLocal.interfaceNamePrefix'],
    nodePortAddresses: nodePortSelection(settings.nodePortAddresses),
    conntrack: section(settings, 'conntrack'),
    logging: loggingOf(settings),
    featureGates: resolveGates(settings.featureGates),
    ...(isWithoutIpvs(settings) ? modeFields(settings) : {}),
  };
}

/**
 * Merges and validates the flags and the file, if there is one, and returns the configuration.
 *
 * @throws ConfigError with all errors
 */
export function resolveConfig(given: GivenSettings, file: ConfigFile | undefined): ProxyConfig {
  const { settings, notes } = completeConfig(given, file);
  checkAll(settings, given);
  const configFile = file === undefined ? undefined : { path: file.path, sha256: file.sha256 };
  const serviceDefaults = file?.own.serviceDefaults ?? [];
  return {
    ...toConfig(settings),
    ownFields: {
      endpointCheck: settings.endpointCheck,
      serviceAnnotations: settings.serviceAnnotations,
      serviceDefaults,
    },
    serviceDefaults: serviceDefaults.map((each) => withEffect(each, settings)),
    configFile,
    notes,
  };
}
