import { createIptablesKernel } from '../../src/kernel/iptables-mode/iptables-kernel.ts';
import { runCommand } from '../bed/command.ts';
import type { IptablesBed } from './iptables-contract.ts';
import { LinuxBed } from './linux-bed.ts';

export type Variant = 'nft' | 'legacy';

/** Real tables in a network namespace of their own, of this variant of iptables. */
export async function realIptablesBed(variant: Variant): Promise<IptablesBed> {
  const own = await LinuxBed.make(variant);
  const netns = `/run/netns/${own.netns}`;
  const program = (family: 4 | 6, verb: string): string => `ip${family === 4 ? '' : '6'}tables-${variant}-${verb}`;
  const kernelOf = () => createIptablesKernel({ log: own.log, netns, maxAgeMs: 0 });
  const kernel = kernelOf();
  // Finding out the variant takes several programs, so there is one.
  const reader = kernelOf();
  return {
    kernel,
    reader: async () => {
      await reader.forgetReadings(performance.now());
      return reader;
    },
    // The times of saving and the counters differ from run to run.
    save: async (family) =>
      (await own.run(program(family, 'save'))).replace(/^#.*\n/gm, '').replace(/ \[\d+:\d+\]$/gm, ''),
    restore: async (family, script) => {
      const argv = ['ip', 'netns', 'exec', own.netns, program(family, 'restore'), '--noflush'];
      await runCommand(argv, { input: script });
    },
    [Symbol.asyncDispose]: async () => {
      await kernel.close();
      await reader.close();
      await own[Symbol.asyncDispose]();
    },
  };
}
