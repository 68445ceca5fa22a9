import { RESOURCE_TYPES } from './resources.ts';
import type { ResourceType } from './resources.ts';
import { badRequest, notFound } from './status.ts';

export type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete';

/** The verb and the target of a request. */
export interface RequestInfo {
  readonly type: ResourceType;
  readonly verb: Verb;
  /** "" means all namespaces, or a cluster-scoped resource. */
  readonly namespace: string;
  /** "" means the collection. */
  readonly name: string;
  readonly query: URLSearchParams;
}

function splitPath(path: string): { readonly apiVersion: string; readonly rest: readonly string[] } {
  const parts = path.split('/').filter((part) => part !== '');
  if (parts[0] === 'api' && parts[1] === 'v1') return { apiVersion: 'v1', rest: parts.slice(2) };
  if (parts[0] === 'apis' && parts.length > 2) return { apiVersion: `${parts[1]}/${parts[2]}`, rest: parts.slice(3) };
  throw notFound();
}

const VERB_OF_METHOD: Readonly<Record<string, Verb>> = {
  POST: 'create',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};

export function readRequest(method: string, url: URL): RequestInfo {
  const { apiVersion, rest } = splitPath(decodeURIComponent(url.pathname));
  const inNamespace = rest[0] === 'namespaces' && rest.length > 2;
  const [plural = '', name = '', ...more] = inNamespace ? rest.slice(2) : rest;
  const type = RESOURCE_TYPES.find((known) => known.plural === plural && known.apiVersion === apiVersion);
  if (type === undefined || more.length > 0 || (inNamespace && !type.namespaced)) throw notFound();
  const query = url.searchParams;
  const watching = booleanParameter(query, 'watch');
  let verb = VERB_OF_METHOD[method];
  if (method === 'GET') verb = name === '' ? (watching ? 'watch' : 'list') : 'get';
  if (verb === undefined) throw badRequest(`the server does not allow ${method}`);
  return { type, verb, namespace: inNamespace ? (rest[1] ?? '') : '', name, query };
}

/** Parses a boolean: "true" and "1" are true; "false", "0" and "" are false; anything else is an error. */
export function booleanParameter(query: URLSearchParams, name: string): boolean {
  const text = query.get(name) ?? '';
  if (!['', '0', '1', 'true', 'false'].includes(text)) throw badRequest(`invalid boolean "${text}" for ${name}`);
  return text === '1' || text === 'true';
}

/** Parses a non-negative integer; 0 if absent. */
export function numberParameter(query: URLSearchParams, name: string): number {
  const text = query.get(name) ?? '';
  if (!/^\d*$/.test(text)) throw badRequest(`${name}: Invalid value: "${text}": strconv.ParseInt: invalid syntax`);
  return Number(text);
}
