import { type Cidr, cidrFamily, formatCidr, parseCidr } from '../net/cidr.ts';
import { type IpFamily, isUnspecified, parseIp } from '../net/ip.ts';
import { type Port, toPort } from '../net/port.ts';
import { parseBindAddress } from './bind-address.ts';
import { type CompleteConfig, completeConfig } from './complete.ts';
import type { ReadConfig } from './config-document.ts';
import type { FieldValues } from './config-fields.ts';
import { type Duration, formatDuration } from './duration.ts';
import { resolveGates } from './feature-gates.ts';
import { FLAGS } from './flag-table.ts';
import { type FlagValues, boolFlag, listFlag, numberFlag, textFlag } from './flag-values.ts';
import { ConfigError, formatProblem, show } from './problem.ts';
import type { DetectLocalMode, LoggingConfig, ProxyConfig } from './proxy-config.ts';
import { modeRefusal, validate } from './validation.ts';

interface PortRange {
  readonly from: Port;
  readonly to: Port;
}

/** "from-to", both ends included. */
function parsePortRange(text: string): PortRange | undefined {
  const parts = /^(\d{1,5})-(\d{1,5})$/.exec(text);
  const from = toPort(Number(parts?.[1]));
  const to = toPort(Number(parts?.[2]));
  return from === undefined || to === undefined || from > to ? undefined : { from, to };
}

interface OwnFlags {
  readonly drainTimeout: Duration;
  readonly serviceMetricsLimit: number;
  readonly serviceMetricsRealServers: boolean;
  readonly masqueradePorts: PortRange | undefined;
  readonly unboundCidrs: readonly Cidr[];
  readonly localRouteCidrs: readonly Cidr[];
  readonly runEstimation: boolean | undefined;
  readonly errors: readonly string[];
}

/** The shortest prefixes of a local route: no service CIDR is larger, and what is routed here is taken from the whole node. */
const SHORTEST: Readonly<Record<IpFamily, number>> = { 4: 8, 6: 48 };

function cidrsFlag(flags: FlagValues, name: string, errors: string[]): readonly Cidr[] {
  const texts = listFlag(flags, name);
  for (const text of texts.filter((each) => parseCidr(each) === undefined)) {
    errors.push(`--${name}: ${show(text)} is no CIDR: want one such as "10.0.0.0/8" or "fd00::/64"`);
  }
  return cidrsOf(texts);
}

/** The flags that kube-proxy does not have; no file holds them. */
function ownFlags(flags: FlagValues): OwnFlags {
  const errors: string[] = [];
  const drainTimeout = numberFlag(flags, 'ipvs-drain-timeout', 0);
  if (drainTimeout < 0)
    errors.push(`--ipvs-drain-timeout: ${formatDuration(drainTimeout)} is negative: want 0s or more`);
  const serviceMetricsLimit = numberFlag(flags, 'service-metrics-limit', 1000);
  if (serviceMetricsLimit < 0)
    errors.push(`--service-metrics-limit: ${serviceMetricsLimit} is negative: want 0 (no such metrics) or more`);
  const range = textFlag(flags, 'masquerade-port-range');
  const masqueradePorts = parsePortRange(range);
  if (range !== '' && masqueradePorts === undefined) {
    errors.push(`--masquerade-port-range: ${show(range)} is no range: want <from>-<to> with ports from 1 to 65535`);
  }
  const unboundCidrs = cidrsFlag(flags, 'ipvs-unbound-cidrs', errors);
  const localRouteCidrs = cidrsFlag(flags, 'ipvs-local-route-cidrs', errors);
  for (const cidr of localRouteCidrs.filter((cidr) => cidr.prefix < SHORTEST[cidrFamily(cidr)])) {
    errors.push(
      `--ipvs-local-route-cidrs: ${formatCidr(cidr)} is too large: want a service CIDR, of /${SHORTEST[cidrFamily(cidr)]} at least`,
    );
  }
  if (textFlag(flags, 'manifests') !== '' && textFlag(flags, 'master') !== '') {
    errors.push('--manifests and --master exclude each other: objects come from a directory or from an API server');
  }
  const estimation = textFlag(flags, 'ipvs-run-estimation');
  if (!['', 'true', 'false'].includes(estimation))
    errors.push(`--ipvs-run-estimation: want true or false, got ${show(estimation)}`);
  const runEstimation = estimation === '' ? undefined : estimation === 'true';
  return {
    drainTimeout,
    serviceMetricsLimit,
    serviceMetricsRealServers: boolFlag(flags, 'service-metrics-real-servers'),
    masqueradePorts,
    unboundCidrs,
    localRouteCidrs,
    runEstimation,
    errors,
  };
}

/** For people who wrote flags and no file, the name of the flag behind the path. */
function withFlagName(path: string, sentence: string): string {
  const flag = FLAGS.find(({ field }) => field === path.replace(/\[\d+\].*$/, ''));
  return flag === undefined ? sentence : `${sentence} (--${flag.name})`;
}

function checkAll({ values }: CompleteConfig, flags: FlagValues, own: OwnFlags): void {
  const fromFile = flags.has('config');
  const errors = validate(values).map((problem) =>
    fromFile ? formatProblem(problem) : withFlagName(problem.path, formatProblem(problem)),
  );
  errors.push(...own.errors);
  const anyMode = boolFlag(flags, 'cleanup') || flags.has('write-config-to');
  const refusal = modeRefusal(values.mode);
  // A mode that does not exist is already among the errors.
  const known = ['', 'iptables', 'nftables'].includes(values.mode);
  if (!anyMode && known && refusal !== undefined) errors.push(refusal);
  if (errors.length > 0) throw new ConfigError(errors);
}

function cidrsOf(texts: readonly string[]): Cidr[] {
  return texts.map(parseCidr).filter((cidr) => cidr !== undefined);
}

function loggingOf(values: FieldValues): LoggingConfig {
  const format = values['logging.format'] === 'json' ? 'json' : 'text';
  return {
    format,
    verbosity: values['logging.verbosity'],
    vmodule: values['logging.vmodule'],
    splitStream: values[`logging.options.${format}.splitStream`],
  };
}

function orUndefined(text: string): string | undefined {
  return text === '' ? undefined : text;
}

function actionOf(flags: FlagValues): ProxyConfig['action'] {
  if (boolFlag(flags, 'cleanup')) return 'cleanup';
  return boolFlag(flags, 'init-only') ? 'init-only' : 'run';
}

/** A file that was read, and the hash of what it held. */
export interface ConfigFile extends ReadConfig {
  readonly path: string;
  readonly sha256: string;
}

type FromFlags =
  | 'action'
  | 'given'
  | 'configFile'
  | 'notes'
  | 'manifests'
  | 'drainTimeout'
  | 'serviceMetricsLimit'
  | 'serviceMetricsRealServers'
  | 'masqueradePorts'
  | 'unboundCidrs'
  | 'localRouteCidrs'
  | 'runEstimation';

/** The fields in the words and types of the rest of the program; the values are valid. */
function fromFields(values: FieldValues, flags: FlagValues): Omit<ProxyConfig, FromFlags> {
  const nodeIp = parseIp(values.bindAddress);
  return {
    fields: values,
    api: {
      kubeconfig: orUndefined(values['clientConnection.kubeconfig']),
      master: orUndefined(textFlag(flags, 'master')),
      contentType: values['clientConnection.contentType'],
      acceptContentTypes: values['clientConnection.acceptContentTypes'],
      // Zero from a flag is the client's own default, as in client-go.
      qps: values['clientConnection.qps'] || 5,
      burst: values['clientConnection.burst'] || 10,
    },
    configSyncPeriod: values.configSyncPeriod,
    hostnameOverride: orUndefined(values.hostnameOverride.trim().toLowerCase()),
    nodeIpOverride: nodeIp === undefined || isUnspecified(nodeIp) ? undefined : nodeIp,
    oomScoreAdj: values.oomScoreAdj,
    healthzBind: parseBindAddress(values.healthzBindAddress),
    metricsBind: parseBindAddress(values.metricsBindAddress),
    bindAddressHardFail: values.bindAddressHardFail,
    profiling: values.enableProfiling,
    scheduler: values['ipvs.scheduler'] || 'rr',
    syncPeriod: values['ipvs.syncPeriod'],
    minSyncPeriod: values['ipvs.minSyncPeriod'],
    excludeCidrs: cidrsOf(values['ipvs.excludeCIDRs']),
    strictArp: values['ipvs.strictARP'],
    ipvsTimeouts: {
      tcp: values['ipvs.tcpTimeout'],
      tcpFin: values['ipvs.tcpFinTimeout'],
      udp: values['ipvs.udpTimeout'],
    },
    masqueradeAll: values['iptables.masqueradeAll'],
    masqueradeBit: values['iptables.masqueradeBit'],
    detectLocalMode: (values.detectLocalMode || 'ClusterCIDR') as DetectLocalMode,
    clusterCidrs: cidrsOf(values.clusterCIDR.split(',')),
    bridgeInterface: values['detectLocal.bridgeInterface'],
    interfaceNamePrefix: values['detectLocal.interfaceNamePrefix'],
    nodePortAddresses: values.nodePortAddresses[0] === 'primary' ? 'primary' : cidrsOf(values.nodePortAddresses),
    conntrack: {
      maxPerCore: values['conntrack.maxPerCore'],
      min: values['conntrack.min'],
      tcpEstablishedTimeout: values['conntrack.tcpEstablishedTimeout'],
      tcpCloseWaitTimeout: values['conntrack.tcpCloseWaitTimeout'],
      tcpBeLiberal: values['conntrack.tcpBeLiberal'],
      udpTimeout: values['conntrack.udpTimeout'],
      udpStreamTimeout: values['conntrack.udpStreamTimeout'],
    },
    logging: loggingOf(values),
    featureGates: resolveGates(values.featureGates),
  };
}

/**
 * Flags, and the file if there is one, to the configuration that the program runs with.
 *
 * @throws ConfigError with everything that is wrong
 */
export function resolveConfig(flags: FlagValues, file: ConfigFile | undefined): ProxyConfig {
  const complete = completeConfig(flags, file);
  const own = ownFlags(flags);
  checkAll(complete, flags, own);
  return {
    ...fromFields(complete.values, flags),
    action: actionOf(flags),
    given: flags,
    configFile: file === undefined ? undefined : { path: file.path, sha256: file.sha256 },
    notes: complete.notes,
    manifests: orUndefined(textFlag(flags, 'manifests')),
    drainTimeout: own.drainTimeout,
    serviceMetricsLimit: own.serviceMetricsLimit,
    serviceMetricsRealServers: own.serviceMetricsRealServers,
    masqueradePorts: own.masqueradePorts,
    unboundCidrs: own.unboundCidrs,
    localRouteCidrs: own.localRouteCidrs,
    runEstimation: own.runEstimation,
  };
}
