import type { IncomingMessage } from 'node:http';
import type { FaultySink } from './faults.ts';
import { isRecord } from './json-object.ts';
import type { JsonMeta, JsonObject } from './json-object.ts';
import { booleanParameter, numberParameter } from './request-info.ts';
import type { RequestInfo } from './request-info.ts';
import { selectableFields } from './resources.ts';
import { fieldMatcher, labelMatcher } from './selectors.ts';
import type { Matcher } from './selectors.ts';
import { badRequest, invalid, StatusError } from './status.ts';
import type { Store } from './store.ts';
import { type Encoding, WatchStream } from './watch-stream.ts';

/** Error of a server that supports WatchList, if its etcd has no progress requests (before 3.4.31 and 3.5.13). */
const NO_PROGRESS = new StatusError(
  500,
  'InternalError',
  'a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled',
);

export interface ReadOptions {
  readonly bookmarkMs?: number;
  readonly watchList?: boolean;
  readonly requestWatchProgress?: boolean;
  readonly clusterIpSelector?: boolean;
  readonly labelSelectors?: boolean;
  readonly cacheIgnoresLimit?: boolean;
}

export type CollectionAnswer =
  | { readonly type: 'list'; readonly list: unknown }
  | {
      readonly type: 'watch';
      open(sink: FaultySink, encoding: Encoding, onClose: (watch: WatchStream) => void): WatchStream;
    };

function matcherOf({ type, namespace, query }: RequestInfo, options: ReadOptions): Matcher {
  const fields = new Set(selectableFields(type));
  if (options.clusterIpSelector === false) fields.delete('spec.clusterIP');
  if (options.labelSelectors === false && query.has('labelSelector'))
    throw badRequest('label selectors are not supported');
  const byLabel = labelMatcher(query.get('labelSelector') ?? '');
  const byField = fieldMatcher(query.get('fieldSelector') ?? '', fields);
  return (object) =>
    (namespace === '' || object.metadata.namespace === namespace) && byLabel(object) && byField(object);
}

export function handleCollectionRead(store: Store, info: RequestInfo, options: ReadOptions): CollectionAnswer {
  const matches = matcherOf(info, options);
  return info.verb === 'list' ? list(store, info, matches, options) : watch(store, info, matches, options);
}

function list(store: Store, { type, query }: RequestInfo, matches: Matcher, options: ReadOptions): CollectionAnswer {
  const limit = numberParameter(query, 'limit');
  const token = query.get('continue') ?? '';
  const version = numberParameter(query, 'resourceVersion');
  if (token !== '' && version > 0) throw badRequest('specifying resource version is not allowed when using continue');
  if (version > store.revision) {
    throw new StatusError(504, 'Timeout', `Too large resource version: ${version}, current: ${store.revision}`, 1);
  }
  const cached = query.get('resourceVersion') === '0' && options.cacheIgnoresLimit === true;
  const { revision, objects, next } = store.list(type, matches, cached ? 0 : limit, token);
  const metadata = { resourceVersion: String(revision), ...(next === '' ? {} : { continue: next }) };
  // The items of a list do not repeat their kind.
  const items = objects.map(({ apiVersion: _version, kind: _kind, ...object }) => object);
  return { type: 'list', list: { kind: `${type.kind}List`, apiVersion: type.apiVersion, metadata, items } };
}

function watch(store: Store, { type, query }: RequestInfo, matches: Matcher, options: ReadOptions): CollectionAnswer {
  const seconds = numberParameter(query, 'timeoutSeconds');
  const version = numberParameter(query, 'resourceVersion');
  const bookmarks = booleanParameter(query, 'allowWatchBookmarks');
  const initial = query.has('sendInitialEvents');
  const match = query.get('resourceVersionMatch') ?? '';
  if (initial && options.watchList === false) {
    throw invalid(
      'sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled',
    );
  }
  if (initial && match !== 'NotOlderThan') {
    throw invalid(
      'resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan',
    );
  }
  if (!initial && match !== '') {
    throw invalid(
      'resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided',
    );
  }
  const fromStart = initial ? booleanParameter(query, 'sendInitialEvents') : version === 0;
  return {
    type: 'watch',
    open: (sink, encoding, onClose) => {
      const stream: WatchStream = new WatchStream(
        store,
        sink,
        {
          type,
          encoding,
          matches,
          since: fromStart ? undefined : version === 0 ? store.revision : version,
          bookmarks,
          announceInitialEnd: initial && fromStart,
          refusal: initial && fromStart && options.requestWatchProgress === false ? NO_PROGRESS : undefined,
          timeoutMs: (seconds === 0 ? 1800 : seconds) * 1000,
          bookmarkMs: options.bookmarkMs ?? 60_000,
        },
        () => onClose(stream),
      );
      return stream;
    },
  };
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch (error) {
    throw badRequest(`the object provided is unrecognized: ${String(error)}`);
  }
}

function objectOf(body: unknown, { type, namespace, name, verb }: RequestInfo): JsonObject {
  if (!isRecord(body) || !isRecord(body['metadata'])) throw badRequest('the object provided has no metadata');
  if (body['kind'] !== type.kind || body['apiVersion'] !== type.apiVersion) {
    throw badRequest(`the object provided is no ${type.kind} of ${type.apiVersion}`);
  }
  const metadata = body['metadata'] as JsonMeta;
  if (namespace !== '' && metadata.namespace !== undefined && metadata.namespace !== namespace) {
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  }
  if (verb === 'update' && metadata.name !== name) {
    throw badRequest(`the name of the object (${metadata.name}) does not match the name on the URL (${name})`);
  }
  return { ...body, metadata: type.namespaced ? { ...metadata, namespace: namespace || 'default' } : metadata };
}

/** Applies a JSON merge patch (RFC 7396). */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const result: Record<string, unknown> = isRecord(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = mergePatch(result[key], value);
  }
  return result;
}

/** Handles get, create, update, patch and delete of one object. */
export async function handleWrite(
  store: Store,
  info: RequestInfo,
  request: IncomingMessage,
): Promise<{ readonly code: number; readonly object: unknown }> {
  const { type, name } = info;
  const namespace = info.namespace === '' ? 'default' : info.namespace;
  const contentType = (request.headers['content-type'] ?? '').split(';')[0];
  const wanted = info.verb === 'patch' ? 'application/merge-patch+json' : 'application/json';
  if (['create', 'update', 'patch'].includes(info.verb) && contentType !== wanted) {
    throw new StatusError(
      415,
      'UnsupportedMediaType',
      `the body of the request was in an unknown format - accepted: ${wanted}`,
    );
  }
  switch (info.verb) {
    case 'create':
      return { code: 201, object: store.create(type, objectOf(await readBody(request), info)) };
    case 'update':
      return { code: 200, object: store.update(type, objectOf(await readBody(request), info)) };
    case 'patch': {
      const patched = mergePatch(store.get(type, namespace, name), await readBody(request));
      return { code: 200, object: store.update(type, patched as JsonObject) };
    }
    case 'delete':
      store.delete(type, namespace, name);
      return { code: 200, object: { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success' } };
    case 'get':
    case 'list':
    case 'watch':
      return { code: 200, object: store.get(type, namespace, name) };
  }
}
