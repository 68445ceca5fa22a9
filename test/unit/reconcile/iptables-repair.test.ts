import { expect, test } from '@jest/globals';
import { IP_FAMILIES, type IpFamily } from '../../../src/base/ip.ts';
import { KernelError } from '../../../src/kernel/kernel-error.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { FakeIptables } from '../../fake-kernel/fake-iptables.ts';
import { iptablesPlane } from '../../fake-kernel/planes.ts';
import { listed, service, slice } from '../../support/objects.ts';
import { startOn } from '../../support/on-plane.ts';
import { refuseOnce } from '../../support/refuse-once.ts';

test('after a flush, hundreds of Services are written again by a few programs', async () => {
  const programs = new FakeIptables();
  const { kernel, run } = await startOn(iptablesPlane(programs));
  const numbers = Array.from({ length: 300 }, (_, n) => n);
  await run.take(
    ...listed(
      numbers.map((n) => service(`web-${n}`, `10.96.${n >> 8}.${n & 255}`)),
      numbers.map((n) => slice(`web-${n}`, [`10.244.${n >> 8}.${n & 255}`])),
    ),
  );
  expect(await kernel.getVirtualServers()).toHaveLength(300);
  programs.change(4, 'nat', (chains) => {
    for (const name of chains.keys()) if (name.startsWith('KUBE-')) chains.delete(name);
    for (const name of ['PREROUTING', 'OUTPUT', 'POSTROUTING']) chains.set(name, []);
  });
  programs.writes = 0;
  expect(await run.pass(30_000)).toMatchObject({ kind: 'full', ok: true });
  expect(await kernel.getVirtualServers()).toHaveLength(300);
  expect(programs.writes).toBeLessThanOrEqual(4);
  await run.reconciler.stop();
});

test.each([false, true])(
  'whichever write of a new load balancer IP is refused, it is never served without what masquerades; endpoints changed: %s',
  async (isChanged) => {
    const balanced = service('balanced', '10.96.0.20', {
      type: 'LoadBalancer',
      loadBalancerIngress: [{ ip: '203.0.113.20' }],
    });
    const objects = listed([balanced], [slice('balanced', ['10.244.0.5'])]);
    for (let nth = 1, writes = nth; nth <= writes; nth++) {
      const programs = new FakeIptables();
      const { run } = await startOn(iptablesPlane(programs));
      await run.settle(...listed([], []));
      const targets = new Set<string>();
      const counted = refuseOnce(programs, nth, () => {
        for (const rule of programs.tables[4].get('nat')?.get('KUBE-SERVICES') ?? []) {
          if (rule.includes('203.0.113.20')) targets.add(/-j (KUBE-[A-Z]+)/.exec(rule)?.[1] ?? rule);
        }
      });
      await run.settle(...objects);
      writes = counted.writes();
      const more = slice('balanced', ['10.244.0.5', '10.244.0.6']);
      if (isChanged) await run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: more } });
      for (let syncs = 0; syncs < 3; syncs++) await run.pass(run.clock.nextIn ?? 0);
      expect({ nth, targets: [...targets] }).toEqual({ nth, targets: ['KUBE-EXT'] });
      await run.reconciler.stop();
    }
  },
);

test('a first sync that cannot read the tables of one IP family programs the other one, and is retried', async () => {
  const programs = new FakeIptables();
  const { kernel, run } = await startOn(iptablesPlane(programs));
  const read = programs.read.bind(programs);
  programs.read = (family) =>
    family === 4 ? read(4) : Promise.reject(new KernelError('iptables', 'UNREADABLE', 'table nat cannot be printed'));
  const dual = service('dual', '10.96.0.1', { clusterIPs: ['10.96.0.1', 'fd00::1'], ipFamilies: ['IPv4', 'IPv6'] });
  const endpoints = [slice('dual', ['10.244.0.1']), slice('dual', ['fd01::1'], { suffix: 'six' })];
  const without6 = new Set<IpFamily>([6]);
  expect(await run.take(...listed([dual], endpoints))).toMatchObject({ kind: 'first', ok: false });
  expect(await kernel.getVirtualServers(without6)).toHaveLength(1);
  expect(programs.scripts.join('')).not.toContain('fd01::1');
  const changed = { kind: 'service', event: { type: 'applied', object: service('web', '10.96.0.2') } } as const;
  expect(await run.take(changed)).toMatchObject({ kind: 'first', ok: false, failures: [] });
  expect(await kernel.getVirtualServers(without6)).toHaveLength(2);
  programs.read = read;
  expect(await run.pass(run.clock.nextIn ?? 0)).toMatchObject({ kind: 'first', ok: true });
  expect(await kernel.getVirtualServers()).toHaveLength(3);
  await run.reconciler.stop();
});

/** From now on, the tables of IPv6 cannot be read. Returns what ends that. */
function withoutIpv6(programs: FakeIptables): () => void {
  const read = programs.read.bind(programs);
  programs.read = (family) =>
    family === 4 ? read(4) : Promise.reject(new KernelError('iptables', 'UNREADABLE', 'table nat cannot be printed'));
  return () => {
    programs.read = read;
  };
}

const DUAL = service('dual', '10.96.0.1', { clusterIPs: ['10.96.0.1', 'fd00::1'], ipFamilies: ['IPv4', 'IPv6'] });
const DUAL_SLICES = [slice('dual', ['10.244.0.1']), slice('dual', ['fd01::1'], { suffix: 'six' })];

test('while the tables of one IP family cannot be read, full checks repair the other one, and fail', async () => {
  const programs = new FakeIptables();
  const { run } = await startOn(iptablesPlane(programs));
  await run.take(...listed([DUAL], DUAL_SLICES));
  const isServed = (family: IpFamily): boolean =>
    [...programs.tables[family].get('nat')!.keys()].some((name) => name.startsWith('KUBE-SVC-'));
  const flush = (family: IpFamily): void =>
    programs.change(family, 'nat', (chains) => {
      for (const name of chains.keys()) if (name.startsWith('KUBE-')) chains.delete(name);
      for (const rules of chains.values()) rules.length = 0;
    });
  const end = withoutIpv6(programs);
  for (const family of IP_FAMILIES) flush(family);
  const failed = {
    kind: 'full',
    ok: false,
    error: { message: expect.stringContaining('IPv6 was not checked: table') },
  };
  expect(await run.pass(30_000)).toMatchObject(failed);
  expect(IP_FAMILIES.map(isServed)).toEqual([true, false]);
  // Also with a change that cannot be applied.
  flush(4);
  const more: SourceEvent[] = [
    { kind: 'endpoint-slice', event: { type: 'applied', object: slice('dual', ['fd01::2'], { suffix: 'six' }) } },
    { kind: 'service', event: { type: 'applied', object: service('web', '10.96.0.2') } },
  ];
  for (const event of more) run.cluster.apply(event);
  expect(await run.pass(run.clock.nextIn ?? 0)).toMatchObject({ ...failed, failures: [] });
  expect(IP_FAMILIES.map(isServed)).toEqual([true, false]);
  end();
  expect(await run.pass(run.clock.nextIn ?? 0)).toMatchObject({ kind: 'full', ok: true });
  expect(IP_FAMILIES.map(isServed)).toEqual([true, true]);
  expect(programs.scripts.join('')).toContain('fd01::2');
  await run.reconciler.stop();
});

test('if the tables of neither IP family can be read, full checks fail', async () => {
  const programs = new FakeIptables();
  const { run } = await startOn(iptablesPlane(programs));
  await run.take(...listed([DUAL], DUAL_SLICES));
  programs.read = () => Promise.reject(new KernelError('iptables', 'UNREADABLE', 'no table can be printed'));
  const failed = { kind: 'full', ok: false, error: { message: 'no table can be printed' }, operations: new Map() };
  expect(await run.pass(30_000)).toMatchObject(failed);
  await run.reconciler.stop();
});

test('default/kubernetes is served before the first sync in the IP family that can be read', async () => {
  const programs = new FakeIptables();
  const { kernel, run } = await startOn(iptablesPlane(programs));
  withoutIpv6(programs);
  const kubernetes = service('kubernetes', 'fd00::1', {
    clusterIPs: ['fd00::1', '10.96.0.1'],
    ipFamilies: ['IPv6', 'IPv4'],
  });
  const slices = [slice('kubernetes', ['192.168.9.1']), slice('kubernetes', ['fd01::1'], { suffix: 'six' })];
  run.cluster.apply({ kind: 'service', event: { type: 'applied', object: kubernetes } });
  for (const object of slices) run.cluster.apply({ kind: 'endpoint-slice', event: { type: 'applied', object } });
  run.reconciler.clusterChanged();
  await run.reconciler.bootstrapped();
  expect(await kernel.getVirtualServers(new Set<IpFamily>([6]))).toHaveLength(1);
  expect(run.log.lines).toContain('info: default/kubernetes is served; listing the other services');
  await run.reconciler.stop();
});

test('while the tables of one IP family cannot be read, changes of the other one are applied', async () => {
  const programs = new FakeIptables();
  const { run } = await startOn(iptablesPlane(programs));
  const dual = service('dual', '10.96.0.1', { clusterIPs: ['10.96.0.1', 'fd00::1'], ipFamilies: ['IPv4', 'IPv6'] });
  await run.take(
    ...listed(
      [dual, service('web', '10.96.0.2')],
      [slice('dual', ['10.244.0.1']), slice('dual', ['fd01::1'], { suffix: 'six' }), slice('web', ['10.244.0.2'])],
    ),
  );
  const read = programs.read.bind(programs);
  programs.read = (family) =>
    family === 4 ? read(4) : Promise.reject(new KernelError('iptables', 'UNREADABLE', 'table nat cannot be printed'));
  const endpoints = (family: 4 | 6): readonly string[] =>
    Array.from(programs.tables[family].get('nat')?.values() ?? [])
      .flat()
      .flatMap((rule) => /--to-destination (\S+)/.exec(rule)?.slice(1) ?? [])
      .sort();
  const changed = (name: string, addresses: readonly string[], suffix?: string): SourceEvent => ({
    kind: 'endpoint-slice',
    event: { type: 'applied', object: slice(name, addresses, suffix === undefined ? {} : { suffix }) },
  });
  expect(await run.pass(30_000)).toMatchObject({ kind: 'full', ok: false });
  expect(await run.take(changed('dual', ['fd01::2'], 'six'))).toMatchObject({ ok: false });
  expect(await run.take(changed('web', ['10.244.0.3']))).toMatchObject({ ok: false });
  expect(endpoints(4)).toEqual(['10.244.0.1:8080', '10.244.0.3:8080']);
  expect(endpoints(6)).toEqual(['[fd01::1]:8080']);
  programs.read = read;
  expect(await run.pass(run.clock.nextIn ?? 0)).toMatchObject({ ok: true });
  expect(endpoints(6)).toEqual(['[fd01::2]:8080']);
  await run.reconciler.stop();
});
