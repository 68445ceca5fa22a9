import { isDeepStrictEqual } from 'node:util';
import type { EndpointSlice, Node, Service } from '../kube/objects/objects.ts';
import type { ObjectEvent, ObjectName, SourceEvent } from '../kube/objects/source.ts';
import { type NamespacedName, namespacedName } from '../base/service/names.ts';
import { EMPTY, trimCapacity } from '../base/trim-capacity.ts';
import { mergeSlices } from './merge-slices.ts';
import { type NodeModel, defineNode, planAlike } from './node.ts';
import { reuseChanged } from './reused-address.ts';
import { defineService, isForUs } from './service-definition.ts';
import type { ServiceDefinition, ServiceModel } from './service-model.ts';
import { type SliceModel, defineSlice, sameSlice } from './slice-model.ts';
import { DEFAULT_ANNOTATIONS, type ServiceAnnotation } from '../base/service/service-annotations.ts';
import { ANNOTATION } from '../base/well-known-labels.ts';
import { type TriggerTime, parseTime } from './trigger-time.ts';
import { type ModelWarning, Warnings, quoted } from './warnings.ts';

/** The changes since the last call of takeChanges(). */
export interface Changes {
  /**
   * Services that were created, changed or deleted, or that had an EndpointSlice created, changed or deleted. A Service
   * is listed even if these changes cancel out.
   */
  readonly services: ReadonlySet<NamespacedName>;
  /** Whether any property of our Node changed that plans depend on. */
  readonly nodeChanged: boolean;
  readonly triggerTimes: readonly TriggerTime[];
  /** Warnings about objects that were ignored because their name is invalid. */
  readonly rejected: readonly ModelWarning[];
}

/** A Service and its EndpointSlices. `definition` is undefined if only slices are known. */
interface Known {
  definition: ServiceDefinition | undefined;
  slices: readonly SliceModel[];
}

/** Number of list items processed between two yields. */
const STRIDE = 16;

/** Maximum length of the name of a namespaced object. */
const MAX_NAME = 253;

/**
 * Stores the Services, the EndpointSlices and the Node that this proxy uses. It applies watch events and keeps
 * validated definitions and slices, which service() merges on demand. It never throws, whatever the objects contain.
 */
export class Cluster {
  readonly #nodeName: string;
  readonly #permitted: ReadonlySet<ServiceAnnotation>;
  readonly #services = new Map<NamespacedName, Known>();
  readonly #slices = new Map<NamespacedName, SliceModel>();
  readonly #listed = new Set<SourceEvent['kind']>();
  #touched = new Set<NamespacedName>();
  #triggers: { readonly owner: NamespacedName; readonly at: TriggerTime }[] = [];
  #rejected = new Warnings();
  #endpointChanges = 0;
  #node: NodeModel | undefined;
  #nodeBefore: NodeModel | undefined;

  /**
   * @param nodeName Name of our Node. Endpoints on it are local.
   * @param permitted The annotations that a Service may use.
   */
  constructor(nodeName: string, permitted: readonly ServiceAnnotation[] = DEFAULT_ANNOTATIONS) {
    this.#nodeName = nodeName;
    this.#permitted = new Set(permitted);
  }

  apply(event: SourceEvent): void {
    const steps = this.applyInSteps(event);
    while (steps.next().done !== true);
  }

  /**
   * Like apply(), but yields after every few objects of a list, so that ten thousand objects do not block the event
   * loop. The caller must finish the steps before it applies the next event.
   */
  *applyInSteps(event: SourceEvent): Generator<void, void> {
    switch (event.kind) {
      case 'service':
        yield* this.#each(event.event, () => this.names(), this.#setService, this.#deleteService);
        break;
      case 'endpoint-slice':
        yield* this.#each(event.event, () => this.#slices.keys(), this.#setSlice, this.#deleteSlice);
        break;
      case 'node':
        this.#applyNode(event.event);
        break;
    }
    if (event.event.type === 'replaced') this.#listed.add(event.kind);
  }

  /**
   * Whether the complete lists of services and of slices have arrived. Before that, a sync would delete objects that
   * are merely not known yet.
   */
  synced(): boolean {
    return this.#listed.has('service') && this.#listed.has('endpoint-slice');
  }

  /** Whether the list of Nodes has arrived, so that our Node is either known or does not exist. */
  nodeListed(): boolean {
    return this.#listed.has('node');
  }

  /** Whether takeChanges() would return any change. */
  changed(): boolean {
    return this.#touched.size > 0 || this.#rejected.list().length > 0 || !planAlike(this.#node, this.#nodeBefore);
  }

  hasEndpoints(name: NamespacedName): boolean {
    const known = this.#services.get(name);
    return known?.definition !== undefined && known.slices.length > 0;
  }

  /** The number of EndpointSlices that belong to Services. */
  get sliceCount(): number {
    return this.#slices.size;
  }

  /** Returns the number of services and of EndpointSlice changes that the next takeChanges() covers. */
  pending(): { readonly services: number; readonly endpointChanges: number } {
    return { services: this.#touched.size, endpointChanges: this.#endpointChanges };
  }

  takeChanges(): Changes {
    const changes = {
      services: this.#touched,
      nodeChanged: !planAlike(this.#node, this.#nodeBefore),
      triggerTimes: this.#triggers.flatMap(({ owner, at }) => (this.definition(owner) === undefined ? [] : [at])),
      rejected: this.#rejected.list(),
    };
    this.#touched = new Set();
    this.#endpointChanges = 0;
    this.#triggers = [];
    this.#rejected = new Warnings();
    this.#nodeBefore = this.#node;
    return changes;
  }

  service(name: NamespacedName): ServiceModel | undefined {
    const known = this.#services.get(name);
    return known?.definition === undefined ? undefined : mergeSlices(known.definition, known.slices);
  }

  /** Returns the service without its endpoints, which are the expensive part of service(). */
  definition(name: NamespacedName): ServiceDefinition | undefined {
    return this.#services.get(name)?.definition;
  }

  /** Returns the slices of a service, in the order in which they were learned. The service itself may be unknown. */
  slices(name: NamespacedName): readonly SliceModel[] {
    return this.#services.get(name)?.slices ?? EMPTY;
  }

  names(): readonly NamespacedName[] {
    const names: NamespacedName[] = [];
    for (const [name, { definition }] of this.#services) if (definition !== undefined) names.push(name);
    return names;
  }

  /** Returns the last known state of our Node, even after the Node object was deleted. */
  node(): NodeModel | undefined {
    return this.#node;
  }

  #update(name: NamespacedName, fields: Partial<Known>): void {
    this.#touched.add(name);
    const known = this.#services.get(name) ?? { definition: undefined, slices: EMPTY };
    Object.assign(known, fields);
    if (known.definition === undefined && known.slices.length === 0) this.#services.delete(name);
    else this.#services.set(name, known);
  }

  /** Adds or replaces the slice `name` of the service `owner`; removes it if `slice` is undefined. */
  #updateSlice(owner: NamespacedName, name: string, slice: SliceModel | undefined): void {
    this.#endpointChanges += 1;
    const others = (this.#services.get(owner)?.slices ?? EMPTY).filter((other) => other.name !== name);
    this.#update(owner, { slices: slice === undefined ? trimCapacity(others) : others.concat(slice) });
  }

  *#each<T extends { readonly meta: ObjectName }>(
    event: ObjectEvent<T>,
    known: () => Iterable<NamespacedName>,
    set: (key: NamespacedName, object: T) => void,
    remove: (key: NamespacedName) => void,
  ): Generator<void, void> {
    switch (event.type) {
      case 'applied':
        this.#accept(event.object, set);
        break;
      case 'deleted':
        remove(namespacedName(event.object.namespace, event.object.name));
        break;
      case 'replaced': {
        const left = new Set(known());
        let count = 0;
        for (const object of event.objects) {
          const key = this.#accept(object, set);
          if (key !== undefined) left.delete(key);
          if (++count % STRIDE === 0) yield;
        }
        for (const key of left) remove(key);
        break;
      }
    }
  }

  /** Passes the object to `set` and returns its key. Returns undefined if its name is invalid. */
  #accept<T extends { readonly meta: ObjectName }>(
    object: T,
    set: (key: NamespacedName, object: T) => void,
  ): NamespacedName | undefined {
    const { namespace, name } = object.meta;
    if (!isName(namespace) || !isName(name)) {
      this.#rejected.add('invalid-name', `object ${quoted(name)} in namespace ${quoted(namespace)} has no valid name`);
      return undefined;
    }
    const key = namespacedName(namespace, name);
    set(key, object);
    return key;
  }

  readonly #setService = (key: NamespacedName, service: Service): void => {
    if (!isForUs(service)) {
      this.#deleteService(key);
      return;
    }
    const definition = defineService(key, service, this.#permitted);
    if (!isDeepStrictEqual(definition, this.definition(key))) this.#update(key, { definition });
  };

  readonly #deleteService = (key: NamespacedName): void => {
    if (this.definition(key) !== undefined) this.#update(key, { definition: undefined });
  };

  readonly #setSlice = (key: NamespacedName, slice: EndpointSlice): void => {
    const known = this.#slices.get(key);
    const model = defineSlice(slice, this.#nodeName);
    if (sameSlice(model, known)) {
      if (known !== undefined && model !== undefined) this.#setUnusable(known, model.unusable);
      return;
    }
    if (known !== undefined && known.owner !== model?.owner) this.#deleteSlice(key);
    if (model === undefined) return;
    const { owner, name } = model;
    this.#slices.set(key, model);
    this.#updateSlice(owner, name, model);
    const time = parseTime(slice.meta.annotations[ANNOTATION.lastChange] ?? '');
    if (time === undefined) return;
    this.#triggers.push({ owner, at: { family: slice.addressType === 'IPv6' ? 6 : 4, time } });
  };

  #setUnusable(slice: SliceModel, unusable: SliceModel['unusable']): void {
    const before = slice.unusable;
    slice.unusable = unusable;
    if (reuseChanged(before, unusable, this.slices(slice.owner))) this.#update(slice.owner, {});
  }

  readonly #deleteSlice = (key: NamespacedName): void => {
    const known = this.#slices.get(key);
    if (known === undefined) return;
    this.#slices.delete(key);
    this.#updateSlice(known.owner, known.name, undefined);
  };

  #applyNode(event: ObjectEvent<Node>): void {
    if (event.type === 'deleted') return;
    const nodes = event.type === 'replaced' ? event.objects : [event.object];
    const own = nodes.find(({ meta }) => meta.name === this.#nodeName);
    if (own !== undefined) this.#node = defineNode(own);
  }
}

/** Whether the name can identify an object in keys and logs, even if the API server would reject it. */
function isName(text: string): boolean {
  return text !== '' && text.length <= MAX_NAME && !text.includes('/');
}
