import { LineSplitter } from '../json/line-splitter.ts';
import type { Interner } from '../objects/interner.ts';
import type { ObjectMeta } from '../objects/objects.ts';
import { openEnvelope, STATUS, WATCH_EVENT } from '../protobuf/envelope.ts';
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
  readonly withinEvent: boolean;
  /** Yields the events that this chunk completes. Each is decoded when the one before it has been used. */
  feed(chunk: Buffer): Iterable<WatchEvent<T>>;
}

/** @param limit maximum size of an event */
export function watchReader<T extends { readonly meta: ObjectMeta }>(
  contentType: string | undefined,
  resource: Resource<T>,
  interner: Interner,
  limit: number,
): WatchReader<T> {
  const Reader = isProtobuf(contentType) ? ProtobufReader<T> : JsonReader<T>;
  return new Reader(resource, interner, limit);
}

class JsonReader<T extends { readonly meta: ObjectMeta }> implements WatchReader<T> {
  readonly #resource: Resource<T>;
  readonly #interner: Interner;
  readonly #limit: number;
  readonly #splitter: LineSplitter;

  constructor(resource: Resource<T>, interner: Interner, limit: number) {
    this.#resource = resource;
    this.#interner = interner;
    this.#limit = limit;
    this.#splitter = new LineSplitter(limit);
  }

  get withinEvent(): boolean {
    return this.#splitter.rest() !== '';
  }

  *feed(chunk: Buffer): Generator<WatchEvent<T>> {
    const lines = this.#splitter.feed(chunk);
    if (lines === undefined) yield garbled(`an event has more than ${this.#limit} bytes`);
    for (const line of lines ?? []) yield decodeWatchEvent(line, this.#resource, this.#interner);
  }
}

class ProtobufReader<T extends { readonly meta: ObjectMeta }> implements WatchReader<T> {
  readonly #resource: Resource<T>;
  readonly #interner: Interner;
  readonly #splitter: FrameSplitter;

  constructor(resource: Resource<T>, interner: Interner, limit: number) {
    this.#resource = resource;
    this.#interner = interner;
    this.#splitter = new FrameSplitter(limit);
  }

  get withinEvent(): boolean {
    return this.#splitter.withinFrame;
  }

  *feed(chunk: Buffer): Generator<WatchEvent<T>> {
    try {
      for (const frame of this.#splitter.feed(chunk)) yield this.#decode(frame);
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      yield garbled(`the watch of ${this.#resource.plural} is not valid protobuf: ${error.message}`);
    }
  }

  #decode(frame: Buffer): WatchEvent<T> {
    const event = readMessage(frame, WATCH_EVENT);
    const { kind, raw } = openEnvelope(event.object);
    const { message } = this.#resource;
    const wanted = event.type === 'ERROR' ? STATUS.name : message.name;
    if (kind !== wanted) throw new WireError(`a ${JSON.stringify(kind)} instead of a ${wanted}`);
    if (event.type === 'ERROR') return watchEvent('ERROR', readMessage(raw, STATUS), this.#resource, this.#interner);
    const { object, reason } = readObject(raw, message, this.#interner);
    if (reason !== undefined) return { type: 'unusable', reason, resourceVersion: '' };
    return watchEvent(event.type, object, this.#resource, this.#interner);
  }
}
