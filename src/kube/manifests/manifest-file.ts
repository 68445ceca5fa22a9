import { CORE_SCHEMA, YAMLException, loadAll, mergeTag } from 'js-yaml';
import { counted } from '../../base/text/counted.ts';
import { errorText } from '../../base/text/error-text.ts';
import type { Interner } from '../objects/interner.ts';
import { type JsonRecord, isRecord, listOf, recordOf, textOr } from '../objects/json.ts';
import type { EndpointSlice, Node, ObjectMeta, Service } from '../objects/objects.ts';
import { LABEL, isOfAnotherProxy, isOfHeadlessService } from '../../base/well-known-labels.ts';
import { objectKey } from '../objects/source.ts';
import { type Trimmed, trimEndpointSlice, trimNode } from '../objects/trim-objects.ts';
import { type ServiceSelection, trimService } from '../objects/trim-service.ts';

export type ManifestObject =
  | { readonly kind: 'service'; readonly object: Service }
  | { readonly kind: 'endpoint-slice'; readonly object: EndpointSlice }
  | { readonly kind: 'node'; readonly object: Node };

/** The content of one file. `warnings` describe invalid objects; `ignored` lists objects of no use to this node. */
export type ManifestFile =
  | {
      readonly ok: true;
      readonly objects: readonly ManifestObject[];
      readonly warnings: readonly string[];
      readonly ignored: readonly string[];
    }
  | { readonly ok: false; readonly line: number; readonly column: number; readonly message: string };

export type GiveClusterIp = (service: Service) => Service;

interface Reading {
  readonly nodeName: string;
  readonly interner: Interner;
  readonly selection: ServiceSelection | undefined;
  readonly giveClusterIp: GiveClusterIp | undefined;
  readonly objects: ManifestObject[];
  readonly warnings: string[];
  readonly ignored: string[];
  /** Endpoints, and EndpointSlices of an old version: their names, each with the key of its Service. */
  readonly outdated: { readonly name: string; readonly service: string }[];
}

function namespaced<T extends { readonly meta: ObjectMeta }>(object: T): T {
  return object.meta.namespace === '' ? { ...object, meta: { ...object.meta, namespace: 'default' } } : object;
}

function readService(object: Service, { giveClusterIp, objects, warnings, ignored }: Reading): void {
  const service = namespaced(object);
  const name = `Service ${objectKey(service.meta)}`;
  const clusterIP = service.clusterIP === '' ? (service.clusterIPs[0] ?? '') : service.clusterIP;
  if (clusterIP === 'None' || isOfAnotherProxy(service.meta.labels)) {
    ignored.push(`${name} is headless or assigned to another proxy`);
  } else if (clusterIP !== '' || service.type === 'ExternalName') {
    objects.push({ kind: 'service', object: service });
  } else if (giveClusterIp === undefined) {
    warnings.push(`skipped ${name}: it has no spec.clusterIP; set one in the manifest, because nothing allocates it`);
  } else {
    objects.push({ kind: 'service', object: giveClusterIp(service) });
  }
}

function readEndpointSlice(object: EndpointSlice, { objects, ignored }: Reading): void {
  const slice = namespaced(object);
  if (isOfHeadlessService(slice.meta.labels)) {
    ignored.push(`EndpointSlice ${objectKey(slice.meta)} is of a headless Service`);
    return;
  }
  objects.push({ kind: 'endpoint-slice', object: slice });
}

function readNode(object: Node, { nodeName, objects, ignored }: Reading): void {
  if (object.meta.name === nodeName) objects.push({ kind: 'node', object });
  else ignored.push(`Node ${object.meta.name} is not this node (${nodeName})`);
}

function noteOutdated(value: JsonRecord, kind: string, { outdated }: Reading): void {
  const metadata = recordOf(value['metadata']);
  const namespace = textOr(metadata['namespace'], 'default');
  const name = textOr(metadata['name'], '(no name)');
  const service = kind === 'Endpoints' ? name : textOr(recordOf(metadata['labels'])[LABEL.serviceName], name);
  outdated.push({ name: `${kind} ${namespace}/${name}`, service: `${namespace}/${service}` });
}

/** A file that `kubectl get` wrote may have both: what it has as EndpointSlices, too, is not missing. */
function warnOfOutdated({ outdated, objects, warnings, ignored }: Reading): void {
  const known = new Set(
    objects.flatMap(({ kind, object: { meta } }) =>
      kind === 'endpoint-slice' ? `${meta.namespace}/${meta.labels[LABEL.serviceName]}` : [],
    ),
  );
  for (const { name } of outdated.filter(({ service }) => known.has(service))) ignored.push(name);
  const [first, ...others] = outdated.filter(({ service }) => !known.has(service));
  if (first === undefined) return;
  const more = others.length === 0 ? '' : ` and ${counted(others.length, 'more object')} like it`;
  warnings.push(`skipped ${first.name}${more}: endpoints come from EndpointSlices of discovery.k8s.io/v1 only`);
}

function readObject(value: JsonRecord, apiVersion: string, kind: string, reading: Reading): void {
  const use = <T>({ object, reason }: Trimmed<T>, read: (object: T, reading: Reading) => void): void => {
    if (reason === undefined) read(object, reading);
    else reading.warnings.push(reason);
  };
  const { interner, selection } = reading;
  switch (`${apiVersion} ${kind}`) {
    case 'v1 Service':
      return use(trimService(value, interner, selection), readService);
    case 'discovery.k8s.io/v1 EndpointSlice':
      return use(trimEndpointSlice(value, interner), readEndpointSlice);
    case 'v1 Node':
      return use(trimNode(value, interner), readNode);
    case 'v1 Endpoints':
    case 'discovery.k8s.io/v1beta1 EndpointSlice':
      return noteOutdated(value, kind, reading);
    default:
      reading.ignored.push(`${kind} of ${apiVersion}`);
  }
}

/**
 * Reads an object or a list: `kind: List`, or an API list such as ServiceList, whose items have no kind. `place` names the
 * document.
 */
function readDocument(value: unknown, reading: Reading, place: () => string): void {
  if (value === null || value === undefined) return;
  if (!isRecord(value)) {
    reading.warnings.push(`skipped ${place()}: it is not an object with apiVersion, kind and metadata`);
    return;
  }
  const apiVersion = textOr(value['apiVersion'], '');
  const kind = textOr(value['kind'], '');
  if (apiVersion === '' || kind === '') {
    reading.warnings.push(`skipped ${place()}: it has no apiVersion or kind`);
    return;
  }
  if (!kind.endsWith('List')) return readObject(value, apiVersion, kind, reading);
  for (const item of listOf(value['items'])) {
    if (!isRecord(item)) continue;
    readObject(item, textOr(item['apiVersion'], apiVersion), textOr(item['kind'], kind.slice(0, -4)), reading);
  }
}

/** YAML 1.2 and the merge key (`<<`), as in Kubernetes. */
const SCHEMA = CORE_SCHEMA.withTags(mergeTag);

/** Maximum number of aliases in a document, against exponential expansion ("billion laughs"). */
const MAX_ALIASES = 64;

/** Start of a document. No text within a document can contain such a line (YAML 1.2.2, c-forbidden). */
const MARKER = /^---(?![^ \t\r\n])/gm;

/** Returns the offset of each document. Parsing one document at a time takes a fraction of the memory. */
function startsOf(text: string): readonly number[] {
  // A directive comes before the marker of its document, so parse the file as a whole.
  if (/^%/m.test(text)) return [0];
  return [0, ...Array.from(text.matchAll(MARKER), ({ index }) => index).filter((index) => index > 0)];
}

function linesBefore(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length - 1;
}

/**
 * Parses a manifest file: YAML or JSON, one or more documents. A syntax error fails the whole file. Without
 * `giveClusterIp`, a Service that has no cluster IP is skipped with a warning.
 */
export function readManifests(
  text: string,
  nodeName: string,
  interner: Interner,
  selection?: ServiceSelection,
  giveClusterIp?: GiveClusterIp,
): ManifestFile {
  const found = { objects: [], warnings: [], ignored: [], outdated: [] };
  const reading: Reading = { nodeName, interner, selection, giveClusterIp, ...found };
  const starts = startsOf(text);
  for (const [at, start] of starts.entries()) {
    try {
      const piece = text.slice(start, starts[at + 1]);
      const values = loadAll(piece, { schema: SCHEMA, maxAliases: MAX_ALIASES });
      // A file with directives is one piece, of which only the first line is known.
      const place = (): string =>
        values.length > 1 ? 'a document' : `the document at line ${linesBefore(text, start) + 1}`;
      for (const value of values) readDocument(value, reading, place);
    } catch (error) {
      const { reason, mark } = error instanceof YAMLException ? error : { reason: errorText(error) };
      return {
        ok: false,
        line: linesBefore(text, start) + (mark?.line ?? 0) + 1,
        column: (mark?.column ?? 0) + 1,
        message: reason,
      };
    }
  }
  warnOfOutdated(reading);
  return { ok: true, objects: reading.objects, warnings: reading.warnings, ignored: reading.ignored };
}
