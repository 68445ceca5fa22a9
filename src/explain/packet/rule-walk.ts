import type { RuleChain, RuleJump, RuleSet, RuleTable } from '../../state/rules/rule-set.ts';
import type { Packet } from './packet.ts';
import { type RuleMatch, matchRule } from './rule-match.ts';
import type { SetMatch } from './set-match.ts';

/** A rule that a packet matched on its way. */
export interface MatchedRule {
  readonly table: RuleTable;
  readonly hook: Hook;
  readonly chain: string;
  /** Position in the chain, from 0. */
  readonly index: number;
  readonly rule: readonly string[];
  readonly entries: readonly string[];
}

export type Hook = 'PREROUTING' | 'INPUT' | 'FORWARD' | 'OUTPUT' | 'POSTROUTING';

/** What our rules decide in a hook; `none` leaves the packet to the rules of others and to the policy of the chain. */
export type Decision = 'ACCEPT' | 'DROP' | 'REJECT' | 'MASQUERADE' | 'none';

const DECISIONS: readonly Decision[] = ['ACCEPT', 'DROP', 'REJECT', 'MASQUERADE'];

export interface HookWalk {
  readonly matched: readonly MatchedRule[];
  readonly decision: Decision;
  /** The packet as it leaves the hook. */
  readonly packet: Packet;
}

/** Takes the packet through our chains of one hook. */
export function walkHook(rules: RuleSet, table: RuleTable, hook: Hook, packet: Packet, sets: SetMatch): HookWalk {
  return new Walk(rules, table, hook, packet, sets).run();
}

class Walk {
  readonly #rules: RuleSet;
  readonly #table: RuleTable;
  readonly #hook: Hook;
  readonly #sets: SetMatch;
  readonly #matched: MatchedRule[] = [];
  #packet: Packet;

  constructor(rules: RuleSet, table: RuleTable, hook: Hook, packet: Packet, sets: SetMatch) {
    this.#rules = rules;
    this.#table = table;
    this.#hook = hook;
    this.#sets = sets;
    this.#packet = packet;
  }

  run(): HookWalk {
    let decision: Decision = 'none';
    for (const { to } of this.#jumps()) {
      decision = this.#chain(to);
      if (decision !== 'none') break;
    }
    return { matched: this.#matched, decision, packet: this.#packet };
  }

  /** Each jump is inserted at the head, so the last one listed comes first; those of position `last` are appended. */
  #jumps(): readonly RuleJump[] {
    const ours = this.#rules.jumps.filter(({ table, from }) => table === this.#table && from === this.#hook);
    const isLast = ({ position }: RuleJump): boolean => position === 'last';
    return [...ours.filter((jump) => !isLast(jump)).toReversed(), ...ours.filter(isLast)];
  }

  #chain(name: string): Decision {
    for (const [index, rule] of this.#chainOf(name).rules.entries()) {
      const { inInterface = '' } = this.#packet;
      const match = matchRule(rule, { ...this.#packet, inInterface }, this.#sets);
      if (match === undefined) continue;
      const { entries, target } = match;
      this.#matched.push({ table: this.#table, hook: this.#hook, chain: name, index, rule, entries });
      const decision = this.#apply(match);
      if (decision !== 'none' || target === 'RETURN') return decision;
    }
    return 'none';
  }

  #apply({ target, options }: RuleMatch): Decision {
    const decision = DECISIONS.find((each) => each === target);
    if (decision !== undefined) return decision;
    if (target === 'RETURN') return 'none';
    if (target !== 'MARK') return this.#chain(target);
    const [option, value] = options;
    const { mark } = this.#packet;
    this.#packet = {
      ...this.#packet,
      mark: (option === '--or-mark' ? mark | Number(value) : mark ^ Number(value)) >>> 0,
    };
    return 'none';
  }

  #chainOf(name: string): RuleChain {
    const chain = this.#rules.chains.find((each) => each.table === this.#table && each.name === name);
    if (chain === undefined) throw new Error(`no chain ${name} of table ${this.#table} is planned`);
    return chain;
  }
}
