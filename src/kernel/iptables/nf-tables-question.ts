import { NETLINK_NETFILTER } from '../../netlink/netlink-protocol.ts';
import type { Trace } from '../../netlink/trace/trace.ts';
import { openConnection } from '../../netlink/transport/connection.ts';
import { type Question, askAll } from '../linux/batch.ts';

/** The tables that iptables-nft creates. Tables of other names belong to other programs, and to nftables mode. */
export const TABLES_OF_IPTABLES: ReadonlySet<string> = new Set(['filter', 'nat', 'mangle', 'raw', 'security']);

export interface QuestionOptions {
  /** Path of a network namespace; default: our own. */
  readonly netns?: string | undefined;
  readonly trace?: Trace | undefined;
}

/** Asks nf_tables on a socket of its own. Undefined if the kernel has no nf_tables, or permission is missing. */
export async function askNfTables<T, R>(
  item: T,
  question: Question<T, R>,
  { netns, trace }: QuestionOptions,
): Promise<readonly R[] | undefined> {
  try {
    const connection = openConnection({
      protocol: NETLINK_NETFILTER,
      trace,
      ...(netns === undefined ? {} : { netns }),
    });
    try {
      return await askAll(connection, [item], question);
    } finally {
      connection.close();
    }
  } catch {
    return undefined;
  }
}
