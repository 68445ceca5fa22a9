import type { ServiceModel } from '../../model/service-model.ts';
import { IP_FAMILIES } from '../../base/ip.ts';
import type { Port } from '../../base/port.ts';
import type { Protocol } from '../../base/protocol.ts';
import { planServiceAddresses } from './service-addresses.ts';
import { type FamilyView, familyView, hasProtocol } from '../family-view.ts';
import { planHealthCheck } from './health-check.ts';
import type { NodeView, PlanConfig } from '../plan-config.ts';
import { PlanDraft } from '../plan-draft.ts';
import type { PlanWarning, ServicePlan } from '../service-plan.ts';
import { unmetWarnings } from './unmet-requests.ts';

/** Returns the plan of a service: all kernel objects that it needs on this node. */
export function planService(service: ServiceModel, node: NodeView, config: PlanConfig): ServicePlan {
  const draft = new PlanDraft(config);
  const views: FamilyView[] = [];
  for (const family of IP_FAMILIES) {
    const view = config.families.includes(family) ? familyView(service, family, node, config) : undefined;
    if (view === undefined) continue;
    views.push(view);
    planHairpin(draft, view);
    planServiceAddresses(draft, view);
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

/**
 * Plans which endpoints need masquerading of connections to a Service that selects the client itself. Otherwise, the Pod would
 * see its own address as client and reply to itself. Only local endpoints need this: a Pod connects through its own node. An
 * endpoint of an unknown node may be local, too; in ipvs mode, it is left out, as with kube-proxy.
 */
function planHairpin(draft: PlanDraft, { ports, bindAddresses, roles }: FamilyView): void {
  if (!roles.includes('LOOP-BACK')) return;
  for (const { protocol, name: portName, endpoints: all } of ports) {
    const endpoints = all
      .filter(({ traits }) => traits.local || (!bindAddresses && traits.unplaced === true))
      .map(({ address, port }) => ({ address, port }));
    if (endpoints.length > 0) draft.addHairpin({ portName, protocol, endpoints });
  }
}
