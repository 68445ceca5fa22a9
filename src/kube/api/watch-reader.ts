import { LineSplitter } from '../json/line-splitter.ts';
import type { Interner } from '../objects/interner.ts';
import type { ObjectMeta } from '../objects/objects.ts';
import { NO_BYTES, openEnvelope, STATUS, WATCH_EVENT } from '../protobuf/envelope.ts';
import { FrameSplitter } from '../protobuf/frame-splitter.ts';
import { isProtobuf } from '../protobuf/media-type.ts';
import { readMessage } from '../protobuf/message-table.ts';
import { readObject } from '../protobuf/read-object.ts';
import { WireError } from '../protobuf/wire-reader.ts';
import type { Resource } from './resource.ts';
import { type WatchEvent, decodeWatchEvent, garbled, watchEvent } from './watch-event.ts';

/** Reads the events of a watch while they arrive. */
interface WatchReader<T> {
  /** Whether the bytes so far end within an event. */
  readonly isWithinEvent: () => boolean;
  /** Yields the events that this chunk completes. Each is decoded when the one before it has been used. */
  readonly feed: (chunk: Buffer) => Iterable<WatchEvent<T>>;
}

/** @param limit maximum size of an event */
export function watchReader<T extends { readonly meta: ObjectMeta }>(
  contentType: string | undefined,
  resource: Resource<T>,
  interner: Interner,
  limit: number,
): WatchReader<T> {
  return isProtobuf(contentType) ? protobufReader(resource, interner, limit) : jsonReader(resource, interner, limit);
}

function jsonReader<T extends { readonly meta: ObjectMeta }>(
  resource: Resource<T>,
  interner: Interner,
  limit: number,
): WatchReader<T> {
  const splitter = new LineSplitter(limit);
  return {
    isWithinEvent: () => splitter.rest() !== '',
    *feed(chunk) {
      const lines = splitter.feed(chunk);
      if (lines === undefined) yield garbled(`an event has more than ${limit} bytes`);
      for (const line of lines ?? []) yield decodeWatchEvent(line, resource, interner);
    },
  };
}

function protobufReader<T extends { readonly meta: ObjectMeta }>(
  resource: Resource<T>,
  interner: Interner,
  limit: number,
): WatchReader<T> {
  const splitter = new FrameSplitter(limit);
  return {
    isWithinEvent: () => splitter.withinFrame,
    *feed(chunk) {
      try {
        for (const frame of splitter.feed(chunk)) yield decodeFrame(frame, resource, interner);
      } catch (error) {
        if (!(error instanceof WireError)) throw error;
        yield garbled(`the watch of ${resource.plural} is not valid protobuf: ${error.message}`);
      }
    },
  };
}

function decodeFrame<T extends { readonly meta: ObjectMeta }>(
  frame: Buffer,
  resource: Resource<T>,
  interner: Interner,
): WatchEvent<T> {
  const { type, object: envelope = NO_BYTES } = readMessage(frame, WATCH_EVENT);
  const { kind, raw } = openEnvelope(envelope);
  const wanted = type === 'ERROR' ? STATUS.name : resource.message.name;
  if (kind !== wanted) throw new WireError(`a ${JSON.stringify(kind)} instead of a ${wanted}`);
  if (type === 'ERROR') return watchEvent('ERROR', readMessage(raw, STATUS), resource, interner);
  const { object, reason } = readObject(raw, resource.message, interner);
  if (reason !== undefined) return { type: 'unusable', reason, resourceVersion: '' };
  return watchEvent(type, object, resource, interner);
}
