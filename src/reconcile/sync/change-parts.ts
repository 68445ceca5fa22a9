import type { IpAddress } from '../../base/ip.ts';
import { MODES, type ProxyMode } from '../../base/proxy-mode.ts';
import type {
  AddressChange,
  EntryChange,
  NodePlan,
  PlanChanges,
  VirtualServerChange,
} from '../../plan/node/node-plan.ts';
import { ipSetEntryKey } from '../../state/ip-set.ts';
import { type VirtualServerKey, borrows, virtualServerKey } from '../../state/virtual-server.ts';

/** Returns the virtual servers and real servers that a change of a virtual server reads or writes. */
export type ChangeCost = (change: VirtualServerChange) => number;

/**
 * Divides large changes into parts, so that those of other Services need not wait for all of a large one: the Services with
 * the smallest changes come first. A part has whole virtual servers with their set entries. An address is bound, and a
 * ClusterIP is added to its set, with the last virtual server there.
 */
export function partsOf(
  changes: PlanChanges,
  plan: Pick<NodePlan, 'ownerOf'>,
  mode: ProxyMode,
  cost: ChangeCost,
): readonly PlanChanges[] {
  const most = MODES[mode].mostInPart;
  const total = changes.virtualServers.reduce((sum, change) => sum + cost(change), 0);
  if (total <= most) return [changes];
  const parts = new Parts(cost);
  for (const change of smallestFirst(changes.virtualServers, plan, cost)) parts.addVirtualServer(change, most);
  for (const change of changes.entries) parts.addEntry(change);
  for (const change of changes.addresses) parts.addAddress(change);
  return parts.all;
}

/** Returns the same objects as they are wanted now. What came meanwhile has been applied, or has failed. */
export function asWantedNow(
  { virtualServers, addresses, entries }: PlanChanges,
  plan: Pick<NodePlan, 'virtualServer' | 'wantsAddress' | 'entries'>,
): PlanChanges {
  return {
    virtualServers: virtualServers.map((change) => {
      const wanted = plan.virtualServer(virtualServerKey(change.id));
      return wanted === change.wanted ? change : { id: change.id, before: 'unknown', wanted };
    }),
    addresses: addresses.map(({ address }) => ({ address, wanted: plan.wantsAddress(address) })),
    entries: entries.map((change) => ({
      ...change,
      wanted: plan.entries(change.role, change.family).has(ipSetEntryKey(change.entry)),
    })),
  };
}

/** A virtual server that nobody wants any more is a Service of its own. */
function smallestFirst(
  changes: readonly VirtualServerChange[],
  plan: Pick<NodePlan, 'ownerOf'>,
  cost: ChangeCost,
): readonly VirtualServerChange[] {
  const byOwner = Map.groupBy(changes, ({ id }) => plan.ownerOf(virtualServerKey(id)) ?? virtualServerKey(id));
  const services = Array.from(byOwner.values(), (ofOwner) => ({
    ofOwner,
    size: ofOwner.reduce((sum, change) => sum + cost(change), 0),
  }));
  return services.sort((a, b) => a.size - b.size).flatMap(({ ofOwner }) => ofOwner.toSorted(lendersFirst));
}

/** Puts virtual servers that use the list of another one last, because that list must exist. */
function lendersFirst(a: VirtualServerChange, b: VirtualServerChange): number {
  return Number(isBorrower(a)) - Number(isBorrower(b));
}

function isBorrower({ id, wanted }: VirtualServerChange): boolean {
  return wanted !== undefined && borrows(id, wanted.virtualServer);
}

interface Part {
  readonly virtualServers: VirtualServerChange[];
  readonly addresses: AddressChange[];
  readonly entries: EntryChange[];
}

class Parts {
  readonly all: Part[] = [{ virtualServers: [], addresses: [], entries: [] }];
  readonly #ofServer = new Map<VirtualServerKey, Part>();
  readonly #firstOf = new Map<IpAddress, Part>();
  readonly #lastOf = new Map<IpAddress, Part>();
  readonly #cost: ChangeCost;
  #size = 0;

  constructor(cost: ChangeCost) {
    this.#cost = cost;
  }

  addVirtualServer(change: VirtualServerChange, most: number): void {
    const size = this.#cost(change);
    let part = this.#last;
    if (part.virtualServers.length > 0 && this.#size + size > most) {
      this.all.push((part = { virtualServers: [], addresses: [], entries: [] }));
      this.#size = 0;
    }
    this.#size += size;
    part.virtualServers.push(change);
    const { id } = change;
    this.#ofServer.set(virtualServerKey(id), part);
    if (!this.#firstOf.has(id.address)) this.#firstOf.set(id.address, part);
    this.#lastOf.set(id.address, part);
  }

  /** Entries of no changed virtual server are added first and deleted last. */
  addEntry(change: EntryChange): void {
    const { entry, wanted } = change;
    const part =
      entry.type === 'bitmap:port'
        ? undefined
        : entry.type === 'hash:ip'
          ? this.#lastOf.get(entry.address)
          : this.#ofServer.get(virtualServerKey(entry));
    (part ?? (wanted ? this.#first : this.#last)).entries.push(change);
  }

  addAddress(change: AddressChange): void {
    const { address, wanted } = change;
    const part = wanted ? this.#lastOf.get(address) : this.#firstOf.get(address);
    (part ?? this.#last).addresses.push(change);
  }

  get #first(): Part {
    return this.all[0] as Part;
  }

  get #last(): Part {
    return this.all.at(-1) as Part;
  }
}
