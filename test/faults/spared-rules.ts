import { Turns } from '../../src/base/turns.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import type { RuleSet } from '../../src/state/rules/rule-set.ts';
import type { RulesWritten } from '../../src/state/rules/rules-in-force.ts';

/**
 * A kernel that does not read rules again if nothing can have changed them since the last check:
 * otherwise a history would spend most of its time in iptables-save. The bed reports touched rules, or disables this.
 */
export class SparedRules {
  readonly kernel: Kernel;
  sparing = true;
  #generation = 0;
  /** Runs calls one at a time: the known rules are valid only while no program writes rules. */
  readonly #turns = new Turns();
  readonly #inForce = new Map<RuleSet['family'], { readonly rules: string; readonly generation: number }>();

  constructor(kernel: Kernel) {
    this.kernel = new Proxy(kernel, {
      get: (target, name) => {
        if (name === 'ensureRules')
          return async (rules: RuleSet) => await this.#turns.run(() => this.#ensure(target, rules));
        if (name === 'addRules' || name === 'removeRules') this.touched();
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
  }

  touched(): void {
    this.#generation += 1;
  }

  async #ensure(kernel: Kernel, rules: RuleSet): Promise<RulesWritten> {
    const now = { rules: JSON.stringify(rules), generation: this.#generation };
    const known = this.#inForce.get(rules.family);
    const same = known?.rules === now.rules && known.generation === now.generation;
    if (same && this.sparing) return { changed: false, chains: [] };
    this.#inForce.delete(rules.family);
    const result = await kernel.ensureRules(rules);
    this.#inForce.set(rules.family, now);
    return result;
  }
}
