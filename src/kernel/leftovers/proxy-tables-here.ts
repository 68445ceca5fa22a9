import { dumpTables, decodeTable } from '../../netlink/family/nf-tables/table.ts';
import { IP_FAMILIES } from '../../base/ip.ts';
import { TABLE } from '../../state/nft-table.ts';
import { askNfTables } from '../iptables/nf-tables-question.ts';
import type { ProxyTables } from '../nftables/proxy-tables.ts';

/** The tables of nftables mode, and the chains of those that iptables-save cannot print. */
export type FoundTables = Omit<ProxyTables, 'states'>;

/** Returns those of this network namespace. Most nodes have no table of nftables mode, and need not load what reads it. */
export function proxyTablesHere(): FoundTables {
  const loaded = async (): Promise<FoundTables> => (await import('../nftables/proxy-tables.ts')).proxyTables();
  return {
    find: async () => ((await haveNone()) ? [] : await (await loaded()).find()),
    remove: async (family) => await (await loaded()).remove(family),
    chainsOf: async (family, table) => await (await loaded()).chainsOf(family, table),
  };
}

/** Returns whether no family has a table of nftables mode; false if that is unknown. */
async function haveNone(): Promise<boolean> {
  for (const family of IP_FAMILIES) {
    const names = await askNfTables(
      family,
      { operation: 'NFT_MSG_GETTABLE', write: dumpTables, read: ({ payload }) => decodeTable(payload).name },
      {},
    );
    if (names === undefined || names.includes(TABLE)) return false;
  }
  return true;
}
