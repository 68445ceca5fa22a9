import { hash } from 'node:crypto';
import { readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import type { IpFamily } from '../../base/ip.ts';
import { decodeGeneration, getGeneration } from '../../netlink/family/nf-tables/nft-batch.ts';
import { decodeTable, dumpTables } from '../../netlink/family/nf-tables/table.ts';
import type { NetlinkMessage } from '../../netlink/netlink-message.ts';
import { legacyTable } from '../../netlink/transport/legacy-table.ts';
import type { Trace } from '../../netlink/trace/trace.ts';
import { searchPath } from '../command-runner.ts';
import { TABLES_OF_IPTABLES, askNfTables } from './nf-tables-question.ts';

/** Facts about iptables that are available without running a program. */
export interface IptablesFacts {
  /** Returns the path of a program with symlinks resolved; undefined if the program is not installed. */
  program(name: string): string | undefined;
  /** Returns whether a variant has any table in this network namespace; undefined if unknown. */
  hasTables(variant: 'nft' | 'legacy', family: IpFamily): Promise<boolean | undefined>;
  /** Returns the number of the ruleset of nf_tables, which each change increments; undefined if unknown. */
  generation(): Promise<number | undefined>;
  /** Returns a digest of tables of iptables-legacy, which their counters do not change; undefined if it is unknown. */
  legacyDigest(family: IpFamily, tables: readonly string[]): string | undefined;
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

async function hasNftTables(family: IpFamily, trace?: Trace): Promise<boolean | undefined> {
  const question = {
    operation: 'NFT_MSG_GETTABLE',
    write: dumpTables,
    read: ({ payload }: NetlinkMessage) => decodeTable(payload).name,
  };
  // iptables-nft-save reports why it is unknown.
  return (await askNfTables(family, question, { trace }))?.some((name) => TABLES_OF_IPTABLES.has(name));
}

async function nftGeneration(trace?: Trace): Promise<number | undefined> {
  const question = {
    operation: 'NFT_MSG_GETGEN',
    write: getGeneration,
    read: ({ payload }: NetlinkMessage) => decodeGeneration(payload),
  };
  return (await askNfTables(undefined, question, { trace }))?.[0];
}

function legacyDigest(family: IpFamily, tables: readonly string[]): string | undefined {
  const found = tables.map((table) => legacyTable(family, table));
  // iptables-legacy-save reports why one is not there.
  return found.every((table) => table !== undefined) ? found.map((table) => hash('sha1', table)).join(' ') : undefined;
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
  legacyDigest,
});

/** For a runner that enters another network namespace, where facts about this process do not apply. */
export const NO_IPTABLES_FACTS: IptablesFacts = {
  program: () => undefined,
  hasTables: async () => Promise.resolve(undefined),
  generation: async () => Promise.resolve(undefined),
  legacyDigest: () => undefined,
};
