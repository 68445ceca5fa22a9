import { FLAG_GROUPS, type Flag, type FlagGroup, type Row, SWITCH, of, switchOf } from './flag.ts';
import { IGNORED_FLAGS } from './ignored-flags.ts';
import { OWN_FLAGS } from './own-flags.ts';
import { int32, string } from './value-kind.ts';

const ROWS: Readonly<Record<FlagGroup, readonly Row[]>> = {
  Configuration: [
    [
      'config',
      '',
      'read KubeProxyConfiguration v1alpha1 from this file; flags that are fields of it are then ignored, but for logging flags and --hostname-override',
      { kind: string, hint: 'file' },
    ],
    ['proxy-mode', '', 'must be ipvs', of('mode', { hint: 'mode' })],
    ['feature-gates', '', 'switches of features, read as kube-proxy reads them', of('featureGates')],
  ],
  'API server': [
    [
      'kubeconfig',
      '',
      'kubeconfig file; without it and --master the service account of the Pod is used',
      of('clientConnection.kubeconfig', { hint: 'file' }),
    ],
    [
      'master',
      '',
      'URL of the API server; wins over the kubeconfig, also with --config',
      { kind: string, hint: 'url' },
    ],
    ['kube-api-qps', '5', 'requests a second to the API server', of('clientConnection.qps')],
    ['kube-api-burst', '10', 'requests at once to the API server', of('clientConnection.burst')],
    [
      'kube-api-content-type',
      'application/vnd.kubernetes.protobuf',
      'accepted; this client asks for JSON',
      of('clientConnection.contentType', { ignored: 'this client asks for JSON' }),
    ],
    [
      'config-sync-period',
      '15m0s',
      'accepted; everything is compared every --ipvs-sync-period',
      of('configSyncPeriod'),
    ],
  ],
  'This node': [
    [
      'hostname-override',
      '',
      'name of our Node object; without it the host name',
      of('hostnameOverride', { hint: 'name' }),
    ],
    [
      'bind-address',
      '0.0.0.0',
      'our primary address, if not 0.0.0.0 or ::; nothing listens on it',
      of('bindAddress', { hint: 'ip' }),
    ],
    [
      'nodeport-addresses',
      '',
      'CIDRs of the addresses that accept NodePorts, or the word primary; empty: all',
      of('nodePortAddresses', { hint: 'cidrs' }),
    ],
    ['oom-score-adj', '-999', 'our oom_score_adj, -1000 to 1000', of('oomScoreAdj')],
  ],
  IPVS: [
    [
      'ipvs-scheduler',
      '',
      'scheduler of every virtual server (rr, wrr, lc, wlc, sed, nq, sh, dh, lblc, lblcr, mh, ...); empty: rr',
      of('ipvs.scheduler', { hint: 'name' }),
    ],
    ['ipvs-sync-period', '30s', 'how often the whole kernel state is compared with the plan', of('ipvs.syncPeriod')],
    [
      'ipvs-min-sync-period',
      '1s',
      'shortest time between two syncs; with --config the default is 0s',
      of('ipvs.minSyncPeriod'),
    ],
    [
      'ipvs-exclude-cidrs',
      '',
      'virtual servers in these CIDRs belong to others and are left alone',
      of('ipvs.excludeCIDRs', { hint: 'cidrs' }),
    ],
    ['ipvs-strict-arp', 'false', 'set arp_ignore=1 and arp_announce=2', switchOf('ipvs.strictARP')],
    ['ipvs-tcp-timeout', '0s', 'idle timeout of TCP connections; 0: leave as it is', of('ipvs.tcpTimeout')],
    [
      'ipvs-tcpfin-timeout',
      '0s',
      'timeout of TCP connections after a FIN; 0: leave as it is',
      of('ipvs.tcpFinTimeout'),
    ],
    ['ipvs-udp-timeout', '0s', 'idle timeout of UDP flows; 0: leave as it is', of('ipvs.udpTimeout')],
  ],
  'Which traffic is local, and masquerading': [
    [
      'detect-local-mode',
      '',
      'how traffic of our own Pods is told: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix; empty: ClusterCIDR',
      of('detectLocalMode', { hint: 'mode' }),
    ],
    [
      'cluster-cidr',
      '',
      'CIDR of the Pods, or one of each family with a comma; what comes from elsewhere to a cluster IP is masqueraded',
      of('clusterCIDR', { hint: 'cidrs' }),
    ],
    [
      'pod-bridge-interface',
      '',
      'bridge of our Pods, for BridgeInterface',
      of('detectLocal.bridgeInterface', { hint: 'name' }),
    ],
    [
      'pod-interface-name-prefix',
      '',
      "first letters of our Pods' interfaces, for InterfaceNamePrefix",
      of('detectLocal.interfaceNamePrefix', { hint: 'prefix' }),
    ],
    ['masquerade-all', 'false', 'masquerade all traffic to cluster IPs', switchOf('iptables.masqueradeAll')],
    [
      'iptables-masquerade-bit',
      '14',
      'bit of the packet mark that asks for masquerading, 0 to 31',
      of('iptables.masqueradeBit'),
    ],
  ],
  'Connection tracking': [
    [
      'conntrack-max-per-core',
      '32768',
      'tracked connections for each CPU; 0: leave as it is, and ignore --conntrack-min',
      of('conntrack.maxPerCore'),
    ],
    ['conntrack-min', '131072', 'tracked connections at the least', of('conntrack.min')],
    [
      'conntrack-tcp-timeout-established',
      '24h0m0s',
      'idle timeout of TCP connections; 0: leave as it is',
      of('conntrack.tcpEstablishedTimeout'),
    ],
    [
      'conntrack-tcp-timeout-close-wait',
      '1h0m0s',
      'timeout of TCP connections in CLOSE_WAIT; 0: leave as it is',
      of('conntrack.tcpCloseWaitTimeout'),
    ],
    ['conntrack-tcp-be-liberal', 'false', 'accept TCP packets outside the window', switchOf('conntrack.tcpBeLiberal')],
    [
      'conntrack-udp-timeout',
      '0s',
      'timeout of UDP flows without an answer; 0: leave as it is',
      of('conntrack.udpTimeout'),
    ],
    [
      'conntrack-udp-timeout-stream',
      '0s',
      'timeout of UDP flows with answers; 0: leave as it is',
      of('conntrack.udpStreamTimeout'),
    ],
  ],
  'Health, metrics and profiling': [
    [
      'healthz-bind-address',
      '0.0.0.0:10256',
      'where /healthz and /livez answer; empty: nowhere',
      of('healthzBindAddress', { hint: 'ip:port' }),
    ],
    [
      'healthz-port',
      '10256',
      'port for --healthz-bind-address where that has none; 0: no health server',
      { kind: int32, hint: 'port', deprecated: 'use --healthz-bind-address' },
    ],
    [
      'metrics-bind-address',
      '127.0.0.1:10249',
      'where /metrics, /proxyMode and /configz answer; empty: nowhere',
      of('metricsBindAddress', { hint: 'ip:port' }),
    ],
    [
      'metrics-port',
      '10249',
      'port for --metrics-bind-address where that has none; 0: no metrics server',
      { kind: int32, hint: 'port', deprecated: 'use --metrics-bind-address' },
    ],
    [
      'bind-address-hard-fail',
      'false',
      'end the process if the health or metrics server cannot bind, instead of retrying',
      switchOf('bindAddressHardFail'),
    ],
    [
      'profiling',
      'false',
      'serve heap snapshots and CPU profiles below /debug/ of the metrics server',
      switchOf('enableProfiling'),
    ],
    [
      'show-hidden-metrics-for-version',
      '',
      'accepted; no metric is hidden',
      of('showHiddenMetricsForVersion', { hint: 'version', ignored: 'no metric is hidden' }),
    ],
  ],
  Logging: [
    ['v', '0', 'how much is logged: 0 to 10', of('logging.verbosity', { short: 'v', hint: 'level' })],
    [
      'vmodule',
      '',
      'verbosity of the components that match a pattern (* and ?); text format only',
      of('logging.vmodule'),
    ],
    ['logging-format', 'text', 'text or json', of('logging.format', { hint: 'format' })],
    [
      'log-flush-frequency',
      '5s',
      'accepted; every line is written at once',
      of('logging.flushFrequency', { ignored: 'every line is written at once' }),
    ],
    [
      'log-text-split-stream',
      'false',
      'text: information to standard output, errors to standard error',
      switchOf('logging.options.text.splitStream'),
    ],
    [
      'log-text-info-buffer-size',
      '0',
      'accepted; every line is written at once',
      of('logging.options.text.infoBufferSize', { ignored: 'every line is written at once' }),
    ],
    [
      'log-json-split-stream',
      'false',
      'json: information to standard output, errors to standard error',
      switchOf('logging.options.json.splitStream'),
    ],
    [
      'log-json-info-buffer-size',
      '0',
      'accepted; every line is written at once',
      of('logging.options.json.infoBufferSize', { ignored: 'every line is written at once' }),
    ],
  ],
  'One task, then exit': [
    ['cleanup', 'false', 'remove what kube-proxy or this program left in the kernel, in every mode', SWITCH],
    [
      'init-only',
      'false',
      'do what needs full privileges (conntrack and ipvs settings); a later run then needs CAP_NET_ADMIN and CAP_NET_RAW only',
      SWITCH,
    ],
    [
      'write-config-to',
      '',
      'write the effective configuration as KubeProxyConfiguration v1alpha1 to this file',
      { kind: string, hint: 'file' },
    ],
    [
      'version',
      'false',
      'print the version; --version=raw prints more',
      { kind: string, hint: 'true|raw|vX.Y.Z', bare: 'true' },
    ],
    ['help', 'false', 'print this', { ...SWITCH, short: 'h' }],
  ],
  "kube-ipvs-proxy's own": OWN_FLAGS,
  'Accepted from kube-proxy and ignored': IGNORED_FLAGS,
};

/** Every flag there is, in the order of the help. */
export const FLAGS: readonly Flag[] = FLAG_GROUPS.flatMap((group) =>
  ROWS[group].map(([name, fallback, help, details]) => ({ name, group, help, default: fallback, ...details })),
);

const BY_NAME: ReadonlyMap<string, Flag> = new Map(FLAGS.map((flag) => [flag.name, flag]));

export function flagNamed(name: string): Flag | undefined {
  return BY_NAME.get(name);
}
