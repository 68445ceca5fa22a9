import { ANNOTATION_PREFIX, type ServiceAnnotation } from '../base/service-annotations.ts';
import { EMPTY } from '../base/trim-capacity.ts';
import type { ServiceDefinition } from '../model/service-model.ts';
import type { NodeView, PlanConfig } from './plan-config.ts';
import { schedulerOf } from './service-scheduler.ts';
import type { PlanWarning } from './service-plan.ts';

/** A valid annotation that has no effect, because of the node or of the rest of the Service. */
export interface UnmetRequest extends PlanWarning {
  readonly annotation: ServiceAnnotation;
}

/** These schedulers choose among all real servers whose weight is not 0. */
const IGNORE_WEIGHTS: ReadonlySet<string> = new Set(['rr', 'lc', 'dh']);

/** Says which annotations are not in force here, and why. */
export function unmetRequests(
  definition: Pick<ServiceDefinition, 'requests' | 'affinitySeconds' | 'ports'>,
  node: Pick<NodeView, 'missingSchedulers'>,
  config: Pick<PlanConfig, 'scheduler'>,
): readonly UnmetRequest[] {
  const { requests, affinitySeconds, ports } = definition;
  if (requests === undefined) return EMPTY;
  const unmet: UnmetRequest[] = [];
  const { scheduler, schedulerFlags, weights, affinityPrefix, onePacket } = requests;
  const inForce = schedulerOf(definition, node, config);
  const missing = scheduler === undefined ? undefined : node.missingSchedulers?.get(scheduler);
  if (missing !== undefined)
    unmet.push(unmetRequest('scheduler', 'scheduler-missing', `${inForce} is used: ${missing}`));
  const useless = (annotation: ServiceAnnotation, why: string): number =>
    unmet.push(unmetRequest(annotation, 'annotation-without-effect', `no effect, because ${why}`));
  if (schedulerFlags?.scheduler !== undefined && schedulerFlags.scheduler !== inForce)
    useless('scheduler-flags', `the scheduler is ${inForce}`);
  if (weights?.some(({ weight }) => weight > 1) === true && IGNORE_WEIGHTS.has(inForce))
    useless('weights', `the scheduler ${inForce} ignores all weights except 0: use one such as wrr or wlc`);
  if (affinityPrefix !== undefined && affinitySeconds === 0)
    useless('session-affinity-mask', 'sessionAffinity is not ClientIP');
  if (onePacket === true && !ports.some(({ protocol }) => protocol === 'UDP'))
    useless('one-packet', 'no port of the Service is of UDP');
  return unmet;
}

function unmetRequest(annotation: ServiceAnnotation, reason: string, why: string): UnmetRequest {
  return { annotation, reason, message: `annotation ${ANNOTATION_PREFIX}${annotation}: ${why}` };
}
