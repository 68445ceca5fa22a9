import { beforeEach, describe, expect, test } from '@jest/globals';
import { NodeChanges } from '../../../../src/daemon/run/node-changes.ts';
import { needsSync, noteEvent } from '../../../../src/daemon/run/source-events.ts';
import type { Node } from '../../../../src/kube/objects/objects.ts';
import type { ObjectEvent, SourceEvent } from '../../../../src/kube/objects/source.ts';
import { Cluster } from '../../../../src/model/cluster.ts';
import type { IpFamily } from '../../../../src/base/ip.ts';
import { ProxyHealth } from '../../../../src/observe/health.ts';
import { ProxyMetrics } from '../../../../src/observe/proxy-metrics.ts';
import { SYSTEM_CLOCK } from '../../../../src/reconcile/timing/clock.ts';
import { configOf } from '../../../support/config.ts';
import { listed, service, slice } from '../../../support/objects.ts';
import { TestLog } from '../../../support/reconciling.ts';
import { exposed } from '../../../support/exposed.ts';

function node(change: Partial<Node> = {}): Node {
  return {
    meta: { namespace: '', name: 'node-a', resourceVersion: '1', labels: {}, annotations: {} },
    podCIDRs: ['10.244.1.0/24'],
    taintKeys: [],
    addresses: [{ type: 'InternalIP', address: '192.0.2.1' }],
    ...change,
  };
}

describe('what is noted of events', () => {
  let cluster: Cluster;
  let metrics: ProxyMetrics;
  let health: ProxyHealth;
  let log: TestLog;
  let ended: number;

  beforeEach(() => {
    cluster = new Cluster('node-a');
    metrics = new ProxyMetrics();
    health = new ProxyHealth(1);
    log = new TestLog();
    ended = 0;
  });

  function take(event: SourceEvent, changes?: NodeChanges): void {
    cluster.apply(event);
    noteEvent(event, cluster, metrics, health, changes);
  }

  function takeNode(event: ObjectEvent<Node>, changes?: NodeChanges): void {
    take({ kind: 'node', event }, changes);
  }

  /** As the daemon makes it after waiting for the Node. */
  function watching(flags: readonly string[], families: readonly IpFamily[] = [4, 6], atStart = node()): NodeChanges {
    takeNode({ type: 'replaced', objects: [atStart] });
    const changes = new NodeChanges({ config: configOf(...flags), log, end: () => ended++ });
    changes.begin(families, cluster.node());
    return changes;
  }

  function withAddress(address: string): Node {
    return node({ addresses: [{ type: 'InternalIP', address }] });
  }

  test('a list counts each of its objects, a change one; what waits for a sync is shown', async () => {
    for (const event of listed([service('a', '10.96.0.1'), service('b', '10.96.0.2')], [slice('a', ['10.244.0.1'])])) {
      take(event);
    }
    take({ kind: 'service', event: { type: 'deleted', object: { namespace: 'default', name: 'b' } } });
    const text = await exposed(metrics);
    for (const line of [
      'service_changes_total 3',
      'endpoint_changes_total 1',
      'endpoint_changes_pending 1',
      'service_changes_pending 2',
    ]) {
      expect(text).toContain(`\nkubeproxy_sync_proxy_rules_${line}\n`);
    }
  });

  test('our Node makes the node eligible; a taint or a deletion takes that away', () => {
    const nodeEligible = (): unknown =>
      (JSON.parse(health.healthz(SYSTEM_CLOCK).body) as { nodeEligible: unknown }).nodeEligible;

    expect(nodeEligible()).toBe(false);
    takeNode({ type: 'replaced', objects: [node()] });
    expect(nodeEligible()).toBe(true);
    const taintKeys = ['ToBeDeletedByClusterAutoscaler'];
    takeNode({ type: 'applied', object: node({ taintKeys }) });
    expect(nodeEligible()).toBe(false);
    takeNode({ type: 'applied', object: node() });
    takeNode({ type: 'deleted', object: { namespace: '', name: 'node-a' } });
    expect(nodeEligible()).toBe(true);
    const meta = { ...node().meta, deletionTimestamp: '2026-01-01T00:00:00Z' };
    takeNode({ type: 'applied', object: node({ meta }) });
    expect(nodeEligible()).toBe(false);
  });

  test('what no plan is made of asks for no sync, whatever kind of object it is', () => {
    const web = service('web', '10.96.0.1');
    for (const event of listed([web], [slice('web', ['10.244.0.1'])])) {
      cluster.apply(event);
      expect(needsSync(event, cluster)).toBe(true);
    }
    cluster.apply({ kind: 'node', event: { type: 'replaced', objects: [node()] } });
    cluster.takeChanges();
    const asks = (event: SourceEvent): boolean => {
      cluster.apply(event);
      return needsSync(event, cluster);
    };
    const touched = {
      resourceVersion: '99',
      annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': 'now' },
    };
    const taintKeys = ['ToBeDeletedByClusterAutoscaler'];
    const web1 = slice('web', ['10.244.0.1']);
    expect([
      asks({ kind: 'node', event: { type: 'applied', object: node({ taintKeys }) } }),
      asks({ kind: 'node', event: { type: 'applied', object: node({ meta: { ...node().meta, ...touched } }) } }),
      asks({ kind: 'node', event: { type: 'deleted', object: { namespace: '', name: 'node-a' } } }),
      asks({ kind: 'service', event: { type: 'applied', object: { ...web, meta: { ...web.meta, ...touched } } } }),
      asks({
        kind: 'endpoint-slice',
        event: { type: 'applied', object: { ...web1, meta: { ...web1.meta, ...touched } } },
      }),
      asks({ kind: 'service', event: { type: 'deleted', object: { namespace: 'default', name: 'nobody' } } }),
    ]).toEqual(Array(6).fill(false));
    expect(asks({ kind: 'endpoint-slice', event: { type: 'applied', object: slice('web', ['10.244.0.2']) } })).toBe(
      true,
    );
  });

  test('NodeCIDR: other pod CIDRs end the daemon; the same, or in another order, do not', () => {
    const changes = watching(['--detect-local-mode=NodeCIDR']);
    takeNode({ type: 'applied', object: node() }, changes);
    takeNode({ type: 'replaced', objects: [node()] }, changes);
    expect(ended).toBe(0);
    takeNode({ type: 'applied', object: node({ podCIDRs: ['10.244.2.0/24'] }) }, changes);
    expect(ended).toBe(1);
    expect(log.lines).toEqual([expect.stringMatching(/^error: pod CIDRs of our Node changed: exiting/)]);
  });

  test('in other modes pod CIDRs do not matter', () => {
    const changes = watching([]);
    takeNode({ type: 'applied', object: node({ podCIDRs: [] }) }, changes);
    expect([ended, log.lines]).toEqual([0, []]);
  });

  test('other addresses and a deleted Node are only said, the addresses once', () => {
    const changes = watching(['--detect-local-mode=NodeCIDR']);
    const moved = withAddress('192.0.2.2');
    takeNode({ type: 'applied', object: moved }, changes);
    takeNode({ type: 'applied', object: moved }, changes);
    takeNode({ type: 'deleted', object: { namespace: '', name: 'node-a' } }, changes);
    expect(ended).toBe(0);
    expect(log.lines).toEqual([
      'info: addresses of our Node changed',
      'warn: our Node object was deleted: continuing with its last known state',
    ]);
  });

  test.each<[string, readonly string[], readonly IpFamily[], Partial<Node>, string]>([
    [
      'an address of an IP family that this host does not serve',
      [],
      [4],
      withAddress('2001:db8::1'),
      "the node's own address is IPv6, which this host cannot serve",
    ],
    [
      'an address that a local route covers',
      ['--ipvs-local-route-cidrs=10.96.0.0/12'],
      [4, 6],
      withAddress('10.96.0.1'),
      '10.96.0.0/12 holds 10.96.0.1, an address of this node',
    ],
    [
      'pod CIDRs that a local route covers',
      ['--ipvs-local-route-cidrs=10.96.0.0/12'],
      [4, 6],
      { podCIDRs: ['10.97.0.0/24'] },
      '10.96.0.0/12 overlaps 10.97.0.0/24, where pods are',
    ],
  ])('%s ends the daemon, as it prevents a start', (_what, flags, families, change, reason) => {
    const changes = watching(flags, families);
    takeNode({ type: 'applied', object: node(change) }, changes);
    expect(ended).toBe(1);
    expect(log.lines.at(-1)).toContain(
      'error: our Node has changed, and the configuration no longer fits it: exiting:',
    );
    expect(log.lines.at(-1)).toContain(reason);
  });

  test('a warning that the new addresses cause is logged, and those of the start are not repeated', () => {
    const flags = ['--cluster-cidr=10.244.0.0/16', '--nodeport-addresses=primary'];
    const changes = watching(flags, [4, 6], node({ addresses: [] }));
    takeNode({ type: 'applied', object: withAddress('2001:db8::1') }, changes);
    takeNode({ type: 'applied', object: withAddress('2001:db8::2') }, changes);
    expect(ended).toBe(0);
    expect(log.lines).toEqual([
      'info: addresses of our Node changed',
      'warn: this node is IPv6-primary, but --cluster-cidr (clusterCIDR) has only IPv4',
      'warn: this node is IPv6-primary, but spec.podCIDRs of our Node has only IPv4',
      'info: addresses of our Node changed',
    ]);
  });
});
