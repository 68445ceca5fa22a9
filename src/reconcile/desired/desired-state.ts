import type { IpAddress } from '../../base/ip.ts';
import type { CommonFault } from '../../explain/common-fault.ts';
import { type NamespacedName, namespacedName } from '../../base/service/names.ts';
import type { Cluster } from '../../model/cluster.ts';
import { nodeIps } from '../../model/node.ts';
import type { ServiceModel } from '../../model/service-model.ts';
import type { TriggerTime } from '../../model/trigger-time.ts';
import { planNodeEntries } from '../../plan/ipvs/node-entries.ts';
import { type Consequences, NodePlan } from '../../plan/node/node-plan.ts';
import { nodePortProblem } from '../../plan/node-port-addresses.ts';
import type { NodeView, PlanConfig } from '../../plan/plan-config.ts';
import { planService } from '../../plan/service/plan-service.ts';
import type { SchedulerCheck } from './scheduler-check.ts';
import type { EndpointVerdicts } from './endpoint-verdicts.ts';
import { ServingReport } from './serving-report.ts';
import type { PlanWarning, ServicePlan } from '../../plan/service-plan.ts';
import { sharePlan } from '../../plan/share-plan.ts';
import type { Log } from '../../observe/log/log.ts';
import type { WarningLog } from './warning-log.ts';
import type { Yielder } from '../../base/yielder.ts';

/** The Service through which pods reach the API server (see Bootstrap). */
export const KUBERNETES_SERVICE = namespacedName('default', 'kubernetes');

/** Changes that a refresh found. */
export interface Refresh {
  readonly triggerTimes: readonly TriggerTime[];
  /** Whether an endpoint of a UDP port was added, removed or changed. */
  readonly udpChanged: boolean;
  /** Whether ports, responses or listen addresses of health checks may have changed. */
  readonly healthChecksChanged: boolean;
}

export interface DesiredStateOptions {
  readonly cluster: Cluster;
  readonly plan: PlanConfig;
  readonly log: Log;
  /** Limits how many warnings about Services are logged; undefined: no limit. */
  readonly warningLog?: WarningLog;
  /** Checks the schedulers that Services ask for; undefined: the kernel has all of them. */
  readonly schedulers?: SchedulerCheck;
  /** Undefined: endpoints are not checked. */
  readonly endpointVerdicts?: EndpointVerdicts | undefined;
  /** The value of --bind-address, which replaces the node's address of the same family. */
  readonly nodeIpOverride: IpAddress | undefined;
  /** Called when Services or their slices have changed, before they are planned. */
  readonly onChanged?: (services: ReadonlySet<NamespacedName>) => void;
  /** Called when a service's plan has a new warning, which was already logged. */
  readonly onWarning?: (service: NamespacedName, warning: PlanWarning) => void;
  /** Called when a fault of a Service that all nodes find has begun, or changed, or ended (undefined). */
  readonly onCommonFault?: (service: NamespacedName, fault: CommonFault | undefined) => void;
}

/** Computes the merged plan from cluster, node and configuration. Holds no kernel state. */
export class DesiredState {
  readonly plan: NodePlan;
  readonly #options: DesiredStateOptions;
  #interfaceAddresses: readonly IpAddress[] = [];
  readonly #serving: ServingReport;
  #everythingStale = true;
  /** Services whose endpoints were judged since they were planned. */
  readonly #judged = new Set<NamespacedName>();

  constructor(options: DesiredStateOptions) {
    this.#options = options;
    this.plan = new NodePlan(options.plan.roles);
    this.#serving = new ServingReport(options.log, options.plan, options.onCommonFault);
  }

  /** Sets the addresses of all interfaces except kube-ipvs0. If they changed, the next refresh() plans all services. */
  setInterfaceAddresses(addresses: readonly IpAddress[]): void {
    const before = new Set(this.#interfaceAddresses);
    const same = before.size === addresses.length && addresses.every((address) => before.has(address));
    if (same) return;
    this.#interfaceAddresses = addresses;
    // The first sync needs the entries before it plans Services.
    this.#planNodeEntries();
    this.#everythingStale = true;
  }

  /** Returns a plan of one service, for use before the others are known. The next refresh() reports its warnings. */
  async planAlone(name: NamespacedName): Promise<NodePlan> {
    await this.#options.schedulers?.learn(this.#askedSchedulers([name]));
    const plan = new NodePlan(this.#options.plan.roles);
    const node = this.nodeView();
    plan.replaceNodeEntries(planNodeEntries(node, this.#options.plan));
    const service = this.#options.cluster.service(name);
    if (service !== undefined) plan.replace(name, planService(service, node, this.#options.plan));
    return plan;
  }

  /** Makes the next refresh() plan these Services again. */
  endpointsJudged(services: Iterable<NamespacedName>): void {
    for (const service of services) this.#judged.add(service);
  }

  /** Plans the services that changed since the last call, or all services if the node changed. */
  async refresh(yielder: Yielder): Promise<Refresh> {
    const changes = this.#options.cluster.takeChanges();
    for (const { reason, message } of changes.rejected) this.#options.log.warn(message, { reason });
    this.#options.onChanged?.(changes.services);
    await this.#options.schedulers?.learn(this.#askedSchedulers(changes.services));
    const all = this.#everythingStale || changes.nodeChanged;
    this.#everythingStale = false;
    // The changed services include those that were deleted.
    const changed = new Set([...changes.services, ...this.#judged]);
    this.#judged.clear();
    const names = all ? new Set([...this.#options.cluster.names(), ...changed]) : changed;
    const node = this.nodeView();
    if (all) this.#planNodeEntries();
    let udpChanged = false;
    let healthChecksChanged = all;
    for (const name of names) {
      const consequences = this.#replan(name, node);
      udpChanged ||= consequences.udpChanged;
      healthChecksChanged ||= consequences.healthChecksChanged;
      if (yielder.due) await yielder.yieldIfDue();
    }
    this.#serving.flush();
    return { triggerTimes: changes.triggerTimes, udpChanged, healthChecksChanged };
  }

  /** Must be called from time to time: a scheduler that the kernel lacked may have been installed. */
  async findMissingSchedulers(): Promise<void> {
    if ((await this.#options.schedulers?.learnAgain()) === true) this.#everythingStale = true;
  }

  #planNodeEntries(): void {
    this.plan.replaceNodeEntries(planNodeEntries(this.nodeView(), this.#options.plan));
  }

  #askedSchedulers(services: Iterable<NamespacedName>): ReadonlySet<string> {
    const asked = new Set<string>();
    for (const name of services) {
      const scheduler = this.#options.cluster.definition(name)?.requests?.scheduler;
      if (scheduler !== undefined) asked.add(scheduler);
    }
    return asked;
  }

  #replan(name: NamespacedName, node: NodeView): Consequences {
    const before = this.plan.service(name);
    const service = this.#options.cluster.service(name);
    const after = service === undefined ? undefined : sharePlan(this.#plan(service, node), before);
    if (service === undefined || after === undefined) {
      this.#serving.deleted(name);
      this.#options.endpointVerdicts?.deleted(name);
    } else this.#serving.planned(service, after, this.#options.cluster.slices(name), node);
    const consequences = this.plan.replace(name, after);
    if (after !== undefined && after.warnings.length > 0) this.#report(name, before?.warnings ?? [], after.warnings);
    return consequences;
  }

  #plan(service: ServiceModel, node: NodeView): ServicePlan {
    const plan = planService(service, node, this.#options.plan);
    return this.#options.endpointVerdicts?.apply(service, plan) ?? plan;
  }

  #report(name: NamespacedName, before: readonly PlanWarning[], after: readonly PlanWarning[]): void {
    const known = new Set(before.map((warning) => warning.message));
    for (const warning of after) {
      const { reason, message } = warning;
      if (known.has(message)) continue;
      const { warningLog, log } = this.#options;
      if (warningLog === undefined) log.warn(message, { service: name, reason });
      else warningLog.warn(name, warning);
      this.#options.onWarning?.(name, warning);
    }
  }

  /** Returns sentences about what this node cannot serve because of what our Node reports. */
  nodeProblems(): readonly string[] {
    const problem = nodePortProblem(this.nodeView(), this.#options.plan);
    return problem === undefined ? [] : [problem];
  }

  /** Returns what plans depend on besides the services and the configuration. */
  nodeView(): NodeView {
    const node = this.#options.cluster.node();
    const { schedulers } = this.#options;
    const reportedAddresses = node?.reportedAddresses ?? [];
    return {
      zone: node?.zone ?? '',
      nodeIps: nodeIps(reportedAddresses, this.#options.nodeIpOverride),
      reportedAddresses,
      interfaceAddresses: this.#interfaceAddresses,
      ...(schedulers === undefined ? {} : { missingSchedulers: schedulers.missing }),
    };
  }
}
