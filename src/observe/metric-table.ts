import type { ProxyMode } from '../base/proxy-mode.ts';

/** One metric; its name is its key in the table. */
export interface MetricRow {
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly help: string;
  /** Upper bounds, for histograms. */
  readonly buckets?: readonly number[];
  /** The modes in which the metric is served; absent: all. */
  readonly modes?: readonly ProxyMode[];
}

type MetricTable = Readonly<Record<string, MetricRow>>;

function counter<const L extends readonly string[]>(labels: L, help: string) {
  return { type: 'counter', labels, help } as const;
}

function gauge<const L extends readonly string[]>(labels: L, help: string) {
  return { type: 'gauge', labels, help } as const;
}

function histogram<const L extends readonly string[]>(labels: L, buckets: readonly number[], help: string) {
  return { type: 'histogram', labels, buckets, help } as const;
}

/** Limits a metric to the modes in which kube-proxy serves it. */
function only<const M extends readonly ProxyMode[], R extends MetricRow>(modes: M, row: R) {
  return { ...row, modes };
}

/** Returns the numbers from `from` to `to` in steps of `step`, both ends included. */
function linear(from: number, to: number, step: number): number[] {
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => from + i * step);
}

/** Seconds from 0.001 to 16.384, each bound twice the previous one. */
const SYNC_BUCKETS = Array.from({ length: 15 }, (_, k) => 2 ** k / 1000);

/** The buckets of kube-proxy, including the leading 0, so that dashboards with fixed bounds keep working. */
const NETWORK_PROGRAMMING_BUCKETS = [0, 0.25, 0.5, ...linear(1, 59, 1), ...linear(60, 115, 5), ...linear(120, 300, 30)];

const REQUEST_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
const SIZE_BUCKETS = [64, 256, 512, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216];

const FAMILY = ['ip_family'] as const;
const TABLE = ['table', ...FAMILY] as const;
const REQUEST = ['verb', 'host'] as const;
/** Labels of one port of one Service; port_name is empty if the port has no name. */
const SERVICE_PORT = ['namespace', 'service', 'port_name', 'protocol'];
const SOURCE = ['git_version', 'git_commit', 'git_tree_state', 'build_date'] as const;
const BUILD = ['major', 'minor', ...SOURCE, 'go_version', 'compiler', 'platform'] as const;

/** Metrics with kube-proxy's names, for existing dashboards and alerts. */
const KUBE_PROXY = {
  kubeproxy_sync_proxy_rules_duration_seconds: histogram(
    FAMILY,
    SYNC_BUCKETS,
    'Duration of syncs, including failed ones',
  ),
  kubeproxy_sync_proxy_rules_last_timestamp_seconds: gauge(FAMILY, 'Unix time of the last successful sync'),
  kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds: gauge(FAMILY, 'Unix time of the last request for a sync'),
  kubeproxy_network_programming_duration_seconds: histogram(
    FAMILY,
    NETWORK_PROGRAMMING_BUCKETS,
    'Time from the change of an endpoint (the timestamp in its EndpointSlice) until the kernel was programmed, by the family of the EndpointSlice; changes before the start of the daemon do not count',
  ),
  kubeproxy_sync_proxy_rules_endpoint_changes_total: counter([], 'EndpointSlice events processed'),
  kubeproxy_sync_proxy_rules_endpoint_changes_pending: gauge([], 'Endpoint changes that no sync has processed yet'),
  kubeproxy_sync_proxy_rules_service_changes_total: counter([], 'Service events processed'),
  kubeproxy_sync_proxy_rules_service_changes_pending: gauge([], 'Changed Services that no sync has processed yet'),
  kubeproxy_sync_proxy_rules_no_local_endpoints_total: gauge(
    ['traffic_policy', ...FAMILY],
    'Services with a Local traffic policy and endpoints, but none on this node',
  ),
  kubeproxy_sync_proxy_rules_iptables_restore_failures_total: counter(FAMILY, 'Failed runs of iptables-restore'),
  kubeproxy_sync_full_proxy_rules_duration_seconds: only(
    ['nftables', 'iptables', 'userspace'],
    histogram(FAMILY, SYNC_BUCKETS, 'Duration of syncs that compare everything: the first one and full checks'),
  ),
  kubeproxy_sync_partial_proxy_rules_duration_seconds: only(
    ['nftables', 'iptables', 'userspace'],
    histogram(FAMILY, SYNC_BUCKETS, 'Duration of syncs that write changes only'),
  ),
  kubeproxy_sync_proxy_rules_iptables_total: only(['iptables'], gauge(TABLE, 'Rules in our chains')),
  kubeproxy_sync_proxy_rules_iptables_last: only(
    ['iptables'],
    gauge(TABLE, 'Rules that the last run of iptables-restore added'),
  ),
  kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total: only(
    ['iptables'],
    counter(FAMILY, 'Failed runs of iptables-restore with changes only, which are then tried in other parts'),
  ),
  kubeproxy_sync_proxy_rules_nftables_sync_failures_total: only(
    ['nftables', 'userspace'],
    counter(FAMILY, 'Syncs that could not write all that they had to'),
  ),
  kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total: only(
    ['nftables', 'userspace'],
    counter(FAMILY, 'Failed deletions of chains, sets and elements that nothing uses any more'),
  ),
  kubeproxy_nftables_localhost_nodeport_listeners: only(
    ['nftables'],
    gauge(FAMILY, 'Node ports that the user-space engine serves at loopback addresses'),
  ),
  kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total: only(
    ['nftables'],
    counter(FAMILY, 'Node ports at loopback addresses that could not be opened'),
  ),
  kubeproxy_proxy_healthz_total: counter(['code'], 'Responses of /healthz by status code'),
  kubeproxy_proxy_livez_total: counter(['code'], 'Responses of /livez by status code'),
  kubeproxy_conntrack_reconciler_sync_duration_seconds: histogram(
    FAMILY,
    SYNC_BUCKETS,
    'Duration of the clean-up of stale UDP flows',
  ),
  kubeproxy_conntrack_reconciler_deleted_entries_total: counter(FAMILY, 'Stale UDP flows that were deleted'),
};

/** Metrics of kube-proxy that are not served, with the reason. */
export const ABSENT_METRICS: Readonly<Record<string, string>> = {
  kubeproxy_iptables_ct_state_invalid_dropped_packets_total:
    'kube-proxy counts with nfacct, which needs a kernel module of its own. The rule has a counter: `iptables -vnL KUBE-FORWARD`',
  kubeproxy_iptables_localhost_nodeports_accepted_packets_total:
    'kube-proxy counts with nfacct; see kubeipvs_userspace_*',
  kubeproxy_nftables_localhost_nodeport_rejected_packets_total:
    'UDP is served, too; see kubeipvs_userspace_refused_total',
  'kubeproxy_sync_proxy_rules_winkernel_*': 'there is no mode for Windows',
};

/** Metrics that every Kubernetes component and process exposes. */
const GENERIC = {
  rest_client_requests_total: counter(
    ['code', 'method', 'host'],
    'Requests to the API server; code is <error> without a response',
  ),
  rest_client_request_duration_seconds: histogram(REQUEST, REQUEST_BUCKETS, 'Time until the response headers'),
  rest_client_rate_limiter_duration_seconds: histogram(
    REQUEST,
    REQUEST_BUCKETS,
    'How long requests, except watches, waited because of --kube-api-qps',
  ),
  rest_client_request_size_bytes: histogram(REQUEST, SIZE_BUCKETS, 'Size of request bodies'),
  rest_client_response_size_bytes: histogram(REQUEST, SIZE_BUCKETS, 'Size of response bodies, except those of watches'),
  rest_client_request_retries_total: counter(['code', ...REQUEST], 'Requests that were retried'),
  kubernetes_build_info: gauge(BUILD, 'Always 1; the labels describe this build'),
  kubernetes_feature_enabled: gauge(['name', 'stage'], 'Whether a feature gate is enabled'),
  process_cpu_seconds_total: counter([], 'CPU time, user and system'),
  process_resident_memory_bytes: gauge([], 'Resident memory'),
  process_virtual_memory_bytes: gauge([], 'Virtual memory'),
  process_virtual_memory_max_bytes: gauge([], 'Limit of virtual memory; -1 if unlimited'),
  process_open_fds: gauge([], 'Open file descriptors'),
  process_max_fds: gauge([], 'Limit of open file descriptors'),
  process_start_time_seconds: gauge([], 'Unix time of the start of the process'),
  nodejs_heap_size_used_bytes: gauge([], 'Used heap, including garbage that has not been collected yet'),
  nodejs_heap_size_total_bytes: gauge([], 'Allocated heap'),
  nodejs_heap_size_limit_bytes: gauge([], 'Maximum size of the heap; the process exits when it is exceeded'),
  nodejs_external_memory_bytes: gauge([], 'Memory outside of the heap that objects on the heap own, such as buffers'),
  nodejs_heap_space_size_used_bytes: gauge(['space'], 'nodejs_heap_size_used_bytes of one heap space'),
  nodejs_heap_space_size_total_bytes: gauge(['space'], 'nodejs_heap_size_total_bytes of one heap space'),
};

/**
 * Traffic metrics of one Service port or one real server; the key is the end of the metric's name. Read from the kernel
 * at each scrape, for the Services that are selected. `field` is the counter that the metric shows.
 */
export const TRAFFIC = {
  connections_total: {
    ...counter([], 'Connections that IPVS forwarded. The kernel updates this and the next four only every 2 s'),
    field: 'connections',
  },
  incoming_packets_total: { ...counter([], 'Packets from clients'), field: 'incomingPackets' },
  outgoing_packets_total: { ...counter([], 'Packets from endpoints'), field: 'outgoingPackets' },
  incoming_bytes_total: { ...counter([], 'Bytes from clients, with IP headers'), field: 'incomingBytes' },
  outgoing_bytes_total: { ...counter([], 'Bytes from endpoints, with IP headers'), field: 'outgoingBytes' },
  active_connections: {
    ...gauge([], 'Established connections, including those of draining endpoints'),
    field: 'activeConnections',
  },
  inactive_connections: {
    ...gauge([], 'Connections in any other state that IPVS still remembers, and UDP flows'),
    field: 'inactiveConnections',
  },
} as const;

function trafficRows(prefix: string, labels: readonly string[]): MetricTable {
  return Object.fromEntries(Object.entries(TRAFFIC).map(([name, row]) => [`${prefix}${name}`, { ...row, labels }]));
}

/** Prefixes of the names of traffic metrics. */
export const OF_SERVICE = 'kubeipvs_service_';
/** A series ends when its real server is deleted. */
export const OF_REAL_SERVER = 'kubeipvs_real_server_';

const SERVICE_METRICS = trafficRows(OF_SERVICE, SERVICE_PORT);
/** `real_server` is "ip:port" or, for IPv6, "[ip]:port". */
const REAL_SERVER_METRICS = trafficRows(OF_REAL_SERVER, [...SERVICE_PORT, 'real_server']);

/** Metrics of kube-ipvs-proxy only. */
const OWN = {
  kubeipvs_sync_total: counter(
    ['kind', 'result'],
    'Syncs by kind (full: the whole kernel state was compared; change: only what changed) and result (ok; partial: some objects failed; failed: the sync as a whole failed)',
  ),
  kubeipvs_sync_duration_seconds: histogram(['kind'], SYNC_BUCKETS, 'Duration of syncs by kind'),
  kubeipvs_operations_total: counter(['operation', 'outcome'], 'Changes to kernel objects by outcome (done, failed)'),
  kubeipvs_drift_repaired_total: counter(
    ['object'],
    'Objects that another program changed, and that were repaired (device: kube-ipvs0; setting: a sysctl or the IPVS timeouts)',
  ),
  kubeipvs_node_problems: gauge(
    [],
    'Wrong settings and interfaces of this node that could not be repaired; the log and /healthz name them',
  ),
  kubeipvs_other_modes_left: gauge(
    [],
    '1 from the start until nothing of other modes is left on this node, then 0; `kube-ipvs-proxy status` says what keeps it',
  ),
  kubeipvs_iptables_rules_repaired_total: counter([], 'How often missing or changed iptables rules were repaired'),
  kubeipvs_objects: gauge(['type'], 'Objects that should exist now'),
  kubeipvs_services_over_limit: gauge(
    [],
    'Services of which some addresses and ports are not served, because they would have more than 250,000 virtual servers and real servers',
  ),
  kubeipvs_draining_real_servers: gauge([], 'Real servers with weight 0 whose last connections have not ended yet'),
  kubeipvs_checked_endpoints: gauge(
    ['state'],
    'With --ipvs-endpoint-check: endpoints of the Services that ask for it, by state (unknown: without an answer to this node so far, so not judged; trusted; suspected: no answer was counted; silent: connects from this node were not answered either)',
  ),
  kubeipvs_endpoint_connects_total: counter(
    ['result'],
    'With --ipvs-endpoint-check: connects to unknown, suspected and silent endpoints by result (answered, refused, unanswered; not-sent: this node had no route or link)',
  ),
  kubeipvs_watch_state: gauge(
    ['resource', 'state'],
    '1 for the current state of the watch of a resource (listing, watching, waiting), 0 for the others',
  ),
  kubeipvs_watch_restarts_total: counter(
    ['resource', 'reason'],
    'Restarts of lists and watches, by the reason why the previous one ended: ended (no failure), or the kind of failure',
  ),
  kubeipvs_netlink_bytes_total: counter(['direction'], 'Bytes exchanged with the kernel by netlink (sent, received)'),
  kubeipvs_netlink_messages_total: counter(['direction'], 'Messages sent to the kernel by netlink (direction: sent)'),
  kubeipvs_netlink_sends_total: counter([], 'System calls that sent messages to the kernel'),
  kubeipvs_processes_started_total: counter(['program'], 'Programs started (iptables-restore, modprobe, ...)'),
  kubeipvs_node_connections_total: counter(
    [],
    'Connections that IPVS forwarded, of all virtual servers of this node since ip_vs was loaded, also those of other programs. The kernel updates this and the next four every 2 s',
  ),
  kubeipvs_node_incoming_packets_total: counter([], 'Packets from clients'),
  kubeipvs_node_outgoing_packets_total: counter([], 'Packets from endpoints'),
  kubeipvs_node_incoming_bytes_total: counter([], 'Bytes from clients, with IP headers'),
  kubeipvs_node_outgoing_bytes_total: counter([], 'Bytes from endpoints, with IP headers'),
  kubeipvs_estimation_enabled: gauge(
    [],
    '0 while net.ipv4.vs.run_estimation is 0 (the traffic counters of kubeipvs_node_* and kubeipvs_service_* do not change), else 1',
  ),
  kubeipvs_userspace_listeners: gauge(
    ['state'],
    'Ports of the user-space engine: listening, or refused because another program has them',
  ),
  kubeipvs_userspace_connections_total: counter([], 'TCP connections and UDP clients that the engine accepted'),
  kubeipvs_userspace_active_connections: gauge([], 'Those of them that exist'),
  kubeipvs_userspace_refused_total: counter([], 'Those that it refused, because of a limit or without an endpoint'),
  kubeipvs_userspace_failed_connects_total: counter(
    [],
    'Attempts to reach an endpoint that failed; the engine then tries the next one',
  ),
  kubeipvs_userspace_failed_connections_total: counter([], 'Connections that ended because every endpoint failed'),
  kubeipvs_userspace_dropped_datagrams_total: counter([], 'UDP datagrams that it dropped, because too many waited'),
  kubeipvs_userspace_bytes_total: counter(['direction'], 'Bytes from clients (in) and from endpoints (out)'),
  kubeipvs_shadow_differences: gauge(
    ['object', 'kind'],
    'With --dry-run: differences between kernel and plan that two comparisons in a row found; kind is "unexpected", or the name of a known difference from kube-proxy',
  ),
  kubeipvs_shadow_last_comparison_timestamp_seconds: gauge(
    [],
    'With --dry-run: Unix time of the last comparison of kernel and plan',
  ),
  kubeipvs_event_loop_lag_max_seconds: gauge([], 'The longest delay of the event loop since the last scrape'),
};

/** Metrics that this process records. */
export const PROXY_METRICS = { ...KUBE_PROXY, ...GENERIC, ...OWN };

export const METRICS: MetricTable = { ...PROXY_METRICS, ...SERVICE_METRICS, ...REAL_SERVER_METRICS };

/** Component SLIs, served separately so that they can be scraped more often. */
export const SLI_METRICS = {
  kubernetes_healthcheck: gauge(
    ['name', 'type'],
    '1 if the check (/livez or /healthz, see name) would return 200 now, else 0',
  ),
  kubernetes_healthchecks_total: counter(
    ['name', 'type', 'status'],
    'Scrapes of /metrics/slis, by the result of the check at that time (success, error)',
  ),
};

/** All metrics, grouped as in the documentation. */
export const METRIC_GROUPS: Readonly<Record<string, MetricTable>> = {
  "kube-proxy's metrics, under the same names": KUBE_PROXY,
  'Common metrics of Kubernetes components and processes': GENERIC,
  "kube-ipvs-proxy's own metrics": OWN,
  'Metrics per Service port, with --service-metrics or --service-metrics-selector': SERVICE_METRICS,
  'Metrics per real server, with --service-metrics-real-servers in addition': REAL_SERVER_METRICS,
  'Component SLIs, on `/metrics/slis`': SLI_METRICS,
};
