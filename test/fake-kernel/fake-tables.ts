import { constants } from 'node:os';
import { formatCidr } from '../../src/base/cidr.ts';
import { type IpAddress, familyOf, formatIp } from '../../src/base/ip.ts';
import { unreachable } from '../../src/base/unreachable.ts';
import { type IpSet, type IpSetEntry, type IpSetEntryKey, ipSetEntryKey } from '../../src/state/ip-set.ts';
import type { LocalRoute } from '../../src/state/local-route.ts';
import type { Op } from '../../src/state/op.ts';
import type { RuleSet } from '../../src/state/rules/rule-set.ts';
import {
  FORWARDING,
  forwardingOf,
  type ObservedRealServer,
  type RealServer,
  type RealServerKey,
  realServerKey,
} from '../../src/state/real-server.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  VS_HASHED,
  borrows,
  virtualServerKey,
} from '../../src/state/virtual-server.ts';
import type { Flow } from '../../src/kernel/kernel.ts';
import { NO_STATS, type VirtualServerStats } from '../../src/state/server-stats.ts';

/** IPSET_ERR_PROTOCOL in linux/netfilter/ipset/ip_set.h: the attributes do not fit the type of the set. */
const IPSET_ERR_PROTOCOL = 4097;
/** A rule refers to the set. */
const IPSET_ERR_BUSY = 4100;
/** Two sets of different types cannot be swapped. */
const IPSET_ERR_TYPE_MISMATCH = 4102;
/** The set is full (maxelem). Hash types only. */
const IPSET_ERR_HASH_FULL = 4352;
const { EEXIST, EINVAL, ENODEV, ENOENT, ESRCH } = constants.errno;

interface FakeVirtualServer {
  virtualServer: VirtualServer;
  readonly realServers: Map<RealServerKey, ObservedRealServer>;
  stats: VirtualServerStats;
  /** Counters of the real servers that have any. */
  readonly realServerStats: Map<RealServerKey, VirtualServerStats>;
}

interface FakeSet {
  readonly set: IpSet;
  readonly entries: Map<IpSetEntryKey, IpSetEntry>;
}

/** State of the fake kernel outside of the tables: its schedulers, and which sets are used by rules. */
export interface FakeSurroundings {
  readonly schedulers: ReadonlySet<string>;
  setInUse(name: string): boolean;
}

/**
 * The kernel's tables in memory. `apply` performs one operation and returns 0 or a positive errno, as the real handles
 * do: they map EEXIST and ENOENT to success.
 */
export class FakeTables {
  readonly virtualServers = new Map<VirtualServerKey, FakeVirtualServer>();
  readonly sets = new Map<string, FakeSet>();
  readonly bound = new Set<IpAddress>();
  /** Bound addresses that another program added, with other flags. */
  readonly otherFlags = new Set<IpAddress>();
  /** Bound addresses whose routes in table local another program deleted. */
  readonly unrouted = new Set<IpAddress>();
  /** Local routes by the text of their CIDR and their source. */
  readonly routes = new Map<string, LocalRoute>();
  /** Whether kube-ipvs0 exists. */
  device = false;
  readonly #surroundings: FakeSurroundings;

  constructor(surroundings: FakeSurroundings) {
    this.#surroundings = surroundings;
  }

  apply(op: Op): number {
    switch (op.kind) {
      case 'create-set':
        return this.#createSet(op.set);
      case 'grow-set':
        return this.#growSet(op.set, op.entries);
      case 'destroy-set':
        return this.#destroySet(op.set);
      case 'add-entry':
        return this.#addEntry(op.set, op.entry);
      case 'delete-entry':
        this.sets.get(op.set.name)?.entries.delete(ipSetEntryKey(op.entry));
        return 0;
      case 'add-virtual-server':
        return this.#setVirtualServer(op.virtualServer, 'add');
      case 'edit-virtual-server':
        return this.#setVirtualServer(op.virtualServer, 'edit');
      case 'delete-virtual-server':
        this.virtualServers.delete(virtualServerKey(op.id));
        return 0;
      case 'add-real-server':
        return this.#setRealServer(op.id, op.realServer, 'add');
      case 'edit-real-server':
        return this.#setRealServer(op.id, op.realServer, 'edit');
      case 'delete-real-server':
        return this.#deleteRealServer(op.id, op.realServer);
      case 'bind-address':
        if (!this.device) return ENODEV;
        this.bound.add(op.address);
        this.otherFlags.delete(op.address);
        if (op.again === true) this.unrouted.delete(op.address);
        return 0;
      case 'unbind-address':
        this.bound.delete(op.address);
        this.otherFlags.delete(op.address);
        this.unrouted.delete(op.address);
        return 0;
      case 'add-route':
        if (!this.routes.has(routeKey(op))) {
          const { cidr, source } = op;
          this.routes.set(routeKey(op), { cidr, ours: true, ...(source === undefined ? {} : { source }) });
        }
        return 0;
      case 'delete-route':
        if (this.routes.get(routeKey(op))?.ours === true) this.routes.delete(routeKey(op));
        return 0;
      default:
        return unreachable(op);
    }
  }

  #createSet(set: IpSet): number {
    const present = this.sets.get(set.name);
    if (present === undefined) {
      this.sets.set(set.name, { set, entries: new Map() });
      return 0;
    }
    const same =
      present.set.type === set.type &&
      present.set.maxEntries === set.maxEntries &&
      (set.type === 'bitmap:port' || present.set.family === set.family);
    return same ? 0 : EEXIST;
  }

  #growSet(set: IpSet, entries: readonly IpSetEntry[]): number {
    const present = this.sets.get(set.name)?.set;
    if (present === undefined) return ENOENT;
    if (present.type !== set.type || present.family !== set.family) return IPSET_ERR_TYPE_MISMATCH;
    if (entries.length > set.maxEntries) return IPSET_ERR_HASH_FULL;
    if (entries.some((entry) => entry.type !== set.type)) return IPSET_ERR_PROTOCOL;
    this.sets.set(set.name, { set, entries: new Map(entries.map((entry) => [ipSetEntryKey(entry), entry])) });
    return 0;
  }

  #destroySet(set: IpSet): number {
    if (this.sets.has(set.name) && this.#surroundings.setInUse(set.name)) return IPSET_ERR_BUSY;
    this.sets.delete(set.name);
    return 0;
  }

  #addEntry(set: IpSet, entry: IpSetEntry): number {
    const present = this.sets.get(set.name);
    if (present === undefined) return ENOENT;
    if (present.set.type !== entry.type) return IPSET_ERR_PROTOCOL;
    const key = ipSetEntryKey(entry);
    if (!present.entries.has(key) && present.entries.size >= present.set.maxEntries) return IPSET_ERR_HASH_FULL;
    present.entries.set(key, entry);
    return 0;
  }

  #setVirtualServer(wanted: VirtualServer, verb: 'add' | 'edit'): number {
    if (!this.#surroundings.schedulers.has(wanted.scheduler)) return ENOENT;
    const key = virtualServerKey(wanted);
    const present = this.virtualServers.get(key);
    if (present === undefined && verb === 'edit') return ESRCH;
    const virtualServer = { ...wanted, flags: wanted.flags & ~VS_HASHED };
    if (present === undefined) {
      const nothing = { realServers: new Map(), stats: NO_STATS, realServerStats: new Map() };
      this.virtualServers.set(key, { virtualServer, ...nothing });
    } else present.virtualServer = virtualServer;
    if (borrows(wanted, wanted)) this.virtualServers.get(key)?.realServers.clear();
    return 0;
  }

  #deleteRealServer(id: VirtualServerId, server: Pick<RealServer, 'address' | 'port'>): number {
    const virtualServer = this.virtualServers.get(virtualServerKey(id));
    virtualServer?.realServers.delete(realServerKey(server));
    virtualServer?.realServerStats.delete(realServerKey(server));
    return 0;
  }

  #setRealServer(id: VirtualServerId, wanted: RealServer, verb: 'add' | 'edit'): number {
    // Only a tunnel may lead to the other family.
    if (familyOf(id.address) !== familyOf(wanted.address) && forwardingOf(wanted) !== FORWARDING.tunnel) return EINVAL;
    const virtualServer = this.virtualServers.get(virtualServerKey(id));
    if (virtualServer === undefined) return ESRCH;
    const key = realServerKey(wanted);
    const present = virtualServer.realServers.get(key);
    if (present === undefined && verb === 'edit') return ENOENT;
    const { address, port, weight, upperThreshold = 0, lowerThreshold = 0, forwarding = FORWARDING.nat } = wanted;
    const { tunnelType = 0, tunnelPort = 0, tunnelFlags = 0 } = wanted;
    const { activeConnections = 0, inactiveConnections = 0, persistentConnections = 0 } = present ?? {};
    virtualServer.realServers.set(key, {
      address,
      port,
      weight,
      upperThreshold,
      lowerThreshold,
      forwarding,
      tunnelType,
      tunnelPort,
      tunnelFlags,
      activeConnections,
      inactiveConnections,
      persistentConnections,
    });
    return 0;
  }
}

/** Returns the names of the sets that rules use: the argument after --match-set. */
export function matchedSets(rules: RuleSet): string[] {
  const all = rules.chains.flatMap((chain) => chain.rules);
  return all.flatMap((rule) => rule.filter((_, index) => rule[index - 1] === '--match-set'));
}

export function flowKey(flow: Flow): string {
  const { protocol, source, sourcePort, destination, destinationPort } = flow;
  return [familyOf(source), protocol, source, sourcePort, destination, destinationPort].join(' ');
}

function routeKey({ cidr, source }: Pick<LocalRoute, 'cidr' | 'source'>): string {
  return source === undefined ? formatCidr(cidr) : `${formatCidr(cidr)} ${formatIp(source)}`;
}
