/** One metric: type, name, help text and labels. */
export interface MetricRow {
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  /** Upper bounds, for histograms. */
  readonly buckets?: readonly number[];
}

interface CounterRow extends MetricRow {
  readonly type: 'counter';
}
interface GaugeRow extends MetricRow {
  readonly type: 'gauge';
}
interface HistogramRow extends MetricRow {
  readonly type: 'histogram';
  readonly buckets: readonly number[];
}

function counter(name: string, labels: readonly string[], help: string): CounterRow {
  return { type: 'counter', name, labels, help };
}

function gauge(name: string, labels: readonly string[], help: string): GaugeRow {
  return { type: 'gauge', name, labels, help };
}

function histogram(name: string, labels: readonly string[], buckets: readonly number[], help: string): HistogramRow {
  return { type: 'histogram', name, labels, buckets, help };
}

/** Returns the numbers from `from` to `to` in steps of `step`, both ends included. */
function linear(from: number, to: number, step: number): number[] {
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => from + i * step);
}

/** 0.001 to 16.384, doubling. */
const SYNC_BUCKETS = Array.from({ length: 15 }, (_, k) => 2 ** k / 1000);

/** The buckets of kube-proxy, including the leading 0, so that dashboards with fixed bounds keep working. */
const NETWORK_PROGRAMMING_BUCKETS = [0, 0.25, 0.5, ...linear(1, 59, 1), ...linear(60, 115, 5), ...linear(120, 300, 30)];

const REQUEST_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
const SIZE_BUCKETS = [64, 256, 512, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216];

const FAMILY = ['ip_family'];
/** One port of one Service; port_name is empty if the port has no name. */
const SERVICE_PORT = ['namespace', 'service', 'port_name', 'protocol'];
/** One real server of a Service port: ip:port, or [ip]:port for IPv6. */
const SERVICE_ENDPOINT = [...SERVICE_PORT, 'real_server'];
const BUILD = [
  'major',
  'minor',
  'git_version',
  'git_commit',
  'git_tree_state',
  'build_date',
  'go_version',
  'compiler',
  'platform',
];

/** Metrics with kube-proxy's names, for existing dashboards and alerts. */
const KUBE_PROXY = {
  syncDuration: histogram(
    'kubeproxy_sync_proxy_rules_duration_seconds',
    FAMILY,
    SYNC_BUCKETS,
    'How long a sync took, failed ones too',
  ),
  syncLast: gauge(
    'kubeproxy_sync_proxy_rules_last_timestamp_seconds',
    FAMILY,
    'When the last sync succeeded, in Unix time',
  ),
  syncQueued: gauge(
    'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds',
    FAMILY,
    'When a sync was last asked for, in Unix time',
  ),
  networkProgramming: histogram(
    'kubeproxy_network_programming_duration_seconds',
    FAMILY,
    NETWORK_PROGRAMMING_BUCKETS,
    'From the change of an endpoint, as its EndpointSlice says, to the kernel that has it. Dual stack: all under the first family',
  ),
  endpointChanges: counter('kubeproxy_sync_proxy_rules_endpoint_changes_total', [], 'EndpointSlice events taken in'),
  endpointChangesPending: gauge(
    'kubeproxy_sync_proxy_rules_endpoint_changes_pending',
    [],
    'Endpoint changes that no sync has taken up yet',
  ),
  serviceChanges: counter('kubeproxy_sync_proxy_rules_service_changes_total', [], 'Service events taken in'),
  serviceChangesPending: gauge(
    'kubeproxy_sync_proxy_rules_service_changes_pending',
    [],
    'Services with changes that no sync has taken up yet',
  ),
  noLocalEndpoints: gauge(
    'kubeproxy_sync_proxy_rules_no_local_endpoints_total',
    ['traffic_policy', ...FAMILY],
    'Services with a Local traffic policy and endpoints, but none on this node',
  ),
  iptablesRestoreFailures: counter(
    'kubeproxy_sync_proxy_rules_iptables_restore_failures_total',
    FAMILY,
    'Runs of iptables-restore that failed',
  ),
  healthzAnswers: counter('kubeproxy_proxy_healthz_total', ['code'], 'Answers of /healthz by status code'),
  livezAnswers: counter('kubeproxy_proxy_livez_total', ['code'], 'Answers of /livez by status code'),
  conntrackDuration: histogram(
    'kubeproxy_conntrack_reconciler_sync_duration_seconds',
    FAMILY,
    SYNC_BUCKETS,
    'How long the clean-up of stale UDP flows took',
  ),
  conntrackDeleted: counter(
    'kubeproxy_conntrack_reconciler_deleted_entries_total',
    FAMILY,
    'Stale UDP flows that were deleted',
  ),
};

/** Metrics that every Kubernetes component and process exposes. */
const GENERIC = {
  apiRequests: counter(
    'rest_client_requests_total',
    ['code', 'method', 'host'],
    'Requests to the API server; code is <error> when there was no answer',
  ),
  apiRequestDuration: histogram(
    'rest_client_request_duration_seconds',
    ['verb', 'host'],
    REQUEST_BUCKETS,
    'How long requests took to their response headers',
  ),
  apiRateLimiterDuration: histogram(
    'rest_client_rate_limiter_duration_seconds',
    ['verb', 'host'],
    REQUEST_BUCKETS,
    'How long requests that are no watches waited for --kube-api-qps',
  ),
  apiRequestSize: histogram('rest_client_request_size_bytes', ['verb', 'host'], SIZE_BUCKETS, 'Size of request bodies'),
  apiResponseSize: histogram(
    'rest_client_response_size_bytes',
    ['verb', 'host'],
    SIZE_BUCKETS,
    'Size of response bodies, but those of watches',
  ),
  apiRetries: counter('rest_client_request_retries_total', ['code', 'verb', 'host'], 'Requests that were tried again'),
  buildInfo: gauge('kubernetes_build_info', BUILD, 'Always 1; the labels say which build this is'),
  featureEnabled: gauge('kubernetes_feature_enabled', ['name', 'stage'], 'Whether a feature gate is on'),
  processCpu: counter('process_cpu_seconds_total', [], 'CPU time, user and system'),
  processResident: gauge('process_resident_memory_bytes', [], 'Resident memory'),
  processVirtual: gauge('process_virtual_memory_bytes', [], 'Virtual memory'),
  processVirtualMax: gauge('process_virtual_memory_max_bytes', [], 'Limit of virtual memory; -1 when there is none'),
  processOpenFds: gauge('process_open_fds', [], 'Open file descriptors'),
  processMaxFds: gauge('process_max_fds', [], 'Limit of open file descriptors'),
  processStart: gauge('process_start_time_seconds', [], 'When the process started, in Unix time'),
  heapUsed: gauge('nodejs_heap_size_used_bytes', [], 'Heap in use, garbage that was not collected yet included'),
  heapTotal: gauge('nodejs_heap_size_total_bytes', [], 'Heap that is allocated'),
  heapLimit: gauge('nodejs_heap_size_limit_bytes', [], 'What the heap may not exceed: the process ends then'),
  external: gauge('nodejs_external_memory_bytes', [], 'Memory outside of the heap that its objects hold: buffers'),
  heapSpaceUsed: gauge('nodejs_heap_space_size_used_bytes', ['space'], 'As nodejs_heap_size_used_bytes, of one space'),
  heapSpaceTotal: gauge(
    'nodejs_heap_space_size_total_bytes',
    ['space'],
    'As nodejs_heap_size_total_bytes, of one space',
  ),
};

/** Read from the kernel at each scrape, for at most --service-metrics-limit Services. */
export const SERVICE_METRICS = {
  serviceConnections: counter(
    'kubeipvs_service_connections_total',
    SERVICE_PORT,
    'Connections that IPVS sent to an endpoint, over all addresses of the port; as all these counters up to 2 s old, for the kernel sums up that often',
  ),
  serviceIncomingPackets: counter(
    'kubeipvs_service_incoming_packets_total',
    SERVICE_PORT,
    'Packets of clients, towards the endpoints',
  ),
  serviceOutgoingPackets: counter('kubeipvs_service_outgoing_packets_total', SERVICE_PORT, 'Packets of endpoints'),
  serviceIncomingBytes: counter(
    'kubeipvs_service_incoming_bytes_total',
    SERVICE_PORT,
    'Bytes of clients, towards the endpoints, with IP headers',
  ),
  serviceOutgoingBytes: counter(
    'kubeipvs_service_outgoing_bytes_total',
    SERVICE_PORT,
    'Bytes of endpoints, with IP headers',
  ),
  serviceActiveConnections: gauge(
    'kubeipvs_service_active_connections',
    SERVICE_PORT,
    'Connections that are established, those of draining endpoints too',
  ),
  serviceInactiveConnections: gauge(
    'kubeipvs_service_inactive_connections',
    SERVICE_PORT,
    'Connections that IPVS still remembers in any other state, and UDP flows',
  ),
};

/** Read at the same scrape if --service-metrics-real-servers is set. A series ends when its real server is deleted. */
export const REAL_SERVER_METRICS = {
  realServerConnections: counter(
    'kubeipvs_real_server_connections_total',
    SERVICE_ENDPOINT,
    'Connections that IPVS sent to this endpoint, over all addresses of the port; up to 2 s old, as all these counters',
  ),
  realServerIncomingPackets: counter(
    'kubeipvs_real_server_incoming_packets_total',
    SERVICE_ENDPOINT,
    'Packets of clients, towards this endpoint',
  ),
  realServerOutgoingPackets: counter(
    'kubeipvs_real_server_outgoing_packets_total',
    SERVICE_ENDPOINT,
    'Packets of this endpoint',
  ),
  realServerIncomingBytes: counter(
    'kubeipvs_real_server_incoming_bytes_total',
    SERVICE_ENDPOINT,
    'Bytes of clients, towards this endpoint, with IP headers',
  ),
  realServerOutgoingBytes: counter(
    'kubeipvs_real_server_outgoing_bytes_total',
    SERVICE_ENDPOINT,
    'Bytes of this endpoint, with IP headers',
  ),
  realServerActiveConnections: gauge(
    'kubeipvs_real_server_active_connections',
    SERVICE_ENDPOINT,
    'Connections of this endpoint that are established',
  ),
  realServerInactiveConnections: gauge(
    'kubeipvs_real_server_inactive_connections',
    SERVICE_ENDPOINT,
    'Connections of this endpoint that IPVS still remembers in any other state, and UDP flows',
  ),
};

/** Metrics of kube-ipvs-proxy only. */
const OWN = {
  syncs: counter(
    'kubeipvs_sync_total',
    ['kind', 'result'],
    'Syncs by kind (full: the whole kernel state was compared; change: only what changed) and result (ok, partial: single objects failed, failed)',
  ),
  syncSeconds: histogram('kubeipvs_sync_duration_seconds', ['kind'], SYNC_BUCKETS, 'How long a sync took, by kind'),
  operations: counter(
    'kubeipvs_operations_total',
    ['operation', 'outcome'],
    'Changes to kernel objects by outcome (done, failed)',
  ),
  driftRepaired: counter(
    'kubeipvs_drift_repaired_total',
    ['object'],
    'Objects that differed from the plan without a change of ours, and were repaired (device: kube-ipvs0; setting: a sysctl, or the IPVS timeouts)',
  ),
  nodeProblems: gauge(
    'kubeipvs_node_problems',
    [],
    'Settings and interfaces of this node that are not as they must be and could not be repaired; the log and /healthz name them',
  ),
  rulesRepaired: counter(
    'kubeipvs_iptables_rules_repaired_total',
    [],
    'Times that our iptables rules were missing or changed, and were put back',
  ),
  objects: gauge('kubeipvs_objects', ['type'], 'Objects that should be in force now'),
  draining: gauge(
    'kubeipvs_draining_real_servers',
    [],
    'Real servers at weight 0 that wait for their last connections',
  ),
  watchState: gauge(
    'kubeipvs_watch_state',
    ['resource', 'state'],
    '1 for the state that the watch of a resource is in (listing, watching, waiting), 0 for the others',
  ),
  watchRestarts: counter(
    'kubeipvs_watch_restarts_total',
    ['resource', 'reason'],
    'Lists and watches that were begun anew, by why the one before was over (ended: in good order; else a kind of failure)',
  ),
  netlinkBytes: counter(
    'kubeipvs_netlink_bytes_total',
    ['direction'],
    'Bytes exchanged with the kernel by netlink (sent, received)',
  ),
  netlinkMessages: counter(
    'kubeipvs_netlink_messages_total',
    ['direction'],
    'Messages sent to the kernel by netlink (direction: sent)',
  ),
  netlinkSends: counter('kubeipvs_netlink_sends_total', [], 'System calls that sent messages to the kernel'),
  processesStarted: counter(
    'kubeipvs_processes_started_total',
    ['program'],
    'Programs that were started (iptables-restore, modprobe, ...)',
  ),
  estimationEnabled: gauge(
    'kubeipvs_estimation_enabled',
    [],
    '0 while net.ipv4.vs.run_estimation is 0: the traffic counters of kubeipvs_service_* stand still then; else 1',
  ),
  eventLoopLag: gauge(
    'kubeipvs_event_loop_lag_max_seconds',
    [],
    'The longest that the event loop was held up since the last scrape',
  ),
};

/** Metrics that this process records, by their name in the code. */
export const PROXY_METRICS = { ...KUBE_PROXY, ...GENERIC, ...OWN };

/** Every metric of /metrics. */
export const METRICS = { ...PROXY_METRICS, ...SERVICE_METRICS, ...REAL_SERVER_METRICS };

/** Component SLIs, served separately so that they can be scraped more often. */
export const SLI_METRICS = {
  healthcheck: gauge(
    'kubernetes_healthcheck',
    ['name', 'type'],
    '1 where /livez or /healthz would have answered 200 to this scrape, else 0',
  ),
  healthchecks: counter(
    'kubernetes_healthchecks_total',
    ['name', 'type', 'status'],
    'Scrapes of this page by what the check said then (success, error)',
  ),
};

/** All metrics, grouped as in the documentation. */
export const METRIC_GROUPS: Readonly<Record<string, readonly MetricRow[]>> = {
  'Of kube-proxy, with the same names': Object.values(KUBE_PROXY),
  'Of every Kubernetes component and process': Object.values(GENERIC),
  "kube-ipvs-proxy's own": Object.values(OWN),
  'Of single Services': Object.values(SERVICE_METRICS),
  'Of single real servers, with --service-metrics-real-servers': Object.values(REAL_SERVER_METRICS),
  'Component SLIs, on `/metrics/slis`': Object.values(SLI_METRICS),
};
