import { iptablesKernelOf } from '../../src/kernel/iptables-mode/iptables-kernel.ts';
import type { Kernel, NodeAddress } from '../../src/kernel/kernel.ts';
import { NodeKernel } from '../../src/kernel/linux/node-kernel.ts';
import { IPTABLES_MODE_PLAN } from '../../src/plan/iptables-mode-plan.ts';
import type { FakeIptables } from '../fake-kernel/fake-iptables.ts';
import { PLAN_CONFIG, Reconciling, TestLog } from './reconciling.ts';

export interface IptablesRun {
  readonly kernel: Kernel;
  readonly run: Reconciling;
}

/** A reconciler in iptables mode, with tables in memory. Each full check reads them. */
export async function runIptables(
  programs: FakeIptables,
  nodeAddresses: readonly NodeAddress[] = [],
): Promise<IptablesRun> {
  const kernel = Object.assign(iptablesKernelOf(new NodeKernel({ log: new TestLog() }), programs, 0), {
    getNodeAddresses: () => Promise.resolve([...nodeAddresses]),
    getUdpFlows: () => Promise.resolve([]),
  });
  await kernel.prepare();
  return { kernel, run: new Reconciling(kernel, { plan: { ...PLAN_CONFIG, ...IPTABLES_MODE_PLAN } }, []) };
}
