import { setTimeout as sleep } from 'node:timers/promises';
import { backoffDelay } from './backoff.ts';
import type { Exchange } from './exchange.ts';
import { listPages } from './list.ts';
import type { EndpointSlice, Service } from './objects.ts';
import type { ListPlan } from './reflector-state.ts';
import { oneService, slicesOfService } from './resource.ts';
import type { ObjectName } from './source.ts';

/** What a look found; empty where the server has no such objects. */
export interface Found {
  readonly services: readonly Service[];
  readonly endpointSlices: readonly EndpointSlice[];
}

const PLAN: ListPlan = { how: 'pages', from: 'cache', selector: 0 };

/**
 * Looks up one Service and its EndpointSlices by two small requests, to have them before the lists of all objects are in. Nothing
 * depends on it: what fails is only told to who wants to know, and is tried again as long as no server answers.
 *
 * @param wanted asked before each attempt: false once the lists have overtaken us
 */
export async function lookAhead(
  { namespace, name }: ObjectName,
  exchange: Omit<Exchange<Service>, 'resource'>,
  wanted: () => boolean,
): Promise<Found | undefined> {
  const { log, timing, signal } = exchange;
  for (let failures = 1; wanted() && !signal.aborted; failures++) {
    const [services, slices] = await Promise.all([
      listPages({ ...exchange, resource: oneService(namespace, name) }, PLAN),
      listPages({ ...exchange, resource: slicesOfService(namespace, name) }, PLAN),
    ]);
    if (services.ok && slices.ok) return { services: services.objects, endpointSlices: slices.objects };
    if (signal.aborted) return undefined;
    const failed = [services, slices].flatMap((result) => (result.ok ? [] : [result.failure]));
    const what = failed.map(({ message }) => message).join('; ');
    log.debug(2, `${namespace}/${name} was not found ahead of the lists: ${what}`);
    if (failed.some(({ kind }) => kind !== 'unavailable')) return undefined;
    try {
      await sleep(backoffDelay(failures, timing.backoff, timing.random()), undefined, { signal });
    } catch {
      // The signal.
      return undefined;
    }
  }
  return undefined;
}
