import type { FamilyView } from './family-view.ts';
import type { PlanDraft } from './plan-draft.ts';

/** Plans the health check port, which reports local ready endpoints. One listener serves and counts both families. */
export function planHealthCheck(draft: PlanDraft, views: readonly FamilyView[]): void {
  const port = views[0]?.service.healthCheckNodePort;
  if (port === undefined) return;
  for (const { family } of views) draft.addEntry('HEALTH-CHECK-NODE-PORT', family, { type: 'bitmap:port', port });
  const endpoints = views.flatMap((view) => view.ports.flatMap((portView) => portView.endpoints));
  const here = endpoints.filter(({ traits }) => traits.local && traits.ready).map(({ address }) => address);
  draft.setHealthCheck({ port, localEndpoints: new Set(here).size });
}
