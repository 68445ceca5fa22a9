import type { ServiceModel } from '../../model/service-model.ts';
import { IP_FAMILIES } from '../../base/ip.ts';
import type { Port } from '../../base/port.ts';
import type { Protocol } from '../../base/protocol.ts';
import {
  planClusterIp,
  planExternalIps,
  planLoadBalancerIps,
  planLocalNodePorts,
  planNodePorts,
} from './service-addresses.ts';
import { type FamilyView, familyView, hasProtocol } from '../family-view.ts';
import { planHairpin } from './hairpin.ts';
import { planHealthCheck } from './health-check.ts';
import type { NodeView, PlanConfig } from '../plan-config.ts';
import { PlanDraft } from '../plan-draft.ts';
import type { PlanWarning, ServicePlan } from '../service-plan.ts';
import { unmetWarnings } from './unmet-requests.ts';

const FAMILY_RULES: readonly ((draft: PlanDraft, view: FamilyView) => void)[] = [
  planHairpin,
  planClusterIp,
  planExternalIps,
  planLoadBalancerIps,
  planNodePorts,
  planLocalNodePorts,
];

/** Returns the plan of a service: all kernel objects that it needs on this node. */
export function planService(service: ServiceModel, node: NodeView, config: PlanConfig): ServicePlan {
  const draft = new PlanDraft(config);
  const views: FamilyView[] = [];
  for (const family of IP_FAMILIES) {
    const view = config.families.includes(family) ? familyView(service, family, node, config) : undefined;
    if (view === undefined) continue;
    views.push(view);
    for (const rule of FAMILY_RULES) rule(draft, view);
    if (view.ports.some(({ destinations }) => destinations.noLocalEndpoints))
      draft.addNoLocalEndpoints(family, service);
  }
  planHealthCheck(draft, views);
  for (const warning of service.warnings) draft.addWarning(warning);
  for (const { name, protocol, port } of service.ports) {
    if (!hasProtocol(config, protocol)) draft.addWarning(unsupported(name, protocol, port));
  }
  for (const warning of unmetWarnings(service, node, config)) draft.addWarning(warning);
  return draft.finish(service);
}

function unsupported(name: string, protocol: Protocol, port: Port): PlanWarning {
  const named = name === '' ? '' : ` (${name})`;
  return {
    reason: 'protocol-unsupported',
    message: `port ${port}${named} is not served: this mode has no ${protocol}`,
  };
}
