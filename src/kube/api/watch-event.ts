import { errorText } from '../../base/text/error-text.ts';
import { type Failure, failureOfStatus } from './failure.ts';
import type { Interner } from '../objects/interner.ts';
import { isRecord, recordOf, textOr } from '../objects/json.ts';
import type { ObjectMeta } from '../objects/objects.ts';
import type { Resource } from './resource.ts';
import type { ObjectName } from '../objects/source.ts';

/** One event of a watch. resourceVersion is "" if the server sent none. */
export type WatchEvent<T> =
  | { readonly type: 'applied'; readonly object: T; readonly resourceVersion: string }
  | { readonly type: 'deleted'; readonly object: ObjectName; readonly resourceVersion: string }
  /** initialEnd: all objects that existed when the watch began have been sent. */
  | { readonly type: 'bookmark'; readonly resourceVersion: string; readonly initialEnd: boolean }
  /** An invalid object; the watch continues. */
  | { readonly type: 'unusable'; readonly reason: string; readonly resourceVersion: string }
  | { readonly type: 'failed'; readonly failure: Failure };

/** Marks the bookmark after the initial objects of a WatchList (KEP-3157). */
const INITIAL_END_ANNOTATION = 'k8s.io/initial-events-end';

export function garbled(message: string): WatchEvent<never> {
  return { type: 'failed', failure: { kind: 'garbled', message } };
}

/** Reads a line of a watch in JSON. */
export function decodeWatchEvent<T extends { readonly meta: ObjectMeta }>(
  line: string,
  resource: Resource<T>,
  interner: Interner,
): WatchEvent<T> {
  let event: unknown;
  try {
    event = JSON.parse(line);
  } catch (error) {
    return garbled(`a line of the watch is not valid JSON: ${errorText(error)}`);
  }
  if (!isRecord(event)) return garbled('a line of the watch is not an event');
  return watchEvent(event['type'], event['object'], resource, interner);
}

/** @param object in the form of its JSON; a Status if the type is ERROR */
export function watchEvent<T extends { readonly meta: ObjectMeta }>(
  type: unknown,
  object: unknown,
  resource: Resource<T>,
  interner: Interner,
): WatchEvent<T> {
  const meta = recordOf(recordOf(object)['metadata']);
  const resourceVersion = textOr(meta['resourceVersion'], '');
  switch (type) {
    case 'ADDED':
    case 'MODIFIED': {
      const { object: trimmed, reason } = resource.trim(object, interner);
      if (reason !== undefined) return { type: 'unusable', reason, resourceVersion };
      return { type: 'applied', object: trimmed, resourceVersion };
    }
    case 'DELETED': {
      const name = textOr(meta['name'], '');
      if (name === '') return { type: 'unusable', reason: 'a deleted object has no metadata.name', resourceVersion };
      return { type: 'deleted', object: { namespace: textOr(meta['namespace'], ''), name }, resourceVersion };
    }
    case 'BOOKMARK': {
      const initialEnd = recordOf(meta['annotations'])[INITIAL_END_ANNOTATION] === 'true';
      return { type: 'bookmark', resourceVersion, initialEnd };
    }
    case 'ERROR':
      return { type: 'failed', failure: failureOfStatus(object) };
    default:
      return garbled(`an event of the watch has the unknown type ${JSON.stringify(type)}`);
  }
}
