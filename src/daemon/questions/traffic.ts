import { counted } from '../../base/text/counted.ts';
import { Yielder } from '../../base/yielder.ts';
import { REPLY_API_VERSION, type TrafficBy, type TrafficReply } from '../../explain/replies.ts';
import { trafficRows } from '../../explain/traffic-rows.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { Clock } from '../../reconcile/timing/clock.ts';
import type { VirtualServerId } from '../../state/virtual-server.ts';

export type TrafficKernel = Pick<KernelReader, 'getVirtualServers' | 'getVirtualServerStats' | 'getRealServerStats'>;

export interface TrafficParts {
  readonly node: string;
  readonly by: TrafficBy;
  /** Only Services of this namespace. */
  readonly namespace?: string | undefined;
  readonly kernel: TrafficKernel;
  readonly clock: Pick<Clock, 'now'>;
  readonly ownerOf: (id: VirtualServerId) => string | undefined;
}

/** Bounds the reply. */
const MOST_ROWS = 5_000;

/** Reads the counters of IPVS, or of the userspace engine. */
export async function trafficReply(parts: TrafficParts): Promise<TrafficReply> {
  const { node, by, namespace, kernel, clock, ownerOf } = parts;
  const all = await kernel.getVirtualServers();
  const ids = namespace === undefined ? all : all.filter((id) => ownerOf(id)?.startsWith(`${namespace}/`) === true);
  const stats = await kernel.getVirtualServerStats();
  const readAtSeconds = clock.now() / 1000;
  const realServers = await kernel.getRealServerStats(ids);
  const rows = await new Yielder().finish(trafficRows(by, { ids, stats, realServers }, ownerOf));
  const most = rows.length > MOST_ROWS ? rows.toSorted((a, b) => b.connections - a.connections) : rows;
  return {
    apiVersion: REPLY_API_VERSION,
    kind: 'Traffic',
    node,
    ok: true,
    verdict: `counters of ${counted(ids.length, 'virtual server')} on node ${node}`,
    by,
    readAtSeconds,
    rows: most.slice(0, MOST_ROWS),
    more: Math.max(0, rows.length - MOST_ROWS),
  };
}
