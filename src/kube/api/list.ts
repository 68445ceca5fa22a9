import type { IncomingMessage } from 'node:http';
import { errorText } from '../../base/text/error-text.ts';
import { type Exchange, openGet } from './exchange.ts';
import type { Failure } from './failure.ts';
import { type PageEnd, listReader } from './list-reader.ts';
import type { ObjectMeta } from '../objects/objects.ts';
import type { ListPlan } from './reflector-state.ts';
import { StreamGuard } from './stream-guard.ts';

export type ListResult<T> =
  | { readonly ok: true; readonly objects: readonly T[]; readonly resourceVersion: string }
  | { readonly ok: false; readonly failure: Failure };

/** Reads the items of one page into `objects`, trimming each as it arrives. */
async function readItems<T extends { readonly meta: ObjectMeta }>(
  body: IncomingMessage,
  exchange: Exchange<T>,
  objects: T[],
): Promise<PageEnd | Failure> {
  const { resource, interner, log, timing, onSlow } = exchange;
  const reader = listReader(body.headers['content-type'], resource, interner, timing.maxLineBytes, (item) => {
    if (item.reason === undefined) objects.push(item.object);
    else log.warn(`ignoring an object in the list of ${resource.plural}: ${item.reason}`);
  });
  const guard = new StreamGuard(body);
  guard.limitSilence(timing.listIdleMs);
  if (onSlow !== undefined) guard.reportSilence(timing.slowMs, onSlow);
  try {
    for await (const chunk of guard.chunks()) {
      const problem = reader.feed(chunk);
      if (problem !== undefined) return { kind: 'garbled', message: problem };
    }
  } catch (error) {
    return { kind: 'unavailable', message: `the list was interrupted: ${errorText(error)}` };
  }
  const end = reader.end();
  if (typeof end === 'string') return { kind: 'garbled', message: end };
  if (end.resourceVersion === '') return { kind: 'garbled', message: 'the list has no metadata.resourceVersion' };
  return end;
}

/** Lists a resource page by page. A failed list returns no objects. */
export async function listPages<T extends { readonly meta: ObjectMeta }>(
  exchange: Exchange<T>,
  plan: ListPlan,
): Promise<ListResult<T>> {
  const objects: T[] = [];
  let token = '';
  for (;;) {
    const body = await openGet(exchange, plan.selector, {
      limit: exchange.timing.pageSize,
      // The continue token contains the resourceVersion.
      ...(token === '' ? { resourceVersion: plan.from === 'cache' ? '0' : undefined } : { continue: token }),
    });
    if ('kind' in body) return { ok: false, failure: body };
    const page = await readItems(body, exchange, objects);
    if ('kind' in page) return { ok: false, failure: page };
    if (page.next === '') return { ok: true, objects, resourceVersion: page.resourceVersion };
    if (page.next === token)
      return { ok: false, failure: { kind: 'garbled', message: 'the list repeats its continue token' } };
    token = page.next;
  }
}

/** Returns the version of the server's present state, by a consistent list of one object. */
export async function currentVersion<T extends { readonly meta: ObjectMeta }>(
  exchange: Exchange<T>,
  selector: number,
): Promise<string | Failure> {
  const body = await openGet(exchange, selector, { limit: 1 });
  const page = 'kind' in body ? body : await readItems(body, exchange, []);
  return 'kind' in page ? page : page.resourceVersion;
}

/** Whether a version is older than another of the same server. Only versions that are numbers have an order. */
export function isOlder(version: string, other: string): boolean {
  const number = /^\d+$/;
  return number.test(version) && number.test(other) && BigInt(version) < BigInt(other);
}
