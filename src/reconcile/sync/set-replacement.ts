import { errorText } from '../../base/text/error-text.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Log } from '../../observe/log/log.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import type { PlanConfig } from '../../plan/plan-config.ts';
import { planRules } from '../../plan/ipvs/plan-rules.ts';
import { type IpSet, twinName } from '../../state/ip-set.ts';
import type { Op } from '../../state/op.ts';
import { type OpFailure, formatFailure } from '../../state/outcome.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';
import { Transaction } from '../../state/transaction.ts';
import { type WrongSet, creationOf } from '../compare/set-comparison.ts';
import { missingSets } from './missing-sets.ts';

interface Replacement {
  readonly replaced: readonly WrongSet[];
  readonly failures: readonly OpFailure[];
}

/**
 * Replaces sets of the wrong type without interrupting traffic. The kernel can neither swap sets of different types nor
 * destroy or rename a set that a rule refers to. So the rules are switched to a filled twin of the right type, the
 * wrong set is destroyed, created and filled, and the rules are switched back. iptables-restore replaces the rules of a
 * table atomically, so every packet is checked against a complete set.
 *
 * A set that rules of other programs refer to cannot be destroyed: our rules use it again, and a failure is returned.
 */
export async function replaceWrongSets(
  kernel: Kernel,
  config: PlanConfig,
  plan: Pick<NodePlan, 'entries' | 'roles'>,
  wrong: readonly WrongSet[],
  log: Log,
): Promise<readonly OpFailure[]> {
  const failures: OpFailure[] = [];
  for (const family of config.families) {
    const ofFamily = wrong.filter(({ wanted }) => wanted.family === family);
    if (ofFamily.length === 0) continue;
    const rules = planRules(config, family);
    const done = await replaceOfFamily(kernel, rules, plan, ofFamily).catch((error: unknown) =>
      notReplaced(ofFamily, error),
    );
    for (const failure of done.failures) failures.push(failure);
    for (const { wanted, found } of done.replaced) {
      log.warn(
        `replaced ipset ${wanted.name}, which had the wrong type: it was ${typeOf(found)} and is now ${typeOf(wanted)}; no traffic was interrupted`,
      );
    }
  }
  return failures;
}

/** Returns failures instead of throwing, so that the full check still repairs everything else. */
function notReplaced(wrong: readonly WrongSet[], error: unknown): Replacement {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'FAILED';
  const message = errorText(error);
  const failures = wrong.map((one): OpFailure => {
    const op: Op = { kind: 'create-set', set: one.wanted };
    return { op, errno: 0, code, text: remedy(one, { op, errno: 0, code, text: message }) };
  });
  return { replaced: [], failures };
}

async function replaceOfFamily(
  kernel: Kernel,
  rules: RuleSet,
  plan: Pick<NodePlan, 'entries' | 'roles'>,
  wrong: readonly WrongSet[],
): Promise<Replacement> {
  const destroyTwins = (sets: readonly WrongSet[]): Op[] =>
    sets.map(({ wanted }) => ({ kind: 'destroy-set', set: { ...wanted, name: twinName(wanted.name) } }));

  // A crash during an earlier replacement may have left the temporary sets (twins) behind.
  await kernel.apply(new Transaction(destroyTwins(wrong)));
  // The rules written below refer to every set, and another process may have deleted some.
  await kernel.apply(await missingSets(kernel, [rules.family], plan));
  const filled = await forEachSet(kernel, wrong, (one) => creationOf(one, plan, twinName(one.wanted.name)));
  await kernel.ensureRules(withTwins(rules, filled.done));
  const destroyed = await forEachSet(kernel, filled.done, ({ found }) => [{ kind: 'destroy-set', set: found }]);
  const made = await forEachSet(kernel, destroyed.done, (one) => creationOf(one, plan));
  // If a set could not be created again, the rules keep using its twin.
  const lost = destroyed.done.filter((one) => !made.done.includes(one));
  await kernel.ensureRules(withTwins(rules, lost));
  await kernel.apply(new Transaction(destroyTwins(wrong.filter((one) => !lost.includes(one)))));
  return { replaced: made.done, failures: [...filled.failures, ...destroyed.failures, ...made.failures] };
}

/** Applies operations for each set. `done` contains the sets without a failure. */
async function forEachSet(
  kernel: Kernel,
  sets: readonly WrongSet[],
  opsFor: (set: WrongSet) => readonly Op[],
): Promise<{ readonly done: readonly WrongSet[]; readonly failures: readonly OpFailure[] }> {
  const done: WrongSet[] = [];
  const failures: OpFailure[] = [];
  for (const one of sets) {
    const [failure] = (await kernel.apply(new Transaction(opsFor(one)))).failures;
    if (failure === undefined) done.push(one);
    else failures.push({ ...failure, op: { kind: 'create-set', set: one.wanted }, text: remedy(one, failure) });
  }
  return { done, failures };
}

function typeOf({ type, family }: IpSet): string {
  return `${type} (IPv${family})`;
}

function remedy({ wanted, found }: WrongSet, failure: OpFailure): string {
  return (
    `the set has type ${typeOf(found)} and could not be replaced (${formatFailure(failure)}). Until it is replaced, its ` +
    `entries are missing and load balancer IPs with source ranges may be withheld. If a rule of another program uses the set ` +
    `(iptables-save | grep ${wanted.name}), delete that rule: the set is then replaced within a sync period, without interrupting traffic`
  );
}

/** Returns the rules with the twins in place of these sets. */
function withTwins(rules: RuleSet, sets: readonly WrongSet[]): RuleSet {
  if (sets.length === 0) return rules;
  const twins = new Map(sets.map(({ wanted }) => [wanted.name, twinName(wanted.name)]));
  const pointed = (rule: readonly string[]): string[] =>
    rule.map((word, at) => (rule[at - 1] === '--match-set' ? (twins.get(word) ?? word) : word));
  return { ...rules, chains: rules.chains.map((chain) => ({ ...chain, rules: chain.rules.map(pointed) })) };
}
