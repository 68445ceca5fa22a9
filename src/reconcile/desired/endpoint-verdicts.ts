import type { NamespacedName } from '../../base/service/names.ts';
import type { ServiceModel } from '../../model/service-model.ts';
import type { ServicePlan } from '../../plan/service-plan.ts';

/** The knowledge of endpoints that do not answer. */
export interface EndpointVerdicts {
  /** Returns the plan that is in force: without new connections to silent endpoints. Called for each new plan. */
  apply(service: ServiceModel, plan: ServicePlan): ServicePlan;
  /** Must be called when a Service was deleted. */
  deleted(service: NamespacedName): void;
}
