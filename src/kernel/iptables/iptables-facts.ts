import { readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import type { IpFamily } from '../../base/ip.ts';
import { openConnection } from '../../netlink/transport/connection.ts';
import { decodeGeneration, getGeneration } from '../../netlink/family/nf-tables/generation.ts';
import { decodeTable, dumpTables } from '../../netlink/family/nf-tables/table.ts';
import { NETLINK_NETFILTER } from '../../netlink/netlink-protocol.ts';
import type { Trace } from '../../netlink/trace/trace.ts';
import { askAll } from '../linux/batch.ts';
import { searchPath } from '../command-runner.ts';

/** Facts about iptables that are available without running a program. */
export interface IptablesFacts {
  /** Returns the path of a program with symlinks resolved; undefined if the program is not installed. */
  program(name: string): string | undefined;
  /** Returns whether a variant has any table in this network namespace; undefined if unknown. */
  hasTables(variant: 'nft' | 'legacy', family: IpFamily): Promise<boolean | undefined>;
  /** Returns the number of the ruleset of nf_tables, which each change increments; undefined if unknown. */
  generation(): Promise<number | undefined>;
}

const LEGACY_TABLES: Readonly<Record<IpFamily, string>> = {
  4: '/proc/net/ip_tables_names',
  6: '/proc/net/ip6_tables_names',
};

function hasLegacyTables(family: IpFamily): boolean | undefined {
  try {
    return readFileSync(LEGACY_TABLES[family], 'utf8') !== '';
  } catch (error) {
    // The kernel creates the file with the first table; iptables-legacy-save reads it too.
    return error instanceof Error && 'code' in error && error.code === 'ENOENT' ? false : undefined;
  }
}

/** The tables that iptables-nft creates. Tables of other names belong to other programs, and to nftables mode. */
const NFT_TABLES: ReadonlySet<string> = new Set(['filter', 'nat', 'mangle', 'raw', 'security']);

async function hasNftTables(family: IpFamily, trace?: Trace): Promise<boolean | undefined> {
  try {
    const connection = openConnection({ protocol: NETLINK_NETFILTER, trace });
    try {
      const names = await askAll(connection, [family], {
        operation: 'NFT_MSG_GETTABLE',
        write: dumpTables,
        read: ({ payload }) => decodeTable(payload).name,
      });
      return names.some((name) => NFT_TABLES.has(name));
    } finally {
      connection.close();
    }
  } catch {
    // The kernel has no nf_tables, or permission is missing: iptables-nft-save reports the reason.
    return undefined;
  }
}

async function nftGeneration(trace?: Trace): Promise<number | undefined> {
  try {
    const connection = openConnection({ protocol: NETLINK_NETFILTER, trace });
    try {
      const [id] = await askAll(connection, [undefined], {
        operation: 'NFT_MSG_GETGEN',
        write: getGeneration,
        read: ({ payload }) => decodeGeneration(payload),
      });
      return id;
    } finally {
      connection.close();
    }
  } catch {
    return undefined;
  }
}

/** Returns the facts for this process and its own network namespace. */
export const processIptablesFacts = (trace?: Trace): IptablesFacts => ({
  program: (name) => {
    for (const folder of searchPath()) {
      try {
        return realpathSync(path.join(folder, name));
      } catch {
        // The program is not in this folder.
      }
    }
    return undefined;
  },
  hasTables: async (variant, family) =>
    variant === 'nft' ? await hasNftTables(family, trace) : hasLegacyTables(family),
  generation: () => nftGeneration(trace),
});

/** For a runner that enters another network namespace, where facts about this process do not apply. */
export const NO_IPTABLES_FACTS: IptablesFacts = {
  program: () => undefined,
  hasTables: async () => Promise.resolve(undefined),
  generation: async () => Promise.resolve(undefined),
};
