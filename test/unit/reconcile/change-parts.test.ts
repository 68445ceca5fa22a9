import { describe, expect, test } from '@jest/globals';
import { KernelError } from '../../../src/kernel/kernel-error.ts';
import type { EndpointSlice, Service } from '../../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { formatIp } from '../../../src/base/ip.ts';
import { formatOp } from '../../../src/state/op.ts';
import type { Transaction } from '../../../src/state/transaction.ts';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { listed, port, service, slice } from '../../support/objects.ts';
import { Reconciling } from '../../support/reconciling.ts';

const PORTS = Array.from({ length: 10 }, (_, n) => 1_000 + n);
const LARGE = service('large', '10.96.0.10', { ports: PORTS.map((number) => port(number, { name: `p${number}` })) });
const SMALL = service('small', '10.96.0.20');

/** A slice of the Service with ten ports. */
function largeSlice(count: number): EndpointSlice {
  const addresses = Array.from({ length: count }, (_, n) => `10.244.${n >> 8}.${n & 255}`);
  const ports = PORTS.map((number) => ({ name: `p${number}`, protocol: 'TCP' as const, port: number }));
  return slice('large', addresses, { ports });
}

const applied = (object: EndpointSlice): SourceEvent => ({
  kind: 'endpoint-slice',
  event: { type: 'applied', object },
});
const deleted = (object: Service): SourceEvent => ({
  kind: 'service',
  event: { type: 'deleted', object: object.meta },
});

/** Notes the transactions of a kernel. `during` is called before the one with this number, from 1. */
function noting(kernel: FakeKernel, during: (number: number) => void = () => undefined) {
  const noted: string[][] = [];
  const apply = kernel.apply.bind(kernel);
  kernel.apply = async (tx: Transaction) => {
    noted.push([...tx].map(formatOp));
    during(noted.length);
    return await apply(tx);
  };
  return noted;
}

async function started(...services: readonly Service[]) {
  const kernel = new FakeKernel();
  const run = new Reconciling(kernel);
  await run.settle(...listed(services, [largeSlice(1), slice('small', ['10.245.0.1'])]));
  return { kernel, run };
}

/** Applies an event, and waits until nothing is left to do, not only for the first report. */
async function takeAll(run: Reconciling, event: SourceEvent): Promise<void> {
  await run.take(event);
  while (run.reconciler.syncing) await new Promise((resolve) => setImmediate(resolve));
}

async function serversOf(kernel: FakeKernel, of: Service): Promise<number> {
  const found = await kernel.getVirtualServers();
  const ofService = found.filter(({ address }) => formatIp(address) === of.clusterIP);
  return [...(await kernel.getRealServers(ofService)).values()].flat().length;
}

describe('a change of 10 x 1,000 endpoints', () => {
  test('is written in parts, after the smaller change that came with it', async () => {
    const { kernel, run } = await started(LARGE, SMALL);
    const noted = noting(kernel);
    await run.take(applied(largeSlice(1_000)), applied(slice('small', ['10.245.0.1', '10.245.0.2'])));
    expect(noted.length).toBeGreaterThan(2);
    expect(Math.max(...noted.map(({ length }) => length))).toBeLessThanOrEqual(4_096);
    expect(noted[0]![0]).toBe('add-real-server TCP 10.96.0.20:80 -> 10.245.0.2:8080 weight=1');
    expect(await serversOf(kernel, LARGE)).toBe(10_000);
  });

  test('lets a change that comes meanwhile go first', async () => {
    const { kernel, run } = await started(LARGE, SMALL);
    const noted = noting(kernel, (number) => {
      if (number !== 1) return;
      run.cluster.apply(applied(slice('small', ['10.245.0.1', '10.245.0.2'])));
      run.reconciler.clusterChanged();
    });
    await takeAll(run, applied(largeSlice(1_000)));
    expect(noted[1]).toEqual(['add-real-server TCP 10.96.0.20:80 -> 10.245.0.2:8080 weight=1']);
    expect(noted.length).toBeGreaterThan(2);
    // Each has its own report.
    expect(run.reports.map(({ operations }) => operations.get('add-real-server'))).toEqual([11, 1, 9_990]);
    expect(await serversOf(kernel, LARGE)).toBe(10_000);
  });

  test('is not completed if the Service is deleted meanwhile', async () => {
    const { kernel, run } = await started(LARGE, SMALL);
    noting(kernel, (number) => {
      if (number !== 1) return;
      run.cluster.apply(deleted(LARGE));
      run.reconciler.clusterChanged();
    });
    await takeAll(run, applied(largeSlice(1_000)));
    const left = await kernel.getVirtualServers();
    expect(left.map(({ address }) => formatIp(address))).toEqual([SMALL.clusterIP]);
    expect((await kernel.getBoundAddresses()).map(({ address }) => formatIp(address))).toEqual([SMALL.clusterIP]);
  });

  test('is repeated if the kernel fails in the middle', async () => {
    const { kernel, run } = await started(LARGE, SMALL);
    const apply = kernel.apply.bind(kernel);
    let calls = 0;
    kernel.apply = async (tx) => {
      calls += 1;
      if (calls === 2) throw new KernelError('apply', 'ENOBUFS', 'no buffer space');
      return await apply(tx);
    };
    const report = await run.take(applied(largeSlice(1_000)));
    expect(report.ok).toBe(false);
    expect(calls).toBe(2);
    await run.pass(1_000);
    expect(await serversOf(kernel, LARGE)).toBe(10_000);
  });

  test('of a new Service binds its address when all virtual servers are there', async () => {
    const { kernel, run } = await started(SMALL);
    await run.take(applied(largeSlice(1_000)));
    const noted = noting(kernel);
    await run.take({ kind: 'service', event: { type: 'applied', object: LARGE } });
    const binding = noted.findIndex((ops) => ops.some((op) => op.startsWith('bind-address')));
    const lastServer = noted.findLastIndex((ops) => ops.some((op) => op.startsWith('add-virtual-server')));
    expect([binding, noted.length - 1]).toEqual([lastServer, lastServer]);
    expect(noted.length).toBeGreaterThan(2);
    // Set entries come with their virtual servers.
    const entries = noted.map((ops) => ops.filter((op) => op.startsWith('add-entry KUBE-CLUSTER-IP')).length);
    const servers = noted.map((ops) => ops.filter((op) => op.startsWith('add-virtual-server')).length);
    expect(entries).toEqual(servers);
  });
});
