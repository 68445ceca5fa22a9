import { type CommandRunner, createCommandRunner } from '../../kernel/command-runner.ts';
import { otherVariant } from '../../kernel/iptables/iptables-variant.ts';
import { type Leftover, Leftovers } from '../../kernel/iptables/leftovers.ts';
import { createIptablesKernel } from '../../kernel/iptables-mode/iptables-kernel.ts';
import { rulesOfIpvsOnly } from '../../plan/plan-rules.ts';
import type { Mode, ModeParts } from './mode.ts';
import { removeLeftovers } from './other-modes.ts';
import { RetiringIpvs } from './retiring-ipvs.ts';

/** Chains of iptables. */
export const IPTABLES: Mode = {
  createKernel: createIptablesKernel,
  removeOthers: (parts) => {
    const retiring = new RetiringIpvs(parts, rulesOfIpvsOnly);
    retiring.start();
    void removeLeftovers(new LeftoversBeside(parts), parts.log);
    return () => retiring.stop();
  },
  // Nothing is watched that could be deleted.
  nameThief: () => undefined,
};

/** The tables of nftables mode, and the chains in the variant of iptables that this program does not use. */
class LeftoversBeside implements Pick<Leftovers, 'find' | 'remove'> {
  readonly #runner: CommandRunner;
  readonly #all: Leftovers;
  readonly #variant: string | undefined;

  constructor({ onProgram, iptables }: ModeParts) {
    this.#runner = createCommandRunner({ onStart: onProgram });
    this.#all = new Leftovers(this.#runner);
    this.#variant = iptables;
  }

  async find(): Promise<Leftover[]> {
    const other = await this.#otherVariant();
    return (await this.#all.find()).filter((leftover) => leftover.kind === 'nft-table' || leftover.variant === other);
  }

  async remove(leftover: Leftover): Promise<void> {
    await this.#all.remove(leftover);
  }

  async #otherVariant(): Promise<string | undefined> {
    if (this.#variant === 'nft') return 'legacy';
    if (this.#variant === 'legacy') return 'nft';
    return this.#variant === 'system' ? await otherVariant(this.#runner, 4) : undefined;
  }
}
