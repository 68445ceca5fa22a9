import { createIptablesKernelReader } from '../../src/kernel/iptables-mode/iptables-kernel.ts';
import type { KernelReader } from '../../src/kernel/kernel.ts';
import { createNftablesKernelReader } from '../../src/kernel/nftables/nftables-kernel.ts';
import { setName } from '../../src/plan/ipvs/set-names.ts';
import { IP_FAMILIES } from '../../src/base/ip.ts';
import { formatIpSetEntry } from '../../src/state/ip-set.ts';
import { formatRealServer } from '../../src/state/real-server.ts';
import { VS_PERSISTENT, formatVirtualServer, virtualServerKey } from '../../src/state/virtual-server.ts';
import type { Namespace } from '../bed/namespace.ts';
import { QuietLog } from '../contract/quiet-log.ts';
import { TEST_MODE } from '../support/mode.ts';
import type { KernelTables } from './kernel-tables.ts';
import { setLine, virtualServerLine } from './tables.ts';

/** One for each node, because finding out the variant of iptables takes several programs. */
const readers = new Map<string, KernelReader>();

function readerOf({ netns }: Namespace): KernelReader {
  const known = readers.get(netns);
  if (known !== undefined) return known;
  const options = { log: new QuietLog(), netns: `/run/netns/${netns}` };
  const reader =
    TEST_MODE === 'iptables'
      ? createIptablesKernelReader({ ...options, maxAgeMs: 0 })
      : createNftablesKernelReader(options);
  readers.set(netns, reader);
  return reader;
}

/** Closes what readModeTables() has opened. */
export async function closeReaders(): Promise<void> {
  for (const reader of readers.values()) await reader.close();
  readers.clear();
}

/** What the tables of the mode hold, in the words of the scenarios. */
export async function readModeTables(node: Namespace): Promise<KernelTables> {
  const kernel = readerOf(node);
  // In iptables mode, this reads the tables anew.
  const sets = await kernel.getSets();
  const services = await kernel.getVirtualServers();
  const servers = await kernel.getRealServers(services);
  return {
    'virtual servers': services.map((service) => {
      const options = (service.flags & VS_PERSISTENT) === 0 ? [] : [`persistent ${service.timeout}`];
      const found = servers.get(virtualServerKey(service)) ?? [];
      const real = found.map((server) => ({ at: formatRealServer(server), weight: server.weight }));
      return virtualServerLine(formatVirtualServer(service), service.scheduler, options, real);
    }),
    sets: sets.map(({ name, entries }) => setLine(name, entries.map(formatIpSetEntry))),
    addresses: [],
    'local routes': [],
  };
}

/** The sets that iptables mode does not have. */
const OMITTED: readonly string[] = (['LOOP-BACK', 'IPVS-IPS'] as const).flatMap((role) =>
  IP_FAMILIES.map((family) => setName(role, family)),
);

function nameOf(setLineText: string): string {
  return setLineText.slice(0, setLineText.indexOf(':'));
}

function isOmitted(setLineText: string): boolean {
  return OMITTED.includes(nameOf(setLineText));
}

/** Returns what the mode has of the tables of ipvs mode. */
export function asInMode(table: keyof KernelTables, lines: readonly string[]): readonly string[] {
  if (table === 'sets') {
    return TEST_MODE === 'iptables' ? lines.map((line) => (isOmitted(line) ? setLine(nameOf(line), []) : line)) : lines;
  }
  if (table !== 'virtual servers') return [];
  return lines.map((line) =>
    line.replace(/^(\S+ \S+) \S+(.*) ->/, '$1 random$2 ->').replace(/ (fallback|port)(?= )/g, ''),
  );
}
