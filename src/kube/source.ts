import type { EndpointSlice, Node, Service } from './objects.ts';

/** Which object, where only its name is known (a delete). */
export interface ObjectName {
  readonly namespace: string;
  readonly name: string;
}

/** One change of one kind of object. A relist arrives whole: it was staged, and replaces all that was known. */
export type ObjectEvent<T> =
  | { readonly type: 'replaced'; readonly objects: readonly T[] }
  | { readonly type: 'applied'; readonly object: T }
  | { readonly type: 'deleted'; readonly object: ObjectName };

export type SourceEvent =
  | { readonly kind: 'service'; readonly event: ObjectEvent<Service> }
  | { readonly kind: 'endpoint-slice'; readonly event: ObjectEvent<EndpointSlice> }
  | { readonly kind: 'node'; readonly event: ObjectEvent<Node> };

/**
 * Where Services, EndpointSlices and our Node come from: the API server or a directory of manifests. The handler is called in
 * order, never after stop() has resolved, and must not throw. The first `replaced` of each kind says that all of it is known; before
 * that, `applied` may bring single objects that were looked up ahead of the list.
 */
export interface Source {
  /** @param programmed resolves when the first single objects are in the kernel, and there is time for all the others */
  start(handler: (event: SourceEvent) => void, programmed?: Promise<void>): void;
  stop(): Promise<void>;
}
