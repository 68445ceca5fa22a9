import type { CommandResult } from '../command-runner.ts';
import { KernelError } from '../kernel-error.ts';

/** Messages of iptables about features that the kernel or the installation lacks. */
const UNSUPPORTED = [
  /Table does not exist/i,
  /table `?'?\w+'? is (?:incompatible|not supported)/i,
  /Address family not supported/i,
  /Protocol not supported/i,
  /(?:Failed to initialize nft|Could not fetch rule set generation id): (?:Invalid argument|Operation not supported)/i,
  /(?:TABLE|CHAIN)_ADD failed \((?:Operation not supported|No such file or directory)\)/i,
  /Couldn't load (?:match|target)/i,
];
const NOT_ALLOWED = /permission denied|operation not permitted|must be root/i;
const LOCKED = /holding the xtables lock/i;
const MOMENTARY =
  /memory allocation|cannot allocate memory|out of memory|no buffer space|resource temporarily unavailable|too many open files|interrupted system call/i;

/** Signals of a program that crashes, which may be due to what it was given. */
const CRASHES: ReadonlySet<NodeJS.Signals> = new Set(['SIGSEGV', 'SIGBUS', 'SIGABRT', 'SIGILL', 'SIGFPE']);

/** Codes of permanent failures. */
const LASTING: ReadonlySet<string> = new Set([
  'UNSUPPORTED',
  'EPERM',
  'MISSING_COMMAND',
  'EACCES',
  'ENOEXEC',
  'ENOTDIR',
  'ELOOP',
]);

/**
 * Returns the error for a failed iptables program. The codes EPERM and UNSUPPORTED (a table, a module or the family is
 * missing) are permanent. LOCKED, MOMENTARY (it was killed, or something was short) and IPTABLES (any other failure) are temporary,
 * of which only IPTABLES may be due to what it was to write.
 */
export function iptablesFailure(program: string, result: CommandResult): KernelError {
  const { status, stderr } = result;
  const words = stderr.trim();
  const code = codeOf(words, wasKilled(result));
  const hint =
    code === 'EPERM'
      ? ' (needs root or CAP_NET_ADMIN, and a table that no other process owns by the flag owner of nf_tables)'
      : '';
  const reason = words === '' && status < 0 ? 'terminated by a signal' : words;
  return new KernelError('iptables', code, `${program} failed with status ${status}${hint}: ${reason}`);
}

function wasKilled({ status, signal }: CommandResult): boolean {
  return status < 0 && (signal === undefined || !CRASHES.has(signal));
}

function codeOf(words: string, killed: boolean): string {
  if (LOCKED.test(words)) return 'LOCKED';
  if (killed || MOMENTARY.test(words)) return 'MOMENTARY';
  if (NOT_ALLOWED.test(words)) return 'EPERM';
  return UNSUPPORTED.some((pattern) => pattern.test(words)) ? 'UNSUPPORTED' : 'IPTABLES';
}

/** Returns whether a retry is useless because something is missing or forbidden. */
export function isPermanent(error: unknown): boolean {
  return error instanceof KernelError && LASTING.has(error.code);
}

/** Returns whether an error may be due to the rules that were to be written. */
export function mayBeCausedByRules({ code }: Pick<KernelError, 'code'>): boolean {
  return code === 'IPTABLES' || code === 'UNSUPPORTED';
}

/**
 * Returns whether a program that lists rules (iptables-save, nft) failed for a temporary reason: out of memory, process
 * limit reached, device busy, interrupted, or killed.
 */
export function isMomentary({ status, stderr }: CommandResult): boolean {
  return status < 0 || MOMENTARY.test(stderr) || /Device or resource busy/i.test(stderr);
}
