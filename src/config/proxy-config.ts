import type { Cidr } from '../base/cidr.ts';
import type { IpAddress } from '../base/ip.ts';
import type { ProxyMode } from '../base/proxy-mode.ts';
import type { ServiceDefaults } from '../base/service/service-defaults.ts';
import type { BindAddress } from './value/bind-address.ts';
import type { Duration } from '../base/duration.ts';
import type { FeatureGate } from './value/feature-gates.ts';
import type { NodePortSelection } from './value/node-port-selection.ts';
import type { OwnFields } from './own-document.ts';
import type { OWN_FLAGS } from './flags/own-flags.ts';
import type { ValuesOf } from './flags/setting.ts';
import type { Section, Settings } from './flags/settings.ts';
import type { VModule } from './value/value-kind.ts';

export type DetectLocalMode = 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix';

export interface ApiClientConfig {
  /** Path of a kubeconfig file, or "". With neither this nor `master`, the Pod's service account is used. */
  readonly kubeconfig: string;
  /** Server URLs that override the kubeconfig's, separated by commas, or "". */
  readonly master: string;
  /** Requests per second; negative means no limit. */
  readonly qps: number;
  readonly burst: number;
  /** Accept header of lists and watches. */
  readonly accept: string;
}

export interface LoggingConfig {
  readonly format: 'text' | 'json';
  /** Highest verbosity of Log.debug lines that are logged (-v). */
  readonly verbosity: number;
  /** The first entry whose pattern matches applies. */
  readonly vmodule: readonly VModule[];
  /** Whether info goes to standard output and errors to standard error; if false, all goes to standard error. */
  readonly splitStream: boolean;
}

/** Zero timeouts and a zero maxPerCore keep the value of the kernel, and so does tcpBeLiberal=false. */
export type ConntrackConfig = Section<'conntrack'>;

/** The resolved configuration: parsed, merged, defaulted and validated. Durations are milliseconds. */
export interface ProxyConfig extends ValuesOf<typeof OWN_FLAGS> {
  readonly mode: ProxyMode;
  /** Whether to run the daemon, or one task and exit. */
  readonly action: 'run' | 'dry-run' | 'cleanup' | 'init-only';
  /** The file of --config, to be watched. */
  readonly configFile: { readonly path: string; readonly sha256: string } | undefined;
  /** Lines to log at start: ignored flags, unknown keys. */
  readonly notes: readonly string[];

  readonly api: ApiClientConfig;
  /** In lower case and trimmed; undefined means the name of the host. */
  readonly hostnameOverride: string | undefined;
  /** Replaces the node's primary address of the same family; undefined if --bind-address is 0.0.0.0 or ::. */
  readonly nodeIpOverride: IpAddress | undefined;
  readonly oomScoreAdj: number;

  /** Undefined if there is no health server. */
  readonly healthzBind: BindAddress | undefined;
  /** Undefined if there is no metrics server. */
  readonly metricsBind: BindAddress | undefined;
  /** Whether to exit if a server cannot bind, instead of retrying. */
  readonly bindAddressHardFail: boolean;
  readonly profiling: boolean;

  readonly scheduler: string;
  readonly syncPeriod: Duration;
  readonly minSyncPeriod: Duration;
  /** Virtual servers in these CIDRs belong to other programs and are never changed or deleted. */
  readonly excludeCidrs: readonly Cidr[];
  readonly strictArp: boolean;
  /** Zero keeps the kernel's value. */
  readonly ipvsTimeouts: Readonly<Record<'tcp' | 'tcpFin' | 'udp', Duration>>;

  /** The operator's settings of Services, by their labels. */
  readonly serviceDefaults: readonly ServiceDefaults[];

  readonly masqueradeAll: boolean;
  /** The packet mark is 1 << masqueradeBit (unsigned). */
  readonly masqueradeBit: number;

  readonly detectLocalMode: DetectLocalMode;
  /** At most one of each family. */
  readonly clusterCidrs: readonly Cidr[];
  readonly bridgeInterface: string;
  readonly interfaceNamePrefix: string;
  readonly nodePortAddresses: NodePortSelection;
  /** Whether iptables mode serves node ports at 127.0.0.1. */
  readonly localhostNodePorts: boolean;

  readonly conntrack: ConntrackConfig;
  readonly logging: LoggingConfig;
  readonly featureGates: readonly FeatureGate[];
  /** The settings from which the fields above were resolved, for --write-config-to, /configz and /flagz. */
  readonly settings: Settings;
  /** The fields of our own as they are configured, in a mode that does not have them too. */
  readonly ownFields: Required<OwnFields>;
}
