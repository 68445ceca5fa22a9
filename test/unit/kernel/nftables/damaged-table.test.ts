import { describe, expect, test } from '@jest/globals';
import { NFT_VERDICT } from '../../../../src/netlink/family/nf-tables/data.ts';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import { NodeKernel } from '../../../../src/kernel/linux/node-kernel.ts';
import { nftablesKernelOf } from '../../../../src/kernel/nftables/nftables-kernel.ts';
import { affinityMap } from '../../../../src/kernel/nftables/sets.ts';
import { jump } from '../../../../src/kernel/nftables/steps.ts';
import { planRules } from '../../../../src/plan/plan-rules.ts';
import { FakeNftTable } from '../../../fake-kernel/fake-nft-table.ts';
import { listed, service, slice } from '../../../support/objects.ts';
import { PLAN_CONFIG, Reconciling, TestLog } from '../../../support/reconciling.ts';

const CONFIG = { ...PLAN_CONFIG, scheduler: 'random', bindAddresses: false };
const STICKY = service('sticky', '10.96.0.10', { sessionAffinity: 'ClientIP' });
const CLUSTER = listed([STICKY], [slice('sticky', ['10.244.0.5', '10.244.0.6', '10.244.0.7'])]);

async function start(
  table: FakeNftTable,
): Promise<{ readonly kernel: Kernel; readonly log: TestLog; readonly run: Reconciling }> {
  const log = new TestLog();
  const kernel = nftablesKernelOf(new NodeKernel({ log }), table);
  Object.assign(kernel, { getNodeAddresses: () => Promise.resolve([]), getUdpFlows: () => Promise.resolve([]) });
  await kernel.prepare();
  return { kernel, log, run: new Reconciling(kernel, { plan: CONFIG }) };
}

/** Our table, as a daemon leaves it when it stops. */
async function left(): Promise<FakeNftTable> {
  const table = new FakeNftTable();
  const { run } = await start(table);
  await run.settle(...CLUSTER);
  await run.reconciler.stop();
  return table;
}

describe('a table of ours that another program damaged', () => {
  test.each([1, 3])('%i endpoints of a Service with session affinity are restored by a first sync', async (gone) => {
    const table = await left();
    table.changeByOthers((found) => {
      const { elements } = found!.sets.get('service-endpoints')!;
      for (const key of [...elements.keys()].slice(0, gone)) elements.delete(key);
    });
    const { kernel, run } = await start(table);
    expect(await run.settle(...CLUSTER)).toMatchObject({ kind: 'first', ok: true, failures: [] });
    expect(table.tables.get(4)!.sets.get('service-endpoints')!.elements.size).toBe(3);
    expect(await kernel.compareRules(planRules(CONFIG, 4))).toMatchObject({ missing: [] });
    await run.reconciler.stop();
  });

  /** A chain that nothing deletes, because an element of another program's map leads to it; one that may be deleted. */
  function addForeignChains(table: FakeNftTable): void {
    table.changeByOthers((found) => {
      const { chains, sets } = found!;
      const verdict = { code: NFT_VERDICT.goto, chain: 'held' };
      const element = { key: new Uint8Array(16), data: { verdict } };
      sets.set('theirs', { set: affinityMap('theirs', 4), elements: new Map([['00'.repeat(16), element]]) });
      for (const name of ['held', 'loose']) {
        chains.set(name, { chain: { name, policy: undefined }, rules: [jump('services')] });
      }
      chains.get('nat-prerouting')!.rules.length = 0;
    });
  }

  test('a chain that cannot be deleted keeps none from being restored, and no other from being deleted', async () => {
    const table = await left();
    addForeignChains(table);
    const { kernel, run, log } = await start(table);
    expect(await run.settle(...CLUSTER)).toMatchObject({ kind: 'first', ok: true, failures: [] });
    const { chains } = table.tables.get(4)!;
    expect(chains.get('nat-prerouting')!.rules).toHaveLength(1);
    expect(chains.has('loose')).toBe(false);
    // Nothing that it did is done any longer.
    expect(chains.get('held')).toMatchObject({ rules: [] });
    expect(await kernel.compareRules(planRules(CONFIG, 4))).toMatchObject({
      missing: [{ command: 'nft delete chain ip kube-proxy held' }],
    });
    const warnings = (): readonly string[] => log.lines.filter((line) => line.includes('chain held'));
    expect(warnings()).toEqual([
      expect.stringMatching(/^warn: cannot delete chain held of table ip kube-proxy.*: EBUSY/),
    ]);
    // It is no drift, and said once.
    for (let times = 0; times < 2; times++) {
      table.changeByOthers(() => undefined);
      expect(await kernel.ensureRules(planRules(CONFIG, 4))).toEqual({ changed: false, chains: [] });
    }
    expect(warnings()).toHaveLength(1);
    table.changeByOthers((found) => found!.sets.delete('theirs'));
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toEqual({ changed: true, chains: ['held'] });
    expect(table.tables.get(4)!.chains.has('held')).toBe(false);
    await run.reconciler.stop();
  });
});
