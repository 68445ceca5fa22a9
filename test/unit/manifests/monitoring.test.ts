import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { METRICS, type MetricRow } from '../../../src/observe/metric-table.ts';
import { ProxyMetrics } from '../../../src/observe/proxy-metrics.ts';
import { at, itemsOf } from './kustomization.ts';
import { ALERTS, DASHBOARD, PANELS, QUERIES } from './monitoring-queries.ts';
import { readQuery } from './promql.ts';
import { exposed } from '../../support/exposed.ts';

const ROWS: ReadonlyMap<string, MetricRow> = new Map(Object.entries(METRICS));
/** What Prometheus itself knows of a scrape, with the label of our monitors. */
const OF_TARGET = ['cluster', 'job', 'service_proxy', 'instance'];
const PAGE = 'https://github.com/kube-ipvs-proxy/kube-ipvs-proxy/blob/main/docs/operate.md';

/** A metric of the table, by the name that a query has for it: histograms are asked for by their buckets. */
function rowOf(metric: string): MetricRow | undefined {
  const histogram = ROWS.get(metric.replace(/_bucket$/, ''));
  if (metric.endsWith('_bucket')) return histogram?.type === 'histogram' ? histogram : undefined;
  const row = ROWS.get(metric);
  return row?.type === 'histogram' ? undefined : row;
}

function labelsOf(metric: string): readonly string[] {
  return [...(rowOf(metric)?.labels ?? []), ...OF_TARGET, ...(metric.endsWith('_bucket') ? ['le'] : [])];
}

/** Everything that can happen, once: what the exposition holds then is what a query can find. */
async function expositionAfterALife(): Promise<string> {
  const metrics = new ProxyMetrics();
  const sync = {
    ok: true,
    durationMs: 5,
    operations: new Map([['add-virtual-server', 2]]),
    failures: [{ op: { kind: 'add-virtual-server' } }],
    drift: [{ kind: 'add-entry' }],
    node: { deviceMade: false, settingsRepaired: [], problems: [] },
    draining: 1,
    programming: [{ family: 4, durationMs: 12 }] as const,
  };
  metrics.syncQueued(Date.now());
  metrics.syncFinished({ ...sync, kind: 'change' }, Date.now());
  metrics.syncFinished({ ...sync, kind: 'full' }, Date.now());
  metrics.rulesRepaired();
  metrics.setObjects({ service: 1, 'virtual-server': 1, 'real-server': 1, address: 1, 'set-entry': 1 });
  metrics.setWatchState('services', 'watching');
  metrics.watchRestarted('services', 'ended');
  metrics.probeAnswered('healthz', 200);
  metrics.probeAnswered('livez', 503);
  metrics.conntrackReconciled(4, 1, 1);
  metrics.processStarted('iptables-save');
  metrics.setNetlinkCounters({ netlinkSends: 1, netlinkMessages: 1, netlinkBytesSent: 1, netlinkBytesReceived: 1 });
  metrics.apiRequestFinished({ method: 'GET', host: 'h:1', code: '200', seconds: 0.1 });
  metrics.apiRequestFinished({ method: 'POST', host: 'h:1', code: '201', seconds: 0.1 });
  const totals = { connections: 1, incomingPackets: 1, outgoingPackets: 1, incomingBytes: 1, outgoingBytes: 1 };
  metrics.observe({ totals: () => Promise.resolve(totals) });
  return await exposed(metrics);
}

let exposition: string;

beforeAll(async () => {
  exposition = await expositionAfterALife();
});

function isExposed(metric: string, label: string, value: string): boolean {
  return exposition.split('\n').some((line) => line.startsWith(`${metric}{`) && line.includes(`${label}="${value}"`));
}

test('the parser of queries refuses invalid queries', () => {
  const WRONG = [
    ['rate(a[5m]', '( is not closed'],
    ['a{b}', 'no matcher: b }'],
    ['a ? b', 'cannot read the query from here:  ? b'],
    ['rate a', 'rate without ('],
    ['a)', 'a ) too many'],
  ] as const;
  for (const [query, says] of WRONG) expect(() => readQuery(query)).toThrow(says);
  expect(readQuery('sum by (x) (rate(a_total{b="c", d=~"e"}[5m])) > 0')).toEqual({
    selected: [
      {
        metric: 'a_total',
        matchers: [
          { label: 'b', operator: '=', value: 'c' },
          { label: 'd', operator: '=~', value: 'e' },
        ],
        rated: true,
      },
    ],
    by: ['x'],
  });
});

describe.each(QUERIES)('%s: %s', (_where, text) => {
  const { selected, by } = readQuery(text);
  const ours = selected.filter(({ metric }) => metric !== 'up');

  test('a query uses only metrics that exist and are served', () => {
    expect(selected).not.toEqual([]);
    for (const { metric } of ours) {
      expect([metric, rowOf(metric) !== undefined]).toEqual([metric, true]);
      expect([metric, new RegExp(`^${metric}[{ ]`, 'm').test(exposition)]).toEqual([metric, true]);
    }
  });

  test('a query applies rate() only to counters and histograms', () => {
    for (const { metric, rated } of ours) expect([metric, rated]).toEqual([metric, rowOf(metric)?.type !== 'gauge']);
  });

  test('a query uses only labels and values that exist', () => {
    for (const { metric, matchers } of selected) {
      for (const { label, value } of matchers) {
        expect(labelsOf(metric)).toContain(label);
        const exists = OF_TARGET.includes(label) || isExposed(metric, label, value);
        expect([label, value, exists]).toEqual([label, value, true]);
      }
    }
    for (const label of by ?? []) {
      const known = ours.some(({ metric }) => labelsOf(metric).includes(label)) || OF_TARGET.includes(label);
      expect([label, known]).toEqual([label, true]);
    }
  });
});

describe('alerts', () => {
  const runbook = readFileSync('docs/operate.md', 'utf8');
  const sections = new Set(Array.from(runbook.matchAll(/^#+ (.+)$/gm), ([, title = '']) => title.toLowerCase()));

  test.each(ALERTS.map((alert) => [String(alert['alert']), alert] as const))('%s', (name, alert) => {
    expect(at(alert, 'labels')['severity']).toMatch(/^(critical|warning|info)$/);
    expect(alert['for']).toMatch(/^\d+[mh]$/);
    const { summary, description, runbook_url: page } = at(alert, 'annotations');
    expect(page).toBe(`${PAGE}#${name.toLowerCase()}`);
    expect(sections).toContain(name.toLowerCase());
    expect(description).toMatch(/\.$|\?$/);
    const { by, selected } = readQuery(String(alert['expr']));
    // Without these, it could fire for a node that kube-proxy serves.
    for (const { matchers } of selected) {
      expect(matchers).toEqual(
        expect.arrayContaining([
          { label: 'job', operator: '=', value: 'kube-proxy' },
          { label: 'service_proxy', operator: '=', value: 'kube-ipvs-proxy' },
        ]),
      );
    }
    const kept = by ?? selected.flatMap(({ metric }) => labelsOf(metric));
    for (const [, label = ''] of String(summary).matchAll(/\$labels\.(\w+)/g)) expect(kept).toContain(label);
  });

  test('alerts have unique names, and every documented alert exists', () => {
    const names = ALERTS.map((alert) => String(alert['alert']));
    expect(new Set(names).size).toBe(names.length);
    const told = Array.from(runbook.matchAll(/^#+ (KubeIpvsProxy\w+)$/gm), ([, title = '']) => title);
    expect(told.toSorted()).toEqual(names.toSorted());
  });
});

describe('dashboard', () => {
  test('every panel of the dashboard has a position and a unique number', () => {
    const ids = PANELS.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const cells = new Set<string>();
    for (const panel of PANELS) {
      const { x, y, w, h } = at(panel, 'gridPos') as Record<'x' | 'y' | 'w' | 'h', number>;
      expect(x + w).toBeLessThanOrEqual(24);
      for (let column = x; column < x + w; column++) {
        for (let line = y; line < y + h; line++) {
          expect(cells).not.toContain(`${column},${line}`);
          cells.add(`${column},${line}`);
        }
      }
    }
  });

  test('legends and variables name labels and variables that exist', () => {
    const variables = itemsOf(at(DASHBOARD, 'templating')['list']);
    const names = variables.map(({ name }) => String(name));
    expect(names).toEqual(['datasource', 'job', 'instance']);
    for (const panel of PANELS) {
      for (const { expr, legendFormat } of itemsOf(panel['targets'])) {
        const { by } = readQuery(String(expr));
        for (const [, label = ''] of String(legendFormat).matchAll(/\{\{(\w+)\}\}/g)) expect(by).toContain(label);
        const used = Array.from(String(expr).matchAll(/\$(\w+)/g), ([, name = '']) => name);
        expect(used.filter((name) => !names.includes(name) && name !== '__rate_interval')).toEqual([]);
      }
    }
    for (const { query } of variables.slice(1)) {
      const [, selector = ''] = /^label_values\((.*), \w+\)$/.exec(String(query)) ?? [];
      expect(readQuery(selector).selected.map(({ metric }) => ROWS.has(metric))).toEqual([true]);
    }
  });
});

/** What the dashboard "Kubernetes / Proxy" of kubernetes-mixin asks of kube-proxy, beside `job` and `instance`. */
const ASKED_OF_KUBE_PROXY = [
  ['kubeproxy_sync_proxy_rules_duration_seconds_count', ''],
  ['kubeproxy_sync_proxy_rules_duration_seconds_bucket', 'le="[^"]+"'],
  ['kubeproxy_network_programming_duration_seconds_count', ''],
  ['kubeproxy_network_programming_duration_seconds_bucket', 'le="[^"]+"'],
  ['rest_client_requests_total', 'code="2.."'],
  ['rest_client_request_duration_seconds_bucket', 'verb="GET"'],
  ['rest_client_request_duration_seconds_bucket', 'verb="POST"'],
  ['process_resident_memory_bytes', ''],
  ['process_cpu_seconds_total', ''],
] as const;

describe('the dashboard of kube-prometheus-stack for kube-proxy', () => {
  test.each(ASKED_OF_KUBE_PROXY)('finds %s %s', (metric, label) => {
    expect(exposition).toMatch(new RegExp(`^${metric}(?:\\{|\\{.*,)?${label}`, 'm'));
  });

  test('misses goroutines alone, and docs/operate.md says so', () => {
    expect(exposition).not.toContain('go_goroutines');
    expect(readFileSync('docs/operate.md', 'utf8').replaceAll(/\s+/g, ' ')).toContain(
      'the panel Goroutines stays empty',
    );
  });
});
