import { describe, expect, test } from '@jest/globals';
import { SyncPublisher } from '../../../../src/daemon/run/sync-publisher.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import type { SourceEvent } from '../../../../src/kube/objects/source.ts';
import { ProxyHealth } from '../../../../src/observe/health.ts';
import { ProxyMetrics } from '../../../../src/observe/proxy-metrics.ts';
import { ServiceHealthServers } from '../../../../src/observe/service-health-servers.ts';
import { listed, service, slice } from '../../../support/objects.ts';
import { Reconciling } from '../../../support/reconciling.ts';
import { exposed } from '../../../support/exposed.ts';
import type { SyncObserver } from '../../../../src/state/sync-report.ts';

const SYNC_PERIOD = 30_000;
const STALE = 2 * SYNC_PERIOD;
const WEB = service('web', '10.96.0.10');
const change = (...addresses: readonly string[]): SourceEvent => ({
  kind: 'endpoint-slice',
  event: { type: 'applied', object: slice('web', addresses) },
});

/** Reconciler, publisher and health as the daemon puts them together, on a kernel and a clock that the test owns. */
class Node {
  readonly kernel = new FakeKernel();
  readonly health = new ProxyHealth(STALE);
  readonly metrics = new ProxyMetrics();
  readonly run: Reconciling;
  readonly warnings: string[] = [];
  serving = 0;

  constructor() {
    // The reconciler wants its observer first, the publisher the reconciler's plan.
    const late: { publisher?: SyncPublisher } = {};
    let finished = (): void => undefined;
    const observer: SyncObserver = {
      queued: () => late.publisher?.queued(),
      finished: (report) => {
        late.publisher?.finished(report);
        this.run.reports.push(report);
        finished();
      },
    };
    this.run = new Reconciling(this.kernel, {
      syncPeriodMs: SYNC_PERIOD,
      observer,
      onWarning: (name, { reason, message }) => this.warnings.push(`${name} ${reason}: ${message}`),
    });
    this.settled = () =>
      new Promise((resolve) => {
        finished = resolve;
      });
    late.publisher = new SyncPublisher({
      families: [4, 6],
      kernel: this.kernel,
      cluster: this.run.cluster,
      plan: () => this.run.reconciler.plan,
      metrics: this.metrics,
      health: this.health,
      history: { finished: () => undefined },
      serviceHealth: new ServiceHealthServers({ proxyHealthy: () => true, onBindFailure: () => undefined }),
      listenOn: () => this.run.reconciler.healthCheckAddresses,
      clock: this.run.clock,
      log: this.run.log,
      onServing: () => this.serving++,
      onDeviceMade: () => undefined,
    });
    this.health.started([4, 6], this.run.clock.now());
  }

  /** Resolves when the next sync has ended. */
  readonly settled: () => Promise<void>;

  /** Lets time pass, and every sync that falls due on the way end. */
  async pass(ms: number): Promise<void> {
    const end = this.run.clock.now() + ms;
    for (;;) {
      const next = this.run.clock.nextIn;
      if (next === undefined || this.run.clock.now() + next > end) break;
      const settled = this.settled();
      this.run.clock.advance(next);
      await settled;
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.run.clock.advance(end - this.run.clock.now());
  }

  async take(...events: readonly SourceEvent[]): Promise<void> {
    for (const event of events) this.run.cluster.apply(event);
    this.run.reconciler.clusterChanged();
    await this.pass(0);
  }

  livez(): number {
    return this.health.livez(this.run.clock).status;
  }

  static async started(): Promise<Node> {
    const node = new Node();
    await node.kernel.prepare();
    await node.take(...listed([WEB], [slice('web', ['10.244.0.5'])]));
    if (node.livez() !== 200) throw new Error('not healthy after the first sync');
    return node;
  }
}

describe('/livez', () => {
  test('an unreachable API server does not change /livez: it returns 200 for hours', async () => {
    const node = await Node.started();
    for (let hour = 0; hour < 3; hour++) {
      await node.pass(3_600_000);
      expect(node.livez()).toBe(200);
    }
    expect(node.run.reports.length).toBeGreaterThan(300);
    expect(node.run.reports.every(({ ok }) => ok)).toBe(true);
  });

  test.each([
    ['cannot be written', ['apply']],
    ['cannot be read', ['getVirtualServers', 'findVirtualServers']],
    ['refuses everything', ['apply', 'findVirtualServers', 'getNodeAddresses', 'ensureRules']],
  ] as const)(
    'a kernel that %s turns it to 503 exactly two sync periods after the first request, and back with the first success',
    async (_what, methods) => {
      const node = await Node.started();
      for (const method of methods) node.kernel.failMethod(method, 'EIO');
      await node.take(change('10.244.0.6'));
      expect(node.run.reports.at(-1)?.ok).toBe(false);
      await node.pass(20_000);
      // Later requests do not put it off.
      await node.take(change('10.244.0.7'));
      await node.pass(STALE - 20_000 - 1);
      expect(node.livez()).toBe(200);
      await node.pass(1);
      expect(node.livez()).toBe(503);
      await node.pass(600_000);
      expect(node.livez()).toBe(503);
      node.kernel.recover();
      await node.pass(SYNC_PERIOD);
      expect(node.run.reports.at(-1)?.ok).toBe(true);
      expect(node.livez()).toBe(200);
    },
  );

  test.each(['apply', 'findVirtualServers'] as const)(
    'a table that another process owns, found by %s, makes /healthz fail at once, and never /livez',
    async (method) => {
      const node = await Node.started();
      node.kernel.failMethod(method, 'TABLE_OWNED');
      await node.take(change('10.244.0.6'));
      await node.pass(600_000);
      expect(node.livez()).toBe(200);
      expect(node.health.healthz(node.run.clock)).toMatchObject({
        status: 503,
        body: expect.stringContaining('TABLE_OWNED') as unknown,
      });
      node.kernel.recover();
      await node.pass(SYNC_PERIOD);
      expect(node.health.healthy(node.run.clock.now())).toBe(true);
    },
  );

  test('a failed periodic check makes /livez fail, although no change requested a sync', async () => {
    const node = await Node.started();
    node.kernel.failMethod('getVirtualServers', 'EIO');
    await node.pass(SYNC_PERIOD);
    expect(node.run.reports.at(-1)).toMatchObject({ kind: 'full', ok: false });
    await node.pass(STALE - 1);
    expect(node.livez()).toBe(200);
    await node.pass(1);
    expect(node.livez()).toBe(503);
    // The response itself says why.
    expect(node.health.livez(node.run.clock).body).toMatch(/"reason":"no sync .* has succeeded for 60 s: .*EIO/);
  });

  test('a failure that is repaired in time does not change /livez', async () => {
    const node = await Node.started();
    node.kernel.failMethod('apply', 'EIO');
    await node.take(change('10.244.0.6'));
    await node.pass(STALE - 10_000);
    node.kernel.recover();
    await node.pass(SYNC_PERIOD);
    await node.pass(STALE);
    expect(node.livez()).toBe(200);
  });

  test('an object that the kernel always refuses does not make /livez fail: it is counted and retried', async () => {
    const node = await Node.started();
    node.kernel.failOps((op) => (op.kind === 'add-real-server' ? 12 : undefined));
    await node.take(change('10.244.0.5', '10.244.0.6'));
    await node.pass(3_600_000);
    expect(node.livez()).toBe(200);
    expect(node.run.reports.filter(({ failures }) => failures.length > 0).length).toBeGreaterThan(60);
    const text = await exposed(node.metrics);
    expect(text).toMatch(/^kubeipvs_operations_total\{operation="add-real-server",outcome="failed"\} [1-9]\d+$/m);
    expect(text).toMatch(/^kubeipvs_sync_total\{kind="change",result="partial"\} [1-9]/m);
    node.kernel.recover();
    await node.pass(SYNC_PERIOD);
    expect(node.run.reports.at(-1)).toMatchObject({ ok: true, failures: [] });
  });

  test('a first sync that keeps failing makes /livez fail after two sync periods; the first success is logged once', async () => {
    const node = new Node();
    await node.kernel.prepare();
    node.kernel.failMethod('addRules', 'IPTABLES');
    await node.take(...listed([WEB], []));
    await node.pass(STALE);
    expect([node.livez(), node.serving]).toEqual([503, 0]);
    node.kernel.recover();
    await node.pass(SYNC_PERIOD);
    await node.pass(SYNC_PERIOD);
    expect([node.livez(), node.serving]).toEqual([200, 1]);
  });
});

test('changes are pending until a sync handles them', async () => {
  const node = await Node.started();
  const pending = async (): Promise<unknown> =>
    (await exposed(node.metrics)).match(/^kubeproxy_sync_proxy_rules_\w+_changes_pending \d+$/gm);
  expect(await pending()).toEqual([
    'kubeproxy_sync_proxy_rules_endpoint_changes_pending 0',
    'kubeproxy_sync_proxy_rules_service_changes_pending 0',
  ]);
  node.run.cluster.apply(change('10.244.0.8'));
  expect(node.run.cluster.pending()).toEqual({ services: 1, endpointChanges: 1 });
  // An equal object is not a change.
  node.run.cluster.apply(change('10.244.0.8'));
  expect(node.run.cluster.pending()).toEqual({ services: 1, endpointChanges: 1 });
  await node.take();
  expect(node.run.cluster.pending()).toEqual({ services: 0, endpointChanges: 0 });
});

test('Services without local endpoints are counted for each family in which they have none', async () => {
  const node = await Node.started();
  const local = { internalTrafficPolicy: 'Local', externalTrafficPolicy: 'Local', type: 'NodePort' };
  const dual = { ...local, clusterIPs: ['10.96.0.12', 'fd00:96::12'], ipFamilies: ['IPv4', 'IPv6'] };
  const six = slice('dual', ['fd00:244::9']);
  await node.take(
    { kind: 'service', event: { type: 'applied', object: service('v4', '10.96.0.11', local) } },
    { kind: 'endpoint-slice', event: { type: 'applied', object: slice('v4', ['10.244.9.1']) } },
    { kind: 'service', event: { type: 'applied', object: service('dual', '10.96.0.12', dual) } },
    { kind: 'endpoint-slice', event: { type: 'applied', object: six } },
  );
  await node.pass(SYNC_PERIOD);
  const counted = async (): Promise<readonly string[]> =>
    Array.from(
      (await exposed(node.metrics)).matchAll(/no_local_endpoints_total\{(.*)\} (\d+)$/gm),
      ([, labels, count]) => `${labels?.replace(/\w+=/g, '').replaceAll('"', '')} ${count}`,
    );
  expect((await counted()).toSorted()).toEqual([
    'external,IPv4 1',
    'external,IPv6 1',
    'internal,IPv4 1',
    'internal,IPv6 1',
  ]);
  await node.take({ kind: 'endpoint-slice', event: { type: 'deleted', object: six.meta } });
  await node.pass(SYNC_PERIOD);
  expect((await counted()).toSorted()).toEqual([
    'external,IPv4 1',
    'external,IPv6 0',
    'internal,IPv4 1',
    'internal,IPv6 0',
  ]);
});

test('a Service that loses a virtual server to another one gets one Event while the conflict lasts', async () => {
  const node = await Node.started();
  const rival: SourceEvent = { kind: 'service', event: { type: 'applied', object: service('zrival', '10.96.0.10') } };
  await node.take(rival);
  await node.pass(3 * SYNC_PERIOD);
  const warning =
    'default/zrival virtual-server-taken: TCP 10.96.0.10:80 is claimed by two services and served only for default/web: ' +
    'change the address or port of one of them';
  expect(node.warnings).toEqual([warning]);
  await node.take({ kind: 'service', event: { type: 'applied', object: service('zrival', '10.96.0.11') } });
  await node.pass(SYNC_PERIOD);
  await node.take(rival);
  await node.pass(SYNC_PERIOD);
  expect(node.warnings).toEqual([warning, warning]);
});
