import { Yielder } from '../../base/yielder.ts';
import { errorText } from '../../base/text/error-text.ts';
import { type Exchange, openGet } from './exchange.ts';
import type { Failure } from './failure.ts';
import type { ObjectMeta } from '../objects/objects.ts';
import { StreamGuard } from './stream-guard.ts';
import type { WatchEvent } from './watch-event.ts';
import { watchReader } from './watch-reader.ts';

export interface WatchRequest {
  readonly selector: number;
  /** The watch resumes after this version. If undefined, it starts with all objects and a bookmark (WatchList). */
  readonly resourceVersion: string | undefined;
}

/** How a watch ended. Without `failure`, the server closed it normally. */
export interface WatchEnd {
  readonly failure?: Failure;
  /** Whether the watch lasted at least `healthyMs`. */
  readonly healthy: boolean;
  /** Whether the server had accepted the watch. */
  readonly opened: boolean;
  /** Whether it ended before its timeoutSeconds. */
  readonly early: boolean;
}

type GoodEvent<T> = Exclude<WatchEvent<T>, { type: 'failed' }>;

async function readEvents<T extends { readonly meta: ObjectMeta }>(
  guard: StreamGuard,
  contentType: string | undefined,
  exchange: Exchange<T>,
  onEvent: (event: GoodEvent<T>) => void,
): Promise<Failure | undefined> {
  const { resource, interner, timing, signal } = exchange;
  const reader = watchReader(contentType, resource, interner, timing.maxLineBytes);
  const yielder = new Yielder();
  let sawBookmark = false;
  for await (const chunk of guard.chunks()) {
    for (const event of reader.feed(chunk)) {
      if (signal.aborted) return undefined;
      if (event.type === 'failed') return event.failure;
      if (event.type === 'bookmark' && !sawBookmark) {
        sawBookmark = true;
        guard.limitSilence(timing.silenceMs);
      }
      onEvent(event);
      if (yielder.due) await yielder.yieldIfDue();
    }
  }
  return reader.isWithinEvent() ? { kind: 'unavailable', message: 'the watch broke off within an event' } : undefined;
}

/** Watches a resource until the connection ends. Rejects only if `onEvent` throws. */
export async function watchOnce<T extends { readonly meta: ObjectMeta }>(
  exchange: Exchange<T>,
  request: WatchRequest,
  onEvent: (event: GoodEvent<T>) => void,
): Promise<WatchEnd> {
  const { timing } = exchange;
  const [least, most] = timing.watchSeconds;
  const timeoutSeconds = Math.round(least + timing.random() * (most - least));
  const initial = request.resourceVersion === undefined;
  const body = await openGet(exchange, request.selector, {
    watch: true,
    allowWatchBookmarks: true,
    timeoutSeconds,
    ...(initial
      ? { sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan' }
      : { resourceVersion: request.resourceVersion }),
  });
  if ('kind' in body) return { failure: body, healthy: false, opened: false, early: true };

  const started = performance.now();
  const guard = new StreamGuard(body);
  guard.limitDuration(timeoutSeconds * 1000 + timing.graceMs);
  if (initial) {
    guard.limitSilence(timing.listIdleMs);
    if (exchange.onSlow !== undefined) guard.reportSilence(timing.slowMs, exchange.onSlow);
  }
  // Errors of the stream become a failure; errors of the handler are bugs and must not look like a lost connection.
  let handlerFailed = false;
  let failure: Failure | undefined;
  try {
    failure = await readEvents(guard, body.headers['content-type'], exchange, (event) => {
      handlerFailed = true;
      onEvent(event);
      handlerFailed = false;
    });
  } catch (error) {
    if (handlerFailed) throw error;
    failure = { kind: 'unavailable', message: `the watch was interrupted: ${errorText(error)}` };
  }
  const lastedMs = performance.now() - started;
  // The server's clock starts before the response arrives.
  const early = lastedMs < timeoutSeconds * 1000 - 1000;
  return { healthy: lastedMs >= timing.healthyMs, opened: true, early, ...(failure === undefined ? {} : { failure }) };
}
