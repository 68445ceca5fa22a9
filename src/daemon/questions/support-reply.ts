import { compareText } from '../../base/text/compare-text.ts';
import { release } from 'node:os';
import { configz, flagz } from '../../config/configz.ts';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import { REPLY_API_VERSION } from '../../explain/replies.ts';
import type { SupportReply } from '../../explain/node/node-replies.ts';
import { wordsOf } from '../../explain/words.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { ProxyMetrics } from '../../observe/proxy-metrics.ts';
import { findServing } from '../../reconcile/compare/read-virtual-servers.ts';
import { formatIp } from '../../base/ip.ts';
import { formatIpSetEntry } from '../../state/ip-set.ts';
import { formatRealServer } from '../../state/real-server.ts';
import { compareVirtualServer, formatVirtualServer, virtualServerKey } from '../../state/virtual-server.ts';

export interface SupportParts {
  readonly node: string;
  readonly config: ProxyConfig;
  readonly metrics: Pick<ProxyMetrics, 'expose'>;
  readonly kernel: Pick<
    KernelReader,
    'mode' | 'getVirtualServers' | 'getRealServers' | 'getSets' | 'getBoundAddresses' | 'listTables'
  >;
}

/** Bounds the reply. */
const MOST_VIRTUAL_SERVERS = 2_000;
const MOST_ENTRIES = 5_000;

/** Collects what a support archive has of this node. */
export async function supportReply({ node, config, metrics, kernel }: SupportParts): Promise<SupportReply> {
  const all = (await kernel.getVirtualServers()).toSorted(compareVirtualServer);
  const listed = all.slice(0, MOST_VIRTUAL_SERVERS);
  const realServers = await findServing(kernel, listed);
  const sets = (await kernel.getSets()).toSorted((a, b) => compareText(a.name, b.name));
  return {
    apiVersion: REPLY_API_VERSION,
    kind: 'Support',
    node,
    ok: true,
    verdict: `configuration, metrics and kernel state of node ${node}`,
    versions: { kernel: release(), nodejs: process.version, architecture: process.arch },
    configuration: configz(config),
    flags: flagz(config),
    metrics: Buffer.concat(await metrics.expose()).toString(),
    virtualServers: {
      count: all.length,
      first: listed.map((id) => ({
        at: formatVirtualServer(id),
        scheduler: id.scheduler,
        realServers: (realServers.get(virtualServerKey(id)) ?? [])
          .map(({ upperThreshold = 0, lowerThreshold = 0, ...server }) => ({
            at: formatRealServer(server),
            weight: server.weight,
            ...(upperThreshold === 0 ? {} : { limit: `${upperThreshold}/${lowerThreshold}` }),
            activeConnections: server.activeConnections,
            inactiveConnections: server.inactiveConnections,
          }))
          .toSorted((one, other) => compareText(one.at, other.at)),
      })),
    },
    sets: sets.map((set) => ({
      name: wordsOf(kernel.mode).set(set),
      count: set.entries.length,
      first: set.entries.map(formatIpSetEntry).toSorted(compareText).slice(0, MOST_ENTRIES),
    })),
    tables: await kernel.listTables(MOST_ENTRIES),
    addresses: (await kernel.getBoundAddresses()).map(({ address }) => formatIp(address)).toSorted(compareText),
  };
}
