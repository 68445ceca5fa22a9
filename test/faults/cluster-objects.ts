import type { EndpointSlice, Service } from '../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { listed } from '../support/objects.ts';

/** The objects that the API server would have after a history of changes. */
export class ClusterObjects {
  readonly #services = new Map<string, Service>();
  readonly #slices = new Map<string, EndpointSlice>();

  apply({ kind, event }: SourceEvent): void {
    if (kind === 'service') change(this.#services, event);
    else if (kind === 'endpoint-slice') change(this.#slices, event);
    else throw new Error('the Node object of a history never changes');
  }

  /** Returns the lists of all three kinds, as a starting daemon receives them. */
  listed(): SourceEvent[] {
    return listed([...this.#services.values()], [...this.#slices.values()]);
  }
}

function change<T extends { readonly meta: { readonly name: string } }>(
  objects: Map<string, T>,
  event:
    | { readonly type: 'applied'; readonly object: T }
    | { readonly type: 'deleted'; readonly object: { readonly name: string } }
    | { readonly type: 'replaced' },
): void {
  if (event.type === 'applied') objects.set(event.object.meta.name, event.object);
  else if (event.type === 'deleted') objects.delete(event.object.name);
  else throw new Error('histories have single changes only');
}
