import type { NamespacedName } from '../../base/service/names.ts';
import { HINTS_IGNORED } from '../../explain/choice.ts';
import { type CommonFault, commonFault } from '../../explain/common-fault.ts';
import { endpointUse } from '../../explain/endpoint-use.ts';
import { servedPort, unservedText } from '../../explain/verdict.ts';
import type { ServiceModel } from '../../model/service-model.ts';
import type { SliceModel } from '../../model/slice-model.ts';
import type { Log } from '../../observe/log/log.ts';
import type { NodeView, PlanConfig } from '../../plan/plan-config.ts';
import type { ServicePlan } from '../../plan/service-plan.ts';

/** Maximum number of Services that one refresh logs by name. */
const LINES = 3;

/** Called with the fault of a Service that all nodes find, once for each change; undefined: it has none any more. */
type OnCommonFault = (service: NamespacedName, fault: CommonFault | undefined) => void;

interface Finding {
  readonly message: string;
  readonly common: CommonFault | undefined;
}

/**
 * Logs, once for each change, Services that have endpoints but use none of them on this node, and Services whose
 * hints are ignored, and passes on faults that all nodes find. For all other Services, it only looks at the plan.
 */
export class ServingReport {
  readonly #log: Log;
  readonly #config: PlanConfig;
  readonly #onCommonFault: OnCommonFault;
  /** The Services for which #onCommonFault was called with a fault, with its text without numbers. */
  readonly #common = new Map<NamespacedName, string>();
  /** The last message for each Service that is not as wanted, without its numbers. */
  readonly #reported = new Map<NamespacedName, string>();
  #news: string[] = [];

  constructor(log: Log, config: PlanConfig, onCommonFault: OnCommonFault = () => undefined) {
    this.#log = log;
    this.#config = config;
    this.#onCommonFault = onCommonFault;
  }

  /** Must be called when a Service was planned. */
  planned(service: ServiceModel, plan: ServicePlan, slices: readonly SliceModel[], node: NodeView): void {
    const { name } = service;
    const finding = isSuspect(service, plan, slices) ? this.#findingOf(service, slices, node) : undefined;
    this.#noteCommon(name, finding?.common);
    const message = finding?.message;
    const known = this.#reported.get(name);
    // A Service that loses its endpoints one by one is reported once.
    const key = message === undefined ? undefined : withoutNumbers(message);
    if (key === known) return;
    if (message === undefined || key === undefined) {
      this.#reported.delete(name);
      this.#news.push(`${name} is served on this node again, as its endpoints and hints say`);
      return;
    }
    this.#reported.set(name, key);
    this.#news.push(message);
  }

  /** Must be called when a Service was deleted. */
  deleted(name: NamespacedName): void {
    this.#reported.delete(name);
    this.#noteCommon(name, undefined);
  }

  /** Logs what is new since the last call. */
  flush(): void {
    if (this.#news.length === 0) return;
    for (const message of this.#news.slice(0, LINES)) this.#log.info(message);
    const more = this.#news.length - LINES;
    if (more > 0) {
      this.#log.info(
        `${more} more Services changed (no usable endpoint, ignored hints, or served again): run explain for one of them`,
      );
    }
    this.#news = [];
  }

  #noteCommon(name: NamespacedName, fault: CommonFault | undefined): void {
    const key = fault === undefined ? undefined : withoutNumbers(fault.message);
    if (this.#common.get(name) === key) return;
    if (key === undefined) this.#common.delete(name);
    else this.#common.set(name, key);
    this.#onCommonFault(name, fault);
  }

  #findingOf(service: ServiceModel, slices: readonly SliceModel[], node: NodeView): Finding | undefined {
    const steps = endpointUse(service, slices, node, this.#config);
    let step = steps.next();
    while (step.done !== true) step = steps.next();
    const ports = step.value.map(servedPort);
    const ignored = ports.flatMap(({ notes }) => notes).find((note) => note.startsWith(HINTS_IGNORED));
    const hints = ignored === undefined ? undefined : `${service.name}: ${ignored}`;
    const message = unservedText(service.name, ports) ?? hints;
    return message === undefined ? undefined : { message, common: commonFault(step.value) };
  }
}

function withoutNumbers(message: string): string {
  return message.replaceAll(/\d+/g, '');
}

/** Whether the Service may use none of its endpoints, or ignore hints. */
function isSuspect({ ports }: ServiceModel, { virtualServers }: ServicePlan, slices: readonly SliceModel[]): boolean {
  const has = slices.some(({ endpoints, unusable }) => endpoints.length + unusable.length > 0);
  if (!has) return false;
  if (virtualServers.some(({ realServers }) => realServers.length === 0)) return true;
  return ports.some(({ endpoints }) => endpoints.some(({ traits }) => traits.zones.length > 0));
}
