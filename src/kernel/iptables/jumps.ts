import type { RuleJump } from '../../state/rules/rule-set.ts';
import { canonicalRule, quoteArgument, splitRule } from './iptables-rule.ts';
import type { SavedChains } from './iptables-save.ts';

/** A rule that leads to another chain. */
export interface FoundJump {
  readonly from: string;
  readonly to: string;
  readonly rule: string;
}

/** Returns the rules that lead to one of these chains, without those in chains that are passed over. */
export function jumpsTo(
  targets: ReadonlySet<string>,
  chains: SavedChains,
  isPassedOver: (chain: string) => boolean = (chain) => targets.has(chain),
): readonly FoundJump[] {
  const found: FoundJump[] = [];
  if (targets.size === 0) return found;
  for (const [from, rules] of chains) {
    if (isPassedOver(from)) continue;
    for (const rule of rules) {
      const to = targetOf(rule);
      if (targets.has(to)) found.push({ from, to, rule });
    }
  }
  return found;
}

function targetOf(rule: string): string {
  const words = splitRule(rule);
  const at = words.findIndex((word) => word === '-j' || word === '-g');
  return at < 0 ? '' : (words[at + 1] ?? '');
}

/**
 * `displaced`: all our jumps are present and in the right order, so they work. But one is duplicated, or rules of other
 * programs follow a jump with position `last`.
 */
export type JumpPlace = 'right' | 'displaced' | 'wrong';

/** Our jumps in a built-in chain. */
export interface JumpGroup {
  readonly from: string;
  readonly place: JumpPlace;
  readonly present: readonly FoundJump[];
  /** The lines that delete those present, and add all of them again. */
  readonly lines: readonly string[];
}

/**
 * Compares jumps of one table with what its built-in chains have. Jumps are recognized whatever their comments.
 *
 * @param targets the chains to which all jumps are ours; by default those to which the built-in chain must have a jump
 */
export function jumpGroups(
  jumps: readonly RuleJump[],
  chains: SavedChains | undefined,
  targets?: ReadonlySet<string>,
): readonly JumpGroup[] {
  const conditions = new Set(jumps.map(conditionOf));
  return Array.from(
    Map.groupBy(jumps, ({ from }) => from),
    ([from, wanted]) => {
      const rules = chains?.get(from) ?? [];
      const ours = targets ?? new Set(wanted.map(({ to }) => to));
      const present = rules.flatMap((rule, at): PresentJump[] => {
        const { to, condition } = simpleJump(rule) ?? { to: '', condition: '' };
        return ours.has(to) && conditions.has(condition) ? [{ from, to, condition, rule, at }] : [];
      });
      const lines = [...present.map(({ rule }) => `-D ${from} ${rule}`), ...wanted.map(jumpLine)];
      return { from, place: placeOf(wanted, present, rules.length), present, lines };
    },
  );
}

interface PresentJump extends FoundJump {
  readonly condition: string;
  /** Index in its chain. */
  readonly at: number;
}

const ONLY_NEW = '-m conntrack --ctstate NEW';

function conditionOf({ onlyNew }: RuleJump): string {
  return onlyNew === true ? ONLY_NEW : '';
}

/** Undefined if the rule does more than to lead to a chain, under one condition or none. */
function simpleJump(rule: string): { readonly to: string; readonly condition: string } | undefined {
  if (!rule.includes('-j ')) return undefined;
  const clauses = canonicalRule(splitRule(rule)).split(' | ');
  const [jump, condition = '', ...more] = clauses.filter((clause) => !clause.startsWith('-m comment '));
  return jump?.startsWith('-j ') === true && more.length === 0 ? { to: jump.slice(3), condition } : undefined;
}

function placeOf(group: readonly RuleJump[], present: readonly PresentJump[], rules: number): JumpPlace {
  const wanted = inChainOrder(group).map((jump) => ({ to: jump.to, condition: conditionOf(jump) }));
  const isSame = (a: Pick<PresentJump, 'to' | 'condition'>, b: Pick<PresentJump, 'to' | 'condition'> | undefined) =>
    a.to === b?.to && a.condition === b.condition;
  const firsts = present.filter((jump, index) => present.findIndex((other) => isSame(jump, other)) === index);
  if (firsts.length !== wanted.length || !wanted.every((jump, index) => isSame(jump, firsts[index]))) return 'wrong';
  const last = group.filter(({ position }) => position === 'last').length;
  const behindAll = present.slice(-last).every(({ at }, index) => at === rules - last + index);
  return present.length === wanted.length && (last === 0 || behindAll) ? 'right' : 'displaced';
}

// Each jump is inserted at the head in turn, so the last of the list is first in the chain. `last` jumps are appended.
function inChainOrder(group: readonly RuleJump[]): RuleJump[] {
  const first = group.filter(({ position }) => position !== 'last');
  return [...first.toReversed(), ...group.filter(({ position }) => position === 'last')];
}

function jumpLine(jump: RuleJump): string {
  const { from, to, comment, position } = jump;
  const matches = [conditionOf(jump), `-m comment --comment ${quoteArgument(comment)}`].filter(Boolean).join(' ');
  return `${position === 'last' ? '-A' : '-I'} ${from} ${matches} -j ${to}`;
}
