import { HOUR, MINUTE, SECOND } from './duration.ts';
import * as kinds from './value-kind.ts';
import type { ValueKind } from './value-kind.ts';

/** One field of KubeProxyConfiguration v1alpha1. */
export interface Field<T> {
  readonly kind: ValueKind<T>;
  readonly fallback: T;
  /** Some fields take their default also where the file states the zero value. */
  readonly zeroIsUnset: boolean;
}

function field<T>(kind: ValueKind<T>, fallback: NoInfer<T>): Field<T> {
  return { kind, fallback, zeroIsUnset: false };
}

function zeroMeansDefault<T>(kind: ValueKind<T>, fallback: NoInfer<T>): Field<T> {
  return { kind, fallback, zeroIsUnset: true };
}

const { bool, duration, durationOrNanoseconds, float32, gates, int32, quantity, string, strings, uint32, vmodule } =
  kinds;

/**
 * Every field of kubeproxy.config.k8s.io/v1alpha1 by its path, with the default for an empty mode (what a start from flags alone
 * begins with; the file's defaults that depend on other fields are in config-document.ts). Reader, writer, flags and validation share it.
 */
export const FIELDS = {
  featureGates: field(gates, {}),
  'clientConnection.kubeconfig': field(string, ''),
  'clientConnection.acceptContentTypes': field(string, ''),
  'clientConnection.contentType': zeroMeansDefault(string, 'application/vnd.kubernetes.protobuf'),
  'clientConnection.qps': zeroMeansDefault(float32, 5),
  'clientConnection.burst': zeroMeansDefault(int32, 10),
  'logging.format': zeroMeansDefault(string, 'text'),
  'logging.flushFrequency': zeroMeansDefault(durationOrNanoseconds, 5 * SECOND),
  'logging.verbosity': field(uint32, 0),
  'logging.vmodule': field(vmodule, []),
  'logging.options.text.splitStream': field(bool, false),
  'logging.options.text.infoBufferSize': field(quantity, '0'),
  'logging.options.json.splitStream': field(bool, false),
  'logging.options.json.infoBufferSize': field(quantity, '0'),
  hostnameOverride: field(string, ''),
  bindAddress: zeroMeansDefault(string, '0.0.0.0'),
  healthzBindAddress: zeroMeansDefault(string, '0.0.0.0:10256'),
  metricsBindAddress: zeroMeansDefault(string, '127.0.0.1:10249'),
  bindAddressHardFail: field(bool, false),
  enableProfiling: field(bool, false),
  showHiddenMetricsForVersion: field(string, ''),
  mode: field(string, ''),
  clusterCIDR: field(string, ''),
  detectLocalMode: field(string, ''),
  'detectLocal.bridgeInterface': field(string, ''),
  'detectLocal.interfaceNamePrefix': field(string, ''),
  nodePortAddresses: field(strings, []),
  oomScoreAdj: field(int32, -999),
  'conntrack.maxPerCore': field(int32, 32_768),
  'conntrack.min': field(int32, 131_072),
  'conntrack.tcpEstablishedTimeout': field(duration, 24 * HOUR),
  'conntrack.tcpCloseWaitTimeout': field(duration, HOUR),
  'conntrack.tcpBeLiberal': field(bool, false),
  'conntrack.udpTimeout': field(duration, 0),
  'conntrack.udpStreamTimeout': field(duration, 0),
  'iptables.masqueradeBit': field(int32, 14),
  'iptables.masqueradeAll': field(bool, false),
  'iptables.localhostNodePorts': field(bool, true),
  'iptables.syncPeriod': zeroMeansDefault(duration, 30 * SECOND),
  'iptables.minSyncPeriod': zeroMeansDefault(duration, SECOND),
  'ipvs.syncPeriod': zeroMeansDefault(duration, 30 * SECOND),
  'ipvs.minSyncPeriod': field(duration, 0),
  'ipvs.scheduler': field(string, ''),
  'ipvs.excludeCIDRs': field(strings, []),
  'ipvs.strictARP': field(bool, false),
  'ipvs.tcpTimeout': field(duration, 0),
  'ipvs.tcpFinTimeout': field(duration, 0),
  'ipvs.udpTimeout': field(duration, 0),
  'nftables.masqueradeBit': field(int32, 14),
  'nftables.masqueradeAll': field(bool, false),
  'nftables.syncPeriod': zeroMeansDefault(duration, 30 * SECOND),
  'nftables.minSyncPeriod': zeroMeansDefault(duration, SECOND),
  'winkernel.networkName': field(string, ''),
  'winkernel.sourceVip': field(string, ''),
  'winkernel.enableDSR': field(bool, false),
  'winkernel.rootHnsEndpointName': field(string, ''),
  'winkernel.forwardHealthCheckVip': field(bool, false),
  windowsRunAsService: field(bool, false),
  configSyncPeriod: zeroMeansDefault(duration, 15 * MINUTE),
  portRange: field(string, ''),
} as const;

export type FieldPath = keyof typeof FIELDS;

/** A whole KubeProxyConfiguration: the value of each field by its path. */
export type FieldValues = {
  readonly [P in FieldPath]: (typeof FIELDS)[P] extends Field<infer T> ? T : never;
};

export const FIELD_PATHS = Object.keys(FIELDS) as readonly FieldPath[];

export function isFieldPath(path: string): path is FieldPath {
  return Object.hasOwn(FIELDS, path);
}

/** The field seen without its exact type, for code that walks all of them. */
export function fieldAt(path: FieldPath): Field<unknown> {
  return FIELDS[path];
}

/** Sets fields by path; what is not named keeps its value. */
export function withFields(values: FieldValues, changes: ReadonlyMap<FieldPath, unknown>): FieldValues {
  return { ...values, ...(Object.fromEntries(changes) as Partial<FieldValues>) };
}

/** The defaulted object for an empty mode. */
export function defaultValues(): FieldValues {
  return Object.fromEntries(FIELD_PATHS.map((path) => [path, FIELDS[path].fallback])) as FieldValues;
}
