import https from 'node:https';
import { isRecord } from './json-object.ts';
import type { JsonObject } from './json-object.ts';
import { RESOURCE_TYPES, typeOfObject } from './resources.ts';
import type { ResourceType } from './resources.ts';

export interface Answer {
  readonly code: number;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface AskOptions {
  readonly body?: unknown;
  /** Bearer token; "admin" by default. */
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const TIMEOUT_MS = 10_000;

/** Returns whether the object is created, and recreated, by the real server itself. */
function isOfTheServer({ metadata: { name, namespace = 'default' } }: JsonObject): boolean {
  return name === 'kubernetes' && namespace === 'default';
}

/** The requests of a cluster administrator to an API server with TLS. */
export class AdminClient {
  readonly #url: string;
  readonly #ca: string;

  constructor(url: string, ca: string) {
    this.#url = url;
    this.#ca = ca;
  }

  /** Sends a request. Rejects if there is no response; an error status is a response. */
  async ask(method: string, path: string, { body, token = 'admin', headers = {} }: AskOptions = {}): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const sent = {
      Authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { 'Content-Type': type }),
      ...headers,
    };
    const options = { method, headers: sent, ca: this.#ca, timeout: TIMEOUT_MS, agent: false } as const;
    const request = https.request(this.#url + path, options, (response) => {
      let text = '';
      response.on('data', (chunk) => (text += String(chunk)));
      response.on('end', () => resolve({ code: response.statusCode ?? 0, body: jsonOf(text) }));
      response.on('error', reject);
    });
    request.on('timeout', () => request.destroy(new Error(`${method} ${path}: no answer`)));
    request.on('error', reject);
    request.end(body === undefined ? undefined : JSON.stringify(body));
    return await promise;
  }

  /** Creates or replaces the object; resolves with the object that the server returns. */
  async apply(object: JsonObject): Promise<JsonObject> {
    const type = typeOfObject(object);
    const path = `${collection(type, object)}/${object.metadata.name}`;
    // Check whether it exists: on creating an existing Service, the real server reports its address as allocated.
    const found = await this.ask('GET', path);
    if (found.code === 404) return objectOf(await this.ask('POST', collection(type, object), { body: object }));
    const { resourceVersion } = objectOf(found).metadata;
    const body = { ...object, metadata: { ...object.metadata, resourceVersion } };
    return objectOf(await this.ask('PUT', path, { body }));
  }

  async delete(object: JsonObject): Promise<void> {
    objectOf(await this.ask('DELETE', `${collection(typeOfObject(object), object)}/${object.metadata.name}`));
  }

  /** Returns all objects of a resource, except those that the server creates itself. */
  async list(plural: 'services' | 'endpointslices' | 'nodes' | 'events'): Promise<readonly JsonObject[]> {
    const type = RESOURCE_TYPES.find((known) => known.plural === plural);
    if (type === undefined) throw new Error(`no resource ${plural}`);
    const { body } = expectSuccess(await this.ask('GET', `${root(type)}/${plural}`));
    const { kind, apiVersion } = type;
    const items = body['items'] as readonly JsonObject[];
    // The items of a list do not repeat their kind.
    return items.map((item) => ({ ...item, kind, apiVersion })).filter((object) => !isOfTheServer(object));
  }

  async deleteAll(): Promise<void> {
    for (const plural of ['services', 'endpointslices', 'nodes', 'events'] as const) {
      for (const object of await this.list(plural)) await this.delete(object);
    }
  }
}

function root({ apiVersion }: ResourceType): string {
  return apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
}

function collection(type: ResourceType, { metadata: { namespace = 'default' } }: JsonObject): string {
  return type.namespaced ? `${root(type)}/namespaces/${namespace}/${type.plural}` : `${root(type)}/${type.plural}`;
}

function jsonOf(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : {};
  } catch {
    return { message: text };
  }
}

function expectSuccess(answer: Answer): Answer {
  if (answer.code >= 300) throw new Error(`the API server answers ${answer.code}: ${String(answer.body['message'])}`);
  return answer;
}

function objectOf(answer: Answer): JsonObject {
  return expectSuccess(answer).body as JsonObject;
}
