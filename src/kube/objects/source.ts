import type { EndpointSlice, Node, Service } from './objects.ts';

export interface ObjectName {
  readonly namespace: string;
  readonly name: string;
}

export function objectKey({ namespace, name }: ObjectName): string {
  return `${namespace}/${name}`;
}

/** A change of one kind of object. `replaced` has all objects of that kind; objects not in it no longer exist. */
export type ObjectEvent<T> =
  | { readonly type: 'replaced'; readonly objects: readonly T[] }
  | { readonly type: 'applied'; readonly object: T }
  | { readonly type: 'deleted'; readonly object: ObjectName };

export type SourceEvent =
  | { readonly kind: 'service'; readonly event: ObjectEvent<Service> }
  | { readonly kind: 'endpoint-slice'; readonly event: ObjectEvent<EndpointSlice> }
  | { readonly kind: 'node'; readonly event: ObjectEvent<Node> };

/**
 * A source of Services, EndpointSlices and our Node: the API server or a directory of manifests. Calls the handler in
 * order, and never after stop() has resolved. The handler must not throw. The first `replaced` of a kind has all its
 * objects; an `applied` before that has an object that was fetched ahead of the list.
 */
export interface Source {
  /** @param programmed resolves when the kernel is programmed for the objects that were fetched ahead of the lists */
  start(handler: (event: SourceEvent) => void, programmed?: Promise<void>): void;
  stop(): Promise<void>;
}
