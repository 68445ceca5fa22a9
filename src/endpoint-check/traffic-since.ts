import { type NamespacedName, splitName } from '../base/service/names.ts';
import { type RealServerKey, realServerKey } from '../state/real-server.ts';
import { NO_STATS, type RealServerStats, type VirtualServerStats, eachCounter } from '../state/server-stats.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';
import type { Traffic } from './endpoint-state.ts';

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

const UNREAD: Read = { packets: undefined, grew: false, servers: new Map() };

/** A Service whose endpoints are checked. */
interface Followed {
  readonly ids: readonly VirtualServerId[];
  reads: ReadonlyMap<VirtualServerKey, Read>;
  /** The number of the look that read it last; 0 before the first one. */
  readIn: number;
}

/** A Service of which virtual servers got packets. */
interface Grown {
  readonly service: NamespacedName;
  readonly followed: Followed;
  readonly ids: readonly VirtualServerId[];
  readonly reads: ReadonlyMap<VirtualServerKey, Read>;
}

/** Traffic of endpoints. It is unknown when their counters began anew since the last read. */
type OfEndpoints = ReadonlyMap<RealServerKey, Traffic | 'unknown'>;

/** What a look tells. */
export interface Looked {
  /** The traffic of endpoints since the last read, by Service. Those that are absent got none. */
  readonly traffic: ReadonlyMap<NamespacedName, OfEndpoints>;
  /** Services with traffic that were not read. */
  readonly leftOut: ReadonlySet<NamespacedName>;
}

export const NOTHING: Looked = { traffic: new Map(), leftOut: new Set() };

/** The Services of a look, and their virtual servers to read. */
export interface Look {
  readonly services: readonly NamespacedName[];
  readonly leftOut: ReadonlySet<NamespacedName>;
  readonly ids: readonly VirtualServerId[];
  /** Whether any virtual server got packets. */
  readonly grew: boolean;
}

/** Remembers counters, and returns their growth. Only virtual servers that got packets are read. */
export class TrafficSince {
  readonly #services = new Map<NamespacedName, Followed>();
  #looks = 0;

  /** Sets the virtual servers of each Service that is checked. */
  follow(services: ReadonlyMap<NamespacedName, readonly VirtualServerId[]>): void {
    for (const service of this.#services.keys()) if (!services.has(service)) this.#services.delete(service);
    for (const [service, ids] of services) {
      const { reads, readIn } = this.#services.get(service) ?? { reads: new Map<never, never>(), readIn: 0 };
      this.#services.set(service, { ids, reads, readIn });
    }
  }

  begin(stats: ReadonlyMap<VirtualServerKey, VirtualServerStats>): Look {
    this.#looks += 1;
    const services: NamespacedName[] = [];
    const leftOut = new Set<NamespacedName>();
    const ids: VirtualServerId[] = [];
    let grew = false;
    for (const grown of inTurn(this.#grown(stats))) {
      const { service, followed, reads } = grown;
      for (const read of reads.values()) grew ||= read.grew;
      if (ids.length > 0 && ids.length + grown.ids.length > MOST_READ) {
        leftOut.add(service);
        continue;
      }
      followed.reads = reads;
      followed.readIn = this.#looks;
      // Not push(...): a Service may have more of them than a call may have arguments.
      for (const id of grown.ids) ids.push(id);
      services.push(service);
    }
    return { services, leftOut, ids, grew };
  }

  /** Ends a look. Returns the growth of the counters of each endpoint since the last read. */
  end({ services, leftOut, ids }: Look, read: ReadonlyMap<VirtualServerKey, readonly RealServerStats[]>): Looked {
    const traffic = new Map<NamespacedName, OfEndpoints>();
    const gone = new Set(ids.map(virtualServerKey).filter((key) => !read.has(key)));
    for (const service of services) {
      const followed = this.#services.get(service);
      if (followed !== undefined) traffic.set(service, growthOf(followed, read, gone));
    }
    return { traffic, leftOut };
  }

  /** Returns the Services that got packets, those that were read longest ago first. */
  #grown(stats: ReadonlyMap<VirtualServerKey, VirtualServerStats>): Grown[] {
    const all: Grown[] = [];
    for (const [service, followed] of this.#services) {
      const reads = new Map<VirtualServerKey, Read>();
      const ids = followed.ids.filter((id) => {
        const key = virtualServerKey(id);
        const last = followed.reads.get(key) ?? UNREAD;
        const packets = stats.get(key)?.incomingPackets;
        if (packets !== undefined) {
          const grew = packets !== last.packets;
          reads.set(key, { ...last, packets, grew });
          return grew || last.grew;
        }
        // It is gone. Its counters since the last read are not known: the read will not find it.
        if (last.servers.size > 0) reads.set(key, { ...UNREAD, servers: last.servers });
        return last.servers.size > 0;
      });
      if (ids.length > 0) all.push({ service, followed, ids, reads });
    }
    return all.sort((a, b) => a.followed.readIn - b.followed.readIn);
  }
}

function growthOf(
  followed: Followed,
  read: ReadonlyMap<VirtualServerKey, readonly RealServerStats[]>,
  gone: ReadonlySet<VirtualServerKey>,
): OfEndpoints {
  const sums = new Map<RealServerKey, Traffic | 'unknown'>();
  const reads = new Map(followed.reads);
  for (const [key, before] of followed.reads) {
    const stats = gone.has(key) ? [] : read.get(key);
    if (stats === undefined) continue;
    const servers = new Map(stats.map((server) => [realServerKey(server), eachCounter((counter) => server[counter])]));
    reads.set(key, { ...before, servers });
    for (const of of new Set([...before.servers.keys(), ...servers.keys()])) {
      const grown = growth(before.servers.get(of), servers.get(of));
      const known = sums.get(of) ?? NO_STATS;
      const isKnown = grown !== 'unknown' && known !== 'unknown';
      sums.set(of, isKnown ? eachCounter((counter) => known[counter] + grown[counter]) : 'unknown');
    }
  }
  followed.reads = reads;
  return sums;
}

/** Returns the first Service of each namespace, then the second of each, and so on. */
function inTurn(services: readonly Grown[]): Grown[] {
  const namespaces = Map.groupBy(services, ({ service }) => splitName(service).namespace);
  const turns: Grown[][] = [];
  for (const ofNamespace of namespaces.values()) {
    for (const [turn, grown] of ofNamespace.entries()) (turns[turn] ??= []).push(grown);
  }
  return turns.flat();
}

/** The counters begin anew when another program resets them, or when a real server is added again. */
function growth(last: Traffic | undefined, now: Traffic | undefined): Traffic | 'unknown' {
  if (last === undefined || now === undefined || beganAnew(last, now)) return 'unknown';
  return eachCounter((counter) => now[counter] - last[counter]);
}

function beganAnew(last: Traffic, now: Traffic): boolean {
  const { connections, incomingPackets, outgoingPackets } = now;
  return (
    connections < last.connections || incomingPackets < last.incomingPackets || outgoingPackets < last.outgoingPackets
  );
}
