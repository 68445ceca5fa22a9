import { type NamespacedName, splitName } from '../base/service/names.ts';
import { type RealServerKey, realServerKey } from '../state/real-server.ts';
import type { RealServerStats, VirtualServerStats } from '../state/server-stats.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';
import { NO_TRAFFIC, type Traffic, sum } from './endpoint-state.ts';

/** Virtual servers whose real servers are read in one look. One Service of each namespace in turn, those that were read longest ago first. */
const MOST_READ = 2_000;

/** A virtual server as it was last read. */
interface Read {
  /** Undefined if it was not read yet. */
  readonly packets: number | undefined;
  /** Whether packets had come at the last look. The kernel may sum up the counters of its real servers a little later. */
  readonly grew: boolean;
  readonly servers: ReadonlyMap<RealServerKey, Traffic>;
}

type Reads = Map<VirtualServerKey, Read>;

const UNREAD: Read = { packets: undefined, grew: false, servers: new Map() };

/**
 * The traffic of the endpoints of each Service in a look. An endpoint without traffic may be absent. It is unknown when its
 * counters began anew since the last read.
 */
export type TrafficOf = ReadonlyMap<NamespacedName, ReadonlyMap<RealServerKey, Traffic | 'unknown'>>;

/** The Services of a look, and the virtual servers to read. */
export interface Look {
  readonly services: readonly NamespacedName[];
  /** Those of their virtual servers that got packets. */
  readonly ids: readonly VirtualServerId[];
  readonly grew: boolean;
}

/** Remembers counters, and returns their growth. Only virtual servers that got packets are read. */
export class TrafficSince {
  #services = new Map<NamespacedName, Reads>();

  /** Begins a look. @param services the virtual servers of each Service that is checked */
  begin(
    services: ReadonlyMap<NamespacedName, readonly VirtualServerId[]>,
    stats: ReadonlyMap<VirtualServerKey, VirtualServerStats>,
  ): Look {
    const looked: NamespacedName[] = [];
    const ids: VirtualServerId[] = [];
    let anyGrew = false;
    for (const service of this.#inTurn(services)) {
      const before = this.#services.get(service);
      const after: Reads = new Map();
      const grown: VirtualServerId[] = [];
      for (const id of services.get(service) ?? []) {
        const key = virtualServerKey(id);
        const packets = stats.get(key)?.incomingPackets;
        const last = before?.get(key) ?? UNREAD;
        if (packets === undefined) {
          // It is gone. Its counters since the last read are not known: the read will not find it.
          if (last.servers.size > 0) {
            grown.push(id);
            after.set(key, { ...UNREAD, servers: last.servers });
          }
          continue;
        }
        const grew = packets !== last.packets;
        anyGrew ||= grew;
        if (grew || last.grew) grown.push(id);
        after.set(key, { ...last, packets, grew });
      }
      if (grown.length > 0 && ids.length > 0 && ids.length + grown.length > MOST_READ) continue;
      this.#services.delete(service);
      this.#services.set(service, after);
      ids.push(...grown);
      looked.push(service);
    }
    return { services: looked, ids, grew: anyGrew };
  }

  /** Ends a look. Returns the growth of the counters of each endpoint since the last read. */
  end({ services, ids }: Look, read: ReadonlyMap<VirtualServerKey, readonly RealServerStats[]>): TrafficOf {
    const traffic = new Map<NamespacedName, ReadonlyMap<RealServerKey, Traffic | 'unknown'>>();
    const gone = new Set(ids.map(virtualServerKey).filter((key) => !read.has(key)));
    for (const service of services) traffic.set(service, this.#growthOf(service, read, gone));
    return traffic;
  }

  #growthOf(
    service: NamespacedName,
    read: ReadonlyMap<VirtualServerKey, readonly RealServerStats[]>,
    gone: ReadonlySet<VirtualServerKey>,
  ): ReadonlyMap<RealServerKey, Traffic | 'unknown'> {
    const sums = new Map<RealServerKey, Traffic | 'unknown'>();
    const reads = this.#services.get(service);
    for (const [key, before] of reads ?? []) {
      const stats = gone.has(key) ? [] : read.get(key);
      if (stats === undefined) continue;
      const servers = new Map(stats.map((server) => [realServerKey(server), trafficOf(server)]));
      reads?.set(key, { ...before, servers });
      for (const of of new Set([...before.servers.keys(), ...servers.keys()])) {
        const grown = growth(before.servers.get(of), servers.get(of));
        const known = sums.get(of) ?? NO_TRAFFIC;
        sums.set(of, grown === 'unknown' || known === 'unknown' ? 'unknown' : sum(known, grown));
      }
    }
    return sums;
  }

  #inTurn(services: ReadonlyMap<NamespacedName, readonly VirtualServerId[]>): NamespacedName[] {
    for (const service of this.#services.keys()) if (!services.has(service)) this.#services.delete(service);
    const unread = Array.from(services.keys()).filter((name) => !this.#services.has(name));
    return inTurn([...unread, ...this.#services.keys()]);
  }
}

/** Returns the first Service of each namespace, then the second of each, and so on. */
function inTurn(services: readonly NamespacedName[]): NamespacedName[] {
  const namespaces = Map.groupBy(services, (service) => splitName(service).namespace);
  const turns: NamespacedName[][] = [];
  for (const ofNamespace of namespaces.values()) {
    for (const [turn, service] of ofNamespace.entries()) (turns[turn] ??= []).push(service);
  }
  return turns.flat();
}

/** Returns the traffic of Services that got no packet. */
export function noTraffic(services: Iterable<NamespacedName>): TrafficOf {
  return new Map(Array.from(services, (service) => [service, new Map()]));
}

function trafficOf({ connections, ...server }: RealServerStats): Traffic {
  const { incomingPackets, outgoingPackets, incomingBytes, outgoingBytes } = server;
  return { connections, incomingPackets, outgoingPackets, incomingBytes, outgoingBytes };
}

/** The counters begin anew when another program resets them, or when a real server is added again. */
function growth(last: Traffic | undefined, now: Traffic | undefined): Traffic | 'unknown' {
  if (last === undefined || now === undefined || beganAnew(last, now)) return 'unknown';
  return {
    connections: now.connections - last.connections,
    incomingPackets: now.incomingPackets - last.incomingPackets,
    outgoingPackets: now.outgoingPackets - last.outgoingPackets,
    incomingBytes: now.incomingBytes - last.incomingBytes,
    outgoingBytes: now.outgoingBytes - last.outgoingBytes,
  };
}

function beganAnew(last: Traffic, now: Traffic): boolean {
  const { connections, incomingPackets, outgoingPackets } = now;
  return (
    connections < last.connections || incomingPackets < last.incomingPackets || outgoingPackets < last.outgoingPackets
  );
}
