import type { EndpointSlice, Node, Service } from '../kube/objects.ts';
import type { ObjectEvent, ObjectName, SourceEvent } from '../kube/source.ts';
import { type NamespacedName, namespacedName } from '../net/names.ts';
import { unreachable } from '../net/unreachable.ts';
import { mergeSlices } from './merge-slices.ts';
import { type NodeModel, defineNode } from './node.ts';
import { same } from './same.ts';
import { defineService, isForUs } from './service-definition.ts';
import type { ServiceDefinition, ServiceModel } from './service-model.ts';
import { type SliceModel, defineSlice, sameEndpoints, sameSlice } from './slice-model.ts';
import { TRIGGER_TIME_ANNOTATION, parseTime } from './trigger-time.ts';
import { type ModelWarning, Warnings, quoted } from './warnings.ts';

/** What came of the events since the last time it was asked. */
export interface Changes {
  /** Services whose model is another than it was, gone ones included. */
  readonly services: ReadonlySet<NamespacedName>;
  readonly nodeChanged: boolean;
  /** For changed services: when the changes of their endpoints were triggered, in milliseconds since 1970. */
  readonly triggerTimes: ReadonlyMap<NamespacedName, readonly number[]>;
  /** Objects that could not even be named. */
  readonly rejected: readonly ModelWarning[];
}

interface Inputs {
  readonly definition: ServiceDefinition | undefined;
  readonly slices: readonly SliceModel[];
}

/** What is known under the name of one service: with slices alone there is none (yet). */
interface Known {
  readonly name: NamespacedName;
  definition: ServiceDefinition | undefined;
  slices: readonly SliceModel[];
  /** What it was at the last takeChanges; undefined: the same as now. */
  before: Inputs | undefined;
}

const NO_SLICES: readonly SliceModel[] = Object.freeze([]);
const NOTHING: Inputs = Object.freeze({ definition: undefined, slices: NO_SLICES });

/** So many objects of a list are taken in between two pauses. */
const STRIDE = 16;

/** The longest name of a namespaced object. */
const MAX_NAME = 253;

/**
 * The cluster as far as a service proxy needs it. Events go in one by one; services come out as values, made when they are
 * asked for: only checked definitions and slices are kept. Never throws, whatever the objects hold.
 */
export class Cluster {
  readonly #nodeName: string;
  readonly #services = new Map<NamespacedName, Known>();
  readonly #slices = new Map<NamespacedName, SliceModel>();
  readonly #listed = new Set<SourceEvent['kind']>();
  /** All that have a `before`. */
  #touched: Known[] = [];
  #triggerTimes = new Map<NamespacedName, number[]>();
  #rejected = new Warnings();
  #endpointChanges = 0;
  #node: NodeModel | undefined;
  #nodeBefore: NodeModel | undefined;

  /** @param nodeName our own: what makes an endpoint local, and whose Node object counts. */
  constructor(nodeName: string) {
    this.#nodeName = nodeName;
  }

  apply(event: SourceEvent): void {
    const steps = this.applyInSteps(event);
    while (steps.next().done !== true);
  }

  /**
   * As apply(), with a pause after every few objects: a list of ten thousand need not hold up whoever must answer meanwhile. It counts
   * as listed when the last step is done; the events after it must wait for that.
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
      default:
        unreachable(event);
    }
    if (event.event.type === 'replaced') this.#listed.add(event.kind);
  }

  /** Services and slices were both listed whole: before that, plans would remove what is only not known yet. */
  synced(): boolean {
    return this.#listed.has('service') && this.#listed.has('endpoint-slice');
  }

  /** The service and some slice of it are known, whatever else is. */
  hasEndpoints(name: NamespacedName): boolean {
    const { definition, slices } = this.#services.get(name) ?? NOTHING;
    return definition !== undefined && slices.length > 0;
  }

  /** What waits for takeChanges: services touched, and changes of slices. */
  pending(): { readonly services: number; readonly endpointChanges: number } {
    return { services: this.#touched.length, endpointChanges: this.#endpointChanges };
  }

  takeChanges(): Changes {
    const steps = this.takeChangesInSteps();
    for (;;) {
      const { done, value } = steps.next();
      if (done === true) return value;
    }
  }

  /**
   * As takeChanges(), with a pause after every few services. Events may be applied in between: what they change is in these changes, in the
   * next ones, or in both, but never in neither.
   */
  *takeChangesInSteps(): Generator<void, Changes> {
    const touched = this.#touched;
    const times = this.#triggerTimes;
    const rejected = this.#rejected.list();
    const nodeChanged = !same(this.#node, this.#nodeBefore);
    this.#touched = [];
    this.#endpointChanges = 0;
    this.#triggerTimes = new Map();
    this.#rejected = new Warnings();
    this.#nodeBefore = this.#node;
    const services = new Set<NamespacedName>();
    const triggerTimes = new Map<NamespacedName, readonly number[]>();
    let count = 0;
    for (const known of touched) {
      const { name, before = NOTHING } = known;
      known.before = undefined;
      if (isNothing(known)) this.#services.delete(name);
      if (!sameInputs(before, known)) {
        services.add(name);
        const found = times.get(name);
        if (found !== undefined) triggerTimes.set(name, found);
      }
      if (++count % STRIDE === 0) yield;
    }
    return { services, nodeChanged, triggerTimes, rejected };
  }

  service(name: NamespacedName): ServiceModel | undefined {
    const { definition, slices } = this.#services.get(name) ?? NOTHING;
    return definition === undefined ? undefined : mergeSlices(definition, slices);
  }

  /** Without its endpoints, which cost most to put together. */
  definition(name: NamespacedName): ServiceDefinition | undefined {
    return this.#services.get(name)?.definition;
  }

  /** All services there are. */
  names(): readonly NamespacedName[] {
    const names: NamespacedName[] = [];
    for (const { name, definition } of this.#services.values()) if (definition !== undefined) names.push(name);
    return names;
  }

  /** Our Node object as it was last seen: it stays when the object is deleted. */
  node(): NodeModel | undefined {
    return this.#node;
  }

  /** What is known of the service, to be changed: its `before` is kept. */
  #touch(name: NamespacedName): Known {
    let known = this.#services.get(name);
    if (known === undefined) {
      known = { name, definition: undefined, slices: NO_SLICES, before: NOTHING };
      this.#services.set(name, known);
      this.#touched.push(known);
    } else if (known.before === undefined) {
      known.before = { definition: known.definition, slices: known.slices };
      this.#touched.push(known);
    }
    return known;
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
      default:
        unreachable(event);
    }
  }

  /** Answers the key; undefined for an object that cannot have one. */
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
    const definition = defineService(key, service);
    if (same(definition, this.definition(key))) return;
    this.#touch(key).definition = definition;
  };

  readonly #deleteService = (key: NamespacedName): void => {
    if (this.definition(key) !== undefined) this.#touch(key).definition = undefined;
  };

  readonly #setSlice = (key: NamespacedName, slice: EndpointSlice): void => {
    const known = this.#slices.get(key);
    const model = defineSlice(slice, this.#nodeName);
    if (sameSlice(model, known)) return;
    if (known !== undefined && known.owner !== model?.owner) this.#deleteSlice(key);
    if (model === undefined) return;
    const { owner } = model;
    const service = this.#touch(owner);
    this.#endpointChanges += 1;
    this.#slices.set(key, model);
    service.slices = without(service.slices, model.name).concat(model);
    const written = slice.meta.annotations[TRIGGER_TIME_ANNOTATION];
    const time = written === undefined ? undefined : parseTime(written);
    if (time === undefined) return;
    const times = this.#triggerTimes.get(owner);
    if (times === undefined) this.#triggerTimes.set(owner, [time]);
    else times.push(time);
  };

  readonly #deleteSlice = (key: NamespacedName): void => {
    const known = this.#slices.get(key);
    if (known === undefined) return;
    const service = this.#touch(known.owner);
    this.#endpointChanges += 1;
    this.#slices.delete(key);
    service.slices = without(service.slices, known.name);
  };

  #applyNode(event: ObjectEvent<Node>): void {
    if (event.type === 'deleted') return;
    const nodes = event.type === 'replaced' ? event.objects : [event.object];
    const own = nodes.find(({ meta }) => meta.name === this.#nodeName);
    if (own !== undefined) this.#node = defineNode(own);
  }
}

/** Enough of a name to tell the object from every other, and to show it. */
function isName(text: string): boolean {
  return text !== '' && text.length <= MAX_NAME && !text.includes('/');
}

function isNothing({ definition, slices }: Inputs): boolean {
  return definition === undefined && slices.length === 0;
}

function without(slices: readonly SliceModel[], gone: string): readonly SliceModel[] {
  return slices.length === 0 ? NO_SLICES : slices.filter(({ name }) => name !== gone);
}

function sameInputs(a: Inputs, b: Inputs): boolean {
  if (a.definition === undefined || b.definition === undefined) return a.definition === b.definition;
  if (!same(a.definition, b.definition)) return false;
  if (a.slices === b.slices) return true;
  if (areOthersOfOneSlice(a.slices, b.slices, b.definition)) return false;
  return same(mergeSlices(a.definition, a.slices), mergeSlices(b.definition, b.slices));
}

/** The most frequent change of all, told without merging anything: other endpoints in the only slice, of a port that the service has. */
function areOthersOfOneSlice(
  before: readonly SliceModel[],
  after: readonly SliceModel[],
  { ports }: ServiceDefinition,
): boolean {
  const [a, b] = [before[0], after[0]];
  if (a === undefined || b === undefined || before.length > 1 || after.length > 1) return false;
  const served = b.ports.some((port) => ports.some((own) => own.name === port.name && own.protocol === port.protocol));
  return served && same(a.ports, b.ports) && !sameEndpoints(a, b);
}
