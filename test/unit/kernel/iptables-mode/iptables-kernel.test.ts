import { NodeKernel } from '../../../../src/kernel/linux/node-kernel.ts';
import { iptablesKernelOf } from '../../../../src/kernel/iptables-mode/iptables-kernel.ts';
import { type IptablesBed, iptablesContract } from '../../../contract/iptables-contract.ts';
import { FakeIptables } from '../../../fake-kernel/fake-iptables.ts';
import { TestLog } from '../../../support/reconciling.ts';

function bedOf(programs: FakeIptables): IptablesBed {
  const kernelOf = () => iptablesKernelOf(new NodeKernel({ log: new TestLog() }), programs, 0);
  const kernel = kernelOf();
  return {
    kernel,
    reader: kernelOf,
    save: (family) => programs.read(family),
    restore: (family, script) => programs.write(family, script),
    [Symbol.asyncDispose]: () => kernel.close(),
  };
}

iptablesContract('with tables in memory', () => Promise.resolve(bedOf(new FakeIptables())));
