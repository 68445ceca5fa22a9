import * as check from '../value/checks.ts';
import { HOUR, MINUTE, SECOND } from '../../base/duration.ts';
import { gateProblems } from '../value/feature-gates.ts';
import { IGNORED_FLAGS } from './ignored-flags.ts';
import { checkNodePortEntries, checkNodePortEntry } from '../value/node-port-selection.ts';
import { OWN_FLAGS } from './own-flags.ts';
import { type Setting, field, fileOnly, flag } from './setting.ts';
import {
  bool,
  duration,
  durationOrNanoseconds,
  float32,
  gates,
  int32,
  quantity,
  string,
  stringList,
  uint32,
  versionRequest,
  vmodule,
} from '../value/value-kind.ts';

const DEFAULT_HEALTHZ_PORT = 10_256;
const DEFAULT_METRICS_PORT = 10_249;
const DEFAULT_HEALTHZ_BIND = `0.0.0.0:${DEFAULT_HEALTHZ_PORT}`;
const DEFAULT_METRICS_BIND = `127.0.0.1:${DEFAULT_METRICS_PORT}`;
const NO_BUFFER = { ignored: 'every line is written at once' };

/** Flags by group of --help. The key of a field is its path in KubeProxyConfiguration v1alpha1. */
const GROUPS = {
  Configuration: {
    config: flag('config', string, undefined, {
      help: 'read KubeProxyConfiguration v1alpha1 from this file; flags that are fields of it are then ignored, except logging flags and --hostname-override',
      hint: 'file',
    }),
    mode: field('proxy-mode', string, '', {
      help: 'how Services are programmed: ipvs, nftables, iptables or userspace (docs/modes.md)',
      hint: 'mode',
      check: check.mode,
    }),
    featureGates: field(
      'feature-gates',
      gates,
      {},
      { help: 'feature gates, in the syntax of kube-proxy', check: gateProblems },
    ),
  },
  'API server': {
    'clientConnection.kubeconfig': field('kubeconfig', string, '', {
      help: 'kubeconfig file; without it and --master the service account of the Pod is used',
      hint: 'file',
    }),
    master: flag('master', string, undefined, {
      help: 'URL of the API server, or several, separated by commas: one that is reached is kept until it fails; overrides the kubeconfig, also with --config',
      hint: 'url',
    }),
    'clientConnection.qps': field('kube-api-qps', float32, 5, {
      help: 'requests per second to the API server; negative: no limit',
      zeroIsUnset: true,
    }),
    'clientConnection.burst': field('kube-api-burst', int32, 10, {
      help: 'largest burst of requests to the API server',
      zeroIsUnset: true,
      check: check.range(0),
    }),
    'clientConnection.contentType': field('kube-api-content-type', string, 'application/vnd.kubernetes.protobuf', {
      help: 'media type of lists and watches; application/json: JSON',
      hint: 'type',
      zeroIsUnset: true,
      check: check.headerValue,
    }),
    configSyncPeriod: field('config-sync-period', duration, 15 * MINUTE, {
      help: 'no effect: everything is compared in each sync period of the mode',
      zeroIsUnset: true,
      check: check.positive,
    }),
  },
  'This node': {
    hostnameOverride: field('hostname-override', string, '', {
      help: "name of this node's Node object; empty: the host name",
      hint: 'name',
      check: (name) => (name !== '' && name.trim() === '' ? 'is only white space' : undefined),
    }),
    bindAddress: field('bind-address', string, '0.0.0.0', {
      help: "this node's primary address, unless it is 0.0.0.0 or ::; nothing listens on it",
      hint: 'ip',
      zeroIsUnset: true,
      check: check.ip,
    }),
    nodePortAddresses: field('nodeport-addresses', stringList, [], {
      help: "CIDRs of the addresses that accept NodePorts, and the words primary (the Node's own addresses), localhost and all; empty: all",
      hint: 'cidrs',
      check: checkNodePortEntries,
      checkEach: checkNodePortEntry,
    }),
    oomScoreAdj: field('oom-score-adj', int32, -999, {
      help: 'oom_score_adj of this process, -1000 to 1000',
      check: check.range(-1000, 1000),
    }),
  },
  IPVS: {
    'ipvs.scheduler': field('ipvs-scheduler', string, '', {
      help: 'scheduler of every virtual server (rr, wrr, lc, wlc, sed, nq, sh, dh, lblc, lblcr, mh, ...); empty: rr',
      hint: 'name',
      check: check.scheduler,
    }),
    'ipvs.syncPeriod': field('ipvs-sync-period', duration, 30 * SECOND, {
      help: 'how often the whole kernel state is compared with the plan',
      zeroIsUnset: true,
      check: check.positive,
    }),
    // Without --config, kube-proxy starts from the defaults of the empty mode, whose minSyncPeriod is 1s.
    'ipvs.minSyncPeriod': field('ipvs-min-sync-period', duration, 0, {
      help: 'shortest time between two syncs; with --config the default is 0s',
      flagFallback: SECOND,
      check: check.notNegative,
    }),
    'ipvs.excludeCIDRs': field('ipvs-exclude-cidrs', stringList, [], {
      help: 'virtual servers in these CIDRs belong to other programs and are never changed',
      hint: 'cidrs',
      checkEach: check.cidr,
    }),
    'ipvs.strictARP': field('ipvs-strict-arp', bool, false, { help: 'set arp_ignore=1 and arp_announce=2' }),
    'ipvs.tcpTimeout': field('ipvs-tcp-timeout', duration, 0, {
      help: "idle timeout of TCP connections; 0: keep the kernel's value",
      check: check.notNegative,
    }),
    'ipvs.tcpFinTimeout': field('ipvs-tcpfin-timeout', duration, 0, {
      help: "timeout of TCP connections after a FIN; 0: keep the kernel's value",
      check: check.notNegative,
    }),
    'ipvs.udpTimeout': field('ipvs-udp-timeout', duration, 0, {
      help: "idle timeout of UDP flows; 0: keep the kernel's value",
      check: check.notNegative,
    }),
  },
  'nftables and iptables mode': {
    'iptables.syncPeriod': field('iptables-sync-period', duration, 30 * SECOND, {
      help: 'as --ipvs-sync-period; with --config, nftables mode has a field of its own',
      zeroIsUnset: true,
      check: check.positive,
    }),
    'iptables.minSyncPeriod': field('iptables-min-sync-period', duration, SECOND, {
      help: 'as --ipvs-min-sync-period; with --config, nftables mode has a field of its own',
      zeroIsUnset: true,
      check: check.notNegative,
    }),
  },
  'Which traffic is local, and masquerading': {
    detectLocalMode: field('detect-local-mode', string, '', {
      help: "how traffic of this node's Pods is recognised: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix; empty: ClusterCIDR",
      hint: 'mode',
      check: check.oneOf('ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'),
    }),
    clusterCIDR: field('cluster-cidr', string, '', {
      help: 'CIDR of the Pods, or one of each family separated by a comma; traffic from elsewhere to a cluster IP is masqueraded',
      hint: 'cidrs',
      check: check.clusterCidr,
    }),
    'detectLocal.bridgeInterface': field('pod-bridge-interface', string, '', {
      help: "bridge of this node's Pods, for BridgeInterface",
      hint: 'name',
      check: check.interfaceName(check.INTERFACE_NAME_MAX),
    }),
    // An iptables rule appends a "+" to the prefix, which is part of the name's maximum length.
    'detectLocal.interfaceNamePrefix': field('pod-interface-name-prefix', string, '', {
      help: "prefix of the names of this node's Pod interfaces, for InterfaceNamePrefix",
      hint: 'prefix',
      check: check.interfaceName(check.INTERFACE_NAME_MAX - 1),
    }),
    'iptables.masqueradeAll': field('masquerade-all', bool, false, { help: 'masquerade all traffic to cluster IPs' }),
    'iptables.localhostNodePorts': field('iptables-localhost-nodeports', bool, true, {
      help: 'iptables mode: also serve node ports at 127.0.0.1, if --nodeport-addresses selects it; sets net.ipv4.conf.all.route_localnet',
    }),
    'iptables.masqueradeBit': field('iptables-masquerade-bit', int32, 14, {
      help: 'bit of the packet mark that requests masquerading, 0 to 31',
      check: check.range(0, 31),
    }),
  },
  'Connection tracking': {
    'conntrack.maxPerCore': field('conntrack-max-per-core', int32, 32_768, {
      help: "tracked connections for each CPU; 0: keep the kernel's value and ignore --conntrack-min",
      check: check.range(0),
    }),
    'conntrack.min': field('conntrack-min', int32, 131_072, {
      help: 'minimum of tracked connections',
      check: check.range(0),
    }),
    'conntrack.tcpEstablishedTimeout': field('conntrack-tcp-timeout-established', duration, 24 * HOUR, {
      help: "idle timeout of TCP connections; 0: keep the kernel's value",
      check: check.notNegative,
    }),
    'conntrack.tcpCloseWaitTimeout': field('conntrack-tcp-timeout-close-wait', duration, HOUR, {
      help: "timeout of TCP connections in CLOSE_WAIT; 0: keep the kernel's value",
      check: check.notNegative,
    }),
    'conntrack.tcpBeLiberal': field('conntrack-tcp-be-liberal', bool, false, {
      help: 'accept TCP packets outside the window',
    }),
    'conntrack.udpTimeout': field('conntrack-udp-timeout', duration, 0, {
      help: "timeout of UDP flows without a reply; 0: keep the kernel's value",
      check: check.notNegative,
    }),
    'conntrack.udpStreamTimeout': field('conntrack-udp-timeout-stream', duration, 0, {
      help: "timeout of UDP flows with replies; 0: keep the kernel's value",
      check: check.notNegative,
    }),
  },
  'Health, metrics and profiling': {
    healthzBindAddress: field('healthz-bind-address', string, DEFAULT_HEALTHZ_BIND, {
      help: 'address of the server of /healthz and /livez; empty as a flag: no such server',
      hint: 'ip:port',
      zeroIsUnset: true,
      check: check.bindAddress(DEFAULT_HEALTHZ_BIND),
    }),
    healthzPort: flag('healthz-port', int32, DEFAULT_HEALTHZ_PORT, {
      help: 'port for --healthz-bind-address if that has none; 0: no health server',
      hint: 'port',
      deprecated: 'use --healthz-bind-address',
    }),
    metricsBindAddress: field('metrics-bind-address', string, DEFAULT_METRICS_BIND, {
      help: 'address of the server of /metrics, /proxyMode and /configz; empty as a flag: no such server',
      hint: 'ip:port',
      zeroIsUnset: true,
      check: check.bindAddress(DEFAULT_METRICS_BIND),
    }),
    metricsPort: flag('metrics-port', int32, DEFAULT_METRICS_PORT, {
      help: 'port for --metrics-bind-address if that has none; 0: no metrics server',
      hint: 'port',
      deprecated: 'use --metrics-bind-address',
    }),
    bindAddressHardFail: field('bind-address-hard-fail', bool, false, {
      help: 'exit if the health or metrics server cannot bind, instead of retrying',
    }),
    enableProfiling: field('profiling', bool, false, {
      help: 'serve heap snapshots and CPU profiles below /debug/ of the metrics server',
    }),
    showHiddenMetricsForVersion: field('show-hidden-metrics-for-version', string, '', {
      ignored: 'no metric is hidden',
      hint: 'version',
      check: check.minorVersion,
    }),
  },
  Logging: {
    'logging.verbosity': field('v', uint32, 0, { help: 'how much is logged; 9: all', short: 'v', hint: 'level' }),
    'logging.vmodule': field('vmodule', vmodule, [], {
      help: 'verbosity of the components that match a pattern (* and ?); text format only',
      checkEach: check.vmodulePattern,
    }),
    'logging.format': field('logging-format', string, 'text', {
      help: 'text or json',
      hint: 'format',
      zeroIsUnset: true,
      check: check.oneOf('text', 'json'),
    }),
    'logging.flushFrequency': field('log-flush-frequency', durationOrNanoseconds, 5 * SECOND, {
      ...NO_BUFFER,
      zeroIsUnset: true,
      check: check.notNegative,
    }),
    'logging.options.text.splitStream': field('log-text-split-stream', bool, false, {
      help: 'text: information to standard output, errors to standard error',
    }),
    'logging.options.text.infoBufferSize': field('log-text-info-buffer-size', quantity, '0', NO_BUFFER),
    'logging.options.json.splitStream': field('log-json-split-stream', bool, false, {
      help: 'json: information to standard output, errors to standard error',
    }),
    'logging.options.json.infoBufferSize': field('log-json-info-buffer-size', quantity, '0', NO_BUFFER),
  },
  'One task, then exit': {
    cleanup: flag('cleanup', bool, false, {
      help: 'remove the kernel objects of kube-ipvs-proxy and of kube-proxy in any mode, and no others',
    }),
    initOnly: flag('init-only', bool, false, {
      help: 'do what needs full privileges (conntrack and ipvs settings); a later run then needs CAP_NET_ADMIN and CAP_NET_RAW only',
    }),
    writeConfigTo: flag('write-config-to', string, undefined, {
      help: 'write the effective configuration as KubeProxyConfiguration v1alpha1 to this file, or to standard output (-)',
      hint: 'file',
    }),
    version: flag('version', versionRequest, 'false', { help: 'print the version; --version=raw prints more' }),
    help: flag('help', bool, false, { help: 'print this help', short: 'h' }),
    helpAll: flag('help-all', bool, false, { help: 'the same, with the flags of kube-proxy that have no effect here' }),
  },
  "kube-ipvs-proxy's own": OWN_FLAGS,
  'Accepted from kube-proxy and ignored': IGNORED_FLAGS,
};

/** Fields without a flag. */
const FILE_ONLY = {
  'clientConnection.acceptContentTypes': fileOnly(string, '', { check: check.headerValue }),
  'nftables.masqueradeBit': fileOnly(int32, 14, { check: check.range(0, 31) }),
  'nftables.masqueradeAll': fileOnly(bool, false),
  'nftables.syncPeriod': fileOnly(duration, 30 * SECOND, { zeroIsUnset: true, check: check.positive }),
  'nftables.minSyncPeriod': fileOnly(duration, SECOND, { zeroIsUnset: true, check: check.notNegative }),
  'winkernel.networkName': fileOnly(string, ''),
  'winkernel.sourceVip': fileOnly(string, ''),
  'winkernel.enableDSR': fileOnly(bool, false),
  'winkernel.rootHnsEndpointName': fileOnly(string, ''),
  'winkernel.forwardHealthCheckVip': fileOnly(bool, false),
  windowsRunAsService: fileOnly(bool, false),
  portRange: fileOnly(string, ''),
};

export type FlagGroup = keyof typeof GROUPS;
export const FLAG_GROUPS = Object.keys(GROUPS) as readonly FlagGroup[];

type Intersection<U> = (U extends unknown ? (member: U) => void : never) extends (all: infer I) => void ? I : never;

/** All settings by key. The key is the path of a field, or our own name for a setting that is only a flag. */
export const SETTINGS = Object.assign({}, ...Object.values(GROUPS), FILE_ONLY) as Intersection<
  (typeof GROUPS)[FlagGroup] | typeof FILE_ONLY
>;

export type SettingKey = keyof typeof SETTINGS;

export interface Flag extends Setting<unknown> {
  readonly key: SettingKey;
  readonly name: string;
  readonly group: FlagGroup;
}

/** All flags, in the order of --help. */
export const FLAGS: readonly Flag[] = FLAG_GROUPS.flatMap((group) =>
  Object.entries<Setting<unknown>>(GROUPS[group]).map(([key, setting]) => ({
    ...setting,
    key: key as SettingKey,
    name: setting.name ?? '',
    group,
  })),
);

const BY_NAME: ReadonlyMap<string, Flag> = new Map(FLAGS.map((each) => [each.name, each]));

export function flagNamed(name: string): Flag | undefined {
  return BY_NAME.get(name);
}
