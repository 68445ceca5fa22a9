import type { IpFamily } from '../../base/ip.ts';
import type { KnownDifference } from '../../state/rules/known-difference.ts';
import type { RuleChain, RuleDifference, RuleSet } from '../../state/rules/rule-set.ts';
import { canonicalRule, splitRule } from './iptables-rule.ts';
import type { SavedTables } from './iptables-save.ts';
import { type ScriptLine, scriptLines } from './iptables-script.ts';

/** Chains that kube-proxy does not have, or only in newer releases. */
const ADDITIONAL: ReadonlySet<string> = new Set([
  'mangle KUBE-PROXY-FIREWALL',
  'mangle KUBE-SOURCE-RANGES-FIREWALL',
  'filter KUBE-IPVS-ACCEPT',
  'filter KUBE-IPVS-FILTER',
  'filter KUBE-IPVS-OUT-FILTER',
  'filter KUBE-NODE-PORT',
  'filter KUBE-PROXY-FIREWALL',
  'filter KUBE-SOURCE-RANGES-FIREWALL',
]);

/** Chains that kube-proxy leaves empty while the sets that they use have no entries. */
const SOMETIMES_EMPTY: ReadonlySet<string> = new Set(['nat KUBE-NODE-PORT', 'filter KUBE-PROXY-FIREWALL']);

/** Rules of kube-proxy, without comments, that do not consist of parts of our rules in the same chain. */
const ITS_OWN: Readonly<Record<string, RegExp>> = {
  // Without --random-fully.
  'nat KUBE-POSTROUTING': /^-j MASQUERADE( \| -m set --match-set KUBE-(6-)?LOOP-BACK dst,dst,src)?$/,
  // Releases up to 1.25.
  'nat KUBE-LOAD-BALANCER': /^-j KUBE-FIREWALL \| -m set --match-set KUBE-(6-)?LOAD-BALANCER-FW dst,dst$/,
  'filter KUBE-IPVS-OUT-FILTER': /^-j DROP \| -m ipvs .*--vaddr .*\| -s \S+$/,
};

/**
 * Returns the commands of a repair script, and which of them kube-proxy explains. It does not explain rules of other
 * programs in our chains, which the script removes: each of them is a difference of its own.
 */
export function ruleDifferences(rules: RuleSet, saved: SavedTables, script: string): RuleDifference[] {
  const chains = new Map(rules.chains.map((chain) => [`${chain.table} ${chain.name}`, chain]));
  const changed = new Set<string>();
  const differences = scriptLines(script).map((line): RuleDifference => {
    const command = lineCommand(rules.family, line, saved);
    const chain = chains.get(`${line.table} ${line.chain}`);
    if (chain !== undefined) changed.add(`${line.table} ${chain.name}`);
    const known = chain === undefined ? knownJump(saved, line) : knownChain(chain, saved);
    return known === undefined ? { command } : { command, known };
  });
  return [...foreignRules(rules, saved, changed), ...differences];
}

/** Returns the command of iptables that does what a line of a script does. A declared chain is created, or emptied. */
export function lineCommand(family: IpFamily, { table, chain, line }: ScriptLine, saved: SavedTables): string {
  const verb = saved.get(table)?.has(chain) === true ? '-F' : '-N';
  return command(family, table, line.startsWith(':') ? `${verb} ${chain}` : line);
}

function command(family: IpFamily, table: string, words: string): string {
  return `${family === 4 ? 'iptables' : 'ip6tables'} -t ${table} ${words}`;
}

function knownChain({ table, name, rules }: RuleChain, saved: SavedTables): KnownDifference | undefined {
  const label = `${table} ${name}`;
  const found = saved.get(table)?.get(name);
  if (found === undefined) return ADDITIONAL.has(label) ? 'additional-rules' : undefined;
  const mayBeEmpty = SOMETIMES_EMPTY.has(label) || rules.length === 0;
  return found.length > 0 || mayBeEmpty ? 'rule-text' : undefined;
}

/** Jumps are written again as a group, so one that exists is known too. */
function knownJump(saved: SavedTables, { table, chain, line }: ScriptLine): KnownDifference | undefined {
  const to = / -j (\S+)$/.exec(line)?.[1] ?? '';
  const exists = (saved.get(table)?.get(chain) ?? []).some((rule) => rule.endsWith(`-j ${to}`));
  return exists || ADDITIONAL.has(`${table} ${to}`) ? 'additional-rules' : undefined;
}

/** Returns the deletion of each rule in the changed chains that neither we nor kube-proxy write. */
function foreignRules(rules: RuleSet, saved: SavedTables, changed: ReadonlySet<string>): RuleDifference[] {
  return rules.chains
    .filter(({ table, name }) => changed.has(`${table} ${name}`))
    .flatMap((chain) => {
      const isExplained = explains(chain);
      const foreign = (saved.get(chain.table)?.get(chain.name) ?? []).filter((rule) => !isExplained(rule));
      return foreign.map((rule) => ({ command: command(rules.family, chain.table, `-D ${chain.name} ${rule}`) }));
    });
}

/** kube-proxy's rules consist of the same matches and targets as ours, in other combinations. */
function explains({ table, name, rules }: RuleChain): (rule: string) => boolean {
  const ours = rules.map((rule) => withoutComment(rule).join(' | '));
  const parts = new Set(rules.flatMap(withoutComment));
  const itsOwn = ITS_OWN[`${table} ${name}`];
  return (rule) => {
    const clauses = withoutComment(splitRule(rule));
    const text = clauses.join(' | ');
    if (ours.includes(text) || itsOwn?.test(text) === true) return true;
    return clauses.length > 1 && clauses.every((clause) => parts.has(clause));
  };
}

function withoutComment(rule: readonly string[]): string[] {
  return canonicalRule(rule)
    .split(' | ')
    .filter((clause) => !clause.startsWith('-m comment'));
}
