import { errorText } from './error-text.ts';
import { openGet } from './exchange.ts';
import type { Exchange } from './exchange.ts';
import type { Failure } from './failure.ts';
import { listOf, recordOf, textOr } from './json.ts';
import type { ObjectMeta } from './objects.ts';
import type { ListPlan } from './reflector-state.ts';
import { readText } from './stream-guard.ts';

export type ListResult<T> =
  | { readonly ok: true; readonly objects: readonly T[]; readonly resourceVersion: string }
  | { readonly ok: false; readonly failure: Failure };

interface Page {
  readonly items: readonly unknown[];
  readonly next: string;
  readonly resourceVersion: string;
}

async function readPage<T extends { readonly meta: ObjectMeta }>(
  exchange: Exchange<T>,
  plan: ListPlan,
  token: string,
): Promise<Page | Failure> {
  const reply = await openGet(exchange, plan.selector, {
    limit: exchange.timing.pageSize,
    // A continued list keeps the version that it began with, which the token holds.
    ...(token === '' ? { resourceVersion: plan.from === 'cache' ? '0' : undefined } : { continue: token }),
  });
  if (reply.body === undefined) return reply.failure;
  let text: string;
  try {
    text = await readText(reply.body, exchange.timing.listIdleMs);
  } catch (error) {
    return { kind: 'unavailable', message: `the list broke off: ${errorText(error)}` };
  }
  try {
    const list = recordOf(JSON.parse(text));
    const metadata = recordOf(list['metadata']);
    const resourceVersion = textOr(metadata['resourceVersion'], '');
    if (resourceVersion === '') return { kind: 'garbled', message: 'the list has no metadata.resourceVersion' };
    return { items: listOf(list['items']), next: textOr(metadata['continue'], ''), resourceVersion };
  } catch (error) {
    return { kind: 'garbled', message: `the list is no JSON: ${errorText(error)}` };
  }
}

/** Lists a resource page by page; each page is trimmed before the next is asked for. */
export async function listPages<T extends { readonly meta: ObjectMeta }>(
  exchange: Exchange<T>,
  plan: ListPlan,
): Promise<ListResult<T>> {
  const { resource, interner, log } = exchange;
  const objects: T[] = [];
  let token = '';
  for (;;) {
    const page = await readPage(exchange, plan, token);
    if ('kind' in page) return { ok: false, failure: page };
    for (const item of page.items) {
      const { object, reason } = resource.trim(item, interner);
      if (object === undefined) log.warn(`ignoring an object in the list of ${resource.plural}: ${reason}`);
      else objects.push(object);
    }
    if (page.next === '') return { ok: true, objects, resourceVersion: page.resourceVersion };
    if (page.next === token)
      return { ok: false, failure: { kind: 'garbled', message: 'the list continues with itself' } };
    token = page.next;
  }
}
