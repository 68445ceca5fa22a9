import { describe, expect, test } from '@jest/globals';
import { Yielder } from '../../../src/base/yielder.ts';
import { UdpCleanUp } from '../../../src/reconcile/sync/udp-clean-up.ts';
import { FakeKernel, type FailableMethod } from '../../fake-kernel/fake-kernel.ts';
import type { Flow } from '../../../src/kernel/kernel.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { listed, port, service, slice } from '../../support/objects.ts';
import { Reconciling } from '../../support/reconciling.ts';
import { address, portOf } from '../../support/state.ts';

const DNS = service('dns', '10.96.0.53', { ports: [port(53, { protocol: 'UDP' })] });

function dnsSlice(...pods: readonly string[]): ReturnType<typeof slice> {
  return slice('dns', pods, { ports: [{ name: '', protocol: 'UDP', port: 5353 }] });
}

function moved(pod: string): SourceEvent {
  return { kind: 'endpoint-slice', event: { type: 'applied', object: dnsSlice(pod) } };
}

const [OLD, NEW] = ['10.244.0.1', '10.244.0.2'];

/** A flow of a client to the service, answered by the pod. */
function flow(pod: string, sourcePort: number): Flow {
  return {
    family: 4,
    protocol: 'UDP',
    source: address('10.0.0.7'),
    sourcePort: portOf(sourcePort),
    destination: address('10.96.0.53'),
    destinationPort: portOf(53),
    replySource: address(pod),
    replySourcePort: portOf(5353),
  };
}

async function flows(kernel: FakeKernel): Promise<number[]> {
  return (await kernel.getUdpFlows(4)).map(({ sourcePort }) => sourcePort);
}

/** Lets the syncs of the next half minute come, whatever they are. */
async function passHalfAMinute(run: Reconciling): Promise<void> {
  let left = 30_000;
  for (let next = run.clock.nextIn; next !== undefined && next <= left; next = run.clock.nextIn) {
    await run.pass(next);
    left -= next;
  }
}

/** What a sync asks of the kernel around the clean-up. */
const CALLS: readonly FailableMethod[] = [
  'getNodeAddresses',
  'findVirtualServers',
  'getRealServers',
  'apply',
  'getUdpFlows',
  'deleteFlows',
];

const DELETED: SourceEvent = {
  kind: 'service',
  event: { type: 'deleted', object: { namespace: 'default', name: 'dns' } },
};

/** A flow of another program to the port number of the Service. */
const FOREIGN: Flow = { ...flow('192.0.2.53', 40_009), destination: address('192.0.2.53') };

async function served(): Promise<{ kernel: FakeKernel; run: Reconciling }> {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  await run.take(...listed([DNS], [dnsSlice(OLD)]));
  kernel.setUdpFlows([flow(OLD, 40_000)]);
  return { kernel, run };
}

/** The n-th call from now on rejects, once. */
function failOnce(kernel: FakeKernel, method: FailableMethod, nth = 1): void {
  const original = kernel[method].bind(kernel) as (...args: never[]) => Promise<never>;
  let calls = 0;
  const once = async (...args: never[]): Promise<never> => {
    if (++calls !== nth) return original(...args);
    kernel.failMethod(method, 'ENOMEM');
    try {
      return await original(...args);
    } finally {
      kernel.failMethod(method, undefined);
    }
  };
  Object.assign(kernel, { [method]: once });
}

describe('UDP flows to a removed endpoint', () => {
  test.each(CALLS)('UDP flows to a removed endpoint are deleted even if %s fails once', async (method) => {
    const { kernel, run } = await served();
    run.reconciler.nodeAddressesChanged();
    await run.pass(0);
    failOnce(kernel, method);
    // So that this sync reads the addresses as well.
    run.cluster.apply(moved(NEW));
    run.reconciler.nodeAddressesChanged();
    await run.pass(0);
    await passHalfAMinute(run);
    expect(await flows(kernel)).toEqual([]);
  });

  test.each(CALLS)(
    'UDP flows to a removed endpoint are deleted at start after a crash, even if %s fails once',
    async (method) => {
      const { kernel, run } = await served();
      await run.reconciler.stop();
      failOnce(kernel, method);
      const heir = new Reconciling(kernel);
      await heir.take(...listed([DNS], [dnsSlice(NEW)]));
      await passHalfAMinute(heir);
      expect(await flows(kernel)).toEqual([]);
    },
  );

  test.each(CALLS)('UDP flows to a deleted Service are deleted even if %s fails once', async (method) => {
    const { kernel, run } = await served();
    kernel.setUdpFlows([flow(OLD, 40_000), FOREIGN]);
    run.reconciler.nodeAddressesChanged();
    await run.pass(0);
    failOnce(kernel, method);
    run.cluster.apply(DELETED);
    run.reconciler.nodeAddressesChanged();
    await run.pass(0);
    await passHalfAMinute(run);
    expect(await flows(kernel)).toEqual([FOREIGN.sourcePort]);
  });

  test.each(CALLS)(
    'UDP flows to a Service that was deleted while no daemon ran are deleted at the start, even if %s fails once',
    async (method) => {
      const { kernel, run } = await served();
      kernel.setUdpFlows([flow(OLD, 40_000), FOREIGN]);
      await run.reconciler.stop();
      failOnce(kernel, method);
      const heir = new Reconciling(kernel);
      await heir.take(...listed([], []));
      await passHalfAMinute(heir);
      expect(await flows(kernel)).toEqual([FOREIGN.sourcePort]);
    },
  );

  test('UDP flows to a Service that was deleted and created again count as those of the new one', async () => {
    const { kernel, run } = await served();
    kernel.failMethod('deleteFlows', 'EPERM');
    await run.take(DELETED);
    kernel.recover();
    kernel.setUdpFlows([flow(OLD, 40_000), flow(NEW, 40_001)]);
    await run.take({ kind: 'service', event: { type: 'applied', object: DNS } });
    await passHalfAMinute(run);
    expect(await flows(kernel)).toEqual([40_000]);
  });

  test('a Service without endpoints loses its UDP flows, and a change of another one reads none', async () => {
    const { kernel, run } = await served();
    await run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: dnsSlice() } });
    expect(await flows(kernel)).toEqual([]);
    const before = kernel.calls.get('getUdpFlows');
    await run.take({ kind: 'service', event: { type: 'applied', object: service('web', '10.96.0.80') } });
    await passHalfAMinute(run);
    expect(kernel.calls.get('getUdpFlows')).toBe(before);
  });

  test('UDP flows that began while rules were missing are deleted', async () => {
    const { kernel, run } = await served();
    kernel.setUdpFlows([flow(OLD, 40_000), { ...flow('10.96.0.53', 40_003), replySourcePort: portOf(53) }]);
    kernel.flushRules(4);
    await passHalfAMinute(run);
    expect(await flows(kernel)).toEqual([40_000]);
  });

  test('UDP flows are looked at again if that became due while they were looked at', async () => {
    const { kernel, run } = await served();
    const options = { kernel, families: [4] as const, clock: run.clock, log: run.log, maxDelayMs: 30_000 };
    const cleanUp = new UdpCleanUp({ ...options, answering: () => () => [] });
    const read = kernel.getUdpFlows.bind(kernel);
    kernel.getUdpFlows = async (family) => {
      const found = await read(family);
      if (kernel.calls.get('getUdpFlows') === before + 1) cleanUp.noteAll();
      return found;
    };
    const before = kernel.calls.get('getUdpFlows') ?? 0;
    cleanUp.noteAll();
    await cleanUp.run(new Yielder());
    expect(cleanUp.dueAt).toBe(-Infinity);
    await cleanUp.run(new Yielder());
    expect(cleanUp.dueAt).toBe(Infinity);
  });

  test('UDP flows are deleted again if the real server is deleted only at the second attempt', async () => {
    const { kernel, run } = await served();
    kernel.failOps((op) => (op.kind === 'delete-real-server' ? 12 : undefined));
    await run.take(moved(NEW));
    expect(await flows(kernel)).toEqual([]);
    kernel.setUdpFlows([flow(OLD, 40_001), flow(NEW, 40_002)]);
    kernel.recover();
    await passHalfAMinute(run);
    expect(await flows(kernel)).toEqual([40_002]);
  });

  test('UDP flows that cannot be deleted are logged once, and retried with back-off', async () => {
    const { kernel, run } = await served();
    kernel.failMethod('deleteFlows', 'EPERM');
    await run.take(moved(NEW));
    await passHalfAMinute(run);
    const warnings = run.log.lines.filter((line) => line.startsWith('warn:'));
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('failed to delete IPv4 UDP flows to removed endpoints, next attempt in 1 s');
    expect(kernel.calls.get('deleteFlows')).toBeLessThan(8);
    kernel.recover();
    await passHalfAMinute(run);
    expect(await flows(kernel)).toEqual([]);
  });
});
