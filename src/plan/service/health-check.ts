import type { IpAddress, IpFamily } from '../../base/ip.ts';
import type { FamilyView } from '../family-view.ts';
import { type NodePortView, selectedAddresses, selectedCidrs } from '../node-port-addresses.ts';
import type { PlanConfig } from '../plan-config.ts';
import type { PlanDraft } from '../plan-draft.ts';

/** Plans the health check port. Each IP family has a listener of its own, which reports local ready endpoints of it. */
export function planHealthCheck(draft: PlanDraft, views: readonly FamilyView[]): void {
  const port = views[0]?.service.healthCheckNodePort;
  if (port === undefined) return;
  const localEndpoints: Partial<Record<IpFamily, number>> = {};
  for (const { family, ports } of views) {
    const here = ports.flatMap(({ endpoints }) => endpoints).filter(({ traits }) => traits.local && traits.ready);
    localEndpoints[family] = new Set(here.map(({ address }) => address)).size;
  }
  draft.setHealthCheck({ port, localEndpoints });
}

/** Where the health check ports of a family listen: at all addresses, or at those that nodePortAddresses selects. */
export type HealthCheckAddresses = Readonly<Partial<Record<IpFamily, 'all' | readonly IpAddress[]>>>;

export function healthCheckAddresses(
  node: NodePortView,
  config: Pick<PlanConfig, 'families' | 'nodePortAddresses'>,
): HealthCheckAddresses {
  return Object.fromEntries(
    config.families.map((family) => {
      const isOpen = selectedCidrs(family, node, config.nodePortAddresses) === 'all';
      return [family, isOpen ? 'all' : selectedAddresses(family, node, config)];
    }),
  );
}
