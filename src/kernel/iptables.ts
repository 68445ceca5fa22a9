import type { IpFamily } from '../net/ip.ts';
import type { Log } from '../observe/log.ts';
import type { RuleSet } from '../state/rule-set.ts';
import type { CommandResult, CommandRunner } from './command-runner.ts';
import {
  type SavedTables,
  type Spellings,
  learnSpellings,
  overwrites,
  parseSave,
  removeScript,
  repairScript,
} from './iptables-script.ts';
import { KernelError } from './kernel-error.ts';

/** The two backends of iptables have rules of their own, which all apply; "system" is whatever plain `iptables` is. */
export type IptablesVariant = 'legacy' | 'nft' | 'system';

/** Seconds that iptables-restore waits for another program to let go of the lock. */
export const LOCK_SECONDS = 30;
const RESTORE_DEADLINE_MS = (LOCK_SECONDS + 30) * 1000;

const PROBED_TABLES = ['mangle', 'nat', 'filter'];

/** Chains that a kubelet makes in table mangle of the variant it uses, for others to find. */
const HINTS = ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'];

/** Keeps whole chains and the jumps to them in force, with the programs iptables-save and iptables-restore. */
export class Iptables {
  readonly #runner: CommandRunner;
  readonly #log: Log;
  readonly #onWrite: () => void;
  readonly #onRestoreFailure: (family: IpFamily) => void;
  readonly #spellings: Spellings = new Map();
  #variant: Promise<IptablesVariant> | undefined;

  constructor(
    runner: CommandRunner,
    log: Log,
    onWrite: () => void,
    onRestoreFailure: (family: IpFamily) => void = () => undefined,
  ) {
    this.#runner = runner;
    this.#log = log;
    this.#onWrite = onWrite;
    this.#onRestoreFailure = onRestoreFailure;
  }

  /** Found out once, then remembered. */
  async variant(): Promise<IptablesVariant> {
    this.#variant ??= detectVariant(this.#runner);
    return await this.#variant;
  }

  /** Whether the program and all tables are there, by a run that changes nothing. */
  async probe(family: IpFamily): Promise<void> {
    const program = await this.#program(family, 'restore');
    const stdin = PROBED_TABLES.map((table) => `*${table}\nCOMMIT\n`).join('');
    const result = await this.#runner.run(program, ['--noflush', '--test', `--wait=${LOCK_SECONDS}`], {
      stdin,
      deadlineMs: RESTORE_DEADLINE_MS,
    });
    if (result.status !== 0) throw failure(program, result);
  }

  async ensure(rules: RuleSet): Promise<{ readonly changed: boolean }> {
    return await this.#repair(rules, await this.#save(rules.family));
  }

  /** As ensure, unless a chain would lose rules that it has: writes nothing then, and answers false. */
  async add(rules: RuleSet): Promise<boolean> {
    const saved = await this.#save(rules.family);
    if (overwrites(rules, saved, this.#spellings)) return false;
    await this.#repair(rules, saved);
    return true;
  }

  async #repair(rules: RuleSet, before: SavedTables): Promise<{ readonly changed: boolean }> {
    const script = repairScript(rules, before, this.#spellings);
    if (script === '') return { changed: false };
    await this.#restoreByEither(rules.family, script);
    const saved = await this.#save(rules.family);
    learnSpellings(rules, saved, this.#spellings);
    if (repairScript(rules, saved, this.#spellings) !== '') {
      const message = `${await this.#program(rules.family, 'restore')} succeeded, but the rules are not there: does another program remove them?`;
      throw new KernelError('iptables', 'NOT_IN_FORCE', message);
    }
    this.#log.info('iptables rules written', { family: rules.family, lines: script.split('\n').length - 1 });
    return { changed: true };
  }

  /** In whichever variant they are: an earlier run, or a kube-proxy before us, may have chosen the other one. */
  async remove(rules: RuleSet): Promise<void> {
    const { family } = rules;
    for (const [variant, saved] of await savedByVariant(this.#runner, family)) {
      const script = removeScript(rules, saved);
      if (script !== '') await this.#restore(family, script, variant);
    }
  }

  async #save(family: IpFamily): Promise<SavedTables> {
    const program = await this.#program(family, 'save');
    const result = await this.#runner.run(program, []);
    if (result.status !== 0) throw failure(program, result);
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
    throw failure(program, result);
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

export function programName(variant: IptablesVariant, family: IpFamily, verb: 'save' | 'restore'): string {
  const base = family === 4 ? 'iptables' : 'ip6tables';
  return variant === 'system' ? `${base}-${verb}` : `${base}-${variant}-${verb}`;
}

function failure(program: string, { status, stderr }: CommandResult): KernelError {
  const words = stderr.trim();
  const code = /permission denied|must be root/i.test(words) ? 'EPERM' : 'IPTABLES';
  const hint = code === 'EPERM' ? ' (needs root or CAP_NET_ADMIN)' : '';
  return new KernelError('iptables', code, `${program} failed with status ${status}${hint}: ${words}`);
}

/**
 * Which variant this node uses: the only one that is installed and that the kernel has, else the one with a kubelet's hint chain, else
 * the one with more rules, else (none has any) what plain `iptables` is.
 */
export async function detectVariant(runner: CommandRunner): Promise<IptablesVariant> {
  const nft = await weigh(runner, 'nft');
  const legacy = await weigh(runner, 'legacy');
  if (legacy === undefined) return nft === undefined ? 'system' : 'nft';
  if (nft === undefined) return 'legacy';
  if (nft.hinted !== legacy.hinted) return nft.hinted ? 'nft' : 'legacy';
  if (nft.rules === legacy.rules) return 'system';
  return nft.rules > legacy.rules ? 'nft' : 'legacy';
}

interface Weight {
  readonly rules: number;
  readonly hinted: boolean;
}

/** undefined when the variant is not installed, or this kernel does not have it. */
async function weigh(runner: CommandRunner, variant: IptablesVariant): Promise<Weight | undefined> {
  let rules = 0;
  let hinted = false;
  let families = 0;
  for (const family of [4, 6] as const) {
    const saved = await savedBy(runner, programName(variant, family, 'save'));
    if (saved === undefined) continue;
    families++;
    for (const chains of saved.values()) for (const chain of chains.values()) rules += chain.length;
    hinted ||= HINTS.some((hint) => saved.get('mangle')?.has(hint) === true);
  }
  return families === 0 ? undefined : { rules, hinted };
}

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
async function otherVariant(runner: CommandRunner, family: IpFamily): Promise<'legacy' | 'nft' | undefined> {
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
  if (result.status !== 0) throw failure(program, result);
  return [['system', parseSave(result.stdout)]];
}
