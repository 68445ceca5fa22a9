import { setTimeout as sleep } from 'node:timers/promises';
import type { Exchange } from './exchange.ts';
import { listPages } from './list.ts';
import type { Service } from '../objects/objects.ts';
import type { ListPlan } from './reflector-state.ts';
import { backoffDelay } from './reflector-timing.ts';
import { oneService, slicesOfService } from './resource.ts';
import { type ObjectName, type SourceEvent, objectKey } from '../objects/source.ts';
import type { ServiceSelection } from '../objects/trim-service.ts';

const PLAN: ListPlan = { how: 'pages', from: 'cache', selector: 0 };

/**
 * Fetches one Service and its EndpointSlices with two small requests, before all objects are listed. Returns an
 * `applied` event for each object found. This is only an optimization: failures are logged at -v=2, and retried only
 * while the server is unavailable.
 *
 * @param wanted is called before each attempt; returns false once the lists are complete
 */
export async function fetchForBootstrap(
  service: ObjectName,
  exchange: Omit<Exchange<Service>, 'resource'>,
  selection: ServiceSelection | undefined,
  wanted: () => boolean,
): Promise<readonly SourceEvent[]> {
  const { log, timing, signal } = exchange;
  for (let failures = 1; wanted() && !signal.aborted; failures++) {
    const [services, slices] = await Promise.all([
      listPages({ ...exchange, resource: oneService(service, selection) }, PLAN),
      listPages({ ...exchange, resource: slicesOfService(service) }, PLAN),
    ]);
    if (signal.aborted) return [];
    if (services.ok && slices.ok) {
      return [
        ...services.objects.map((object) => ({ kind: 'service', event: { type: 'applied', object } }) as const),
        ...slices.objects.map((object) => ({ kind: 'endpoint-slice', event: { type: 'applied', object } }) as const),
      ];
    }
    const failed = [services, slices].flatMap((result) => (result.ok ? [] : [result.failure]));
    const reasons = failed.map(({ message }) => message).join('; ');
    log.debug(2, `${objectKey(service)} not fetched before the lists: ${reasons}`);
    if (failed.some(({ kind }) => kind !== 'unavailable')) return [];
    // sleep() rejects only when aborted.
    await sleep(backoffDelay(failures, timing), undefined, { signal }).catch(() => undefined);
  }
  return [];
}
