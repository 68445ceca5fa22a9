import type { RuleTable } from '../../state/rules/rule-set.ts';

/** A chain and its rules in the words of iptables-save, without "-A CHAIN". */
export interface ChainText {
  readonly name: string;
  readonly rules: readonly string[];
}

/** Returns the part of the input of iptables-restore --noflush that changes one table, which is a transaction; "" without lines. */
export function tableScript(table: string, lines: readonly string[]): string {
  return lines.length === 0 ? '' : `*${table}\n${lines.join('\n')}\nCOMMIT\n`;
}

/** Returns the line that creates a chain, or empties it. */
export function declaration(name: string): string {
  return `:${name} - [0:0]`;
}

/**
 * Returns the lines that write whole chains. All are declared before a rule refers to one, and in order: with thousands of chains,
 * iptables-nft-restore otherwise takes several times as long.
 */
export function chainLines(chains: readonly ChainText[]): readonly string[] {
  return [
    ...chains.map(({ name }) => declaration(name)).sort(),
    ...chains.flatMap(({ name, rules }) => rules.map((rule) => `-A ${name} ${rule}`)),
  ];
}

/** Returns the lines that empty chains, so that none refers to another, and delete those that no other rule refers to. */
export function deletionLines(
  names: readonly string[],
  isReferred: (name: string) => boolean,
  jumps: readonly { readonly from: string; readonly rule: string }[] = [],
): readonly string[] {
  return [
    ...names.map(declaration),
    ...jumps.map(({ from, rule }) => `-D ${from} ${rule}`),
    ...names.filter((name) => !isReferred(name)).map((name) => `-X ${name}`),
  ];
}

/** A line of a script that declares a chain, or changes its rules. */
export interface ScriptLine {
  readonly table: RuleTable;
  readonly chain: string;
  readonly line: string;
}

export function scriptLines(script: string): readonly ScriptLine[] {
  let table: RuleTable = 'filter';
  return script.split('\n').flatMap((line) => {
    if (line.startsWith('*')) table = line.slice(1) as RuleTable;
    const [, chain] = /^(?::|-\w )(\S+)/.exec(line) ?? [];
    return chain === undefined ? [] : [{ table, chain, line }];
  });
}

/** Returns the chains that a script changes, each with its table. */
export function scriptChains(script: string): readonly string[] {
  return [...new Set(scriptLines(script).map(({ table, chain }) => `${table} ${chain}`))];
}
