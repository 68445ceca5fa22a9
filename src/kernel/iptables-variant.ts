import path from 'node:path';
import { IP_FAMILIES, type IpFamily } from '../net/ip.ts';
import type { CommandResult, CommandRunner } from './command-runner.ts';
import { type IptablesFacts, NO_IPTABLES_FACTS } from './iptables-facts.ts';
import { type SavedTables, parseSave } from './iptables-script.ts';
import { KernelError } from './kernel-error.ts';

/** The two backends of iptables have rules of their own, which all apply; "system" is whatever plain `iptables` is. */
export type IptablesVariant = 'legacy' | 'nft' | 'system';

/** Chains that a kubelet makes in table mangle of the variant it uses, for others to find. */
const HINTS = ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'];

export function programName(variant: IptablesVariant, family: IpFamily, verb: 'save' | 'restore'): string {
  const base = family === 4 ? 'iptables' : 'ip6tables';
  return variant === 'system' ? `${base}-${verb}` : `${base}-${variant}-${verb}`;
}

/** What a program that failed says. */
export function iptablesFailure(program: string, { status, stderr }: CommandResult): KernelError {
  const words = stderr.trim();
  const code = /permission denied|must be root/i.test(words) ? 'EPERM' : 'IPTABLES';
  const hint = code === 'EPERM' ? ' (needs root or CAP_NET_ADMIN)' : '';
  return new KernelError('iptables', code, `${program} failed with status ${status}${hint}: ${words}`);
}

/** Where rules are written. */
const TABLES = ['mangle', 'nat', 'filter'];

/** The variant that a node uses, and what was seen in force in it. */
export interface Detection {
  readonly variant: IptablesVariant;
  /** Without the families that could not be read, and without any where it is not known which variant "system" is. */
  readonly saved: ReadonlyMap<IpFamily, SavedTables>;
  /** The families of which it is known by now that the kernel has what rules are written to. */
  readonly usable: ReadonlySet<IpFamily>;
}

/**
 * Which variant this node uses: the only one that is installed and that the kernel has, else the one with a kubelet's hint chain, else
 * the one with more rules, else (none has any) what plain `iptables` is.
 */
export async function detectVariant(
  runner: CommandRunner,
  facts: IptablesFacts = NO_IPTABLES_FACTS,
): Promise<Detection> {
  const [nft, legacy] = await Promise.all([weigh(runner, facts, 'nft'), weigh(runner, facts, 'legacy')]);
  if (nft === undefined || legacy === undefined) {
    return nft ?? legacy ?? { variant: 'system', saved: new Map(), usable: new Set() };
  }
  if (nft.hinted !== legacy.hinted) return nft.hinted ? nft : legacy;
  if (nft.rules !== legacy.rules) return nft.rules > legacy.rules ? nft : legacy;
  // Without a rule in either there is nothing to be known of plain iptables but that, and what it is a link to.
  const empty = nft.rules === 0 ? [...nft.saved.keys()] : [];
  const plainNft = path.basename(facts.program(programName('system', 4, 'restore')) ?? '').startsWith('xtables-nft');
  return {
    variant: 'system',
    saved: new Map(empty.map((family) => [family, new Map()])),
    usable: plainNft ? nft.usable : new Set(),
  };
}

interface Weight extends Detection {
  readonly rules: number;
  readonly hinted: boolean;
}

/** undefined when the variant is not installed, or this kernel does not have it. */
async function weigh(
  runner: CommandRunner,
  facts: IptablesFacts,
  variant: 'legacy' | 'nft',
): Promise<Weight | undefined> {
  const read = async (family: IpFamily) => {
    const program = programName(variant, family, 'save');
    const isEmpty = facts.program(program) !== undefined && (await facts.hasTables(variant, family)) === false;
    return [family, isEmpty ? new Map<string, never>() : await savedBy(runner, program)] as const;
  };
  const saved = new Map<IpFamily, SavedTables>();
  const usable = new Set<IpFamily>();
  let rules = 0;
  let hinted = false;
  for (const [family, tables] of await Promise.all(IP_FAMILIES.map(read))) {
    if (tables === undefined) continue;
    saved.set(family, tables);
    // nf_tables answers as a whole, and makes tables with the first rule; ip_tables has a module for each.
    if (variant === 'nft' || TABLES.every((table) => tables.has(table))) usable.add(family);
    for (const chains of tables.values()) for (const chain of chains.values()) rules += chain.length;
    hinted ||= HINTS.some((hint) => tables.get('mangle')?.has(hint) === true);
  }
  return saved.size === 0 ? undefined : { variant, saved, usable, rules, hinted };
}

/** What iptables-restore --test is given to find out whether all tables are there. */
export const PROBE_SCRIPT = TABLES.map((table) => `*${table}\nCOMMIT\n`).join('');

async function savedBy(runner: CommandRunner, program: string): Promise<SavedTables | undefined> {
  try {
    const { status, stdout } = await runner.run(program, []);
    return status === 0 ? parseSave(stdout) : undefined;
  } catch (error) {
    if (error instanceof KernelError && error.code === 'MISSING_COMMAND') return undefined;
    throw error;
  }
}

/** The one that plain `iptables` is not, where it is installed. */
export async function otherVariant(runner: CommandRunner, family: IpFamily): Promise<'legacy' | 'nft' | undefined> {
  const { stdout } = await runner.run(programName('system', family, 'save'), ['--version']);
  const other = stdout.includes('nf_tables') ? 'legacy' : 'nft';
  return (await savedBy(runner, programName(other, family, 'save'))) === undefined ? undefined : other;
}

/** What is in force in each variant; of plain iptables-save where neither is installed under its own name. */
export async function savedByVariant(
  runner: CommandRunner,
  family: IpFamily,
): Promise<readonly (readonly [IptablesVariant, SavedTables])[]> {
  const saved: [IptablesVariant, SavedTables][] = [];
  for (const variant of ['nft', 'legacy'] as const) {
    const tables = await savedBy(runner, programName(variant, family, 'save'));
    if (tables !== undefined) saved.push([variant, tables]);
  }
  if (saved.length > 0) return saved;
  const program = programName('system', family, 'save');
  const result = await runner.run(program, []);
  if (result.status !== 0) throw iptablesFailure(program, result);
  return [['system', parseSave(result.stdout)]];
}
