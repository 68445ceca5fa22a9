import { expect, test } from '@jest/globals';
import { NodeKernel } from '../../../../src/kernel/linux/node-kernel.ts';
import { iptablesKernelOf } from '../../../../src/kernel/iptables-mode/iptables-kernel.ts';
import { NO_MODE_OBSERVER } from '../../../../src/kernel/mode-observer.ts';
import { MODE_PLANS } from '../../../../src/plan/mode-plans.ts';
import { planRules } from '../../../../src/plan/ipvs/plan-rules.ts';
import { addressTraits } from '../../../../src/state/address-traits.ts';
import type { Op } from '../../../../src/state/op.ts';
import type { RuleCounts } from '../../../../src/state/rules/rule-counts.ts';
import { Transaction } from '../../../../src/state/transaction.ts';
import { address, endpoint, realServer, virtualServer } from '../../../contract/objects.ts';
import { FakeIptables } from '../../../fake-kernel/fake-iptables.ts';
import { PLAN_CONFIG, TestLog } from '../../../support/reconciling.ts';

const WEB = virtualServer(address(4, 1), 80, 'TCP', {
  scheduler: 'random',
  servicePort: 'default/web',
  traits: addressTraits('cluster', true),
});
const ADDED: readonly Op[] = [
  { kind: 'add-virtual-server', virtualServer: WEB },
  ...[1, 2].map((n): Op => ({ kind: 'add-real-server', id: WEB, realServer: realServer(endpoint(4, n), 80) })),
];
const DELETED: readonly Op[] = [{ kind: 'delete-virtual-server', id: WEB }];

test('the rules in our chains are counted by table, those that were added last, and refused changes', async () => {
  const programs = new FakeIptables();
  let counted: { readonly total: RuleCounts; readonly last: RuleCounts } | undefined;
  let refused = 0;
  await using kernel = Object.assign(
    iptablesKernelOf(new NodeKernel({ log: new TestLog() }), programs, 0, {
      ...NO_MODE_OBSERVER,
      rulesCounted: (_family, total, last) => (counted = { total, last }),
      partialRestoreFailed: () => (refused += 1),
    }),
    { [Symbol.asyncDispose]: () => kernel.close() },
  );
  /** The rules in chains of our names, as the programs have them. */
  const there = (): RuleCounts => {
    const count = (table: string): number =>
      [...programs.tables[4].get(table)!].reduce(
        (sum, [name, { length }]) => sum + (name.startsWith('KUBE-') ? length : 0),
        0,
      );
    return { nat: count('nat'), filter: count('filter') };
  };
  const added = (): number => programs.scripts.at(-1)!.match(/^-[AI] /gm)?.length ?? 0;
  const apply = (ops: readonly Op[]) => kernel.apply(new Transaction(ops));

  await kernel.ensureRules(planRules({ ...PLAN_CONFIG, ...MODE_PLANS.iptables }, 4));
  const empty = there();
  expect(counted?.total).toEqual(empty);

  expect(await apply(ADDED)).toEqual({ failures: [] });
  expect(counted?.total).toEqual(there());
  expect(counted!.total.nat).toBeGreaterThan(empty.nat);
  expect(counted!.last.nat + counted!.last.filter).toBe(added());
  expect(refused).toBe(0);

  programs.refuse = () => 'line 2 failed: no such match';
  expect((await apply(DELETED)).failures).not.toEqual([]);
  expect(refused).toBeGreaterThan(0);
  programs.refuse = () => undefined;

  expect(await apply(DELETED)).toEqual({ failures: [] });
  expect(there()).toEqual(empty);
  expect(counted?.total).toEqual(empty);
  expect(counted?.last).toEqual({ nat: 0, filter: 0 });
});
