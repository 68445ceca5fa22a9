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
 * missing) are permanent; LOCKED and IPTABLES (any other failure) are temporary.
 */
export function iptablesFailure(program: string, { status, stderr }: CommandResult): KernelError {
  const words = stderr.trim();
  const code = codeOf(words);
  const hint = code === 'EPERM' ? ' (needs root or CAP_NET_ADMIN)' : '';
  const reason = words === '' && status < 0 ? 'terminated by a signal' : words;
  return new KernelError('iptables', code, `${program} failed with status ${status}${hint}: ${reason}`);
}

function codeOf(words: string): string {
  if (LOCKED.test(words)) return 'LOCKED';
  if (NOT_ALLOWED.test(words)) return 'EPERM';
  return UNSUPPORTED.some((pattern) => pattern.test(words)) ? 'UNSUPPORTED' : 'IPTABLES';
}

/** Returns whether a retry is useless because something is missing or forbidden. */
export function lasts(error: unknown): boolean {
  return error instanceof KernelError && LASTING.has(error.code);
}

/**
 * Returns whether a program that lists rules (iptables-save, nft) failed for a temporary reason: out of memory, process
 * limit reached, device busy, interrupted, or killed.
 */
export function isMomentary({ status, stderr }: CommandResult): boolean {
  return status < 0 || /memory|Resource temporarily unavailable|Device or resource busy|Interrupted/i.test(stderr);
}
