import { cidrFamily, formatCidr } from '../../base/cidr.ts';
import type { Cidr } from '../../base/cidr.ts';
import { notNegative } from '../value/checks.ts';
import { DEFAULT_ANNOTATIONS } from '../../base/service/service-annotations.ts';
import { show } from '../value/problem.ts';
import { flag } from './setting.ts';
import {
  annotations,
  bool,
  boolWithValue,
  cidrs,
  duration,
  endpointCheckMode,
  int32,
  labelSelector,
  portRange,
  string,
} from '../value/value-kind.ts';

/** Minimum prefix length of a local route, by family: the route makes other hosts in the CIDR unreachable. */
const SHORTEST = { 4: 8, 6: 48 } as const;

function tooLarge(cidr: Cidr): string | undefined {
  const shortest = SHORTEST[cidrFamily(cidr)];
  return cidr.prefix < shortest
    ? `${formatCidr(cidr)} is too large: want a service CIDR of at least /${shortest}`
    : undefined;
}

/** The default socket of the daemon, and of the subcommands that ask it. */
export const DEFAULT_QUERY_SOCKET = '/run/kube-ipvs-proxy/query.sock';
/** linux/un.h: UNIX_PATH_MAX is 108 with the NUL. */
const MAX_SOCKET_PATH = 107;

function wrongSocketPath(path: string): string | undefined {
  if (path === '') return undefined;
  if (!path.startsWith('/')) return `${show(path)} is not an absolute path`;
  return Buffer.byteLength(path) > MAX_SOCKET_PATH
    ? `${show(path)} is too long for a socket: want at most ${MAX_SOCKET_PATH} bytes`
    : undefined;
}

/** A dry run must not take the ports of the proxy that it runs beside, which the same configuration names. */
export const DRY_RUN_PORT_OFFSET = 100;

/** Flags that kube-proxy does not have. Each value is a field of ProxyConfig with the same key. */
export const OWN_FLAGS = {
  masterKubeconfig: flag('master-kubeconfig', string, '', {
    help: "take the URL of the API server from this kubeconfig, such as the kubelet's, and the credentials from --kubeconfig or the configuration; --master overrides it",
    hint: 'file',
  }),
  manifests: flag('manifests', string, undefined, {
    help: 'run without an API server: Services, EndpointSlices and Nodes come from the YAML and JSON files of this directory, which is watched',
    hint: 'dir',
  }),
  force: flag('force', bool, false, {
    help: 'with --cleanup: remove everything even while a daemon runs in this network namespace; the daemon restores it immediately, but connections break',
  }),
  takeOver: flag('take-over', bool, false, {
    help: 'start although a daemon in another mode runs in this network namespace; the objects of its mode are removed when it has ended',
  }),
  dryRun: flag('dry-run', bool, false, {
    help: `run as a shadow beside another proxy: change nothing, and report how the kernel differs from the plan; the health and metrics servers listen on ports higher by ${DRY_RUN_PORT_OFFSET}`,
  }),
  drainTimeout: flag('ipvs-drain-timeout', duration, 0, {
    help: 'how long a removed TCP real server may keep its connections at weight 0, and after a change from ipvs mode to another one, how long any connection of IPVS may last; 0: until the last one ends',
    check: notNegative,
  }),
  unboundCidrs: flag('ipvs-unbound-cidrs', cidrs, [], {
    help: 'service addresses in these CIDRs get virtual servers, but are not bound to kube-ipvs0, and their other ports are not closed (also in nftables mode)',
  }),
  localRouteCidrs: flag('ipvs-local-route-cidrs', cidrs, [], {
    help: 'light mode: one local route for each of these CIDRs (your service CIDRs), instead of an address on kube-ipvs0 for each Service in them',
    checkEach: tooLarge,
  }),
  prepareDirectPods: flag('dsr-prepare-pods', bool, false, {
    help: 'prepare Pods on this node that answer clients without NAT (docs/forwarding.md): give them the service addresses and tunnel devices; with --cleanup: take these away',
  }),
  podNamespaceFolder: flag('dsr-netns-dir', string, '/var/run/netns', {
    help: 'with --dsr-prepare-pods: the folder where the container runtime keeps the network namespaces of Pods',
    hint: 'dir',
    check: (path) => (path.startsWith('/') ? undefined : `${show(path)} is not an absolute path`),
  }),
  querySocket: flag('query-socket', string, DEFAULT_QUERY_SOCKET, {
    help: 'path of the Unix socket on which the daemon answers the subcommands, for root only; "": none',
    hint: 'path',
    check: wrongSocketPath,
  }),
  runEstimation: flag('ipvs-run-estimation', boolWithValue, undefined, {
    help: "set net.ipv4.vs.run_estimation; with false the kernel no longer walks all servers every two seconds, and its traffic counters stop; not given: keep the kernel's value",
  }),
  serviceEvents: flag('service-events', bool, true, {
    help: 'write an Event on a Service of which a part cannot be programmed, or whose endpoints or hints no node can use',
  }),
  serviceAnnotations: flag('service-annotations', annotations, DEFAULT_ANNOTATIONS, {
    help: 'which annotations kube-ipvs-proxy/NAME a Service may use (docs/services.md); others are ignored with a warning; serviceAnnotations in the file of --config replaces the list',
  }),
  endpointCheck: flag('ipvs-endpoint-check', endpointCheckMode, 'off', {
    help: 'look for endpoints that do not answer, of Services with the annotation kube-ipvs-proxy/endpoint-check (docs/services.md): observe reports them, act lets new connections go to others; endpointCheck in the file of --config replaces it',
  }),
  serviceMetrics: flag('service-metrics', bool, false, {
    help: 'serve traffic metrics of every single Service (kubeipvs_service_*): seven series for each port of each Service on each node',
  }),
  serviceMetricsSelector: flag('service-metrics-selector', labelSelector, undefined, {
    help: 'serve these metrics of the Services with these labels; not needed with --service-metrics',
  }),
  serviceMetricsLimit: flag('service-metrics-limit', int32, 1000, {
    help: 'serve metrics of single Services only if at most this many Services are selected; 0: never',
    hint: 'services',
    check: (value) => (value < 0 ? `${value} is negative: want 0 (no such metrics) or more` : undefined),
  }),
  serviceMetricsRealServers: flag('service-metrics-real-servers', bool, false, {
    help: 'of the selected Services also serve metrics of single real servers (kubeipvs_real_server_*): seven series for each endpoint of each Service port on each node, and new ones for each new Pod; not served with more real servers than ten times that limit',
  }),
  userspaceConnections: flag('userspace-max-connections', int32, 16_384, {
    help: 'connections and UDP clients that the user-space engine forwards at once (userspace mode, and node ports at localhost); half as many for one Service or one namespace, an eighth for one client of a Service; more are refused',
    hint: 'connections',
    check: (value) => (value < 1 ? `${value} is not positive: want 1 or more` : undefined),
  }),
  userspaceUdpTimeout: flag('userspace-udp-timeout', duration, 60_000, {
    help: 'how long the user-space engine keeps a UDP client without datagrams; 0: until its endpoint goes',
    check: notNegative,
  }),
  masqueradePorts: flag('masquerade-port-range', portRange, undefined, {
    help: 'source ports that masquerading may use, to avoid conflicts with NodePorts',
  }),
};
