import type { IpFamily } from '../../base/ip.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';
import type { RulesInForce } from '../../state/rules/rules-in-force.ts';

/**
 * Compares iptables rules for questions. Each comparison starts a program, so questions that wait at the same time share
 * one. No question gets a comparison that began before it was asked.
 */
export class SharedRules {
  readonly #kernel: Pick<KernelReader, 'compareRules'>;
  readonly #last = new Map<IpFamily, { readonly began: number; readonly found: Promise<RulesInForce> }>();

  constructor(kernel: Pick<KernelReader, 'compareRules'>) {
    this.#kernel = kernel;
  }

  /** @param askedAt when the question arrived (performance.now()) */
  compare(rules: RuleSet, askedAt: number): Promise<RulesInForce> {
    const last = this.#last.get(rules.family);
    if (last !== undefined && last.began > askedAt) return last.found;
    const began = performance.now();
    const found = this.#kernel.compareRules(rules);
    this.#last.set(rules.family, { began, found });
    return found;
  }
}
