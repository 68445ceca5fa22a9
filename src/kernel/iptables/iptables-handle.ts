import { firstFew } from '../../base/text/first-few.ts';
import type { IpFamily } from '../../base/ip.ts';
import { Turns } from '../../base/turns.ts';
import type { Log } from '../../observe/log/log.ts';
import { RULE_TABLES, type RuleSet, type RuleTable, withoutTables } from '../../state/rules/rule-set.ts';
import type { RulesInForce, RulesWritten } from '../../state/rules/rules-in-force.ts';
import type { CommandRunner } from '../command-runner.ts';
import { ConfirmedRules, type RulesVersion } from './confirmed-rules.ts';
import { isPermanent } from './iptables-failure.ts';
import { type IptablesFacts, NO_IPTABLES_FACTS, processIptablesFacts } from './iptables-facts.ts';
import { IptablesPrograms } from './iptables-programs.ts';
import { type SavedTables, parseCounters, parseSave } from './iptables-save.ts';
import { scriptChains } from './iptables-script.ts';
import {
  type IptablesVariant,
  type NamedVariant,
  detectVariant,
  otherVariant,
  plainVariant,
  programName,
  saveOutput,
  savedByVariant,
  savedRules,
  unprintedFailure,
} from './iptables-variant.ts';
import { JumpContest } from './jump-contest.ts';
import { KernelError } from '../kernel-error.ts';
import type { NodeKernel, NodeKernelOptions } from '../linux/node-kernel.ts';
import { ruleDifferences } from './rule-differences.ts';
import { displacedJumps, overwrites, removeScript, repairScript, rulePackets } from './rule-set-script.ts';
import { type Spellings, learnSpellings } from './same-rules.ts';

/** Maximum age of rules read during detection. */
const SEEN_MS = 60_000;

type WrittenChains = RulesWritten['chains'];

/** Maintains whole chains and the jumps to them, using iptables-save and iptables-restore. */
export class Iptables {
  readonly #runner: CommandRunner;
  readonly #programs: IptablesPrograms;
  readonly #facts: IptablesFacts;
  readonly #log: Log;
  readonly #onWrite: () => void;
  readonly #onRestoreFailure: (family: IpFamily) => void;
  readonly #spellings: Spellings = new Map();
  readonly #contest: JumpContest;
  readonly #confirmed: ConfirmedRules;
  /** Rules read during variant detection, until a check uses them. */
  readonly #seen = new Map<IpFamily, SavedTables>();
  readonly #written = new Set<IpFamily>();
  /** Optional tables that the kernel has refused. */
  readonly #missingTables = new Map<IpFamily, ReadonlySet<RuleTable>>();
  /** Families that detection found usable; probe() skips them. */
  #usable: ReadonlySet<IpFamily> = new Set();
  /** Serializes the operations on a family: rules must not change between the read and the write of an operation. */
  readonly #turns: Readonly<Record<IpFamily, Turns>> = { 4: new Turns(), 6: new Turns() };
  #seenAt = 0;
  #variant: Promise<IptablesVariant> | undefined;

  constructor(
    runner: CommandRunner,
    log: Log,
    onWrite: () => void,
    onRestoreFailure: (family: IpFamily) => void = () => undefined,
    facts: IptablesFacts = NO_IPTABLES_FACTS,
    now?: () => number,
  ) {
    this.#runner = runner;
    this.#programs = new IptablesPrograms(runner, log);
    this.#log = log;
    this.#onWrite = onWrite;
    this.#onRestoreFailure = onRestoreFailure;
    this.#facts = facts;
    this.#contest = new JumpContest(log, now);
    this.#confirmed = new ConfirmedRules(now);
  }

  /** Detects the variant once; a failed detection is retried at the next call. */
  async variant(): Promise<IptablesVariant> {
    if (this.#variant === undefined) {
      this.#variant = this.#detect();
      this.#variant.catch(() => {
        this.#variant = undefined;
      });
    }
    return await this.#variant;
  }

  /** Returns the variant in use. Rejects if the program or a required table is missing. Changes nothing. */
  async probe(family: IpFamily): Promise<IptablesVariant> {
    const variant = await this.variant();
    if (!this.#usable.has(family)) await this.#programs.test(variant, family);
    return variant;
  }

  /** Returns the variant in use. Rejects if the rules of the family cannot be read. */
  async find(family: IpFamily): Promise<IptablesVariant> {
    const variant = await this.variant();
    await savedRules(this.#runner, variant, family);
    return variant;
  }

  /** Rejects if nothing can be written, or not this script. Changes nothing. Returns what the program says on stderr. */
  async test(family: IpFamily, script?: string): Promise<string> {
    return await this.#programs.test(await this.variant(), family, script);
  }

  /** Returns what iptables-save prints. What detection has read may be old, and is not needed any more. */
  async read(family: IpFamily): Promise<string> {
    const variant = await this.variant();
    this.#seen.clear();
    return await saveOutput(this.#runner, variant, family, []);
  }

  /** Returns a number that changes with every change of the rules; undefined if the variant has none. Runs no program. */
  async generation(): Promise<number | undefined> {
    return (await this.#named()) === 'nft' ? await this.#facts.generation() : undefined;
  }

  async #named(): Promise<NamedVariant | undefined> {
    const variant = await this.variant();
    return variant === 'system' ? plainVariant(this.#facts) : variant;
  }

  /** Returns what differs after every change of the tables of these rules; undefined if it is unknown. Runs no program. */
  async #version(rules: RuleSet): Promise<RulesVersion | undefined> {
    if ((await this.#named()) !== 'legacy') return await this.generation();
    const missing = this.#missingTables.get(rules.family);
    const tables = tablesOf(rules).filter((table) => missing?.has(table) !== true);
    return this.#facts.legacyDigest(rules.family, tables);
  }

  /** Runs iptables-restore --noflush. */
  async write(family: IpFamily, script: string): Promise<void> {
    await this.#restoreByEither(family, script);
  }

  /** Reads the rules only if something may have changed since they were found in force. */
  async ensure(rules: RuleSet): Promise<RulesWritten> {
    const brought = await this.#turns[rules.family].run(async () => {
      const version = await this.#version(rules);
      if (this.#confirmed.stillHold(rules, version)) return 'in force';
      const found = await this.#bring(rules, () => true);
      if (found === 'in force') this.#confirmed.note(rules, version);
      return found;
    });
    return typeof brought === 'string' ? { changed: false, chains: [] } : { changed: true, chains: brought };
  }

  /** Like ensure, but writes nothing and returns false if a chain would lose rules. */
  async add(rules: RuleSet): Promise<boolean> {
    const allowed = (saved: SavedTables): boolean => !overwrites(rules, saved, this.#spellings);
    return await this.#turns[rules.family].run(async () => (await this.#bring(rules, allowed)) !== 'not allowed');
  }

  /** Compares the rules in force with these. Displaced jumps work, so they do not count as a difference. */
  async compare(rules: RuleSet): Promise<RulesInForce> {
    return await this.#turns[rules.family].run(async () => {
      const text = await saveOutput(this.#runner, await this.variant(), rules.family, ['--counters'], tablesOf(rules));
      const saved = parseSave(text);
      const possible = this.#possible(rules, saved);
      const left = new Set(displacedJumps(possible, saved));
      const missing = ruleDifferences(possible, saved, repairScript(possible, saved, this.#spellings, left));
      return { missing, packets: rulePackets(possible, saved, this.#spellings, parseCounters(text)) };
    });
  }

  /**
   * Reads the rules and writes what differs, if `allowed`. Running a program takes as long as thousands of netlink
   * messages. So the rules read during detection replace one save, and the first write is verified by the next check.
   * Returns the chains that it wrote.
   */
  async #bring(
    rules: RuleSet,
    allowed: (saved: SavedTables) => boolean,
  ): Promise<WrittenChains | 'in force' | 'displaced' | 'not allowed'> {
    const { family } = rules;
    const seen = await this.#takeSeen(family);
    const first = seen !== undefined && allowed(seen) ? await this.#writeUnread(rules, seen) : undefined;
    if (first !== undefined) return first;
    const saved = await savedRules(this.#runner, await this.variant(), family, tablesOf(rules));
    if (!allowed(saved)) return 'not allowed';
    const again = this.#written.has(family);
    const written = await this.#write(rules, saved);
    // A displaced jump is left where it is only for a time.
    if (written === undefined) return displacedJumps(rules, saved).length === 0 ? 'in force' : 'displaced';
    if (again) await this.#readBack(rules);
    return written;
  }

  /** Removes the rules from both variants: an earlier run, or kube-proxy, may have used the other one. */
  async remove(rules: RuleSet): Promise<void> {
    await this.#turns[rules.family].run(() => this.#remove(rules));
  }

  async #remove(rules: RuleSet): Promise<void> {
    const { family } = rules;
    let failure: KernelError | undefined;
    const all = await savedByVariant(this.#runner, family, (program, unprinted) => {
      const tables = tablesOf(rules).filter((table) => unprinted.includes(table));
      if (tables.length > 0) failure = unprintedFailure(program, family, tables);
    });
    for (const [variant, saved] of all) {
      const script = removeScript(rules, saved);
      if (script !== '') await this.#restore(family, script, variant);
    }
    if (failure !== undefined) throw failure;
  }

  async #detect(): Promise<IptablesVariant> {
    this.#seenAt = performance.now();
    const { variant, saved, usable } = await detectVariant(this.#runner, this.#facts);
    this.#usable = usable;
    for (const [family, tables] of saved) this.#seen.set(family, tables);
    return variant;
  }

  async #takeSeen(family: IpFamily): Promise<SavedTables | undefined> {
    await this.variant();
    const seen = this.#seen.get(family);
    this.#seen.delete(family);
    return performance.now() - this.#seenAt > SEEN_MS ? undefined : seen;
  }

  /**
   * Writes the differences to the rules in `seen`; returns the chains that it wrote. Returns undefined if there are no
   * differences, or if iptables-restore failed, as the rules may have changed since: the caller reads them again.
   */
  async #writeUnread(rules: RuleSet, seen: SavedTables): Promise<WrittenChains | undefined> {
    try {
      return await this.#write(rules, seen);
    } catch (error) {
      if (seen.size === 0) throw error;
      return undefined;
    }
  }

  /** Writes the differences in the tables that the kernel has; returns the chains, or undefined if there are none. */
  async #write(rules: RuleSet, saved: SavedTables): Promise<WrittenChains | undefined> {
    const { family } = rules;
    const displaced = displacedJumps(rules, saved);
    const left = this.#contest.leave(displaced);
    const scriptOf = (possible: RuleSet): string => repairScript(possible, saved, this.#spellings, left);
    const script = scriptOf(this.#possible(rules, saved));
    if (script === '') return undefined;
    try {
      await this.#restoreByEither(family, script);
    } catch (error) {
      const optional = optionalTables(rules);
      const rest = scriptOf(withoutTables(rules, optional));
      if (rest === script || !(error instanceof KernelError) || error.code !== 'UNSUPPORTED') throw error;
      if (rest !== '') await this.#restoreByEither(family, rest);
      this.#noteMissing(rules, optional, error);
      if (rest === '') return undefined;
    }
    const chains = scriptChains(script);
    const repaired = this.#written.has(family) ? { chains: firstFew(chains) } : {};
    this.#written.add(family);
    this.#contest.movedBack(displaced.filter((chain) => !left.has(chain)));
    this.#log.info('iptables rules written', { family, lines: script.split('\n').length - 1, ...repaired });
    return chains;
  }

  #noteMissing(
    { family, optionalTables: lost = {} }: RuleSet,
    tables: ReadonlySet<RuleTable>,
    error: KernelError,
  ): void {
    this.#missingTables.set(family, tables);
    for (const table of tables) {
      const module = `${family === 4 ? 'iptable' : 'ip6table'}_${table}`;
      this.#log.warn(
        `IPv${family}: this kernel has no iptables table ${table} (${error.message}), ` +
          `so ${lost[table] ?? 'its rules are not in force'}; load the kernel module ${module} on the node, then restart kube-ipvs-proxy`,
      );
    }
  }

  /** Returns the rules without the tables that the kernel refused and that still do not exist. */
  #possible(rules: RuleSet, saved: SavedTables): RuleSet {
    const missing = this.#missingTables.get(rules.family) ?? [];
    return withoutTables(rules, new Set([...missing].filter((table) => !saved.has(table))));
  }

  async #readBack(rules: RuleSet): Promise<void> {
    const variant = await this.variant();
    const saved = await savedRules(this.#runner, variant, rules.family, tablesOf(rules));
    const possible = this.#possible(rules, saved);
    learnSpellings(possible.chains, saved, this.#spellings);
    // The next check handles displaced jumps.
    const left = new Set(displacedJumps(possible, saved));
    if (repairScript(possible, saved, this.#spellings, left) === '') return;
    const program = programName(variant, rules.family, 'restore');
    const message = `${program} succeeded, but the rules are missing: does another program remove them?`;
    throw new KernelError('iptables', 'NOT_IN_FORCE', message);
  }

  async #restore(family: IpFamily, script: string, variant?: IptablesVariant): Promise<void> {
    const chosen = variant ?? (await this.variant());
    this.#onWrite();
    try {
      await this.#programs.restore(chosen, family, script);
    } catch (error) {
      this.#onRestoreFailure(family);
      throw error;
    }
  }

  /** If detection found no variant, the kernel may support only the other one, so a failed write is retried with it. */
  async #restoreByEither(family: IpFamily, script: string): Promise<void> {
    try {
      await this.#restore(family, script);
    } catch (error) {
      // A held lock or a lack of memory affects both variants.
      const undecided = isPermanent(error) && (await this.variant()) === 'system';
      const other = undecided ? await otherVariant(this.#runner, family) : undefined;
      if (other === undefined) throw error;
      try {
        await this.#restore(family, script, other);
      } catch {
        throw error;
      }
      this.#variant = Promise.resolve(other);
      const [broken, used] = [programName('system', family), programName(other, family)];
      this.#log.info(`${broken} does not work on this kernel: using ${used} instead`);
    }
  }
}

export function iptablesOf(
  node: NodeKernel,
  { onRestoreFailure }: Pick<NodeKernelOptions, 'onRestoreFailure'> = {},
): Iptables {
  const facts = node.netns === undefined ? processIptablesFacts(node.trace) : NO_IPTABLES_FACTS;
  return new Iptables(node.runner, node.log, () => node.countWrites(1), onRestoreFailure, facts);
}

function tablesOf({ chains, jumps }: RuleSet): readonly RuleTable[] {
  return [...new Set([...chains, ...jumps].map(({ table }) => table))];
}

function optionalTables({ optionalTables: tables = {} }: RuleSet): ReadonlySet<RuleTable> {
  return new Set(RULE_TABLES.filter((table) => table in tables));
}
