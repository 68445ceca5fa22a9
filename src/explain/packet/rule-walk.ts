import type { RuleChain, RuleJump, RuleSet, RuleTable } from '../../state/rules/rule-set.ts';
import type { Packet } from './packet.ts';
import { type RuleMatch, matchRule } from './rule-match.ts';
import type { SetMatch } from './set-match.ts';

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
  const matched: MatchedRule[] = [];
  let seen = packet;
  const walkChain = (chain: string): Decision => {
    for (const [index, rule] of rulesOf(rules, table, chain).entries()) {
      const { inInterface = '' } = seen;
      const match = matchRule(rule, { ...seen, inInterface }, sets);
      if (match === undefined) continue;
      matched.push({ table, hook, chain, index, rule, entries: match.entries });
      const decision = apply(match);
      if (decision !== 'none' || match.target === 'RETURN') return decision;
    }
    return 'none';
  };
  const apply = ({ target, options: [option, value] }: RuleMatch): Decision => {
    const decision = DECISIONS.find((each) => each === target);
    if (decision !== undefined) return decision;
    if (target === 'RETURN') return 'none';
    if (target !== 'MARK') return walkChain(target);
    const { mark } = seen;
    seen = { ...seen, mark: (option === '--or-mark' ? mark | Number(value) : mark ^ Number(value)) >>> 0 };
    return 'none';
  };
  let decision: Decision = 'none';
  for (const { to } of jumpsFrom(rules, table, hook)) {
    decision = walkChain(to);
    if (decision !== 'none') break;
  }
  return { matched, decision, packet: seen };
}

/** Each jump is inserted at the head, so the last one listed comes first; those of position `last` are appended. */
function jumpsFrom({ jumps }: RuleSet, table: RuleTable, hook: Hook): readonly RuleJump[] {
  const ours = jumps.filter((jump) => jump.table === table && jump.from === hook);
  const isLast = ({ position }: RuleJump): boolean => position === 'last';
  return [...ours.filter((jump) => !isLast(jump)).toReversed(), ...ours.filter(isLast)];
}

function rulesOf({ chains }: RuleSet, table: RuleTable, name: string): RuleChain['rules'] {
  const chain = chains.find((each) => each.table === table && each.name === name);
  if (chain === undefined) throw new Error(`no chain ${name} of table ${table} is planned`);
  return chain.rules;
}
