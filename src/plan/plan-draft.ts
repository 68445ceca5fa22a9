import type { ServiceDefinition } from '../model/service-model.ts';
import { type IpAddress, type IpFamily, compareIp } from '../net/ip.ts';
import type { IpSetEntry } from '../state/ip-set.ts';
import { type VirtualServerKey, compareVirtualServer, virtualServerKey } from '../state/virtual-server.ts';
import { compareEntry } from './entry-order.ts';
import type {
  PlanWarning,
  PlannedEntry,
  PlannedHealthCheck,
  PlannedUdp,
  PlannedVirtualServer,
  ServicePlan,
} from './service-plan.ts';
import type { SetRole } from './set-names.ts';

/** A plan in the making: rules add to it in any order, and twice if they like; the finished plan is sorted and has each once. */
export class PlanDraft {
  readonly #virtualServers = new Map<VirtualServerKey, PlannedVirtualServer>();
  readonly #udp = new Map<VirtualServerKey, PlannedUdp>();
  readonly #addresses = new Set<IpAddress>();
  readonly #entries: PlannedEntry[] = [];
  readonly #warnings = new Map<string, PlanWarning>();
  #noLocalInternal = false;
  #noLocalExternal = false;
  #healthCheck: PlannedHealthCheck | undefined;

  /** Of two with one address, port and protocol the first counts. */
  addVirtualServer(planned: PlannedVirtualServer, answering: PlannedUdp['answering']): void {
    const key = virtualServerKey(planned.virtualServer);
    if (this.#virtualServers.has(key)) return;
    this.#virtualServers.set(key, planned);
    const { address, port, protocol } = planned.virtualServer;
    if (answering.length > 0) this.#udp.set(key, { id: { address, port, protocol }, answering });
  }

  addAddress(address: IpAddress): void {
    this.#addresses.add(address);
  }

  addEntry(role: SetRole, family: IpFamily, entry: IpSetEntry): void {
    this.#entries.push({ role, family, entry });
  }

  addWarning(warning: PlanWarning): void {
    this.#warnings.set(`${warning.reason} ${warning.message}`, warning);
  }

  setHealthCheck(healthCheck: PlannedHealthCheck): void {
    this.#healthCheck = healthCheck;
  }

  setNoLocal(policies: Pick<ServiceDefinition, 'internalLocal' | 'externalLocal'>): void {
    this.#noLocalInternal ||= policies.internalLocal;
    this.#noLocalExternal ||= policies.externalLocal;
  }

  finish(service: ServicePlan['service']): ServicePlan {
    const entries = this.#entries.sort(compareEntry);
    return {
      service,
      virtualServers: [...this.#virtualServers.values()].sort((a, b) =>
        compareVirtualServer(a.virtualServer, b.virtualServer),
      ),
      addresses: [...this.#addresses].sort(compareIp),
      entries: entries.filter((entry, index) => {
        const before = entries[index - 1];
        return before === undefined || compareEntry(before, entry) !== 0;
      }),
      ...(this.#healthCheck === undefined ? {} : { healthCheck: this.#healthCheck }),
      udp: [...this.#udp.values()].sort((a, b) => compareVirtualServer(a.id, b.id)),
      noLocalEndpoints: { internal: this.#noLocalInternal, external: this.#noLocalExternal },
      warnings: [...this.#warnings].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, warning]) => warning),
    };
  }
}
