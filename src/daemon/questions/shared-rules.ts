import type { IpFamily } from '../../base/ip.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';
import type { RulesInForce } from '../../state/rules/rules-in-force.ts';

/**
 * Returns a function that compares iptables rules for a question that arrived at `askedAt` (performance.now()). Each
 * comparison starts a program, so questions that wait at the same time share one. No question gets a comparison that
 * began before it was asked.
 */
export function sharedRules(
  kernel: Pick<KernelReader, 'compareRules'>,
): (rules: RuleSet, askedAt: number) => Promise<RulesInForce> {
  const lasts = new Map<IpFamily, { readonly began: number; readonly found: Promise<RulesInForce> }>();
  return (rules, askedAt) => {
    const last = lasts.get(rules.family);
    if (last !== undefined && last.began > askedAt) return last.found;
    const began = performance.now();
    const found = kernel.compareRules(rules);
    lasts.set(rules.family, { began, found });
    return found;
  };
}
