import { CORE_SCHEMA, YAMLException, loadAll, mergeTag } from 'js-yaml';
import { familyLabel, familyOf, parseIp } from '../net/ip.ts';
import { errorText } from './error-text.ts';
import type { Interner } from './interner.ts';
import { isRecord, listOf, textOr } from './json.ts';
import type { JsonRecord } from './json.ts';
import type { EndpointSlice, Node, ObjectMeta, Service } from './objects.ts';
import { LABEL } from './trim-meta.ts';
import { trimEndpointSlice } from './trim-endpoint-slice.ts';
import { trimNode } from './trim-node.ts';
import { trimService } from './trim-service.ts';

export type ManifestObject =
  | { readonly kind: 'service'; readonly object: Service }
  | { readonly kind: 'endpoint-slice'; readonly object: EndpointSlice }
  | { readonly kind: 'node'; readonly object: Node };

/** What one file says. `warnings` name objects that were left out and what to do; `ignored` is only of interest for debugging. */
export type ManifestFile =
  | {
      readonly ok: true;
      readonly objects: readonly ManifestObject[];
      readonly warnings: readonly string[];
      readonly ignored: readonly string[];
    }
  | { readonly ok: false; readonly line: number; readonly column: number; readonly message: string };

interface Reading {
  readonly nodeName: string;
  readonly interner: Interner;
  readonly objects: ManifestObject[];
  readonly warnings: string[];
  readonly ignored: string[];
}

function namespaced<T extends { readonly meta: ObjectMeta }>(object: T): T {
  return object.meta.namespace === '' ? { ...object, meta: { ...object.meta, namespace: 'default' } } : object;
}

/** What the API server derives from a clusterIP that was given: clusterIPs and ipFamilies. */
function withFamilies(service: Service): Service {
  const clusterIPs =
    service.clusterIPs.length > 0 || service.clusterIP === '' ? service.clusterIPs : [service.clusterIP];
  const clusterIP = service.clusterIP === '' ? (clusterIPs[0] ?? '') : service.clusterIP;
  if (service.ipFamilies.length > 0) return { ...service, clusterIP, clusterIPs };
  const families = clusterIPs.map((text) => {
    const address = parseIp(text);
    return address === undefined ? undefined : familyLabel(familyOf(address));
  });
  const ipFamilies = families.filter((family) => family !== undefined);
  // One that is no address has no family: with the list a place short, the others would be taken for the wrong one.
  return { ...service, clusterIP, clusterIPs, ipFamilies: ipFamilies.length === clusterIPs.length ? ipFamilies : [] };
}

function readService(value: unknown, reading: Reading): void {
  const { object, reason } = trimService(value, reading.interner);
  if (object === undefined) {
    reading.warnings.push(reason);
    return;
  }
  const service = withFamilies(namespaced(object));
  const name = `Service ${service.meta.namespace}/${service.meta.name}`;
  if (service.meta.labels[LABEL.serviceProxyName] !== undefined) {
    reading.ignored.push(`${name}: label ${LABEL.serviceProxyName} gives it to another proxy`);
  } else if (service.clusterIP === 'None') {
    reading.ignored.push(`${name} is headless`);
  } else if (service.clusterIP === '' && service.type !== 'ExternalName') {
    reading.warnings.push(
      `${name} has no spec.clusterIP and is left out: nothing allocates addresses for manifests, so write one into the file`,
    );
  } else {
    reading.objects.push({ kind: 'service', object: service });
  }
}

function readEndpointSlice(value: unknown, reading: Reading): void {
  const { object, reason } = trimEndpointSlice(value, reading.interner);
  if (object === undefined) {
    reading.warnings.push(reason);
    return;
  }
  const slice = namespaced(object);
  const { labels, namespace, name } = slice.meta;
  if (labels[LABEL.serviceProxyName] !== undefined || labels[LABEL.headless] !== undefined) {
    reading.ignored.push(`EndpointSlice ${namespace}/${name} belongs to a headless Service or to another proxy`);
    return;
  }
  // The API server defaults the name of a port to "", which is what a Service's only port may have.
  const ports = slice.ports.map((port) => (port.name === undefined ? { ...port, name: '' } : port));
  reading.objects.push({ kind: 'endpoint-slice', object: { ...slice, ports } });
}

function readNode(value: unknown, reading: Reading): void {
  const { object, reason } = trimNode(value, reading.interner);
  if (object === undefined) {
    reading.warnings.push(reason);
  } else if (object.meta.name === reading.nodeName) {
    reading.objects.push({ kind: 'node', object });
  } else {
    reading.ignored.push(`Node ${object.meta.name} is not ours (${reading.nodeName})`);
  }
}

function readObject(value: JsonRecord, apiVersion: string, kind: string, reading: Reading): void {
  switch (`${apiVersion} ${kind}`) {
    case 'v1 Service':
      return readService(value, reading);
    case 'discovery.k8s.io/v1 EndpointSlice':
      return readEndpointSlice(value, reading);
    case 'v1 Node':
      return readNode(value, reading);
    default:
      reading.ignored.push(`${kind} of ${apiVersion}`);
  }
}

/** A document is an object, or a list of them: `kind: List` or the API's own lists, whose items do not repeat their kind. */
function readDocument(value: unknown, reading: Reading): void {
  if (value === null || value === undefined) return;
  if (!isRecord(value)) {
    reading.warnings.push('a document is no object and is left out: it needs apiVersion, kind and metadata');
    return;
  }
  const apiVersion = textOr(value['apiVersion'], '');
  const kind = textOr(value['kind'], '');
  if (apiVersion === '' || kind === '') {
    reading.warnings.push('an object without apiVersion or kind is left out');
    return;
  }
  if (!kind.endsWith('List')) return readObject(value, apiVersion, kind, reading);
  for (const item of listOf(value['items'])) {
    if (!isRecord(item)) continue;
    readObject(item, textOr(item['apiVersion'], apiVersion), textOr(item['kind'], kind.slice(0, -4)), reading);
  }
}

/** YAML 1.2 as Kubernetes' tools read it, `<<` included. */
const SCHEMA = CORE_SCHEMA.withTags(mergeTag);

/** Nobody writes so many into one document; each may stand for many more. */
const MAX_ALIASES = 64;

/** Offsets where a document may begin. No text of a document has such a line (YAML 1.2.2, c-forbidden). */
const MARKER = /^---(?![^ \t\r\n])/gm;

/** Where each piece that can be read by itself begins: one document after the other takes a fraction of the memory of all at once. */
function startsOf(text: string): readonly number[] {
  // A directive belongs to the document behind the marker.
  if (/^%/m.test(text)) return [0];
  return [0, ...Array.from(text.matchAll(MARKER), ({ index }) => index).filter((index) => index > 0)];
}

/** Reads the text of one manifest file: YAML or JSON, one or many documents. All or nothing: a syntax error voids the file. */
export function readManifests(text: string, nodeName: string, interner: Interner): ManifestFile {
  const reading: Reading = { nodeName, interner, objects: [], warnings: [], ignored: [] };
  const starts = startsOf(text);
  for (const [at, start] of starts.entries()) {
    try {
      const piece = text.slice(start, starts[at + 1]);
      for (const value of loadAll(piece, { schema: SCHEMA, maxAliases: MAX_ALIASES })) readDocument(value, reading);
    } catch (error) {
      const linesBefore = text.slice(0, start).split('\n').length - 1;
      const { reason, mark } = error instanceof YAMLException ? error : { reason: errorText(error) };
      return { ok: false, line: linesBefore + (mark?.line ?? 0) + 1, column: (mark?.column ?? 0) + 1, message: reason };
    }
  }
  return { ok: true, objects: reading.objects, warnings: reading.warnings, ignored: reading.ignored };
}
