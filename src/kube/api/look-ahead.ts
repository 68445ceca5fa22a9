import { setTimeout as sleep } from 'node:timers/promises';
import { backoffDelay } from './backoff.ts';
import type { Exchange } from './exchange.ts';
import { listPages } from './list.ts';
import type { EndpointSlice, Service } from '../objects/objects.ts';
import type { ListPlan } from './reflector-state.ts';
import { oneService, slicesOfService } from './resource.ts';
import type { ObjectName } from '../objects/source.ts';

/** The objects found; empty if the server has none. */
export interface Found {
  readonly services: readonly Service[];
  readonly endpointSlices: readonly EndpointSlice[];
}

const PLAN: ListPlan = { how: 'pages', from: 'cache', selector: 0 };

/**
 * Fetches one Service and its EndpointSlices with two small requests, before all objects are listed. This is only an
 * optimization: failures are logged at -v=2, and retried only while the server is unavailable.
 *
 * @param wanted is called before each attempt; returns false once the lists are complete
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
    const reasons = failed.map(({ message }) => message).join('; ');
    log.debug(2, `${namespace}/${name} not fetched before the lists: ${reasons}`);
    if (failed.some(({ kind }) => kind !== 'unavailable')) return undefined;
    try {
      await sleep(backoffDelay(failures, timing.backoff, timing.random()), undefined, { signal });
    } catch {
      // Aborted.
      return undefined;
    }
  }
  return undefined;
}
