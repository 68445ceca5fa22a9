import type { EndpointModel } from '../../model/service-model.ts';
import { filterUnchanged } from './filter-unchanged.ts';

export function isReady({ traits }: EndpointModel): boolean {
  return traits.ready;
}

/** Whether the endpoint is terminating but still serving. Such endpoints are used only while no endpoint is ready. */
function isDraining({ traits }: EndpointModel): boolean {
  return traits.serving && traits.terminating;
}

/** Returns the ready endpoints; if there are none, those that terminate and still serve. */
export function readyElseDraining(endpoints: readonly EndpointModel[]): readonly EndpointModel[] {
  const ready = filterUnchanged(endpoints, isReady);
  return ready.length > 0 ? ready : filterUnchanged(endpoints, isDraining);
}

/** Whether any endpoint, on any node, accepts connections. */
export function anyUsable(endpoints: readonly EndpointModel[]): boolean {
  return endpoints.some((endpoint) => isReady(endpoint) || isDraining(endpoint));
}
