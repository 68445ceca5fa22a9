import { readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import type { IpFamily } from '../net/ip.ts';
import { openConnection } from '../netlink/connection.ts';
import { dumpTables } from '../netlink/family/nf-tables/table.ts';
import { NETLINK_NETFILTER } from '../netlink/protocol.ts';
import { askAll } from './batch.ts';
import { searchPath } from './command-runner.ts';

/** What is known of iptables without starting it: each answer is one program less to start. */
export interface IptablesFacts {
  /** The file that is started for a program, links followed; undefined where it is not installed. */
  program(name: string): string | undefined;
  /** Whether a variant has any table in this network namespace; undefined where that is not known. */
  hasTables(variant: 'nft' | 'legacy', family: IpFamily): Promise<boolean | undefined>;
}

const LEGACY_TABLES: Readonly<Record<IpFamily, string>> = {
  4: '/proc/net/ip_tables_names',
  6: '/proc/net/ip6_tables_names',
};

function hasLegacyTables(family: IpFamily): boolean | undefined {
  try {
    return readFileSync(LEGACY_TABLES[family], 'utf8') !== '';
  } catch (error) {
    // The kernel makes it together with the first table; iptables-legacy-save reads it in the same way.
    return error instanceof Error && 'code' in error && error.code === 'ENOENT' ? false : undefined;
  }
}

async function hasNftTables(family: IpFamily): Promise<boolean | undefined> {
  let has = false;
  try {
    const connection = openConnection({ protocol: NETLINK_NETFILTER });
    try {
      const read = (): void => {
        has = true;
      };
      await askAll(connection, [family], { operation: 'NFT_MSG_GETTABLE', write: dumpTables, read });
    } finally {
      connection.close();
    }
    return has;
  } catch {
    // No nf_tables, or not for us: iptables-nft-save has the words for it.
    return undefined;
  }
}

/** For this process and its own network namespace. */
export const processIptablesFacts: IptablesFacts = {
  program: (name) => {
    for (const folder of searchPath()) {
      try {
        return realpathSync(path.join(folder, name));
      } catch {
        // Not in this folder.
      }
    }
    return undefined;
  },
  hasTables: async (variant, family) => (variant === 'nft' ? await hasNftTables(family) : hasLegacyTables(family)),
};

/** Nothing is known: for a runner that enters another network namespace. */
export const NO_IPTABLES_FACTS: IptablesFacts = {
  program: () => undefined,
  hasTables: async () => Promise.resolve(undefined),
};
