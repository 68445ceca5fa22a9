import type { Kernel, NodeAddress } from '../../src/kernel/kernel.ts';
import { NodeKernel } from '../../src/kernel/linux/node-kernel.ts';
import { nftablesKernelOf } from '../../src/kernel/nftables/nftables-kernel.ts';
import { FakeNftTable } from '../fake-kernel/fake-nft-table.ts';
import { PLAN_CONFIG, Reconciling, TestLog } from './reconciling.ts';
import { address } from './state.ts';

export const NODE: readonly NodeAddress[] = ['192.168.9.1', 'fd00:9::1'].map((text) => ({
  address: address(text),
  prefix: 24,
  interfaceName: 'eth0',
  tentative: false,
}));

/** The tables of nftables mode in memory, on a node with these addresses and no connections. */
export function nftInMemory(): { readonly kernel: Kernel; readonly table: FakeNftTable } {
  const table = new FakeNftTable();
  const node = new NodeKernel({ log: new TestLog() });
  const kernel = nftablesKernelOf(node, table);
  Object.assign(kernel, {
    getNodeAddresses: () => Promise.resolve(NODE),
    getUdpFlows: () => Promise.resolve([]),
  });
  return { kernel, table };
}

/** Reconciles as in the modes that translate addresses by rules. */
export function translating(kernel: Kernel): Reconciling {
  return new Reconciling(kernel, { plan: { ...PLAN_CONFIG, scheduler: 'random', bindAddresses: false } }, []);
}
