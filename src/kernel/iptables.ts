import type { IpFamily } from '../net/ip.ts';
import type { Log } from '../observe/log.ts';
import type { RuleSet } from '../state/rule-set.ts';
import type { CommandRunner } from './command-runner.ts';
import { type IptablesFacts, NO_IPTABLES_FACTS } from './iptables-facts.ts';
import {
  type SavedTables,
  type Spellings,
  learnSpellings,
  overwrites,
  parseSave,
  removeScript,
  repairScript,
} from './iptables-script.ts';
import {
  type IptablesVariant,
  PROBE_SCRIPT,
  detectVariant,
  iptablesFailure,
  otherVariant,
  programName,
  savedByVariant,
} from './iptables-variant.ts';
import { KernelError } from './kernel-error.ts';

/** Seconds that iptables-restore waits for another program to let go of the lock. */
export const LOCK_SECONDS = 30;
const RESTORE_DEADLINE_MS = (LOCK_SECONDS + 30) * 1000;

/** What was seen longer ago than this is not built upon. */
const SEEN_MS = 60_000;

/** Keeps whole chains and the jumps to them in force, with the programs iptables-save and iptables-restore. */
export class Iptables {
  readonly #runner: CommandRunner;
  readonly #facts: IptablesFacts;
  readonly #log: Log;
  readonly #onWrite: () => void;
  readonly #onRestoreFailure: (family: IpFamily) => void;
  readonly #spellings: Spellings = new Map();
  /** What was in force when the variant was found out, until a check has used it. */
  readonly #seen = new Map<IpFamily, SavedTables>();
  readonly #written = new Set<IpFamily>();
  /** Families of which detection has told already what probe() is to find out. */
  #usable: ReadonlySet<IpFamily> = new Set();
  #seenAt = 0;
  #variant: Promise<IptablesVariant> | undefined;

  constructor(
    runner: CommandRunner,
    log: Log,
    onWrite: () => void,
    onRestoreFailure: (family: IpFamily) => void = () => undefined,
    facts: IptablesFacts = NO_IPTABLES_FACTS,
  ) {
    this.#runner = runner;
    this.#log = log;
    this.#onWrite = onWrite;
    this.#onRestoreFailure = onRestoreFailure;
    this.#facts = facts;
  }

  /** Found out once, then remembered; tried again next time where it failed. */
  async variant(): Promise<IptablesVariant> {
    if (this.#variant === undefined) {
      this.#variant = this.#detect();
      this.#variant.catch(() => {
        this.#variant = undefined;
      });
    }
    return await this.#variant;
  }

  /** Whether the program and all tables are there, by a run that changes nothing. */
  async probe(family: IpFamily): Promise<void> {
    const program = await this.#program(family, 'restore');
    if (this.#usable.has(family)) return;
    const result = await this.#runner.run(program, ['--noflush', '--test', `--wait=${LOCK_SECONDS}`], {
      stdin: PROBE_SCRIPT,
      deadlineMs: RESTORE_DEADLINE_MS,
    });
    if (result.status !== 0) throw iptablesFailure(program, result);
  }

  async ensure(rules: RuleSet): Promise<{ readonly changed: boolean }> {
    return { changed: (await this.#bring(rules, () => true)) === 'written' };
  }

  /** As ensure, unless a chain would lose rules that it has: writes nothing then, and answers false. */
  async add(rules: RuleSet): Promise<boolean> {
    return (await this.#bring(rules, (saved) => !overwrites(rules, saved, this.#spellings))) !== 'not allowed';
  }

  /**
   * Each program takes as long as thousands of netlink messages. So what the variant was found out by is used once in place of a
   * save, and the first write is read back by the next check; one that was needed again is read back at once.
   */
  async #bring(
    rules: RuleSet,
    allowed: (saved: SavedTables) => boolean,
  ): Promise<'written' | 'in force' | 'not allowed'> {
    const { family } = rules;
    const seen = await this.#takeSeen(family);
    if (seen !== undefined && allowed(seen) && (await this.#writeUnread(rules, seen))) return 'written';
    const saved = await this.#save(family);
    if (!allowed(saved)) return 'not allowed';
    const script = repairScript(rules, saved, this.#spellings);
    if (script === '') return 'in force';
    const again = this.#written.has(family);
    await this.#write(family, script);
    if (again) await this.#readBack(rules);
    return 'written';
  }

  /** In whichever variant they are: an earlier run, or a kube-proxy before us, may have chosen the other one. */
  async remove(rules: RuleSet): Promise<void> {
    const { family } = rules;
    for (const [variant, saved] of await savedByVariant(this.#runner, family)) {
      const script = removeScript(rules, saved);
      if (script !== '') await this.#restore(family, script, variant);
    }
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
   * Writes what was missing a while ago; answers whether it did. That nothing was missing then says nothing of now. Where others have
   * changed what it builds on, iptables-restore refuses, and it has to be read again.
   */
  async #writeUnread(rules: RuleSet, seen: SavedTables): Promise<boolean> {
    const script = repairScript(rules, seen, this.#spellings);
    if (script === '') return false;
    try {
      await this.#write(rules.family, script);
      return true;
    } catch (error) {
      if (seen.size === 0) throw error;
      return false;
    }
  }

  async #write(family: IpFamily, script: string): Promise<void> {
    await this.#restoreByEither(family, script);
    this.#written.add(family);
    this.#log.info('iptables rules written', { family, lines: script.split('\n').length - 1 });
  }

  async #readBack(rules: RuleSet): Promise<void> {
    const saved = await this.#save(rules.family);
    learnSpellings(rules, saved, this.#spellings);
    if (repairScript(rules, saved, this.#spellings) === '') return;
    const program = await this.#program(rules.family, 'restore');
    const message = `${program} succeeded, but the rules are not there: does another program remove them?`;
    throw new KernelError('iptables', 'NOT_IN_FORCE', message);
  }

  async #save(family: IpFamily): Promise<SavedTables> {
    const program = await this.#program(family, 'save');
    const result = await this.#runner.run(program, []);
    if (result.status !== 0) throw iptablesFailure(program, result);
    return parseSave(result.stdout);
  }

  async #restore(family: IpFamily, script: string, variant?: IptablesVariant): Promise<void> {
    const program = programName(variant ?? (await this.variant()), family, 'restore');
    this.#onWrite();
    const result = await this.#runner.run(program, ['--noflush', `--wait=${LOCK_SECONDS}`], {
      stdin: script,
      deadlineMs: RESTORE_DEADLINE_MS,
    });
    if (result.status === 0) return;
    this.#onRestoreFailure(family);
    throw iptablesFailure(program, result);
  }

  /** Where nothing has said which variant this node uses, a kernel may still serve only the other one: the first write tells. */
  async #restoreByEither(family: IpFamily, script: string): Promise<void> {
    try {
      await this.#restore(family, script);
    } catch (error) {
      const other = (await this.variant()) === 'system' ? await otherVariant(this.#runner, family) : undefined;
      if (other === undefined) throw error;
      try {
        await this.#restore(family, script, other);
      } catch {
        throw error;
      }
      this.#variant = Promise.resolve(other);
      this.#log.info(`plain iptables does not work on this kernel, the variant ${other} does: rules are written there`);
    }
  }

  async #program(family: IpFamily, verb: 'save' | 'restore'): Promise<string> {
    return programName(await this.variant(), family, verb);
  }
}
