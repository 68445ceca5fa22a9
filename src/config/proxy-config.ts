import type { Cidr } from '../net/cidr.ts';
import type { IpAddress } from '../net/ip.ts';
import type { Port } from '../net/port.ts';
import type { BindAddress } from './bind-address.ts';
import type { FieldValues } from './config-fields.ts';
import type { Duration } from './duration.ts';
import type { FeatureGate } from './feature-gates.ts';
import type { FlagValues } from './flag-values.ts';
import type { VModule } from './value-kind.ts';

export type DetectLocalMode = 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix';

export interface ApiClientConfig {
  /** Path of a kubeconfig file; with neither this nor `master`, the Pod's service account is used. */
  readonly kubeconfig: string | undefined;
  /** Server URL that wins over the kubeconfig's. */
  readonly master: string | undefined;
  readonly contentType: string;
  readonly acceptContentTypes: string;
  /** Requests a second; negative means no limit. */
  readonly qps: number;
  readonly burst: number;
}

export interface LoggingConfig {
  readonly format: 'text' | 'json';
  /** -v: how much of Log.debug is shown. */
  readonly verbosity: number;
  /** First match wins. */
  readonly vmodule: readonly VModule[];
  /** Info to standard output, errors to standard error; otherwise all to standard error. */
  readonly splitStream: boolean;
}

/** Zero leaves the kernel's value alone. */
export interface IpvsTimeouts {
  readonly tcp: Duration;
  readonly tcpFin: Duration;
  readonly udp: Duration;
}

/** Zero timeouts and maxPerCore leave the kernel's value alone. */
export interface ConntrackConfig {
  readonly maxPerCore: number;
  readonly min: number;
  readonly tcpEstablishedTimeout: Duration;
  readonly tcpCloseWaitTimeout: Duration;
  /** True writes nf_conntrack_tcp_be_liberal=1; false writes nothing. */
  readonly tcpBeLiberal: boolean;
  readonly udpTimeout: Duration;
  readonly udpStreamTimeout: Duration;
}

/** The resolved configuration: parsed, merged, defaulted and validated. Durations are milliseconds. */
export interface ProxyConfig {
  /** What to do: run the daemon, or one task and exit. */
  readonly action: 'run' | 'cleanup' | 'init-only';
  /** The file given by --config, to be watched. */
  readonly configFile: { readonly path: string; readonly sha256: string } | undefined;
  /** What the log should say at start: ignored flags, unknown keys. */
  readonly notes: readonly string[];

  readonly api: ApiClientConfig;
  /** A directory of Service, EndpointSlice and Node manifests that stands in for the API server. */
  readonly manifests: string | undefined;
  /** Informer resync upstream; no effect here, where a full check compares everything each syncPeriod. */
  readonly configSyncPeriod: Duration;

  /** Lower case, trimmed; undefined: the host's name. */
  readonly hostnameOverride: string | undefined;
  /** Replaces the node's primary address of its family; undefined for 0.0.0.0 and ::. */
  readonly nodeIpOverride: IpAddress | undefined;
  readonly oomScoreAdj: number;

  /** Undefined: no health server. */
  readonly healthzBind: BindAddress | undefined;
  /** Undefined: no metrics server. */
  readonly metricsBind: BindAddress | undefined;
  /** A server that cannot bind ends the process instead of being retried. */
  readonly bindAddressHardFail: boolean;
  readonly profiling: boolean;

  readonly scheduler: string;
  readonly syncPeriod: Duration;
  readonly minSyncPeriod: Duration;
  /** Virtual servers whose address is in one of these are not ours: never changed or deleted. */
  readonly excludeCidrs: readonly Cidr[];
  /** Service addresses in these are served, but not bound to kube-ipvs0. */
  readonly unboundCidrs: readonly Cidr[];
  /** A local route stands for the service addresses in these; each at least /8 or /48. */
  readonly localRouteCidrs: readonly Cidr[];
  /** net.ipv4.vs.run_estimation; undefined: left as it is. */
  readonly runEstimation: boolean | undefined;
  readonly strictArp: boolean;
  readonly ipvsTimeouts: IpvsTimeouts;
  /** How long a removed TCP real server may drain at weight 0 before it is deleted; 0: until its last connection ends. */
  readonly drainTimeout: Duration;
  /** Up to so many Services have metrics of their own; 0: none. */
  readonly serviceMetricsLimit: number;
  /** The real servers of these Services too. */
  readonly serviceMetricsRealServers: boolean;

  readonly masqueradeAll: boolean;
  /** The packet mark is 1 << masqueradeBit (unsigned). */
  readonly masqueradeBit: number;
  readonly masqueradePorts: { readonly from: Port; readonly to: Port } | undefined;

  readonly detectLocalMode: DetectLocalMode;
  /** At most one of each family. */
  readonly clusterCidrs: readonly Cidr[];
  readonly bridgeInterface: string;
  readonly interfaceNamePrefix: string;
  /** Empty: every address of the node. */
  readonly nodePortAddresses: readonly Cidr[] | 'primary';

  readonly conntrack: ConntrackConfig;
  readonly logging: LoggingConfig;
  readonly featureGates: readonly FeatureGate[];
  /** The effective KubeProxyConfiguration v1alpha1 behind all this, for --write-config-to and /configz. */
  readonly fields: FieldValues;
  /** The flags that were given, for /flagz. */
  readonly given: FlagValues;
}
