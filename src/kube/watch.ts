import type { IncomingMessage } from 'node:http';
import { Breather } from '../net/breather.ts';
import { errorText } from './error-text.ts';
import { openGet } from './exchange.ts';
import type { Exchange } from './exchange.ts';
import type { Failure } from './failure.ts';
import { LineSplitter } from './line-splitter.ts';
import type { ObjectMeta } from './objects.ts';
import { StreamGuard } from './stream-guard.ts';
import { decodeWatchEvent } from './watch-event.ts';
import type { WatchEvent } from './watch-event.ts';

export interface WatchRequest {
  readonly selector: number;
  /** Where the watch goes on; undefined: begin with all objects (WatchList), ended by a bookmark. */
  readonly resourceVersion: string | undefined;
}

/** How a watch ended: without a failure when the server closed it in good order. */
export interface WatchEnd {
  readonly failure?: Failure;
  /** It lasted long enough to count as a success. */
  readonly healthy: boolean;
  /** The server had agreed to watch. */
  readonly opened: boolean;
}

type GoodEvent<T> = Exclude<WatchEvent<T>, { type: 'failed' }>;

async function readEvents<T extends { readonly meta: ObjectMeta }>(
  body: IncomingMessage,
  guard: StreamGuard,
  exchange: Exchange<T>,
  onEvent: (event: GoodEvent<T>) => void,
): Promise<Failure | undefined> {
  const { resource, interner, timing, signal } = exchange;
  const splitter = new LineSplitter(timing.maxLineBytes);
  const breather = new Breather();
  let sawBookmark = false;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    guard.touch();
    const lines = splitter.feed(chunk);
    if (lines === undefined) return { kind: 'garbled', message: `an event has more than ${timing.maxLineBytes} bytes` };
    for (const line of lines) {
      if (signal.aborted) return undefined;
      const event = decodeWatchEvent(line, resource, interner);
      if (event.type === 'failed') return event.failure;
      if (event.type === 'bookmark' && !sawBookmark) {
        sawBookmark = true;
        guard.limitSilence(timing.silenceMs);
      }
      onEvent(event);
      if (breather.due) await breather.breathe();
    }
  }
  return splitter.rest() === ''
    ? undefined
    : { kind: 'unavailable', message: 'the watch ended in the middle of an event' };
}

/** Watches a resource until the connection ends, for whatever reason; never rejects unless `onEvent` throws. */
export async function watchOnce<T extends { readonly meta: ObjectMeta }>(
  exchange: Exchange<T>,
  request: WatchRequest,
  onEvent: (event: GoodEvent<T>) => void,
): Promise<WatchEnd> {
  const { timing } = exchange;
  const [least, most] = timing.watchSeconds;
  const timeoutSeconds = Math.round(least + timing.random() * (most - least));
  const initial = request.resourceVersion === undefined;
  const reply = await openGet(exchange, request.selector, {
    watch: true,
    allowWatchBookmarks: true,
    timeoutSeconds,
    ...(initial
      ? { sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan' }
      : { resourceVersion: request.resourceVersion }),
  });
  if (reply.body === undefined) return { failure: reply.failure, healthy: false, opened: false };

  const started = performance.now();
  const guard = new StreamGuard(reply.body);
  guard.limitDuration(timeoutSeconds * 1000 + timing.graceMs);
  if (initial) guard.limitSilence(timing.listIdleMs);
  // The stream's errors are ours to report; a handler's are bugs and must not look like a lost connection.
  let handlerFailed = false;
  let failure: Failure | undefined;
  try {
    failure = await readEvents(reply.body, guard, exchange, (event) => {
      handlerFailed = true;
      onEvent(event);
      handlerFailed = false;
    });
  } catch (error) {
    if (handlerFailed) throw error;
    failure = { kind: 'unavailable', message: `the watch broke off: ${errorText(error)}` };
  } finally {
    guard.release();
  }
  const healthy = performance.now() - started >= timing.healthyMs;
  return { healthy, opened: true, ...(failure === undefined ? {} : { failure }) };
}
