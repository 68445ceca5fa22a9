import { ownCopy } from '../../base/text/own-copy.ts';

/** Rules by table and chain, as printed by iptables-save, without "-A CHAIN". */
export type SavedTables = ReadonlyMap<string, SavedChains>;
export type SavedChains = ReadonlyMap<string, readonly string[]>;

/**
 * Parses the output of iptables-save, also with counters. Skips all other lines (comments, warnings). The rules keep the text in
 * memory, the names of chains do not.
 */
export function parseSave(text: string): SavedTables {
  return readSave(text, (_packets, rule) => rule);
}

/**
 * Returns the tables that exist but are not printed: iptables-nft-save writes only a comment about a table with a rule that
 * iptables does not know, and succeeds.
 */
export function unprintedTables(text: string): readonly string[] {
  const named = Array.from(text.matchAll(/^# Table [`'"]?(\w+)\b/gm), ([, table = '']) => table);
  return named.filter((table) => !new RegExp(`^\\*${table}\\s*$`, 'm').test(text));
}

/** Parses the packets that each rule has counted, from the output of iptables-save --counters. */
export function parseCounters(text: string): ReadonlyMap<string, ReadonlyMap<string, readonly number[]>> {
  return readSave(text, (packets) => packets);
}

function readSave<T>(text: string, read: (packets: number, rule: string) => T): Map<string, Map<string, T[]>> {
  const tables = new Map<string, Map<string, T[]>>();
  let chains = new Map<string, T[]>();
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) {
      chains = new Map();
      tables.set(line.slice(1).trim(), chains);
    } else if (line.startsWith(':')) {
      chains.set(ownCopy(line.slice(1, line.indexOf(' '))), []);
    } else {
      const [, packets, chain = '', rule = ''] = /^(?:\[(\d+):\d+\] )?-A (\S+) ?(.*)$/.exec(line) ?? [];
      chains.get(chain)?.push(read(Number(packets ?? 0), rule));
    }
  }
  return tables;
}
