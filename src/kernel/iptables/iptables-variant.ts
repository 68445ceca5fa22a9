import path from 'node:path';
import { IP_FAMILIES, type IpFamily } from '../../base/ip.ts';
import type { CommandRunner } from '../command-runner.ts';
import { type IptablesFacts, NO_IPTABLES_FACTS } from './iptables-facts.ts';
import { iptablesFailure, isMomentary } from './iptables-failure.ts';
import { type SavedTables, parseSave, unprintedTables } from './iptables-save.ts';
import { KernelError } from '../kernel-error.ts';

/** Legacy and nft iptables keep separate rules, and the kernel applies both; "system" is plain `iptables`. */
export type IptablesVariant = NamedVariant | 'system';

/** A variant whose programs have its name: iptables-nft-save, iptables-legacy-save. */
export type NamedVariant = 'legacy' | 'nft';

/** Chains that the kubelet creates in table mangle. They show which variant is in use. */
const HINTS = ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'];

export function programName(variant: IptablesVariant, family: IpFamily, verb?: 'save' | 'restore'): string {
  const words = [family === 4 ? 'iptables' : 'ip6tables'];
  if (variant !== 'system') words.push(variant);
  if (verb !== undefined) words.push(verb);
  return words.join('-');
}

/**
 * Milliseconds after which iptables-save is ended. How many rules there are is not known before: for a million, the nft variant
 * takes about 40 s of CPU time, which a busy node may stretch.
 */
const SAVE_DEADLINE_MS = 600_000;

/** The tables that must exist; table mangle is optional. */
const TABLES = ['nat', 'filter'] as const;

/** The variant that a node uses, and the rules found in it. */
export interface Detection {
  readonly variant: IptablesVariant;
  /** By family, without families that could not be read. */
  readonly saved: ReadonlyMap<IpFamily, SavedTables>;
  /** Families for which the kernel has the required tables. */
  readonly usable: ReadonlySet<IpFamily>;
}

/**
 * Detects the variant that this node uses: the only one that is installed and that the kernel supports, else the one
 * with a kubelet's hint chain, else the one with more rules, else plain `iptables`.
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
  // The rules do not show the variant; the link target of plain `iptables` does.
  const empty = nft.rules === 0 ? [...nft.saved.keys()] : [];
  return {
    variant: 'system',
    saved: new Map(empty.map((family) => [family, new Map()])),
    usable: plainVariant(facts) === 'nft' ? nft.usable : new Set(),
  };
}

/** Returns which variant plain `iptables` is; undefined if that is not known. */
export function plainVariant(facts: IptablesFacts): NamedVariant | undefined {
  const program = path.basename(facts.program(programName('system', 4, 'restore')) ?? '');
  return program.startsWith('xtables-nft') ? 'nft' : program.startsWith('xtables-legacy') ? 'legacy' : undefined;
}

interface Weight extends Detection {
  readonly rules: number;
  readonly hinted: boolean;
}

/** Reads a variant's rules and hints. Returns undefined if it is not installed or the kernel does not support it. */
async function weigh(runner: CommandRunner, facts: IptablesFacts, variant: NamedVariant): Promise<Weight | undefined> {
  const read = async (family: IpFamily) => {
    const program = programName(variant, family, 'save');
    const isEmpty = facts.program(program) !== undefined && (await facts.hasTables(variant, family)) === false;
    return [family, isEmpty ? EMPTY : await savedBy(runner, program)] as const;
  };
  let installed = false;
  const saved = new Map<IpFamily, SavedTables>();
  const usable = new Set<IpFamily>();
  let rules = 0;
  let hinted = false;
  for (const [family, found] of await Promise.all(IP_FAMILIES.map(read))) {
    if (found === undefined) continue;
    installed = true;
    const { tables, unprinted } = found;
    // Rules that are not known completely must be read again before anything is written.
    if (unprinted.length === 0) saved.set(family, tables);
    // nf_tables creates a table with its first rule. With ip_tables, each table needs a kernel module.
    if (variant === 'nft' || TABLES.every((table) => tables.has(table))) usable.add(family);
    for (const chains of tables.values()) for (const chain of chains.values()) rules += chain.length;
    hinted ||= HINTS.some((hint) => tables.get('mangle')?.has(hint) === true);
  }
  return installed ? { variant, saved, usable, rules, hinted } : undefined;
}

/** Input of iptables-restore --test that fails if one of these tables is missing. */
export const PROBE_SCRIPT = TABLES.map((table) => `*${table}\nCOMMIT\n`).join('');

/** The output of iptables-save. */
interface Saved {
  readonly tables: SavedTables;
  readonly unprinted: readonly string[];
}

const EMPTY: Saved = { tables: new Map(), unprinted: [] };

/** Returns undefined if the program is missing or the kernel does not support it. Rejects on temporary failures. */
async function savedBy(runner: CommandRunner, program: string): Promise<Saved | undefined> {
  try {
    const result = await runner.run(program, [], { deadlineMs: SAVE_DEADLINE_MS });
    if (result.status === 0) return { tables: parseSave(result.stdout), unprinted: unprintedTables(result.stdout) };
    // If a killed program counted as unsupported, all rules would go to the other variant until the next start.
    if (isMomentary(result)) throw iptablesFailure(program, result);
    return undefined;
  } catch (error) {
    if (error instanceof KernelError && error.code === 'MISSING_COMMAND') return undefined;
    throw error;
  }
}

/** Returns the variant that plain `iptables` does not use, if it is installed. */
export async function otherVariant(runner: CommandRunner, family: IpFamily): Promise<NamedVariant | undefined> {
  const { status, stdout } = await runner.run(programName('system', family, 'save'), ['--version']);
  if (status !== 0) return undefined;
  const other = stdout.includes('nf_tables') ? 'legacy' : 'nft';
  return (await savedBy(runner, programName(other, family, 'save'))) === undefined ? undefined : other;
}

/** Is told of tables that a program cannot print. */
export type OnUnprinted = (program: string, tables: readonly string[]) => void;

/**
 * Returns the rules of each variant, or those of plain iptables-save if neither is installed under its own name. `onUnprinted`
 * is told of tables that cannot be printed.
 */
export async function savedByVariant(
  runner: CommandRunner,
  family: IpFamily,
  onUnprinted: OnUnprinted = () => undefined,
): Promise<readonly (readonly [IptablesVariant, SavedTables])[]> {
  const saved = await savedOf(runner, family, ['nft', 'legacy'], onUnprinted);
  return saved.length > 0 ? saved : [['system', await savedRules(runner, 'system', family)]];
}

/** Returns the rules of those of these variants that are installed and that the kernel supports. */
export async function savedOf(
  runner: CommandRunner,
  family: IpFamily,
  variants: readonly NamedVariant[],
  onUnprinted: OnUnprinted = () => undefined,
): Promise<readonly (readonly [IptablesVariant, SavedTables])[]> {
  const saved: [IptablesVariant, SavedTables][] = [];
  for (const variant of variants) {
    const program = programName(variant, family, 'save');
    const found = await savedBy(runner, program);
    if (found === undefined) continue;
    saved.push([variant, found.tables]);
    if (found.unprinted.length > 0) onUnprinted(program, found.unprinted);
  }
  return saved;
}

/** Returns the rules. Rejects if the program fails, or cannot print one of these tables. */
export async function savedRules(
  runner: CommandRunner,
  variant: IptablesVariant,
  family: IpFamily,
  tables: readonly string[] = TABLES,
): Promise<SavedTables> {
  return parseSave(await saveOutput(runner, variant, family, [], tables));
}

/** Returns what iptables-save prints. Rejects if the program fails, or cannot print one of these tables. */
export async function saveOutput(
  runner: CommandRunner,
  variant: IptablesVariant,
  family: IpFamily,
  options: readonly string[],
  tables: readonly string[] = TABLES,
): Promise<string> {
  const program = programName(variant, family, 'save');
  const result = await runner.run(program, options, { deadlineMs: SAVE_DEADLINE_MS });
  if (result.status !== 0) throw iptablesFailure(program, result);
  const unprinted = unprintedTables(result.stdout).filter((table) => tables.includes(table));
  if (unprinted.length > 0) throw unprintedFailure(program, family, unprinted);
  return result.stdout;
}

/** The error of tables that would look empty, so that all their rules would be written again on top of those in force. */
export function unprintedFailure(program: string, family: IpFamily, tables: readonly string[]): KernelError {
  const nft = family === 4 ? 'ip' : 'ip6';
  return new KernelError(
    'iptables',
    'UNREADABLE',
    `${program} cannot print table ${tables.join(' and table ')}, because a program added a rule there that only nft can print. ` +
      `The rules there stay as they are. Find the rule with \`nft list table ${nft} ${tables[0] ?? ''}\`, and move it to a table of its own`,
  );
}
