import type { IpFamily } from '../../base/ip.ts';
import { loadAddon } from './addon.ts';

/** AF_INET, AF_INET6; SOL_IP, SOL_IPV6; and offsets in struct ipt_entry and ip6t_entry (linux/netfilter_ipv4/ip_tables.h). */
const LAYOUT = {
  4: { domain: 2, level: 0, nextOffset: 90, counters: 96 },
  6: { domain: 10, level: 41, nextOffset: 142, counters: 152 },
} as const;

/** IPT_SO_GET_INFO, IPT_SO_GET_ENTRIES; the same for IPv6. */
const OPTION = { info: 64, entries: 65 } as const;

/** struct ipt_getinfo: the table's name, its hooks, the number of entries, and their bytes in the last field. */
const INFO = { size: 84, bytes: 80 };
/** struct ipt_get_entries: the name (32 bytes), the bytes of the entries, and the entries, aligned to 8 bytes. */
const ENTRIES = { bytes: 32, first: 40 };
/** struct xt_counters: packets and bytes. */
const COUNTERS_SIZE = 16;

/**
 * Returns a table of iptables-legacy in this network namespace, as the kernel has it, with all counters 0; undefined if it has no
 * such table, or if the table is being changed. The kernel may load the table's module.
 */
export function legacyTable(family: IpFamily, table: string): Uint8Array | undefined {
  const { domain, level, nextOffset, counters } = LAYOUT[family];
  const read = (option: number, value: Buffer): void => {
    value.write(table, 'latin1');
    loadAddon().socketOptions(undefined, domain, level, option, value, Uint32Array.of(value.length));
  };
  const info = Buffer.alloc(INFO.size);
  read(OPTION.info, info);
  const size = info.readUInt32LE(INFO.bytes);
  if (size === 0) return undefined;
  const found = Buffer.alloc(ENTRIES.first + size);
  found.writeUInt32LE(size, ENTRIES.bytes);
  read(OPTION.entries, found);
  // The name, which the kernel leaves if it does not refuse.
  if (found[0] === 0) return undefined;
  for (let at = ENTRIES.first; at + counters + COUNTERS_SIZE <= found.length;) {
    found.fill(0, at + counters, at + counters + COUNTERS_SIZE);
    const next = found.readUInt16LE(at + nextOffset);
    if (next === 0) break;
    at += next;
  }
  return found;
}
