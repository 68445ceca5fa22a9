import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { METRICS, type MetricRow, PROXY_METRICS } from '../../../src/observe/metric-table.ts';
import { type WatchState, nextWatchState } from '../../../src/observe/api-observer.ts';
import { ProxyMetrics, type SyncObservation } from '../../../src/observe/proxy-metrics.ts';
import { exposed } from '../../support/exposed.ts';

let metrics: ProxyMetrics;
beforeEach(() => {
  metrics = new ProxyMetrics([{ name: 'AllAlpha', stage: 'ALPHA', enabled: false }]);
});
afterEach(() => metrics.lag.stop());

/** The value of one line of the exposition; NaN when there is none. */
async function valueOf(series: string): Promise<number> {
  const line = (await exposed(metrics)).split('\n').find((text) => text.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1) ?? NaN);
}

function sync(part: Partial<SyncObservation>): SyncObservation {
  return {
    kind: 'full',
    ok: true,
    durationMs: 0,
    operations: new Map(),
    failures: [],
    drift: [],
    node: { deviceMade: false, settingsRepaired: [], problems: [] },
    draining: 0,
    programming: [],
    ...part,
  };
}

const NOW = 1_800_000_000_000;

const EFFECTS: readonly (readonly [what: string, act: () => void, series: Readonly<Record<string, number>>])[] = [
  [
    'a queued sync',
    () => metrics.syncQueued(NOW),
    {
      'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"}': NOW / 1000,
      'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv6"}': NOW / 1000,
    },
  ],
  [
    'a connect to an endpoint that may be silent',
    () => metrics.endpointAsked('refused'),
    { 'kubeipvs_endpoint_connects_total{result="refused"}': 1 },
  ],
  [
    'endpoints that are checked',
    () => metrics.observe({ endpoints: () => ({ trusted: 5, suspected: 0, silent: 2 }) }),
    { 'kubeipvs_checked_endpoints{state="silent"}': 2, 'kubeipvs_checked_endpoints{state="suspected"}': 0 },
  ],
  [
    'a sync that went well',
    () => metrics.syncFinished(sync({ durationMs: 3, kind: 'first', draining: 7 }), NOW),
    {
      'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv6"}': NOW / 1000,
      'kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="0.002",ip_family="IPv4"}': 0,
      'kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="0.004",ip_family="IPv4"}': 1,
      'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv6"}': 1,
      'kubeipvs_sync_total{kind="full",result="ok"}': 1,
      'kubeipvs_sync_total{kind="change",result="ok"}': 0,
      'kubeipvs_sync_duration_seconds_sum{kind="full"}': 0.003,
      kubeipvs_draining_real_servers: 7,
    },
  ],
  [
    'a sync that failed',
    () =>
      metrics.syncFinished(
        sync({ ok: false, durationMs: 20, kind: 'change', programming: [{ family: 4, durationMs: 7 }], draining: 5 }),
        NOW,
      ),
    {
      'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"}': NaN,
      'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"}': 1,
      'kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"}': NaN,
      'kubeipvs_sync_total{kind="change",result="failed"}': 1,
      kubeipvs_draining_real_servers: 0,
    },
  ],
  [
    'a sync in which single objects failed',
    () =>
      metrics.syncFinished(
        sync({
          operations: new Map([
            ['add-virtual-server', 5],
            ['add-real-server', 2],
          ]),
          failures: [{ op: { kind: 'add-virtual-server' } }, { op: { kind: 'add-virtual-server' } }],
          drift: [
            { kind: 'add-virtual-server' },
            { kind: 'edit-virtual-server' },
            { kind: 'edit-virtual-server' },
            { kind: 'bind-address' },
            { kind: 'add-entry' },
            { kind: 'add-entry' },
            { kind: 'add-entry' },
            { kind: 'create-set' },
            { kind: 'delete-real-server' },
            { kind: 'delete-real-server' },
            { kind: 'delete-real-server' },
            { kind: 'delete-real-server' },
          ],
          node: { deviceMade: true, settingsRepaired: ['one', 'two'], problems: ['three'] },
        }),
        NOW,
      ),
    {
      'kubeipvs_sync_total{kind="full",result="partial"}': 1,
      'kubeipvs_operations_total{operation="add-virtual-server",outcome="done"}': 3,
      'kubeipvs_operations_total{operation="add-virtual-server",outcome="failed"}': 2,
      'kubeipvs_operations_total{operation="add-real-server",outcome="done"}': 2,
      'kubeipvs_drift_repaired_total{object="virtual-server"}': 3,
      'kubeipvs_drift_repaired_total{object="address"}': 1,
      'kubeipvs_drift_repaired_total{object="set-entry"}': 3,
      'kubeipvs_drift_repaired_total{object="set"}': 1,
      'kubeipvs_drift_repaired_total{object="real-server"}': 4,
      'kubeipvs_drift_repaired_total{object="device"}': 1,
      'kubeipvs_drift_repaired_total{object="setting"}': 2,
      kubeipvs_node_problems: 1,
    },
  ],
  ['iptables rules that were put back', () => metrics.rulesRepaired(), { kubeipvs_iptables_rules_repaired_total: 1 }],
  [
    'programmed endpoints',
    () =>
      metrics.syncFinished(
        sync({
          programming: [
            { family: 4, durationMs: 300 },
            { family: 4, durationMs: 700 },
            { family: 6, durationMs: 4_000 },
            { family: 4, durationMs: 0 },
          ],
        }),
        NOW,
      ),
    {
      'kubeproxy_network_programming_duration_seconds_bucket{le="0",ip_family="IPv4"}': 1,
      'kubeproxy_network_programming_duration_seconds_bucket{le="0.25",ip_family="IPv4"}': 1,
      'kubeproxy_network_programming_duration_seconds_bucket{le="0.5",ip_family="IPv4"}': 2,
      'kubeproxy_network_programming_duration_seconds_bucket{le="1",ip_family="IPv4"}': 3,
      'kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"}': 3,
      'kubeproxy_network_programming_duration_seconds_sum{ip_family="IPv6"}': 4,
      'kubeproxy_network_programming_duration_seconds_count{ip_family="IPv6"}': 1,
    },
  ],
  [
    'events and pending changes',
    () => {
      metrics.endpointChanged();
      metrics.endpointChanged();
      metrics.serviceChanged();
      metrics.setPendingChanges({ services: 3, endpointChanges: 4 });
    },
    {
      kubeproxy_sync_proxy_rules_endpoint_changes_total: 2,
      kubeproxy_sync_proxy_rules_endpoint_changes_pending: 4,
      kubeproxy_sync_proxy_rules_service_changes_total: 1,
      kubeproxy_sync_proxy_rules_service_changes_pending: 3,
    },
  ],
  [
    'services without local endpoints',
    () => metrics.setNoLocalEndpoints(6, { internal: 1, external: 2 }),
    {
      'kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy="internal",ip_family="IPv6"}': 1,
      'kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy="external",ip_family="IPv6"}': 2,
      'kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy="external",ip_family="IPv4"}': 0,
    },
  ],
  [
    'a failed iptables-restore',
    () => metrics.iptablesRestoreFailed(4),
    {
      'kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"}': 1,
      'kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv6"}': 0,
    },
  ],
  [
    'health answers',
    () => {
      metrics.probeAnswered('healthz', 503);
      metrics.probeAnswered('livez', 200);
    },
    { 'kubeproxy_proxy_healthz_total{code="503"}': 1, 'kubeproxy_proxy_livez_total{code="200"}': 1 },
  ],
  [
    'cleaned up flows',
    () => metrics.conntrackReconciled(4, 1500, 9),
    {
      'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"}': 9,
      'kubeproxy_conntrack_reconciler_sync_duration_seconds_bucket{le="1.024",ip_family="IPv4"}': 0,
      'kubeproxy_conntrack_reconciler_sync_duration_seconds_bucket{le="2.048",ip_family="IPv4"}': 1,
    },
  ],
  [
    'API requests',
    () => {
      metrics.apiRequestFinished({
        method: 'GET',
        host: 'h:6443',
        code: '200',
        seconds: 0.3,
        requestBytes: 0,
      });
      metrics.apiResponseRead('GET', 'h:6443', 70_000);
      metrics.apiRequestFinished({ method: 'GET', host: 'h:6443', code: '<error>', seconds: 61 });
      metrics.apiRequestRetried('GET', 'h:6443', '429');
      metrics.apiRateLimiterWaited('GET', 'h:6443', 0.01);
    },
    {
      'rest_client_requests_total{code="200",method="GET",host="h:6443"}': 1,
      'rest_client_requests_total{code="<error>",method="GET",host="h:6443"}': 1,
      'rest_client_request_duration_seconds_bucket{le="0.5",verb="GET",host="h:6443"}': 1,
      'rest_client_request_duration_seconds_bucket{le="60",verb="GET",host="h:6443"}': 1,
      'rest_client_request_duration_seconds_bucket{le="+Inf",verb="GET",host="h:6443"}': 2,
      'rest_client_response_size_bytes_bucket{le="65536",verb="GET",host="h:6443"}': 0,
      'rest_client_response_size_bytes_bucket{le="262144",verb="GET",host="h:6443"}': 1,
      'rest_client_request_size_bytes_count{verb="GET",host="h:6443"}': 1,
      'rest_client_request_retries_total{code="429",verb="GET",host="h:6443"}': 1,
      'rest_client_rate_limiter_duration_seconds_bucket{le="0.025",verb="GET",host="h:6443"}': 1,
    },
  ],
  [
    'object counts',
    () => metrics.setObjects({ service: 1, 'virtual-server': 2, 'real-server': 3, address: 4, 'set-entry': 5 }),
    {
      'kubeipvs_objects{type="service"}': 1,
      'kubeipvs_objects{type="virtual-server"}': 2,
      'kubeipvs_objects{type="real-server"}': 3,
      'kubeipvs_objects{type="address"}': 4,
      'kubeipvs_objects{type="set-entry"}': 5,
    },
  ],
  ['Services over the limit', () => metrics.setServicesOverLimit(2), { kubeipvs_services_over_limit: 2 }],
  [
    'watches',
    () => {
      metrics.setWatchState('services', 'listing');
      metrics.setWatchState('services', 'watching');
      metrics.watchRestarted('services', 'expired');
    },
    {
      'kubeipvs_watch_state{resource="services",state="listing"}': 0,
      'kubeipvs_watch_state{resource="services",state="watching"}': 1,
      'kubeipvs_watch_state{resource="services",state="waiting"}': 0,
      'kubeipvs_watch_restarts_total{resource="services",reason="expired"}': 1,
    },
  ],
  [
    'netlink and processes',
    () => {
      metrics.setNetlinkCounters({
        netlinkBytesSent: 100,
        netlinkMessages: 3,
        netlinkSends: 1,
        netlinkBytesReceived: 50,
      });
      metrics.processStarted('iptables-restore');
    },
    {
      'kubeipvs_netlink_bytes_total{direction="sent"}': 100,
      'kubeipvs_netlink_bytes_total{direction="received"}': 50,
      'kubeipvs_netlink_messages_total{direction="sent"}': 3,
      kubeipvs_netlink_sends_total: 1,
      'kubeipvs_processes_started_total{program="iptables-restore"}': 1,
    },
  ],
  [
    'traffic of Services, of which the last reading counts',
    () => {
      const port = { namespace: 'default', service: 'web', portName: 'http', protocol: 'TCP', connections: 5 };
      const rest = { incomingPackets: 1, outgoingPackets: 2, incomingBytes: 3, outgoingBytes: 4 };
      const open = { activeConnections: 6, inactiveConnections: 7 };
      metrics.observe({ services: () => Promise.resolve([{ ...port, ...rest, ...open, realServers: [] }]) });
    },
    Object.fromEntries(
      [
        ['connections_total', 5],
        ['incoming_packets_total', 1],
        ['outgoing_packets_total', 2],
        ['incoming_bytes_total', 3],
        ['outgoing_bytes_total', 4],
        ['active_connections', 6],
        ['inactive_connections', 7],
      ].map(([name, value]) => [
        `kubeipvs_service_${name}{namespace="default",service="web",port_name="http",protocol="TCP"}`,
        Number(value),
      ]),
    ),
  ],
  [
    'traffic of real servers',
    () => {
      const port = { namespace: 'default', service: 'web', portName: 'http', protocol: 'TCP', connections: 5 };
      const rest = { incomingPackets: 1, outgoingPackets: 2, incomingBytes: 3, outgoingBytes: 4 };
      const open = { activeConnections: 6, inactiveConnections: 7 };
      const traffic = { ...rest, ...open, connections: 8 };
      const realServers = ['10.244.0.1:8080', '[fd00:244::1]:8080'].map((realServer) => ({ ...traffic, realServer }));
      metrics.observe({ services: () => Promise.resolve([{ ...port, ...rest, ...open, realServers }]) });
    },
    Object.fromEntries(
      [
        ['connections_total', 8],
        ['incoming_packets_total', 1],
        ['outgoing_packets_total', 2],
        ['incoming_bytes_total', 3],
        ['outgoing_bytes_total', 4],
        ['active_connections', 6],
        ['inactive_connections', 7],
      ].flatMap(([name, value]) =>
        ['10.244.0.1:8080', '[fd00:244::1]:8080'].map((realServer) => [
          `kubeipvs_real_server_${name}{namespace="default",service="web",port_name="http",protocol="TCP",real_server="${realServer}"}`,
          Number(value),
        ]),
      ),
    ),
  ],
  [
    'estimation that was stopped',
    () => metrics.observe({ estimation: () => Promise.resolve(false) }),
    { kubeipvs_estimation_enabled: 0 },
  ],
  [
    'traffic of the node',
    () => {
      const totals = { connections: 1, incomingPackets: 2, outgoingPackets: 3, incomingBytes: 4, outgoingBytes: 5 };
      metrics.observe({ totals: () => Promise.resolve(totals) });
    },
    {
      kubeipvs_node_connections_total: 1,
      kubeipvs_node_incoming_packets_total: 2,
      kubeipvs_node_outgoing_packets_total: 3,
      kubeipvs_node_incoming_bytes_total: 4,
      kubeipvs_node_outgoing_bytes_total: 5,
    },
  ],
  ['estimation that runs', () => undefined, { kubeipvs_estimation_enabled: 1 }],
  [
    'rules of iptables mode that were counted',
    () => metrics.rulesCounted(6, { nat: 40, filter: 5 }, { nat: 3, filter: 0 }),
    {
      'kubeproxy_sync_proxy_rules_iptables_total{table="nat",ip_family="IPv6"}': 40,
      'kubeproxy_sync_proxy_rules_iptables_total{table="filter",ip_family="IPv6"}': 5,
      'kubeproxy_sync_proxy_rules_iptables_last{table="nat",ip_family="IPv6"}': 3,
      'kubeproxy_sync_proxy_rules_iptables_last{table="filter",ip_family="IPv6"}': 0,
    },
  ],
  [
    'failures that only one mode has',
    () => {
      metrics.partialRestoreFailed(4);
      metrics.nftablesSyncFailed(6);
      metrics.cleanUpFailed(6);
    },
    {
      'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family="IPv4"}': 1,
      'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family="IPv6"}': 0,
      'kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv6"}': 1,
      'kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total{ip_family="IPv6"}': 1,
    },
  ],
  ['feature gates', () => undefined, { 'kubernetes_feature_enabled{name="AllAlpha",stage="ALPHA"}': 0 }],
];

const PROXY_ROWS: Readonly<Record<string, MetricRow>> = PROXY_METRICS;

describe('what is exposed after', () => {
  test.each(EFFECTS)('%s', async (_what, act, series) => {
    act();
    const found: Record<string, number> = {};
    for (const name of Object.keys(series)) found[name] = await valueOf(name);
    expect(found).toEqual(series);
  });
});

describe('the exposition', () => {
  test('has every metric of the table, with its type, and no other', async () => {
    const types = (await exposed(metrics)).split('\n').filter((line) => line.startsWith('# TYPE'));
    const wanted = Object.entries(METRICS).map(([name, { type }]) => `# TYPE ${name} ${type}`);
    expect(types.toSorted()).toEqual(wanted.toSorted());
    expect(new Set(wanted).size).toBe(wanted.length);
  });

  test.each([
    ['ipvs', []],
    ['userspace', ['nftables_cleanup_failures', 'nftables_sync_failures', 'sync_full', 'sync_partial']],
    [
      'nftables',
      [
        'nftables_cleanup_failures',
        'nftables_localhost_nodeport_listener_creation_failures',
        'nftables_localhost_nodeport_listeners',
        'nftables_sync_failures',
        'sync_full',
        'sync_partial',
      ],
    ],
    ['iptables', ['iptables_last', 'iptables_partial_restore_failures', 'iptables_total', 'sync_full', 'sync_partial']],
  ] as const)('in %s mode, it has those metrics of single modes: %j', async (mode, wanted) => {
    const of = async (text: Promise<string>): Promise<string[]> =>
      (await text).split('\n').flatMap((line) => /^# TYPE (\S+)/.exec(line)?.[1] ?? []);
    const inMode = new Set(await of(exposed(new ProxyMetrics([], [], mode))));
    const some = (await of(exposed(new ProxyMetrics()))).filter(
      (name) => PROXY_ROWS[name]?.modes !== undefined && inMode.has(name),
    );
    const short = some.map((name) =>
      name.replace(/^kubeproxy_(sync_proxy_rules_)?/, '').replace(/_(total|proxy_rules_duration_seconds)$/, ''),
    );
    expect(short.toSorted()).toEqual(wanted.map((name) => name.replace(/_total$/, '')).toSorted());
  });

  test('counters of failures are there before the first one, so that a rate sees it', async () => {
    const first = new ProxyMetrics([], ['add-virtual-server', 'delete-entry']);
    first.setWatchState('services', 'listing');
    const text = await exposed(first);
    for (const series of [
      'kubeipvs_operations_total{operation="delete-entry",outcome="failed"}',
      'kubeipvs_drift_repaired_total{object="virtual-server"}',
      'kubeipvs_drift_repaired_total{object="set-entry"}',
      'kubeipvs_watch_restarts_total{resource="services",reason="ended"}',
      'kubeproxy_proxy_livez_total{code="503"}',
      'kubeproxy_proxy_healthz_total{code="503"}',
    ])
      expect(text).toContain(`\n${series} 0\n`);
  });

  test('says what this process uses', async () => {
    expect(await valueOf('process_cpu_seconds_total')).toBeGreaterThan(0);
    expect(await valueOf('process_resident_memory_bytes')).toBeGreaterThan(10e6);
    expect(await valueOf('process_virtual_memory_bytes')).toBeGreaterThan(10e6);
    expect(await valueOf('process_open_fds')).toBeGreaterThan(3);
    expect(await valueOf('process_max_fds')).not.toBeNaN();
    expect(Math.abs((await valueOf('process_start_time_seconds')) - performance.timeOrigin / 1000)).toBeLessThan(1);
    const heap = await valueOf('nodejs_heap_size_used_bytes');
    expect(heap).toBeGreaterThan(1e6);
    expect(await valueOf('nodejs_heap_size_limit_bytes')).toBeGreaterThan(heap);
    expect(await valueOf('nodejs_external_memory_bytes')).toBeGreaterThan(0);
    expect(await valueOf('nodejs_heap_space_size_used_bytes{space="old"}')).toBeGreaterThan(1e5);
    expect((await exposed(metrics)).match(/^kubernetes_build_info\{.*\} 1$/m)?.[0]).toContain('git_version="v');
  });

  test('the CPU time is a total, however often it is read', async () => {
    const first = await valueOf('process_cpu_seconds_total');
    const second = await valueOf('process_cpu_seconds_total');
    expect(second).toBeGreaterThanOrEqual(first);
    expect(second).toBeLessThan(first + 5);
  });

  test('bounds are those of kube-proxy', () => {
    expect(PROXY_METRICS.kubeproxy_sync_proxy_rules_duration_seconds.buckets).toEqual([
      0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
    ]);
    const bounds = PROXY_METRICS.kubeproxy_network_programming_duration_seconds.buckets;
    expect(bounds).toHaveLength(3 + 59 + 12 + 7);
    expect([...bounds.slice(0, 5), ...bounds.slice(60, 64), ...bounds.slice(-9)]).toEqual([
      0, 0.25, 0.5, 1, 2, 58, 59, 60, 65, 110, 115, 120, 150, 180, 210, 240, 270, 300,
    ]);
  });
});

test('the event loop lag is the longest since the last scrape', async () => {
  metrics.lag.start();
  await new Promise((resolve) => setTimeout(resolve, 250));
  await exposed(metrics);
  const until = performance.now() + 900;
  while (performance.now() < until);
  await new Promise((resolve) => setTimeout(resolve, 600));
  const lag = await valueOf('kubeipvs_event_loop_lag_max_seconds');
  // Up to one interval too short.
  expect(lag).toBeGreaterThan(0.35);
  // The longest is forgotten with the scrape that has told it.
  expect(await valueOf('kubeipvs_event_loop_lag_max_seconds')).toBeLessThan(lag);
});

test('the state of a watch is kept with the time since which it lasts', () => {
  const before = performance.now();
  metrics.setWatchState('services', 'listing');
  metrics.setWatchState('services', 'watching');
  const { state, since = 0 } = metrics.watchStates.get('services') ?? {};
  expect([state, since >= before, since <= performance.now()]).toEqual(['watching', true, true]);
});

test('attempts to list do not shorten the time without a watch', () => {
  const states = (['listing', 'watching', 'waiting', 'listing', 'waiting', 'watching'] as const).reduce<WatchState[]>(
    (before, state, at) => [...before, nextWatchState(before.at(-1), state, at)],
    [],
  );
  expect(states.map(({ since }) => since)).toEqual([0, 1, 2, 2, 2, 5]);
});
