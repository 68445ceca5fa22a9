import type { EndpointModel } from '../model/service-model.ts';
import { only } from './only.ts';

export function isReady({ ready }: EndpointModel): boolean {
  return ready;
}

/** The last resort while everything is being replaced: they are on their way out, but still answer. */
function isDraining({ serving, terminating }: EndpointModel): boolean {
  return serving && terminating;
}

/** All that are ready; if none is, all that terminate and still serve. */
export function readyElseDraining(endpoints: readonly EndpointModel[]): readonly EndpointModel[] {
  const ready = only(endpoints, isReady);
  return ready.length > 0 ? ready : only(endpoints, isDraining);
}

/** Someone, on some node, could take a connection. */
export function anyUsable(endpoints: readonly EndpointModel[]): boolean {
  return endpoints.some((endpoint) => endpoint.ready || isDraining(endpoint));
}
