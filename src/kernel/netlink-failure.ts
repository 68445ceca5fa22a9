import { constants } from 'node:os';
import { DecodeError } from '../netlink/codec/decode-error.ts';
import { NetlinkError } from '../netlink/error.ts';
import type { KernelAnswer, NetlinkMessage } from '../netlink/message.ts';
import { codeOf, textOf } from './errno.ts';
import { KernelError } from './kernel-error.ts';

/** What became of one item of a batch that did not go through. */
export interface Refusal<T> {
  readonly item: T;
  /** Positive; 0 where there is none: a deadline, a closed socket. */
  readonly errno: number;
  readonly code: string;
  /** The kernel's own words, or ours. */
  readonly text: string;
  /** The NLMSG_ERROR, where the kernel sent one. */
  readonly message?: NetlinkMessage;
}

const NEEDS_ROOT = 'needs root or CAP_NET_ADMIN';

export function refusalOf<T>(item: T, { errno, text }: KernelAnswer, message: NetlinkMessage): Refusal<T> {
  const code = codeOf(errno);
  const words = text ?? textOf(code);
  const hint = errno === constants.errno.EPERM && words === '' ? NEEDS_ROOT : words;
  return { item, errno, code, text: hint, message };
}

/** Every item of a batch whose transaction failed as a whole. */
export function refusalsOf<T>(items: readonly T[], error: unknown): Refusal<T>[] {
  const { errno, code, text } = describe(error);
  return items.map((item) => ({ item, errno, code, text }));
}

function describe(error: unknown): { errno: number; code: string; text: string } {
  if (!(error instanceof NetlinkError)) throw error;
  if (error.kind === 'timeout') return { errno: 0, code: 'TIMEOUT', text: error.message };
  if (error.kind === 'closed') return { errno: 0, code: 'CLOSED', text: error.message };
  return { errno: error.errno, code: codeOf(error.errno), text: error.message };
}

/** The error that a method of Kernel rejects with. What is not netlink's comes back as it is. */
export function kernelError(operation: string, error: unknown): unknown {
  if (error instanceof DecodeError) {
    return new KernelError(operation, 'MALFORMED', `the kernel's answer cannot be read: ${error.message}`, {
      cause: error,
    });
  }
  if (!(error instanceof NetlinkError)) return error;
  const { code, errno } = describe(error);
  const hint = errno === constants.errno.EPERM ? `: ${NEEDS_ROOT}` : '';
  return new KernelError(operation, code, `${operation}: ${error.message}${hint}`, { cause: error });
}

/** Runs what talks to the kernel, and turns netlink's errors into a KernelError for the operation. */
export async function withKernelError<T>(operation: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw kernelError(operation, error);
  }
}
