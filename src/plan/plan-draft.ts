import type { ServiceDefinition } from '../model/service-model.ts';
import { eachOnce } from '../net/each-once.ts';
import { exact } from '../net/exact.ts';
import { type IpAddress, type IpFamily, compareIp } from '../net/ip.ts';
import type { IpSetEntry } from '../state/ip-set.ts';
import { compareVirtualServer } from '../state/virtual-server.ts';
import { compareEntry } from './entry-order.ts';
import { only } from './only.ts';
import type {
  PlanWarning,
  PlannedEntry,
  PlannedHealthCheck,
  PlannedUdp,
  PlannedVirtualServer,
  ServicePlan,
} from './service-plan.ts';
import type { SetRole } from './set-names.ts';

const NO_LOCAL_NOWHERE: ServicePlan['noLocalEndpoints'] = Object.freeze({ internal: false, external: false });

/** A plan in the making: rules add to it in any order, and twice if they like; the finished plan is sorted and has each once. */
export class PlanDraft {
  readonly #virtualServers: PlannedVirtualServer[] = [];
  readonly #udp: PlannedUdp[] = [];
  readonly #addresses: IpAddress[] = [];
  readonly #entries: PlannedEntry[] = [];
  readonly #warnings: PlanWarning[] = [];
  #noLocal = NO_LOCAL_NOWHERE;
  #healthCheck: PlannedHealthCheck | undefined;

  /** Of two with one address, port and protocol the first counts. */
  addVirtualServer(planned: PlannedVirtualServer, answering: PlannedUdp['answering']): void {
    this.#virtualServers.push(planned);
    const { address, port, protocol } = planned.virtualServer;
    if (protocol === 'UDP') this.#udp.push({ id: { address, port, protocol }, answering });
  }

  addAddress(address: IpAddress): void {
    this.#addresses.push(address);
  }

  addEntry(role: SetRole, family: IpFamily, entry: IpSetEntry): void {
    this.#entries.push({ role, family, entry });
  }

  addWarning(warning: PlanWarning): void {
    this.#warnings.push(warning);
  }

  setHealthCheck(healthCheck: PlannedHealthCheck): void {
    this.#healthCheck = healthCheck;
  }

  setNoLocal({ internalLocal, externalLocal }: Pick<ServiceDefinition, 'internalLocal' | 'externalLocal'>): void {
    const { internal, external } = this.#noLocal;
    this.#noLocal = { internal: internal || internalLocal, external: external || externalLocal };
  }

  finish(service: ServicePlan['service']): ServicePlan {
    return {
      service,
      virtualServers: sortedOnce(this.#virtualServers, comparePlanned),
      addresses: sortedOnce(this.#addresses, compareIp),
      entries: sortedOnce(this.#entries, compareEntry),
      ...(this.#healthCheck === undefined ? {} : { healthCheck: this.#healthCheck }),
      udp: exact(only(sortedOnce(this.#udp, compareUdp), ({ answering }) => answering.length > 0)),
      noLocalEndpoints: this.#noLocal,
      warnings: sortedOnce(this.#warnings, compareWarning),
    };
  }
}

/** For keeping. Mostly they stand as they should already: the rules are asked in the order of what they add. */
function sortedOnce<T>(items: readonly T[], compare: (a: T, b: T) => number): readonly T[] {
  return exact(eachOnce(items, compare));
}

function comparePlanned(a: PlannedVirtualServer, b: PlannedVirtualServer): number {
  return compareVirtualServer(a.virtualServer, b.virtualServer);
}

function compareUdp(a: PlannedUdp, b: PlannedUdp): number {
  return compareVirtualServer(a.id, b.id);
}

function compareWarning(a: PlanWarning, b: PlanWarning): number {
  return compareText(a.reason, b.reason) || compareText(a.message, b.message);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
