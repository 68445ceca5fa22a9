import { NOTHING } from '../net/exact.ts';
import type { IpAddress } from '../net/ip.ts';
import { type NamespacedName, namespacedName } from '../net/names.ts';
import type { Cluster } from '../model/cluster.ts';
import { nodeIps } from '../model/node.ts';
import { NodePlan } from '../plan/node-plan.ts';
import type { NodeView, PlanConfig } from '../plan/plan-config.ts';
import { planService } from '../plan/plan-service.ts';
import type { PlanWarning, PlannedHealthCheck, ServicePlan } from '../plan/service-plan.ts';
import { sharePlan } from '../plan/share-plan.ts';
import type { Log } from '../observe/log.ts';
import type { Breather } from '../net/breather.ts';

/** The way to the API server for every pod: programmed before everything else. */
export const KUBERNETES_SERVICE = namespacedName('default', 'kubernetes');

/** What a refresh found. */
export interface Refresh {
  readonly triggerTimes: readonly number[];
  /** An endpoint of a UDP port came, went or changed. */
  readonly udpChanged: boolean;
  /** A health check port came, went or must answer something else, or the addresses did that it listens on. */
  readonly healthChecksChanged: boolean;
}

export interface DesiredStateOptions {
  readonly cluster: Cluster;
  readonly plan: PlanConfig;
  readonly log: Log;
  /** --bind-address: stands for the node's own address of its family. */
  readonly nodeIpOverride: IpAddress | undefined;
  /** A service's plan has a warning that the plan before it had not; the log has it already. */
  readonly onWarning?: (service: NamespacedName, warning: PlanWarning) => void;
}

/** Cluster, node and configuration in; the merged plan out. Holds no kernel state. */
export class DesiredState {
  readonly plan = new NodePlan();
  readonly #cluster: Cluster;
  readonly #config: PlanConfig;
  readonly #log: Log;
  readonly #nodeIpOverride: IpAddress | undefined;
  readonly #onWarning: DesiredStateOptions['onWarning'];
  #interfaceAddresses: readonly IpAddress[] = [];
  #everythingStale = true;

  constructor(options: DesiredStateOptions) {
    this.#cluster = options.cluster;
    this.#config = options.plan;
    this.#log = options.log;
    this.#nodeIpOverride = options.nodeIpOverride;
    this.#onWarning = options.onWarning;
  }

  /** Addresses of this node's interfaces but kube-ipvs0; answers whether they differ from before. */
  setInterfaceAddresses(addresses: readonly IpAddress[]): boolean {
    const before = new Set(this.#interfaceAddresses);
    const same = before.size === addresses.length && addresses.every((address) => before.has(address));
    if (same) return false;
    this.#interfaceAddresses = addresses;
    this.#everythingStale = true;
    return true;
  }

  /** Plans one service ahead of the others. */
  refreshFirst(name: NamespacedName): void {
    this.#replan(name, this.plan.service(name), this.#nodeView());
  }

  /** Plans anew whatever changed in the cluster or the node since the last call. */
  async refresh(breather: Breather): Promise<Refresh> {
    const changes = await breather.finish(this.#cluster.takeChangesInSteps());
    for (const { reason, message } of changes.rejected) this.#log.warn(message, { reason });
    const all = this.#everythingStale || changes.nodeChanged;
    this.#everythingStale = false;
    const names = all ? this.#cluster.names().concat(this.#gone(changes.services)) : changes.services;
    const node = this.#nodeView();
    let udpChanged = false;
    let healthChecksChanged = all;
    for (const name of names) {
      const before = this.plan.service(name);
      const after = this.#replan(name, before, node);
      udpChanged ||= (before?.udp ?? NOTHING) !== (after?.udp ?? NOTHING);
      healthChecksChanged ||= !sameHealthCheck(before?.healthCheck, after?.healthCheck);
      if (breather.due) await breather.breathe();
    }
    return { triggerTimes: [...changes.triggerTimes.values()].flat(), udpChanged, healthChecksChanged };
  }

  #gone(names: ReadonlySet<NamespacedName>): NamespacedName[] {
    return [...names].filter((name) => this.#cluster.definition(name) === undefined);
  }

  #replan(name: NamespacedName, before: ServicePlan | undefined, node: NodeView): ServicePlan | undefined {
    const service = this.#cluster.service(name);
    const after = service === undefined ? undefined : sharePlan(planService(service, node, this.#config), before);
    this.plan.replace(name, after);
    if (after !== undefined && after.warnings.length > 0) this.#report(name, before?.warnings ?? [], after.warnings);
    return after;
  }

  #report(name: NamespacedName, before: readonly PlanWarning[], after: readonly PlanWarning[]): void {
    const known = new Set(before.map((warning) => warning.message));
    for (const warning of after) {
      const { reason, message } = warning;
      if (known.has(message)) continue;
      this.#log.warn(message, { service: name, reason });
      this.#onWarning?.(name, warning);
    }
  }

  #nodeView(): NodeView {
    const node = this.#cluster.node();
    const reportedAddresses = node?.reportedAddresses ?? [];
    return {
      zone: node?.zone ?? '',
      nodeIps: nodeIps(reportedAddresses, this.#nodeIpOverride),
      reportedAddresses,
      interfaceAddresses: this.#interfaceAddresses,
    };
  }
}

function sameHealthCheck(a: PlannedHealthCheck | undefined, b: PlannedHealthCheck | undefined): boolean {
  return a?.port === b?.port && a?.localEndpoints === b?.localEndpoints;
}
