import { beforeEach, expect, test } from '@jest/globals';
import { observeTraffic } from '../../../../src/daemon/traffic/observe-traffic.ts';
import { ProxyMetrics } from '../../../../src/observe/proxy-metrics.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import { configOf } from '../../../support/config.ts';
import { exposed } from '../../../support/exposed.ts';
import { listed, service, slice } from '../../../support/objects.ts';
import { Reconciling, TestLog } from '../../../support/reconciling.ts';
import { vsId } from '../../../support/state.ts';

let kernel: FakeKernel;
let run: Reconciling;

beforeEach(async () => {
  kernel = new FakeKernel();
  await kernel.prepare();
  run = new Reconciling(kernel);
  const services = [service('web', '10.96.0.10', { measured: true }), service('api', '10.96.0.11')];
  await run.take(...listed(services, [slice('web', ['10.244.0.5'])]));
  kernel.setStats(vsId('10.96.0.10', 80), { connections: 3, incomingBytes: 300 });
  kernel.setStats(vsId('10.96.0.11', 80), { connections: 4 });
});

/** The values that a scrape has of connections. */
async function connections(...flags: string[]): Promise<string[]> {
  const metrics = new ProxyMetrics();
  const { cluster, reconciler } = run;
  observeTraffic({
    config: configOf(...flags),
    kernel,
    metrics,
    cluster,
    plan: () => reconciler.plan,
    log: new TestLog(),
  });
  const lines = (await exposed(metrics)).split('\n');
  return lines.filter((line) => /^kubeipvs_(node|service)_connections_total/.test(line));
}

const NODE = 'kubeipvs_node_connections_total 7';
const of = (name: string, value: number): string =>
  `kubeipvs_service_connections_total{namespace="default",service="${name}",port_name="",protocol="TCP"} ${value}`;

test('by default, only the sums of the node are served, and the virtual servers are not read', async () => {
  expect(await connections()).toEqual([NODE]);
  expect(await connections('--service-metrics-real-servers')).toEqual([NODE]);
  expect(kernel.calls.get('getVirtualServerStats')).toBeUndefined();
});

test('with a selector, those of the selected Services, too', async () => {
  expect(await connections('--service-metrics-selector=tier=front')).toEqual([NODE, of('web', 3)]);
});

test('with --service-metrics, those of all', async () => {
  const flags = ['--service-metrics', '--service-metrics-selector=tier=front'];
  expect((await connections(...flags)).toSorted()).toEqual([NODE, of('api', 4), of('web', 3)]);
});

test('sums that cannot be read are left out', async () => {
  kernel.failMethod('getTrafficTotals', 'EACCES');
  expect(await connections()).toEqual([]);
});
