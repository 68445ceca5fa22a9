import { describe, expect, test } from '@jest/globals';
import type { IpFamily } from '../../../../src/base/ip.ts';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import { NodeKernel } from '../../../../src/kernel/linux/node-kernel.ts';
import type { NftMessage } from '../../../../src/kernel/nftables/port/nft-message.ts';
import { nftablesKernelOf } from '../../../../src/kernel/nftables/nftables-kernel.ts';
import { constantSets } from '../../../../src/kernel/nftables/objects/sets.ts';
import { MODE_PLANS } from '../../../../src/plan/mode-plans.ts';
import type { SyncReport } from '../../../../src/state/sync-report.ts';
import { FakeNftTable } from '../../../fake-kernel/fake-nft-table.ts';
import { tablesOfKubeProxy } from '../../../support/tables-of-kube-proxy.ts';
import { NODE } from '../../../support/on-plane.ts';
import { listed, service, slice } from '../../../support/objects.ts';
import { PLAN_CONFIG, Reconciling, TestLog } from '../../../support/reconciling.ts';

const FAMILIES: readonly IpFamily[] = [4, 6];

const WEB = service('web', '10.96.0.10');
const RESTRICTED = service('restricted', '10.96.0.20', {
  type: 'LoadBalancer',
  loadBalancerIngress: [{ ip: '203.0.113.20' }],
  loadBalancerSourceRanges: ['198.51.100.0/24'],
});
const OVER_IPV6 = service('over-ipv6', 'fd00:96::10');
const CLUSTER = listed(
  [WEB, RESTRICTED, OVER_IPV6],
  [slice('web', ['10.244.0.5']), slice('restricted', ['10.244.0.6']), slice('over-ipv6', ['fd00:244::5'])],
);

const LOAD_BALANCER_IP = 'cb007114';

async function start(table: FakeNftTable): Promise<{ readonly kernel: Kernel; readonly run: Reconciling }> {
  const kernel = nftablesKernelOf(new NodeKernel({ log: new TestLog() }), table);
  Object.assign(kernel, { getNodeAddresses: () => Promise.resolve(NODE), getUdpFlows: () => Promise.resolve([]) });
  await kernel.prepare();
  return {
    kernel,
    run: new Reconciling(kernel, { plan: { ...PLAN_CONFIG, ...MODE_PLANS.nftables } }),
  };
}

function kinds(messages: readonly NftMessage[] | undefined): readonly string[] {
  return (messages ?? []).map(({ kind }) => kind);
}

function setsOf(messages: readonly NftMessage[]): readonly string[] {
  return messages.flatMap((message) => (message.kind === 'new-elements' ? [message.set] : []));
}

function servedAtLoadBalancerIp(table: FakeNftTable): number {
  const keys = [...(table.tables.get(4)?.sets.get('service-ips')?.elements.keys() ?? [])];
  return keys.filter((key) => key.startsWith(LOAD_BALANCER_IP)).length;
}

/** The sets that get an element whose key begins with the load balancer IP. */
function setsWithLoadBalancerIp(messages: readonly NftMessage[]): readonly string[] {
  return messages.flatMap((message) =>
    message.kind === 'new-elements' &&
    [...message.elements].some(({ key }) => Buffer.from(key).toString('hex').startsWith(LOAD_BALANCER_IP))
      ? [message.set]
      : [],
  );
}

describe('a node without tables, which IPVS or rules of iptables serve', () => {
  test('gets addresses, endpoints and source ranges in one transaction: before, nothing is rejected', async () => {
    const table = new FakeNftTable();
    const { run } = await start(table);
    expect(await run.take(...CLUSTER)).toMatchObject({ ok: true, failures: [] });
    const filling = table.committed.filter((messages) => messages.some(({ kind }) => kind === 'new-elements'));
    expect(filling.map((messages) => setsOf(messages).includes('service-ips'))).toEqual([true, true]);
    expect(setsOf(filling[0] ?? [])).toEqual(
      expect.arrayContaining(['cluster-ips', 'firewall-ips', 'service-endpoints']),
    );
    await run.reconciler.stop();
  });

  test('whose source ranges are refused: a load balancer IP that was served is served no longer', async () => {
    const table = new FakeNftTable();
    const { run } = await start(table);
    const open = { ...RESTRICTED, loadBalancerSourceRanges: [] };
    await run.take(...listed([open], [slice('restricted', ['10.244.0.6'])]));
    expect(servedAtLoadBalancerIp(table)).toBe(1);
    table.refuse = (messages) => (setsWithLoadBalancerIp(messages).includes('firewall-ips') ? 'ENOSPC' : undefined);
    const event = { type: 'applied', object: RESTRICTED } as const;
    await run.take(
      { kind: 'service', event },
      { kind: 'endpoint-slice', event: { type: 'applied', object: slice('restricted', ['10.244.0.6', '10.244.0.7']) } },
    );
    expect(servedAtLoadBalancerIp(table)).toBe(0);
    table.refuse = () => undefined;
    await run.pass(1_000);
    await run.settle();
    expect(servedAtLoadBalancerIp(table)).toBe(1);
    expect(table.tables.get(4)?.sets.get('firewall-ips')?.elements.size).toBe(1);
    await run.reconciler.stop();
  });
});

/** Reports a lost table. Returns the report of the full check, in the middle of which a change sync may run. */
async function repaired(run: Reconciling): Promise<SyncReport> {
  const before = run.reports.length;
  run.reconciler.kernelStateLost('table ip kube-proxy was deleted');
  for (;;) {
    await run.settle();
    const full = run.reports.slice(before).find(({ kind }) => kind === 'full');
    if (full !== undefined) return full;
  }
}

describe('the tables of kube-proxy', () => {
  test('are replaced by one transaction for each family, in which source ranges and what they protect come together', async () => {
    const table = await tablesOfKubeProxy();
    const { run } = await start(table);
    const report = await run.take(...CLUSTER);
    expect(report).toMatchObject({ ok: true, failures: [] });
    expect(table.committed.map((messages) => kinds(messages).slice(0, 2))).toEqual([
      ['delete-table', 'new-table'],
      ['delete-table', 'new-table'],
    ]);
    expect(setsWithLoadBalancerIp(table.committed[0] ?? []).toSorted()).toEqual([
      'firewall-ips',
      'load-balancer-ports',
      'service-ips',
    ]);
    // Nothing is left to be written, or repaired.
    const written = table.committed.length;
    expect([...(await run.pass(30_000)).operations.keys()]).toEqual([]);
    expect(table.committed).toHaveLength(written);
    await run.reconciler.stop();
  });

  test('are replaced also if there is no Service', async () => {
    const table = await tablesOfKubeProxy();
    const { run } = await start(table);
    expect(await run.take(...listed([], []))).toMatchObject({ ok: true });
    for (const family of FAMILIES) expect(table.tables.get(family)?.sets.has('service-nodeports')).toBe(false);
    await run.reconciler.stop();
  });

  test('whose source ranges the kernel refuses: their load balancer IP is not served, all else is, and the reasons are named', async () => {
    const table = await tablesOfKubeProxy();
    const { run } = await start(table);
    table.refuse = (messages) => (setsWithLoadBalancerIp(messages).includes('firewall-ips') ? 'ENOSPC' : undefined);
    const { failures } = await run.take(...CLUSTER);
    expect(new Set(failures.map(({ op, code }) => `${op.kind} ${code}`))).toEqual(
      new Set(['add-virtual-server ENOSPC']),
    );
    const served = [...(table.tables.get(4)?.sets.get('service-ips')?.elements.keys() ?? [])];
    expect(served.filter((key) => key.startsWith(LOAD_BALANCER_IP))).toEqual([]);
    expect(served).toHaveLength(2);
    // The refused operations are tried again.
    table.refuse = () => undefined;
    await run.pass(1_000);
    await run.settle();
    expect(table.tables.get(4)?.sets.get('service-ips')?.elements.size).toBe(3);
    expect(table.tables.get(4)?.sets.get('firewall-ips')?.elements.size).toBe(1);
    await run.reconciler.stop();
  });

  test('are left alone, and nothing is tried in parts, if the kernel refuses even a table without Services', async () => {
    const table = await tablesOfKubeProxy();
    const { run } = await start(table);
    let tried = 0;
    table.refuse = (messages) => {
      tried += 1;
      return messages.some((message) => message.kind === 'new-rule' && message.chain === 'services')
        ? 'ENOENT'
        : undefined;
    };
    const numbers = Array.from({ length: 50 }, (_, n) => n);
    const report = await run.take(
      ...listed(
        numbers.map((n) => service(`web-${n}`, `10.96.1.${n}`)),
        [],
      ),
    );
    expect(report).toMatchObject({
      ok: false,
      error: expect.objectContaining({
        message: expect.stringContaining('cannot replace table ip kube-proxy: ENOENT'),
      }),
    });
    expect(tried).toBeLessThanOrEqual(2);
    expect(table.tables.get(4)?.sets.has('service-nodeports')).toBe(true);
    await run.reconciler.stop();
  });

  test('that the kernel does not replace are left alone, and its reason is named, also if there is no Service', async () => {
    const table = await tablesOfKubeProxy();
    const { run } = await start(table);
    table.refuse = (messages) => (messages[0]?.kind === 'delete-table' ? 'EPERM' : undefined);
    expect(await run.take(...listed([], []))).toMatchObject({
      ok: false,
      error: expect.objectContaining({ message: 'cannot replace table ip kube-proxy: EPERM' }),
    });
    await run.reconciler.stop();
  });

  test('are taken over also if that of the other IP family cannot be', async () => {
    for (const refused of FAMILIES) {
      const table = await tablesOfKubeProxy();
      const { run } = await start(table);
      const commit = table.commit.bind(table);
      table.commit = async (family, messages, generation) =>
        family === refused ? { errno: 1, code: 'EPERM', text: '' } : await commit(family, messages, generation);
      expect(await run.take(...CLUSTER)).toMatchObject({
        kind: 'first',
        ok: false,
        error: expect.objectContaining({ message: expect.stringContaining('EPERM') }),
      });
      for (const family of FAMILIES) {
        expect(table.tables.get(family)?.sets.has('service-nodeports')).toBe(family === refused);
      }
      table.commit = commit;
      expect(await run.pass(run.clock.nextIn ?? 0)).toMatchObject({ kind: 'first', ok: true });
      expect(table.tables.get(refused)?.sets.has('service-nodeports')).toBe(false);
      await run.reconciler.stop();
    }
  });

  test('are taken over also if ours of the other IP family cannot be written', async () => {
    const table = await tablesOfKubeProxy();
    table.tables.delete(4);
    const { run } = await start(table);
    const commit = table.commit.bind(table);
    table.commit = async (family, messages, generation) =>
      family === 4 && messages.some(({ kind }) => kind === 'new-elements')
        ? { errno: 1, code: 'EPERM', text: '' }
        : await commit(family, messages, generation);
    expect(await run.take(...CLUSTER)).toMatchObject({
      kind: 'first',
      ok: false,
      error: expect.objectContaining({ message: 'cannot write table ip kube-proxy: EPERM' }),
    });
    expect(table.tables.get(6)?.sets.get('service-ips')?.elements.size).toBe(1);
    expect(table.tables.get(6)?.sets.has('service-nodeports')).toBe(false);
    await run.reconciler.stop();
  });

  test('are those of kube-proxy also if it has started in a table of ours', async () => {
    const table = new FakeNftTable();
    const before = await start(table);
    await before.run.take(...CLUSTER);
    await before.run.reconciler.stop();
    const map = constantSets(4).find(({ name }) => name === 'service-ips');
    if (map === undefined) throw new Error('no such map');
    await table.commit(4, [{ kind: 'new-set', set: { ...map, name: 'no-endpoint-nodeports' } }]);
    table.committed.length = 0;
    const { run } = await start(table);
    await run.take(...CLUSTER);
    expect(kinds(table.committed[0]).slice(0, 2)).toEqual(['delete-table', 'new-table']);
    expect(table.committed).toHaveLength(1);
    await run.reconciler.stop();
  });

  test.each(['deleted', 'replaced'])(
    'whose like was %s while the daemon ran: at no time does a cluster IP reject connections to its Service',
    async (how) => {
      const table = new FakeNftTable();
      const { run } = await start(table);
      const numbers = Array.from({ length: 200 }, (_, n) => n);
      const [services, slices] = [
        numbers.map((n) => service(`web-${n}`, `10.96.1.${n}`)),
        numbers.map((n) => slice(`web-${n}`, [`10.244.1.${n}`])),
      ];
      await run.take(...listed(services, slices));
      const other = how === 'replaced' ? (await tablesOfKubeProxy()).tables : new Map<IpFamily, never>();
      table.changeByOthers(() => undefined);
      table.tables.clear();
      for (const [family, of] of other) table.tables.set(family, of);
      let transactions = 0;
      const rejecting = new Set<number>();
      const commit = table.commit.bind(table);
      table.commit = async (...given) => {
        const refusal = await commit(...given);
        transactions += 1;
        const sets = table.tables.get(4)?.sets;
        const served = new Set(Array.from(sets?.get('service-ips')?.elements.keys() ?? [], (key) => key.slice(0, 8)));
        const closed = [...(sets?.get('cluster-ips')?.elements.keys() ?? [])];
        rejecting.add(closed.filter((key) => !served.has(key)).length);
        return refusal;
      };
      expect(await repaired(run)).toMatchObject({ ok: true, failures: [] });
      expect(table.tables.get(4)?.sets.get('cluster-ips')?.elements.size).toBe(200);
      expect(transactions).toBeGreaterThan(3);
      expect([...rejecting]).toEqual([0]);
      await run.reconciler.stop();
    },
  );

  test('that appear while the daemon runs are deleted, and everything is written again', async () => {
    const table = new FakeNftTable();
    const { run } = await start(table);
    await run.settle(...CLUSTER);
    const other = await tablesOfKubeProxy();
    for (const [family, of] of other.tables) table.tables.set(family, of);
    table.changeByOthers(() => undefined);
    expect(await repaired(run)).toMatchObject({ ok: true });
    expect(table.tables.get(4)?.sets.has('service-nodeports')).toBe(false);
    expect(table.tables.get(4)?.sets.get('service-ips')?.elements.size).toBe(3);
    await run.reconciler.stop();
  });
});
