import { expect, test } from '@jest/globals';
import { SyncPublisher } from '../../../../src/daemon/run/sync-publisher.ts';
import { Cluster } from '../../../../src/model/cluster.ts';
import { ProxyHealth } from '../../../../src/observe/health.ts';
import { ProxyMetrics } from '../../../../src/observe/proxy-metrics.ts';
import { ServiceHealthServers } from '../../../../src/observe/service-health-servers.ts';
import { listed, service, slice } from '../../../support/objects.ts';
import { exposed } from '../../../support/exposed.ts';
import { nftInMemory, translating } from '../../../support/nft-in-memory.ts';
import { FakeClock, TestLog } from '../../../support/reconciling.ts';

test('in nftables mode, a sync that could not write all of an IP family counts as failed for it', async () => {
  const { kernel, table } = nftInMemory();
  await kernel.prepare();
  const run = translating(kernel);
  const metrics = new ProxyMetrics([], [], 'nftables');
  const publisher = new SyncPublisher({
    families: [4, 6],
    kernel,
    cluster: new Cluster('node-a'),
    plan: () => run.reconciler.plan,
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
