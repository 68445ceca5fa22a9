import { type CommandRunner, createCommandRunner } from '../../kernel/command-runner.ts';
import { type NamedVariant, otherVariant } from '../../kernel/iptables/iptables-variant.ts';
import { Leftovers } from '../../kernel/leftovers/leftovers.ts';
import { createIptablesKernel, createIptablesKernelReader } from '../../kernel/iptables-mode/iptables-kernel.ts';
import { previewOfNothing } from '../../kernel/iptables-mode/preview.ts';
import { rulesOfIpvsOnly } from '../../plan/ipvs/plan-rules.ts';
import type { Mode, ModeParts } from './mode.ts';
import { removeLeftovers } from './other-modes.ts';
import { RetiringIpvs, chainsOfIpvs } from './retiring-ipvs.ts';

/** Chains of iptables. */
export const IPTABLES: Mode = {
  createKernel: createIptablesKernel,
  createReader: createIptablesKernelReader,
  previewOfNothing,
  removeOthers: (parts) => {
    const retiring = new RetiringIpvs(parts, rulesOfIpvsOnly);
    retiring.start();
    void removeLeftovers(leftoversBeside(parts), parts.log, parts);
    return () => retiring.stop();
  },
  // There is no device or table whose deletion is watched.
  logDeleter: () => undefined,
};

/** Finds and removes the tables of nftables mode, and the chains in the variant of iptables that is not in use. */
function leftoversBeside({ onProgram, iptables, log }: ModeParts): Pick<Leftovers, 'find' | 'remove'> {
  const runner = createCommandRunner({ onStart: onProgram });
  return {
    // The rules of this program are many, and reading them takes long.
    find: async () => {
      const variants = await variantsBeside(iptables, runner);
      return await new Leftovers(runner, { variants, chains: await chainsOfIpvs(log) }).find();
    },
    remove: (leftover) => new Leftovers(runner).remove(leftover),
  };
}

async function variantsBeside(used: string | undefined, runner: CommandRunner): Promise<readonly NamedVariant[]> {
  if (used === 'nft') return ['legacy'];
  if (used === 'legacy') return ['nft'];
  const other = used === 'system' ? await otherVariant(runner, 4) : undefined;
  return other === undefined ? [] : [other];
}
