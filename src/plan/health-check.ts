import type { FamilyView } from './family-view.ts';
import type { PlanDraft } from './plan-draft.ts';

/**
 * What a load balancer learns of this node: how many ready endpoints are here, each address once. One listener serves both
 * families, so it counts over both.
 */
export function planHealthCheck(draft: PlanDraft, views: readonly FamilyView[]): void {
  const port = views[0]?.service.healthCheckNodePort;
  if (port === undefined) return;
  for (const { family } of views) draft.addEntry('HEALTH-CHECK-NODE-PORT', family, { type: 'bitmap:port', port });
  const endpoints = views.flatMap((view) => view.ports.flatMap((portView) => portView.endpoints));
  const here = endpoints.filter(({ local, ready }) => local && ready).map(({ address }) => address);
  draft.setHealthCheck({ port, localEndpoints: new Set(here).size });
}
