import { EMPTY } from '../../base/trim-capacity.ts';
import type { NamespacedName } from '../../base/service/names.ts';
import type { Port } from '../../base/port.ts';
import {
  type VirtualServerId,
  type VirtualServerKey,
  compareVirtualServer,
  formatVirtualServer,
  hasSameList,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import { CLAIM_RANK } from '../claim-rank.ts';
import { type Claim, ClaimTable } from './claim-table.ts';
import { grantedPlan } from './granted-plan.ts';
import type { PlannedHealthCheck, PlannedVirtualServer, ServicePlan } from '../service-plan.ts';
import { sharePlan } from '../share-plan.ts';

/** A lost claim: `service` needs a virtual server or health check port that belongs to `owner`. */
export interface Conflict {
  readonly service: NamespacedName;
  readonly owner: NamespacedName;
  readonly kind: 'virtual-server' | 'health-check-port';
  readonly claimed: string;
}

/** The changes in lost claims since the last takeConflictChanges(). */
export interface ConflictChanges {
  readonly services: readonly NamespacedName[];
  /** The current number of lost claims of all services. */
  readonly total: number;
}

/** Decides which service owns a virtual server or health check port, and tracks the services that lost a claim. */
export class ServiceClaims {
  readonly #onChange: (key: VirtualServerKey, id: VirtualServerId) => void;
  /** Services whose lost claims changed: #moved in this replace(), #conflictChanges since takeConflictChanges(). */
  #moved = new Set<NamespacedName>();
  readonly #conflictChanges = new Set<NamespacedName>();
  readonly virtualServers = new ClaimTable<VirtualServerKey, PlannedVirtualServer>(
    ({ traits }) => CLAIM_RANK[traits.kind],
    (service) => this.#moved.add(service),
  );
  readonly #healthPorts = new ClaimTable<Port, PlannedHealthCheck>(
    () => 0,
    (service) => this.#moved.add(service),
  );

  /** @param onChange called before a claim on a virtual server is added, removed or changed */
  constructor(onChange: (key: VirtualServerKey, id: VirtualServerId) => void) {
    this.#onChange = onChange;
  }

  /** Replaces a service's claims. Returns the services that won or lost claims because of it. */
  replace(
    service: NamespacedName,
    old: ServicePlan | undefined,
    plan: ServicePlan | undefined,
  ): ReadonlySet<NamespacedName> {
    this.#claimVirtualServers(service, old, plan);
    this.#claimHealthPort(service, old, plan);
    const moved = this.#moved;
    if (moved.size > 0) this.#moved = new Set();
    for (const each of moved) this.#conflictChanges.add(each);
    return moved;
  }

  /** Returns the plan without lost claims. It shares the parts that equal those of `inForce`, the previous plan. */
  grant(plan: ServicePlan, inForce: ServicePlan | undefined): ServicePlan {
    const { service, healthCheck } = plan;
    if (this.virtualServers.losses(service) + this.#healthPorts.losses(service) === 0) return plan;
    const granted = grantedPlan(plan, {
      has: (key) => this.virtualServers.owner(key)?.service === service,
      healthCheckPort: healthCheck !== undefined && this.#healthPorts.owner(healthCheck.port)?.service === service,
    });
    return sharePlan(granted, inForce);
  }

  /**
   * Records the virtual servers of a plan in force that its Service owns: after a lost claim was dropped, they may
   * share another list of real servers.
   */
  enforce({ service, virtualServers }: ServicePlan): void {
    for (const planned of virtualServers) {
      const key = virtualServerKey(planned.virtualServer);
      const owner = this.virtualServers.owner(key);
      if (owner?.service !== service || hasSameList(owner.planned.virtualServer, planned.virtualServer)) continue;
      this.#onChange(key, planned.virtualServer);
      this.virtualServers.change(key, owner, { ...owner, planned });
    }
  }

  /** The cost depends on the number of changes, not on the number of conflicts. */
  takeConflictChanges(): ConflictChanges {
    const services = [...this.#conflictChanges];
    this.#conflictChanges.clear();
    return { services, total: this.virtualServers.lossCount + this.#healthPorts.lossCount };
  }

  conflictsOf({ service, virtualServers, healthCheck }: ServicePlan): readonly Conflict[] {
    const found: Conflict[] = [];
    for (const { virtualServer } of this.virtualServers.losses(service) === 0 ? EMPTY : virtualServers) {
      const owner = this.virtualServers.owner(virtualServerKey(virtualServer))?.service;
      if (owner === undefined || owner === service) continue;
      found.push({ service, owner, kind: 'virtual-server', claimed: formatVirtualServer(virtualServer) });
    }
    const owner = healthCheck === undefined ? undefined : this.#healthPorts.owner(healthCheck.port)?.service;
    if (healthCheck !== undefined && owner !== undefined && owner !== service) {
      found.push({ service, owner, kind: 'health-check-port', claimed: `health check port ${healthCheck.port}` });
    }
    return found;
  }

  // Merges both sorted lists, and skips virtual servers that both plans share.
  #claimVirtualServers(service: NamespacedName, old: ServicePlan | undefined, plan: ServicePlan | undefined): void {
    const before = old?.virtualServers ?? EMPTY;
    const sameAge = old?.createdAt === plan?.createdAt;
    let at = 0;
    for (const planned of plan?.virtualServers ?? EMPTY) {
      let was = before[at];
      while (was !== undefined && compareVirtualServer(was.virtualServer, planned.virtualServer) < 0) {
        this.#claim(service, was, old?.createdAt, undefined, undefined);
        was = before[++at];
      }
      if (was !== undefined && compareVirtualServer(was.virtualServer, planned.virtualServer) === 0) at += 1;
      else was = undefined;
      if (was !== planned || !sameAge) this.#claim(service, was, old?.createdAt, planned, plan?.createdAt);
    }
    for (const gone of before.slice(at)) this.#claim(service, gone, old?.createdAt, undefined, undefined);
  }

  #claim(
    service: NamespacedName,
    before: PlannedVirtualServer | undefined,
    ageBefore: number | undefined,
    after: PlannedVirtualServer | undefined,
    age: number | undefined,
  ): void {
    const id = (after ?? before)?.virtualServer;
    if (id === undefined) return;
    const key = virtualServerKey(id);
    this.#onChange(key, id);
    this.virtualServers.change(key, claimOf(service, ageBefore, before), claimOf(service, age, after));
  }

  #claimHealthPort(service: NamespacedName, old: ServicePlan | undefined, plan: ServicePlan | undefined): void {
    const [before, after] = [old?.healthCheck, plan?.healthCheck];
    if (before === undefined && after === undefined) return;
    const was = claimOf(service, old?.createdAt, before);
    const now = claimOf(service, plan?.createdAt, after);
    if (before !== undefined && before.port !== after?.port) this.#healthPorts.change(before.port, was, undefined);
    if (after === undefined) return;
    this.#healthPorts.change(after.port, before?.port === after.port ? was : undefined, now);
  }
}

function claimOf<P>(
  service: NamespacedName,
  createdAt: number | undefined,
  planned: P | undefined,
): Claim<P> | undefined {
  return planned === undefined ? undefined : { service, createdAt, planned };
}
