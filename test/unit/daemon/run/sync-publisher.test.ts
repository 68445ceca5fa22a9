import { expect, test } from '@jest/globals';
import { SyncPublisher } from '../../../../src/daemon/run/sync-publisher.ts';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import { Cluster } from '../../../../src/model/cluster.ts';
import { ProxyHealth } from '../../../../src/observe/health.ts';
import { ProxyMetrics } from '../../../../src/observe/proxy-metrics.ts';
import { ServiceHealthServers } from '../../../../src/observe/service-health-servers.ts';
import { NodePlan } from '../../../../src/plan/node/node-plan.ts';
import { TOO_MANY_SERVERS } from '../../../../src/plan/service-limit.ts';
import { listed, service, slice } from '../../../support/objects.ts';
import { exposed } from '../../../support/exposed.ts';
import { FakeNftTable } from '../../../fake-kernel/fake-nft-table.ts';
import { nftablesPlane } from '../../../fake-kernel/planes.ts';
import { startOn } from '../../../support/on-plane.ts';
import { FakeClock, TestLog } from '../../../support/reconciling.ts';

function publisherOf(kernel: Kernel, plan: () => NodePlan, metrics: ProxyMetrics): SyncPublisher {
  return new SyncPublisher({
    families: [4, 6],
    kernel,
    cluster: new Cluster('node-a'),
    plan,
    metrics,
    health: new ProxyHealth(1),
    history: { finished: () => undefined },
    serviceHealth: new ServiceHealthServers({ proxyHealthy: () => true, onBindFailure: () => undefined }),
    listenOn: () => ({}),
    clock: new FakeClock(),
    log: new TestLog(),
    onServing: () => undefined,
    onDeviceMade: () => undefined,
  });
}

test('in nftables mode, a sync that could not write all of an IP family counts as failed for it', async () => {
  const table = new FakeNftTable();
  const { kernel, run } = await startOn(nftablesPlane(table));
  const metrics = new ProxyMetrics([], [], 'nftables');
  const publisher = publisherOf(kernel, () => run.reconciler.plan, metrics);
  const failures = async (): Promise<readonly string[]> =>
    (await exposed(metrics)).match(/(?<=nftables_sync_failures_total\{ip_family=").*/g) ?? [];

  publisher.finished(await run.take(...listed([service('web', '10.96.0.1')], [slice('web', ['10.244.0.1'])])));
  expect(await failures()).toEqual(['IPv4"} 0', 'IPv6"} 0']);
  table.refuse = (messages) => (messages.some((message) => message.kind === 'new-elements') ? 'EINVAL' : undefined);
  publisher.finished(
    await run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: slice('web', ['10.244.0.2']) } }),
  );
  expect(await failures()).toEqual(['IPv4"} 1', 'IPv6"} 0']);
  await kernel.close();
});

test('Services beyond the limit of virtual servers and real servers are counted', async () => {
  const { kernel, run } = await startOn(nftablesPlane());
  const report = await run.take(...listed([service('web', '10.96.0.1')], [slice('web', ['10.244.0.1'])]));
  const [served] = run.reconciler.plan.services();
  const plan = new NodePlan();
  const metrics = new ProxyMetrics([], [], 'nftables');
  const publisher = publisherOf(kernel, () => plan, metrics);
  const counted = async (): Promise<unknown> =>
    (await exposed(metrics)).match(/(?<=^kubeipvs_services_over_limit ).*/m)?.[0];
  for (const [reason, count] of [
    ['other', '0'],
    [TOO_MANY_SERVERS, '1'],
  ] as const) {
    plan.replace(served!.service, { ...served!, warnings: [{ reason, message: '' }] });
    publisher.finished(report);
    expect(await counted()).toBe(count);
  }
  await kernel.close();
});
