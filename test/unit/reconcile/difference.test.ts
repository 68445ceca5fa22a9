import { describe, expect, test } from '@jest/globals';
import { toolCommand } from '../../../src/state/commands/tool-command.ts';
import { planRules } from '../../../src/plan/ipvs/plan-rules.ts';
import { plannedSet } from '../../../src/state/set-roles.ts';
import type { Op } from '../../../src/state/op.ts';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { afterRead } from '../../support/after-read.ts';
import { listed, service, slice } from '../../support/objects.ts';
import { PLAN_CONFIG, Reconciling } from '../../support/reconciling.ts';
import { address, real, virtualServer, vsId } from '../../support/state.ts';

const WEB = service('web', '10.96.0.10');
const SLICE = slice('web', ['10.244.0.5', '10.244.0.6']);
const ID = vsId('10.96.0.10', 80);

async function started(kernel = new FakeKernel(), options: ConstructorParameters<typeof Reconciling>[1] = {}) {
  await kernel.prepare();
  const run = new Reconciling(kernel, options);
  await run.take(...listed([WEB], [SLICE]));
  return { kernel, run };
}

async function commands(run: Reconciling): Promise<readonly string[]> {
  const { ops, rules, settings } = await run.reconciler.answers.difference(new AbortController().signal);
  return [...settings, ...rules.map(({ command }) => command), ...ops.map(toolCommand)];
}

const entry = { type: 'hash:ip,port', ...ID } as const;

describe('what another program broke', () => {
  const CASES: readonly (readonly [string, Op, readonly string[]])[] = [
    [
      'a virtual server is gone',
      { kind: 'delete-virtual-server', id: ID },
      [
        'ipvsadm -A -t 10.96.0.10:80 -s lc',
        'ipvsadm -a -t 10.96.0.10:80 -r 10.244.0.5:8080 -m -w 1',
        'ipvsadm -a -t 10.96.0.10:80 -r 10.244.0.6:8080 -m -w 1',
      ],
    ],
    [
      'a real server is gone',
      { kind: 'delete-real-server', id: ID, realServer: real('10.244.0.5', 1) },
      ['ipvsadm -a -t 10.96.0.10:80 -r 10.244.0.5:8080 -m -w 1'],
    ],
    [
      'a weight was changed',
      { kind: 'edit-real-server', id: ID, realServer: real('10.244.0.5', 7) },
      ['ipvsadm -e -t 10.96.0.10:80 -r 10.244.0.5:8080 -m -w 1'],
    ],
    [
      'a scheduler was changed',
      { kind: 'edit-virtual-server', virtualServer: { ...virtualServer('10.96.0.10', 80), scheduler: 'rr' } },
      ['ipvsadm -E -t 10.96.0.10:80 -s lc'],
    ],
    [
      'a real server was added',
      { kind: 'add-real-server', id: ID, realServer: real('10.244.0.9', 1) },
      ['ipvsadm -d -t 10.96.0.10:80 -r 10.244.0.9:8080'],
    ],
    [
      'an address was unbound',
      { kind: 'unbind-address', address: address('10.96.0.10') },
      ['ip addr add 10.96.0.10/32 dev kube-ipvs0'],
    ],
    [
      'an address was bound, with a virtual server',
      { kind: 'bind-address', address: address('10.96.0.99') },
      ['ip addr del 10.96.0.99/32 dev kube-ipvs0'],
    ],
    [
      'a set entry is gone',
      { kind: 'delete-entry', set: plannedSet('CLUSTER-IP', 4, 1), entry },
      ['ipset add KUBE-CLUSTER-IP 10.96.0.10,tcp:80'],
    ],
  ];

  test.each(CASES)('%s: it is named, and nothing is written', async (_name, broken, named) => {
    const { kernel, run } = await started();
    expect(await commands(run)).toEqual([]);
    kernel.put(broken);
    const { writes } = kernel.counters;
    expect((await commands(run)).toSorted()).toEqual(named.toSorted());
    expect(kernel.counters.writes).toBe(writes);
    await run.pass(30_000);
    expect(await commands(run)).toEqual([]);
  });

  test('rules, sysctls and IPVS timeouts', async () => {
    const kernel = new FakeKernel();
    const nodeSettings = {
      sysctls: [['net/ipv4/ip_forward', '1']] as const,
      timeouts: { tcp: 900, tcpFin: 0, udp: 0 },
    };
    const { run } = await started(kernel, { nodeSettings });
    await kernel.setSysctl('net/ipv4/ip_forward', '1');
    expect(await commands(run)).toEqual([]);
    await kernel.setSysctl('net/ipv4/ip_forward', '0');
    await kernel.setIpvsTimeouts({ tcp: 60, tcpFin: 0, udp: 0 });
    await kernel.removeRules(planRules(PLAN_CONFIG, 4));
    const found = await commands(run);
    expect(found.slice(0, 2)).toEqual(['sysctl -w net.ipv4.ip_forward=1', 'ipvsadm --set 900 0 0']);
    expect(found.slice(2)).toContain('iptables -t nat -N KUBE-SERVICES');
  });
});

test('an address without its local route is named', async () => {
  const { kernel, run } = await started();
  kernel.tables.unrouted.add(address('10.96.0.10'));
  expect(await commands(run)).toEqual([
    'ip addr del 10.96.0.10/32 dev kube-ipvs0; ip -4 route flush table local exact 10.96.0.10; ip addr add 10.96.0.10/32 dev kube-ipvs0 # it has no local route',
  ]);
  await run.pass(30_000);
  expect(await commands(run)).toEqual([]);
});

test('a foreign virtual server and a real server that drains are as planned', async () => {
  const { kernel, run } = await started();
  kernel.put({ kind: 'add-virtual-server', virtualServer: virtualServer('192.0.2.1', 80) });
  kernel.put({ kind: 'edit-real-server', id: ID, realServer: real('10.244.0.6', 0) });
  kernel.setObserved(ID, real('10.244.0.6', 0), { activeConnections: 1 });
  await run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: slice('web', ['10.244.0.5']) } });
  expect(await commands(run)).toEqual([]);
});

test('what a sync is writing is no difference: only what is found twice counts', async () => {
  const { kernel, run } = await started();
  kernel.put({ kind: 'delete-real-server', id: ID, realServer: real('10.244.0.5', 1) });
  let passes = 0;
  // The last read of a comparison: the sync has written the real server before the second one.
  afterRead(kernel, (read) => {
    if (read !== 'getRealServers') return;
    passes += 1;
    kernel.put({ kind: 'add-real-server', id: ID, realServer: real('10.244.0.5', 1) });
  });
  expect(await commands(run)).toEqual([]);
  expect(passes).toBe(2);
});

test('at most 2,000 operations are listed, and the others counted', async () => {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  const services = Array.from({ length: 900 }, (_, at) => service(`s${at}`, `10.96.${at >> 8}.${at & 255}`));
  await run.take(...listed(services, []));
  for (const virtualServer of await kernel.getVirtualServers())
    kernel.put({ kind: 'delete-virtual-server', id: virtualServer });
  for (const { address: bound } of await kernel.getBoundAddresses())
    kernel.put({ kind: 'unbind-address', address: bound });
  for (const set of await kernel.getSets()) {
    for (const each of set.entries) kernel.put({ kind: 'delete-entry', set, entry: each });
  }
  const { ops, more } = await run.reconciler.answers.difference(new AbortController().signal);
  // Of each Service: a virtual server, an address and entries of two sets. The kernel's own addresses mark NodePorts.
  expect(ops).toHaveLength(2_000);
  expect(more).toBeGreaterThanOrEqual(4 * 900 - 2_000);
});

test('it stops when nobody waits for it any more', async () => {
  const { run } = await started();
  await expect(run.reconciler.answers.difference(AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone');
});
