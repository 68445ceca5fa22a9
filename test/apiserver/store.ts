import { randomUUID } from 'node:crypto';
import type { JsonObject } from './json-object.ts';
import { validate, validateUpdate } from './resources.ts';
import type { ResourceType } from './resources.ts';
import { badRequest, expired, notFound, StatusError } from './status.ts';

/** A change. `before` is undefined for a created object, `after` for a deleted one. */
export interface Change {
  readonly revision: number;
  readonly type: ResourceType;
  readonly key: string;
  readonly before: JsonObject | undefined;
  readonly after: JsonObject | undefined;
}

export interface Snapshot {
  readonly revision: number;
  readonly objects: readonly JsonObject[];
  readonly next: string;
}

interface ContinueToken {
  readonly revision: number;
  readonly start: string;
}

function decodeToken(text: string): ContinueToken {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString()) as ContinueToken;
  } catch {
    throw badRequest('continue key is not valid');
  }
}

/** The objects, a revision counter for all of them, and their history, like etcd behind the real server. */
export class Store {
  readonly #objects = new Map<string, Map<string, JsonObject>>();
  readonly #listeners = new Set<(change: Change) => void>();
  #history: Change[] = [];
  #compacted = 0;
  #revision: number;

  constructor(firstRevision = 1000) {
    this.#revision = firstRevision;
  }

  get revision(): number {
    return this.#revision;
  }

  /** Discards the history, so that watches and lists can no longer continue from an older revision. */
  compact(): void {
    this.#history = [];
    this.#compacted = this.#revision;
  }

  /** Returns a function that restores the present state, as etcd is restored from a backup: the revision goes back. */
  backup(): () => void {
    const objects = [...this.#objects].map(([plural, all]) => [plural, new Map(all)] as const);
    const revision = this.#revision;
    return () => {
      this.#objects.clear();
      for (const [plural, all] of objects) this.#objects.set(plural, new Map(all));
      this.#revision = revision;
      this.compact();
    };
  }

  subscribe(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get(type: ResourceType, namespace: string, name: string): JsonObject {
    const object = this.#of(type).get(this.#key(type, namespace, name));
    if (object === undefined) throw notFound(`${type.plural} "${name}" not found`);
    return object;
  }

  create(type: ResourceType, object: JsonObject): JsonObject {
    validate(type, object);
    const { name } = object.metadata;
    const key = this.#key(type, object.metadata.namespace ?? 'default', name);
    if (this.#of(type).has(key)) throw new StatusError(409, 'AlreadyExists', `${type.plural} "${name}" already exists`);
    return this.#put(type, key, undefined, object);
  }

  /** Updates an object. If it has a resourceVersion, it must be the current one. */
  update(type: ResourceType, object: JsonObject): JsonObject {
    const { name, namespace, resourceVersion } = object.metadata;
    const before = this.get(type, namespace ?? 'default', name);
    validateUpdate(type, before, object);
    if (resourceVersion !== undefined && resourceVersion !== before.metadata.resourceVersion) {
      throw new StatusError(
        409,
        'Conflict',
        `Operation cannot be fulfilled on ${type.plural} "${name}": the object has been modified`,
      );
    }
    return this.#put(type, this.#key(type, namespace ?? 'default', name), before, object);
  }

  delete(type: ResourceType, namespace: string, name: string): JsonObject {
    const before = this.get(type, namespace, name);
    const key = this.#key(type, namespace, name);
    this.#of(type).delete(key);
    this.#revision++;
    this.#record({ revision: this.#revision, type, key, before, after: undefined });
    return before;
  }

  /** Returns a page, sorted by key, from the revision of the token or else the current revision. */
  list(type: ResourceType, matches: (object: JsonObject) => boolean, limit: number, token: string): Snapshot {
    const from = token === '' ? { revision: this.#revision, start: '' } : decodeToken(token);
    if (from.revision < this.#compacted) {
      throw expired(
        'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.',
      );
    }
    const found = [...this.#at(type, from.revision)].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const rest = found.filter(([key, object]) => key >= from.start && matches(object));
    const page = limit > 0 ? rest.slice(0, limit) : rest;
    const following = rest[page.length]?.[0];
    const next =
      following === undefined
        ? ''
        : Buffer.from(JSON.stringify({ revision: from.revision, start: following })).toString('base64url');
    return { revision: from.revision, objects: page.map(([, object]) => object), next };
  }

  /** Returns the changes after a revision. */
  since(revision: number): readonly Change[] {
    if (revision < this.#compacted) throw expired(`too old resource version: ${revision} (${this.#compacted + 1})`);
    return this.#history.filter((change) => change.revision > revision);
  }

  /** Returns the objects as of a revision, by undoing later changes on a copy. */
  #at(type: ResourceType, revision: number): Map<string, JsonObject> {
    const objects = new Map(this.#of(type));
    for (const change of this.#history.toReversed()) {
      if (change.revision <= revision) break;
      if (change.type !== type) continue;
      if (change.before === undefined) objects.delete(change.key);
      else objects.set(change.key, change.before);
    }
    return objects;
  }

  #put(type: ResourceType, key: string, before: JsonObject | undefined, object: JsonObject): JsonObject {
    this.#revision++;
    const after: JsonObject = {
      ...object,
      apiVersion: type.apiVersion,
      kind: type.kind,
      metadata: {
        creationTimestamp: '2026-01-01T00:00:00Z',
        ...object.metadata,
        ...(type.namespaced ? { namespace: object.metadata.namespace ?? 'default' } : {}),
        uid: before?.metadata.uid ?? randomUUID(),
        resourceVersion: String(this.#revision),
      },
    };
    this.#of(type).set(key, after);
    this.#record({ revision: this.#revision, type, key, before, after });
    return after;
  }

  #record(change: Change): void {
    this.#history.push(change);
    for (const listener of this.#listeners) listener(change);
  }

  #of(type: ResourceType): Map<string, JsonObject> {
    let objects = this.#objects.get(type.plural);
    if (objects === undefined) this.#objects.set(type.plural, (objects = new Map()));
    return objects;
  }

  #key(type: ResourceType, namespace: string, name: string): string {
    return type.namespaced ? `${namespace}/${name}` : name;
  }
}
