import type { JsonObject } from '../../test/apiserver/json-object.ts';
import { type ClusterShape, serviceObjects, sliceObjects } from './large-cluster.ts';

/** One line of a watch, as the API server would write it. */
export interface WatchLine {
  readonly kind: 'service' | 'endpoint-slice';
  readonly text: string;
}

interface Living {
  service: JsonObject;
  slice: JsonObject;
  generation: number;
}

const START_OF_TIME = Date.UTC(2026, 0, 1);

/**
 * An endless life of a cluster that stays the same size: pods come, go and are replaced under addresses never seen before, slices and
 * Services are deleted and created again under new names. The same seed gives the same history.
 */
export class ChurnHistory {
  readonly #living: Living[];
  readonly #endpoints: number;
  #random: number;
  #pods = 0;
  #generations = 0;
  #revision = 1_000_000;

  constructor(shape: ClusterShape, seed = 1) {
    const slices = [...sliceObjects({ ...shape, dualStackEvery: 0 })];
    this.#living = Array.from(serviceObjects({ ...shape, dualStackEvery: 0 }), (service, index) => ({
      service,
      slice: slices[index] ?? service,
      generation: 0,
    }));
    this.#endpoints = shape.endpoints;
    this.#random = seed;
  }

  /** The lines that bring the whole cluster as it is now. */
  *all(): IterableIterator<WatchLine> {
    for (const { service, slice } of this.#living) {
      yield this.#line('service', 'ADDED', service);
      yield this.#line('endpoint-slice', 'ADDED', slice);
    }
  }

  /** What happens next: one change of endpoints, or the few lines by which a slice or a service becomes another. */
  next(): readonly WatchLine[] {
    const living = this.#living[this.#chance(this.#living.length)];
    if (living === undefined) throw new Error('a cluster without services does not change');
    const before = { ...living };
    const what = this.#chance(100);
    if (what < 90) {
      living.slice = this.#scaled(living.slice, what < 60 ? 'replace' : what < 75 ? 'grow' : 'shrink');
      return [this.#line('endpoint-slice', 'MODIFIED', living.slice)];
    }
    living.generation = ++this.#generations;
    if (what < 98) {
      living.slice = renamed(living.slice, `${living.service.metadata.name}-${living.generation}`, undefined);
      return [
        this.#line('endpoint-slice', 'DELETED', before.slice),
        this.#line('endpoint-slice', 'ADDED', living.slice),
      ];
    }
    const name = `service-${before.service.metadata.name.split('-')[1]}-${living.generation}`;
    const clusterIP = `10.${203 + ((living.generation >> 16) & 15)}.${(living.generation >> 8) & 255}.${living.generation & 255}`;
    const spec = { ...(before.service['spec'] as object), clusterIP, clusterIPs: [clusterIP] };
    living.service = { ...renamed(before.service, name, undefined), spec };
    living.slice = renamed(before.slice, `${name}-0`, name);
    return [
      this.#line('endpoint-slice', 'DELETED', before.slice),
      this.#line('service', 'DELETED', before.service),
      this.#line('service', 'ADDED', living.service),
      this.#line('endpoint-slice', 'ADDED', living.slice),
    ];
  }

  #scaled(slice: JsonObject, how: 'replace' | 'grow' | 'shrink'): JsonObject {
    const endpoints = [...(slice['endpoints'] as readonly object[])];
    const fewer = how === 'shrink' && endpoints.length > 1;
    if (fewer || how === 'replace' || endpoints.length >= 2 * this.#endpoints) {
      endpoints.splice(this.#chance(endpoints.length), 1);
    }
    if (!fewer) endpoints.push(this.#pod());
    return { ...slice, endpoints };
  }

  #pod(): object {
    const n = this.#pods++;
    return {
      addresses: [`10.${64 + ((n >> 16) & 63)}.${(n >> 8) & 255}.${n & 255}`],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: `node-${n % 500}`,
      targetRef: { kind: 'Pod', name: `pod-${n}`, namespace: 'any', uid: `00000000-0000-0000-0000-${n}` },
    };
  }

  /** Each line has a different version and time. */
  #line(kind: WatchLine['kind'], type: string, object: JsonObject): WatchLine {
    const revision = ++this.#revision;
    const annotations = {
      'endpoints.kubernetes.io/last-change-trigger-time': new Date(START_OF_TIME + revision * 1_000).toISOString(),
    };
    const metadata = { ...object.metadata, resourceVersion: String(revision), annotations };
    return { kind, text: `${JSON.stringify({ type, object: { ...object, metadata } })}\n` };
  }

  /** Numerical Recipes' linear congruential generator; its high bits. */
  #chance(below: number): number {
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.trunc((this.#random / 2 ** 32) * below);
  }
}

function renamed(object: JsonObject, name: string, service: string | undefined): JsonObject {
  const labels = {
    ...object.metadata.labels,
    ...(service === undefined ? {} : { 'kubernetes.io/service-name': service }),
  };
  return { ...object, metadata: { ...object.metadata, name, labels } };
}
