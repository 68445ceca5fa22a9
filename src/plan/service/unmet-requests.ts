import { ANNOTATION_PREFIX, type ServiceAnnotation } from '../../base/service/service-annotations.ts';
import { EMPTY } from '../../base/trim-capacity.ts';
import type { ServiceDefinition } from '../../model/service-model.ts';
import type { NodeView, PlanConfig } from '../plan-config.ts';
import { schedulerOf } from '../virtual-server-settings.ts';
import type { PlanWarning } from '../service-plan.ts';

/** A request that is not in force, because of the node or of the rest of the Service. */
export interface UnmetRequest extends PlanWarning {
  readonly annotation: ServiceAnnotation;
}

type Asking = Pick<ServiceDefinition, 'requests' | 'asked' | 'affinitySeconds' | 'ports'>;

const WITHOUT_EFFECT = 'annotation-without-effect';

/** These schedulers choose among all real servers whose weight is not 0. */
const IGNORE_WEIGHTS: ReadonlySet<string> = new Set(['rr', 'lc', 'dh']);

/** Returns a warning for each unmet request, except for an operator's default: it may select Services that it does not fit. */
export function unmetWarnings(
  definition: Asking,
  node: Pick<NodeView, 'missingSchedulers'>,
  config: Pick<PlanConfig, 'scheduler' | 'checksEndpoints'>,
): readonly PlanWarning[] {
  return unmetRequests(definition, node, config)
    .filter(
      ({ annotation, reason }) => reason !== WITHOUT_EFFECT || originOf(definition.asked, annotation) === undefined,
    )
    .map(({ reason, message }) => ({ reason, message }));
}

/** Says which requests are not in force here, and why. */
export function unmetRequests(
  definition: Asking,
  node: Pick<NodeView, 'missingSchedulers'>,
  config: Pick<PlanConfig, 'scheduler' | 'checksEndpoints'>,
): readonly UnmetRequest[] {
  const { requests, asked, affinitySeconds, ports } = definition;
  if (requests === undefined) return EMPTY;
  const unmet: UnmetRequest[] = [];
  const { scheduler, schedulerFlags, weights, affinityPrefix, onePacket, endpointCheck } = requests;
  const inForce = schedulerOf(definition, node, config);
  const missing = scheduler === undefined ? undefined : node.missingSchedulers?.get(scheduler);
  if (missing !== undefined)
    unmet.push(unmetRequest(asked, 'scheduler', 'scheduler-missing', `${inForce} is used: ${missing}`));
  const useless = (annotation: ServiceAnnotation, why: string): number =>
    unmet.push(unmetRequest(asked, annotation, WITHOUT_EFFECT, `no effect, because ${why}`));
  if (schedulerFlags?.scheduler !== undefined && schedulerFlags.scheduler !== inForce)
    useless('scheduler-flags', `the scheduler is ${inForce}`);
  if (weights?.some(({ weight }) => weight > 1) === true && IGNORE_WEIGHTS.has(inForce))
    useless('weights', `the scheduler ${inForce} ignores all weights except 0: use one such as wrr or wlc`);
  if (affinityPrefix !== undefined && affinitySeconds === 0)
    useless('session-affinity-mask', 'sessionAffinity is not ClientIP');
  if (onePacket === true && !ports.some(({ protocol }) => protocol === 'UDP'))
    useless('one-packet', 'no port of the Service is of UDP');
  if (endpointCheck === true && !ports.some(({ protocol }) => protocol === 'TCP'))
    useless('endpoint-check', 'no port of the Service is of TCP');
  else if (endpointCheck === true && config.checksEndpoints === false)
    useless('endpoint-check', 'the node has --ipvs-endpoint-check=off');
  return unmet;
}

function unmetRequest(
  asked: ServiceDefinition['asked'],
  annotation: ServiceAnnotation,
  reason: string,
  why: string,
): UnmetRequest {
  const origin = originOf(asked, annotation);
  const what = origin === undefined ? `annotation ${ANNOTATION_PREFIX}${annotation}` : `${annotation} of ${origin}`;
  return { annotation, reason, message: `${what}: ${why}` };
}

/** Returns the operator's default that is in force for the annotation, if there is one. */
function originOf(asked: ServiceDefinition['asked'], annotation: ServiceAnnotation): string | undefined {
  return asked?.find(({ name, from }) => name === annotation && from !== undefined)?.from;
}
