import { createNftablesKernelReader } from '../../src/kernel/nftables/nftables-kernel.ts';
import { formatIpSetEntry } from '../../src/state/ip-set.ts';
import { formatRealServer } from '../../src/state/real-server.ts';
import { VS_PERSISTENT, formatVirtualServer, virtualServerKey } from '../../src/state/virtual-server.ts';
import type { Namespace } from '../bed/namespace.ts';
import { QuietLog } from '../contract/quiet-log.ts';
import type { KernelTables } from './kernel-tables.ts';
import { setLine, virtualServerLine } from './tables.ts';

/** What the tables of nftables mode hold, in the words of the scenarios. */
export async function readNftTables(node: Namespace): Promise<KernelTables> {
  const kernel = createNftablesKernelReader({ log: new QuietLog(), netns: `/run/netns/${node.netns}` });
  try {
    const services = await kernel.getVirtualServers();
    const servers = await kernel.getRealServers(services);
    return {
      'virtual servers': services.map((service) => {
        const options = (service.flags & VS_PERSISTENT) === 0 ? [] : [`persistent ${service.timeout}`];
        const found = servers.get(virtualServerKey(service)) ?? [];
        const real = found.map((server) => ({ at: formatRealServer(server), weight: server.weight }));
        return virtualServerLine(formatVirtualServer(service), service.scheduler, options, real);
      }),
      sets: (await kernel.getSets()).map(({ name, entries }) => setLine(name, entries.map(formatIpSetEntry))),
      addresses: [],
      'local routes': [],
    };
  } finally {
    await kernel.close();
  }
}

/** Returns what nftables mode has of the tables of ipvs mode. */
export function asInNftablesMode(table: keyof KernelTables, lines: readonly string[]): readonly string[] {
  if (table === 'sets') return lines;
  if (table !== 'virtual servers') return [];
  return lines.map((line) =>
    line.replace(/^(\S+ \S+) \S+(.*) ->/, '$1 random$2 ->').replace(/ (fallback|port)(?= )/g, ''),
  );
}
