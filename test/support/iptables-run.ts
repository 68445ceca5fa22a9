import { iptablesKernelOf } from '../../src/kernel/iptables-mode/iptables-kernel.ts';
import { KernelError } from '../../src/kernel/kernel-error.ts';
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

/** Once, the n-th write from now on is refused: another program has the lock. `written` is called after each of the others. */
export function refuseOnce(
  programs: FakeIptables,
  nth: number,
  written: () => void = () => undefined,
): { readonly writes: () => number } {
  const write = programs.write.bind(programs);
  let writes = 0;
  programs.write = async (family, script) => {
    writes += 1;
    if (writes === nth) throw new KernelError('iptables', 'LOCKED', 'another program is holding the xtables lock');
    await write(family, script);
    written();
  };
  return { writes: () => writes };
}
