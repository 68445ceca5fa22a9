import { constants } from 'node:os';
import { DecodeError } from '../../netlink/codec/decode-error.ts';
import { NetlinkError } from '../../netlink/error.ts';
import type { KernelAnswer, NetlinkMessage } from '../../netlink/netlink-message.ts';
import type { Refusal } from '../../state/outcome.ts';
import { codeOf, textOf } from '../errno.ts';
import { KernelError } from '../kernel-error.ts';

/** An item of a batch that failed, and why. */
export interface RefusedItem<T> extends Refusal {
  readonly item: T;
  /** The NLMSG_ERROR, if the kernel sent one. */
  readonly message?: NetlinkMessage;
}

const NEEDS_ROOT = 'needs root or CAP_NET_ADMIN';

export function refusalOf<T>(item: T, { errno, text }: KernelAnswer, message: NetlinkMessage): RefusedItem<T> {
  const code = codeOf(errno);
  const words = text ?? textOf(code);
  const hint = errno === constants.errno.EPERM && words === '' ? NEEDS_ROOT : words;
  return { item, errno, code, text: hint, message };
}

/** Returns a refusal for every item of a batch whose transaction failed as a whole. */
export function refusalsOf<T>(items: readonly T[], error: unknown): RefusedItem<T>[] {
  const { errno, code, text } = describe(error);
  return items.map((item) => ({ item, errno, code, text }));
}

function describe(error: unknown): Refusal {
  if (!(error instanceof NetlinkError)) throw error;
  if (error.kind === 'timeout') return { errno: 0, code: 'TIMEOUT', text: error.message };
  if (error.kind === 'closed') return { errno: 0, code: 'CLOSED', text: error.message };
  return { errno: error.errno, code: codeOf(error.errno), text: error.message };
}

/** Calls `run`; errors of netlink become a KernelError for the operation. */
export async function withKernelError<T>(operation: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof DecodeError) {
      const message = `cannot decode the kernel's reply: ${error.message}`;
      throw new KernelError(operation, 'MALFORMED', message, { cause: error });
    }
    if (!(error instanceof NetlinkError)) throw error;
    const { code, errno } = describe(error);
    const hint = errno === constants.errno.EPERM ? `: ${NEEDS_ROOT}` : '';
    throw new KernelError(operation, code, `${operation}: ${error.message}${hint}`, { cause: error });
  }
}
