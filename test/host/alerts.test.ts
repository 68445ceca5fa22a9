import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { load } from 'js-yaml';
import { promtoolPath } from '../support/tools.ts';

const promtool = promtoolPath();

/** Samples of one series, a minute apart, in promtool's notation: "0+1x9" are the ten numbers from 0 to 9. */
interface Series {
  readonly metric: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly values: string;
}

interface Case {
  readonly alert: string;
  readonly what: string;
  readonly series: readonly Series[];
  /** When the alerts are looked at. */
  readonly at: string;
  readonly fires: boolean;
}

const OURS = { job: 'kube-proxy', service_proxy: 'kube-ipvs-proxy', instance: 'node-a' };
/** A node that kube-proxy still serves. Whatever it has, none of our alerts fires for it. */
const THEIRS = { job: 'kube-proxy', instance: 'node-b' };

const of = (metric: string, labels: Readonly<Record<string, string>>, values: string): Series => ({
  metric,
  labels,
  values,
});

/** The buckets of `kubeproxy_network_programming_duration_seconds`, with five changes a minute that take so long. */
function programming(seconds: number): Series[] {
  const metric = 'kubeproxy_network_programming_duration_seconds_bucket';
  return [15, 30, 60, Infinity].map((le) =>
    of(metric, { ip_family: 'IPv4', le: le === Infinity ? '+Inf' : String(le) }, seconds <= le ? '0+5x60' : '0x60'),
  );
}

/** Each row: the alert, when to look, and the series for which it fires and for which it does not. */
const ROWS: readonly (readonly [
  alert: string,
  at: string,
  bad: Readonly<Record<string, readonly Series[]>>,
  good: Readonly<Record<string, readonly Series[]>>,
])[] = [
  [
    'KubeIpvsProxyDown',
    '10m',
    { 'a target that does not answer': [of('up', {}, '0x20')] },
    {
      'a target that answers': [of('up', {}, '1x20')],
      'a scrape that failed for three minutes': [of('up', {}, '1x6 0x2 1x20')],
    },
  ],
  [
    'KubeIpvsProxyAbsent',
    '60m',
    {
      'targets that are gone': [of('up', {}, '1x10 _x60')],
      'targets that all do not answer': [of('up', {}, '1x10 0x60')],
    },
    { 'a target that answers': [of('up', {}, '1x90')], 'a cluster that never had one': [] },
  ],
  [
    'KubeIpvsProxyUnhealthy',
    '15m',
    { 'probes that get a 503': [of('kubeproxy_proxy_livez_total', { code: '503' }, '0+6x30')] },
    {
      'probes that got a 503 once': [of('kubeproxy_proxy_livez_total', { code: '503' }, '0x3 6x30')],
      'probes that get a 200': [of('kubeproxy_proxy_livez_total', { code: '200' }, '0+6x30')],
    },
  ],
  [
    'KubeIpvsProxySyncFailing',
    '15m',
    { 'syncs that fail': [of('kubeipvs_sync_total', { kind: 'full', result: 'failed' }, '0+2x30')] },
    { 'syncs that succeed': [of('kubeipvs_sync_total', { kind: 'full', result: 'ok' }, '0+2x30')] },
  ],
  [
    'KubeIpvsProxySyncStale',
    '10m',
    {
      'no sync since the start of time': [
        of('kubeproxy_sync_proxy_rules_last_timestamp_seconds', { ip_family: 'IPv4' }, '0x30'),
      ],
    },
    {
      'a sync each minute': [of('kubeproxy_sync_proxy_rules_last_timestamp_seconds', { ip_family: 'IPv4' }, '0+60x30')],
    },
  ],
  [
    'KubeIpvsProxyObjectsRefused',
    '25m',
    {
      'operations that are refused': [
        of('kubeipvs_operations_total', { operation: 'add-route', outcome: 'failed' }, '0+1x40'),
      ],
    },
    {
      'operations that are done': [
        of('kubeipvs_operations_total', { operation: 'add-route', outcome: 'done' }, '0+1x40'),
        of('kubeipvs_operations_total', { operation: 'add-route', outcome: 'failed' }, '3x40'),
      ],
    },
  ],
  [
    'KubeIpvsProxyIptablesRestoreFailing',
    '25m',
    {
      'runs that fail': [
        of('kubeproxy_sync_proxy_rules_iptables_restore_failures_total', { ip_family: 'IPv6' }, '0+1x40'),
      ],
    },
    {
      'runs that failed once': [
        of('kubeproxy_sync_proxy_rules_iptables_restore_failures_total', { ip_family: 'IPv6' }, '0x2 1x40'),
      ],
    },
  ],
  [
    'KubeIpvsProxyDrift',
    '50m',
    {
      'objects that are repaired again and again': [
        of('kubeipvs_drift_repaired_total', { object: 'address' }, '0+1x60'),
        of('kubeipvs_iptables_rules_repaired_total', {}, '0x60'),
      ],
      'rules that are repaired again and again': [
        of('kubeipvs_drift_repaired_total', { object: 'address' }, '0x60'),
        of('kubeipvs_iptables_rules_repaired_total', {}, '0+1x60'),
      ],
    },
    {
      'one repair': [
        of('kubeipvs_drift_repaired_total', { object: 'address' }, '0x20 5x60'),
        of('kubeipvs_iptables_rules_repaired_total', {}, '0x60'),
      ],
    },
  ],
  [
    'KubeIpvsProxyWatchDown',
    '10m',
    { 'a watch that waits': [of('kubeipvs_watch_state', { resource: 'services', state: 'watching' }, '0x20')] },
    {
      'a watch that is there': [
        of('kubeipvs_watch_state', { resource: 'services', state: 'watching' }, '1x20'),
        of('kubeipvs_watch_state', { resource: 'services', state: 'waiting' }, '0x20'),
      ],
    },
  ],
  ['KubeIpvsProxyProgrammingSlow', '40m', { 'fifty seconds': programming(50) }, { 'fifteen seconds': programming(15) }],
  [
    'KubeIpvsProxyEventLoopHeldUp',
    '15m',
    { 'two seconds at each scrape': [of('kubeipvs_event_loop_lag_max_seconds', {}, '2x30')] },
    { 'two seconds at one scrape': [of('kubeipvs_event_loop_lag_max_seconds', {}, '0.1x10 2 0.1x30')] },
  ],
  [
    'KubeIpvsProxyMemoryHigh',
    '20m',
    {
      'nine tenths': [of('nodejs_heap_size_used_bytes', {}, '90x40'), of('nodejs_heap_size_limit_bytes', {}, '100x40')],
    },
    {
      'one half': [of('nodejs_heap_size_used_bytes', {}, '50x40'), of('nodejs_heap_size_limit_bytes', {}, '100x40')],
    },
  ],
  [
    'KubeIpvsProxyNoLocalEndpoints',
    '40m',
    {
      'a Service without a local endpoint': [
        of('kubeproxy_sync_proxy_rules_no_local_endpoints_total', { traffic_policy: 'internal' }, '1x60'),
      ],
    },
    {
      'only those of the external policy': [
        of('kubeproxy_sync_proxy_rules_no_local_endpoints_total', { traffic_policy: 'external' }, '1x60'),
      ],
    },
  ],
  [
    'KubeIpvsProxyDrainingLong',
    '380m',
    { 'connections for more than six hours': [of('kubeipvs_draining_real_servers', {}, '1x400')] },
    {
      'connections that ended': [of('kubeipvs_draining_real_servers', {}, '1x200 0 1x200')],
      'connections of a daemon that started two hours ago': [of('kubeipvs_draining_real_servers', {}, '_x260 1x200')],
    },
  ],
];

const CASES: readonly Case[] = ROWS.flatMap(([alert, at, bad, good]) =>
  [bad, good].flatMap((cases, index) =>
    Object.entries(cases).map(([what, series]) => ({ alert, at, what, series, fires: index === 0 })),
  ),
);

function seriesText({ metric, labels }: Series, target: Readonly<Record<string, string>>): string {
  const all = Object.entries({ ...labels, ...target }).map(([name, value]) => `${name}="${value}"`);
  return `${metric}{${all.join(',')}}`;
}

const rulesFile = load(readFileSync('manifests/monitoring/prometheus-rules.yaml', 'utf8')) as {
  readonly spec: { readonly groups: readonly { readonly rules: readonly { readonly alert: string }[] }[] };
};
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'alerts-'));
  writeFileSync(path.join(folder, 'rules.json'), JSON.stringify(rulesFile.spec));
});
afterAll(() => rmSync(folder, { recursive: true }));

function run(...args: readonly string[]): { readonly status: number | null; readonly output: string } {
  const { status, stdout, stderr } = spawnSync(promtool ?? '', args, { encoding: 'utf8' });
  return { status, output: `${stdout}${stderr}` };
}

/** Has promtool look at the alerts that fire, as series of the metric ALERTS. */
function look({ alert, series, at, fires }: Case): ReturnType<typeof run> {
  // On the node of kube-proxy, all that goes wrong here goes wrong, too.
  const bad = CASES.filter((each) => each.alert === alert && each.fires).flatMap((each) => each.series);
  const theirs = new Map(bad.map((each) => [seriesText(each, THEIRS), each.values]));
  const input = [
    ...series.map((each) => ({ series: seriesText(each, OURS), values: each.values })),
    ...Array.from(theirs, ([name, values]) => ({ series: name, values })),
  ];
  const instance = alert === 'KubeIpvsProxyAbsent' ? '' : OURS.instance;
  const labels = instance === '' ? '{}' : `{instance="${instance}"}`;
  const file = path.join(folder, 'test.json');
  const content = {
    rule_files: ['rules.json'],
    evaluation_interval: '1m',
    tests: [
      {
        interval: '1m',
        input_series: input,
        promql_expr_test: [
          {
            expr: `count by (instance) (ALERTS{alertname="${alert}",alertstate="firing"})`,
            eval_time: at,
            exp_samples: fires ? [{ labels, value: 1 }] : [],
          },
        ],
      },
    ],
  };
  writeFileSync(file, JSON.stringify(content));
  return run('test', 'rules', file);
}

test('each alert has a case in which it fires, and one in which it does not', () => {
  const alerts = rulesFile.spec.groups.flatMap(({ rules }) => rules.map(({ alert }) => alert));
  for (const fires of [true, false]) {
    const proven = new Set(CASES.filter((each) => each.fires === fires).map(({ alert }) => alert));
    expect([...proven]).toEqual(alerts);
  }
});

if (promtool === undefined)
  test.todo('the alerts were not evaluated, for promtool is from a package of Debian or Ubuntu');
else
  describe('promtool', () => {
    test('finds no fault in the alerts', () => {
      expect(run('check', 'rules', path.join(folder, 'rules.json'))).toMatchObject({ status: 0 });
    });

    test.each(CASES.map((each) => [each.alert, each.fires ? 'fires' : 'does not fire', each.what, each] as const))(
      '%s %s: %s',
      (_alert, _fires, _what, each) => {
        expect(look(each)).toMatchObject({ status: 0 });
      },
    );
  });
