import type { ServiceDefinition } from '../model/service-model.ts';
import { sortedUnique } from '../base/sorted-unique.ts';
import { EMPTY, trimCapacity } from '../base/trim-capacity.ts';
import { compareText } from '../base/compare-text.ts';
import { type IpAddress, type IpFamily, compareIp } from '../base/ip.ts';
import type { IpSetEntry } from '../state/ip-set.ts';
import { compareVirtualServer } from '../state/virtual-server.ts';
import { compareEntry } from './entry-order.ts';
import { standsWith } from './granted-plan.ts';
import { filterUnchanged } from './filter-unchanged.ts';
import type {
  PlanWarning,
  PlannedEntry,
  PlannedHealthCheck,
  PlannedUdp,
  PlannedVirtualServer,
  ServicePlan,
} from './service-plan.ts';
import { ServiceLimit } from './service-limit.ts';
import type { SetRole } from './set-names.ts';

const NO_LOCAL_ENDPOINTS: ServicePlan['noLocalEndpoints'] = Object.freeze({ internal: EMPTY, external: EMPTY });

/** Collects a plan. Rules may add items in any order and repeatedly; the finished plan is sorted and unique. */
export class PlanDraft {
  readonly #virtualServers: PlannedVirtualServer[] = [];
  /** For each UDP virtual server with NAT, its serving endpoints on all nodes. */
  readonly #answering = new Map<PlannedVirtualServer, PlannedUdp['answering']>();
  readonly #addresses: IpAddress[] = [];
  readonly #entries: PlannedEntry[] = [];
  readonly #warnings: PlanWarning[] = [];
  #noLocalEndpoints = NO_LOCAL_ENDPOINTS;
  #healthCheck: PlannedHealthCheck | undefined;
  readonly #omitted: ReadonlySet<SetRole>;
  /** Must be asked before a virtual server and its entries are added. */
  readonly limit = new ServiceLimit();

  /** @param omitted sets whose entries are not planned */
  constructor(omitted: ReadonlySet<SetRole> = new Set()) {
    this.#omitted = omitted;
  }

  /** Of virtual servers with equal address, port and protocol, the lowest rank wins, then the first one added. */
  addVirtualServer(planned: PlannedVirtualServer, answering?: PlannedUdp['answering']): void {
    this.#virtualServers.push(planned);
    if (planned.virtualServer.protocol === 'UDP' && answering !== undefined) this.#answering.set(planned, answering);
  }

  addAddress(address: IpAddress): void {
    this.#addresses.push(address);
  }

  addEntry(role: SetRole, family: IpFamily, entry: IpSetEntry, portName?: string): void {
    if (this.#omitted.has(role)) return;
    this.#entries.push(portName === undefined ? { role, family, entry } : { role, family, entry, portName });
  }

  addWarning(warning: PlanWarning): void {
    this.#warnings.push(warning);
  }

  setHealthCheck(healthCheck: PlannedHealthCheck): void {
    this.#healthCheck = healthCheck;
  }

  addNoLocalEndpoints(
    family: IpFamily,
    { internalLocal, externalLocal }: Pick<ServiceDefinition, 'internalLocal' | 'externalLocal'>,
  ): void {
    const { internal, external } = this.#noLocalEndpoints;
    this.#noLocalEndpoints = {
      internal: internalLocal ? [...internal, family] : internal,
      external: externalLocal ? [...external, family] : external,
    };
  }

  finish({ name, createdAt }: Pick<ServiceDefinition, 'name' | 'createdAt'>): ServicePlan {
    if (this.limit.warning !== undefined) this.addWarning(this.limit.warning);
    const claims = sortedUnique(this.#virtualServers, compareClaims);
    const virtualServers = filterUnchanged(claims, isFirstOfItsKey);
    // Remove the entries of virtual servers that lost to one of the same Service with a lower rank.
    const entries =
      virtualServers === claims
        ? this.#entries
        : this.#entries.filter(standsWith(virtualServers, NO_ADDRESSES, this.#healthCheck !== undefined));
    return {
      service: name,
      ...(createdAt === undefined ? {} : { createdAt }),
      virtualServers: trimCapacity(virtualServers),
      addresses: sortedOnce(this.#addresses, compareIp),
      entries: sortedOnce(entries, compareEntry),
      ...(this.#healthCheck === undefined ? {} : { healthCheck: this.#healthCheck }),
      udp: this.#udpOf(virtualServers),
      noLocalEndpoints: this.#noLocalEndpoints,
      warnings: sortedOnce(this.#warnings, compareWarning),
    };
  }

  #udpOf(virtualServers: readonly PlannedVirtualServer[]): readonly PlannedUdp[] {
    if (this.#answering.size === 0) return EMPTY;
    const udp: PlannedUdp[] = [];
    for (const planned of virtualServers) {
      const answering = this.#answering.get(planned);
      const { address, port, protocol } = planned.virtualServer;
      if (answering !== undefined) udp.push({ id: { address, port, protocol }, answering });
    }
    return trimCapacity(udp);
  }
}

const NO_ADDRESSES: ReadonlySet<IpAddress> = new Set();

function sortedOnce<T>(items: readonly T[], compare: (a: T, b: T) => number): readonly T[] {
  return trimCapacity(sortedUnique(items, compare));
}

function compareClaims(a: PlannedVirtualServer, b: PlannedVirtualServer): number {
  return compareVirtualServer(a.virtualServer, b.virtualServer) || a.rank - b.rank;
}

function isFirstOfItsKey(planned: PlannedVirtualServer, at: number, sorted: readonly PlannedVirtualServer[]): boolean {
  const before = sorted[at - 1];
  return before === undefined || compareVirtualServer(before.virtualServer, planned.virtualServer) !== 0;
}

function compareWarning(a: PlanWarning, b: PlanWarning): number {
  return compareText(a.reason, b.reason) || compareText(a.message, b.message);
}
