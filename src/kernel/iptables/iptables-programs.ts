import type { IpFamily } from '../../base/ip.ts';
import type { Log } from '../../observe/log/log.ts';
import type { CommandResult, CommandRunner } from '../command-runner.ts';
import { iptablesFailure } from './iptables-failure.ts';
import { type IptablesVariant, PROBE_SCRIPT, programName } from './iptables-variant.ts';
import { KernelError } from '../kernel-error.ts';

/** Seconds that iptables-restore waits for the lock: less than a Pod's termination grace period. */
export const LOCK_SECONDS = 20;
const RESTORE_DEADLINE_MS = (LOCK_SECONDS + 30) * 1000;
/** In iptables mode, a million rules are about 100 MB and take about a minute of CPU time, which a busy node may stretch. */
const DEADLINE_MS_PER_CHARACTER = 0.01;
const SLOW_MS_PER_CHARACTER = 0.001;

/** Seconds that a --test run, which changes nothing, waits for the lock. */
const PROBE_LOCK_SECONDS = 3;

/** A restore normally takes tens of milliseconds; one that takes this long is logged. */
const SLOW_MS = 5_000;

/** Milliseconds after which iptables-restore is ended. */
function restoreDeadlineMs(script: string): number {
  return Math.ceil(RESTORE_DEADLINE_MS + script.length * DEADLINE_MS_PER_CHARACTER);
}

/** Runs iptables-restore; errors contain its messages. */
export class IptablesPrograms {
  readonly #runner: CommandRunner;
  readonly #log: Pick<Log, 'warn'> | undefined;

  constructor(runner: CommandRunner, log?: Pick<Log, 'warn'>) {
    this.#runner = runner;
    this.#log = log;
  }

  /** Rejects if the program or a table is missing, or the script is not possible. Changes nothing. Returns what it says on stderr. */
  async test(variant: IptablesVariant, family: IpFamily, script = PROBE_SCRIPT): Promise<string> {
    const args = ['--noflush', '--test', `--wait=${PROBE_LOCK_SECONDS}`];
    return await this.#runRestore(variant, family, args, script);
  }

  async restore(variant: IptablesVariant, family: IpFamily, script: string): Promise<void> {
    await this.#runRestore(variant, family, ['--noflush', `--wait=${LOCK_SECONDS}`], script);
  }

  async #runRestore(
    variant: IptablesVariant,
    family: IpFamily,
    args: readonly string[],
    stdin: string,
  ): Promise<string> {
    const program = programName(variant, family, 'restore');
    const slowMs = Math.ceil(SLOW_MS + stdin.length * SLOW_MS_PER_CHARACTER);
    const deadlineMs = restoreDeadlineMs(stdin);
    const slow = setTimeout(() => {
      this.#log?.warn(
        `${program} is still running after ${Math.round(slowMs / 1_000)} s: it has ${stdin.split('\n').length} lines to write, ` +
          `or waits up to ${LOCK_SECONDS} s for the iptables lock, which another program holds: \`fuser -v /run/xtables.lock\` shows it`,
      );
    }, slowMs);
    try {
      const result = await this.#runner.run(program, args, { stdin, deadlineMs });
      if (result.status !== 0) throw await this.#failure(variant, family, result);
      return result.stderr;
    } finally {
      clearTimeout(slow);
    }
  }

  /** Returns the error of a restore. iptables-legacy-restore only names a missing table; listing it shows why. */
  async #failure(variant: IptablesVariant, family: IpFamily, result: CommandResult): Promise<KernelError> {
    const failure = iptablesFailure(programName(variant, family, 'restore'), result);
    const table = /unable to initialize table '(\w+)'/.exec(result.stderr)?.[1];
    if (table === undefined) return failure;
    try {
      const program = programName(variant, family);
      const listed = await this.#runner.run(program, [`--wait=${PROBE_LOCK_SECONDS}`, '-t', table, '-S']);
      return listed.status === 0 ? failure : iptablesFailure(program, listed);
    } catch (error) {
      return error instanceof KernelError && error.code !== 'MISSING_COMMAND' ? error : failure;
    }
  }
}
