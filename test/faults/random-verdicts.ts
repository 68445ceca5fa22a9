import { formatIp } from '../../src/base/ip.ts';
import type { ServiceModel } from '../../src/model/service-model.ts';
import type { ServicePlan } from '../../src/plan/service-plan.ts';
import type { EndpointVerdicts } from '../../src/reconcile/desired/endpoint-verdicts.ts';
import type { RealServer } from '../../src/state/real-server.ts';

/** Finds the endpoints with these host numbers silent, also if they are all that a virtual server has. */
export class RandomVerdicts implements EndpointVerdicts {
  hosts: readonly number[] = [];
  /** Real servers that have lost their weight so far. */
  judged = 0;

  apply(_service: ServiceModel, plan: ServicePlan): ServicePlan {
    if (this.hosts.length === 0) return plan;
    const virtualServers = plan.virtualServers.map((planned) => {
      return { ...planned, realServers: planned.realServers.map((server) => this.#judged(server)) };
    });
    return { ...plan, virtualServers };
  }

  deleted(): void {}

  #judged(server: RealServer): RealServer {
    const host = Number(/\d+$/.exec(formatIp(server.address))?.[0]);
    if (!this.hosts.includes(host)) return server;
    this.judged += 1;
    return { ...server, weight: 0 };
  }
}
