import type { ServiceDefinition } from '../model/service-model.ts';
import { sortedUnique } from '../base/sorted-unique.ts';
import { EMPTY, trimCapacity } from '../base/trim-capacity.ts';
import { compareText } from '../base/text/compare-text.ts';
import { type IpAddress, type IpFamily, compareIp } from '../base/ip.ts';
import { compareVirtualServer, virtualServerId } from '../state/virtual-server.ts';
import { CLAIM_RANK } from './claim-rank.ts';
import { filterUnchanged } from './endpoint/filter-unchanged.ts';
import type {
  PlanWarning,
  PlannedHairpin,
  PlannedHealthCheck,
  PlannedLocalNodePort,
  PlannedUdp,
  PlannedVirtualServer,
  ServicePlan,
} from './service-plan.ts';
import { sameElements } from './share-plan.ts';
import type { PlanConfig } from './plan-config.ts';
import { withSharedLists } from './shared-lists.ts';
import { ServiceLimit } from './service-limit.ts';
import { withEntries } from './set-entries.ts';

const NO_LOCAL_ENDPOINTS: ServicePlan['noLocalEndpoints'] = Object.freeze({ internal: EMPTY, external: EMPTY });

/** Collects a plan. Rules may add items in any order and repeatedly; the finished plan is sorted and unique. */
export class PlanDraft {
  readonly #virtualServers: PlannedVirtualServer[] = [];
  /** For each UDP virtual server with NAT, its serving endpoints on all nodes. */
  readonly #answering = new Map<PlannedVirtualServer, PlannedUdp['answering']>();
  readonly #addresses: IpAddress[] = [];
  readonly #closed: IpAddress[] = [];
  readonly #hairpins: PlannedHairpin[] = [];
  readonly #localNodePorts: PlannedLocalNodePort[] = [];
  readonly #warnings: PlanWarning[] = [];
  #noLocalEndpoints = NO_LOCAL_ENDPOINTS;
  #healthCheck: PlannedHealthCheck | undefined;
  /** Must be asked before a virtual server is added. */
  readonly limit: ServiceLimit;
  readonly #sharesEndpoints: boolean;

  constructor({ sharesEndpoints = false }: Pick<PlanConfig, 'sharesEndpoints'>) {
    this.#sharesEndpoints = sharesEndpoints;
    this.limit = new ServiceLimit(sharesEndpoints);
  }

  /** Of virtual servers with equal address, port and protocol, the lowest rank wins, then the first one added. */
  addVirtualServer(planned: PlannedVirtualServer, answering?: PlannedUdp['answering']): void {
    this.#virtualServers.push(planned);
    if (planned.virtualServer.protocol === 'UDP' && answering !== undefined) this.#answering.set(planned, answering);
  }

  addAddress(address: IpAddress): void {
    this.#addresses.push(address);
  }

  closeAddress(address: IpAddress): void {
    this.#closed.push(address);
  }

  addHairpin(hairpin: PlannedHairpin): void {
    this.#hairpins.push(hairpin);
  }

  addLocalNodePort(planned: PlannedLocalNodePort): void {
    this.#localNodePorts.push(planned);
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
    const unshared = filterUnchanged(claims, isFirstOfItsKey);
    const virtualServers = this.#sharesEndpoints ? withSharedLists(unshared) : unshared;
    const addresses = sortedOnce(this.#addresses, compareIp);
    const closed = sortedOnce(this.#closed, compareIp);
    return withEntries({
      service: name,
      ...(createdAt === undefined ? {} : { createdAt }),
      virtualServers: trimCapacity(virtualServers),
      addresses,
      // Usually they are the same.
      closed: sameElements(addresses, closed, Object.is) ? addresses : closed,
      hairpins: trimCapacity(this.#hairpins),
      ...(this.#healthCheck === undefined ? {} : { healthCheck: this.#healthCheck }),
      udp: this.#udpOf(unshared),
      ...(this.#localNodePorts.length === 0 ? {} : { localNodePorts: trimCapacity(this.#localNodePorts) }),
      noLocalEndpoints: this.#noLocalEndpoints,
      warnings: sortedOnce(this.#warnings, compareWarning),
    });
  }

  #udpOf(virtualServers: readonly PlannedVirtualServer[]): readonly PlannedUdp[] {
    if (this.#answering.size === 0) return EMPTY;
    const udp: PlannedUdp[] = [];
    for (const planned of virtualServers) {
      const answering = this.#answering.get(planned);
      if (answering !== undefined) udp.push({ id: virtualServerId(planned.virtualServer), answering });
    }
    return trimCapacity(udp);
  }
}

function sortedOnce<T>(items: readonly T[], compare: (a: T, b: T) => number): readonly T[] {
  return trimCapacity(sortedUnique(items, compare));
}

function compareClaims(a: PlannedVirtualServer, b: PlannedVirtualServer): number {
  return (
    compareVirtualServer(a.virtualServer, b.virtualServer) || CLAIM_RANK[a.traits.kind] - CLAIM_RANK[b.traits.kind]
  );
}

function isFirstOfItsKey(planned: PlannedVirtualServer, at: number, sorted: readonly PlannedVirtualServer[]): boolean {
  const before = sorted[at - 1];
  return before === undefined || compareVirtualServer(before.virtualServer, planned.virtualServer) !== 0;
}

function compareWarning(a: PlanWarning, b: PlanWarning): number {
  return compareText(a.reason, b.reason) || compareText(a.message, b.message);
}
