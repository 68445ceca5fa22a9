import type { FaultySink } from './faults.ts';
import type { JsonObject } from './json-object.ts';
import { encodeFrame } from './protobuf/encode-object.ts';
import type { ResourceType } from './resources.ts';
import { StatusError } from './status.ts';
import type { Change, Store } from './store.ts';

export type Encoding = 'json' | 'protobuf';

export interface WatchOptions {
  readonly type: ResourceType;
  readonly encoding: Encoding;
  readonly matches: (object: JsonObject) => boolean;
  /** The watch starts after this revision; if undefined, it first sends all objects as ADDED. */
  readonly since: number | undefined;
  readonly bookmarks: boolean;
  /** Whether to send a bookmark after the initial objects. */
  readonly announceInitialEnd: boolean;
  /** If defined, the stream sends only this error. */
  readonly refusal: StatusError | undefined;
  readonly timeoutMs: number;
  readonly bookmarkMs: number;
}

/** An open watch. Sends the changes that match the selector, in the order of revisions. */
export class WatchStream {
  readonly type: ResourceType;
  readonly #store: Store;
  readonly #sink: FaultySink;
  readonly #options: WatchOptions;
  readonly #onClose: () => void;
  #unsubscribe: () => void = () => {};
  #timers: NodeJS.Timeout[] = [];

  constructor(store: Store, sink: FaultySink, options: WatchOptions, onClose: () => void) {
    this.type = options.type;
    this.#store = store;
    this.#sink = sink;
    this.#options = options;
    this.#onClose = onClose;
  }

  get encoding(): Encoding {
    return this.#options.encoding;
  }

  start(): void {
    const { since, type, matches, timeoutMs, bookmarkMs, bookmarks, announceInitialEnd, refusal } = this.#options;
    if (refusal !== undefined) {
      this.error(refusal);
      return this.end();
    }
    if (since === undefined) {
      for (const object of this.#store.list(type, matches, 0, '').objects) this.#event('ADDED', object);
      if (announceInitialEnd) this.bookmark({ 'k8s.io/initial-events-end': 'true' });
    } else {
      try {
        for (const change of this.#store.since(since)) this.#change(change);
      } catch (error) {
        if (!(error instanceof StatusError)) throw error;
        this.error(error);
        return this.end();
      }
    }
    // As the real server, it sends nothing that is not newer than the version of the request, even if that is in the future.
    this.#unsubscribe = this.#store.subscribe((change) => {
      if (change.revision > (since ?? 0)) this.#change(change);
    });
    this.#timers.push(setTimeout(() => this.end(), timeoutMs));
    if (bookmarks) this.#timers.push(setInterval(() => this.bookmark(), bookmarkMs));
  }

  bookmark(annotations?: Readonly<Record<string, string>>): void {
    if (!this.#options.bookmarks || this.#store.revision < (this.#options.since ?? 0)) return;
    const { kind, apiVersion } = this.type;
    const metadata = {
      resourceVersion: String(this.#store.revision),
      creationTimestamp: null,
      ...(annotations && { annotations }),
    };
    this.#send({ type: 'BOOKMARK', object: { kind, apiVersion, metadata } });
  }

  error(status: StatusError): void {
    this.#send({ type: 'ERROR', object: status.toStatus() });
  }

  /** Sends anything unchanged. */
  raw(body: string | Buffer): void {
    this.#sink.send(body);
  }

  /** Ends the watch normally, as at the end of timeoutSeconds. */
  end(): void {
    this.release();
    this.#sink.end();
  }

  destroy(): void {
    this.release();
    this.#sink.destroy();
  }

  silence(): void {
    this.#sink.silence();
  }

  release(): void {
    this.#unsubscribe();
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers = [];
    this.#onClose();
  }

  #change({ revision, type, before, after }: Change): void {
    if (type !== this.type) return;
    const { matches } = this.#options;
    const had = before !== undefined && matches(before);
    const has = after !== undefined && matches(after);
    if (has) return this.#event(had ? 'MODIFIED' : 'ADDED', after);
    if (!had) return;
    this.#event('DELETED', { ...before, metadata: { ...before.metadata, resourceVersion: String(revision) } });
  }

  #event(type: string, object: JsonObject): void {
    this.#send({ type, object });
  }

  #send({ type, object }: { readonly type: string; readonly object: unknown }): void {
    const inProtobuf = this.#options.encoding === 'protobuf';
    this.#sink.send(inProtobuf ? encodeFrame(type, object) : `${JSON.stringify({ type, object })}\n`);
  }
}
