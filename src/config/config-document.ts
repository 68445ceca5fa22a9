import { type Document, isMap, isScalar, isSeq, parseAllDocuments, stringify } from 'yaml';
import { parseIp } from '../net/ip.ts';
import { withDefaultPort } from './bind-address.ts';
import {
  FIELD_PATHS,
  type FieldPath,
  type FieldValues,
  defaultValues,
  fieldAt,
  isFieldPath,
  withFields,
} from './config-fields.ts';
import { nearest } from './nearest.ts';
import { ConfigError, errorText, formatProblem, show } from './problem.ts';

export const API_VERSION = 'kubeproxy.config.k8s.io/v1alpha1';
export const KIND = 'KubeProxyConfiguration';

/** What a file says. */
export interface ReadConfig {
  readonly values: FieldValues;
  /** What the strict reader refuses and the lenient one ignores: unknown and duplicate keys, each with its path. */
  readonly warnings: readonly string[];
}

type Raw = Record<string, unknown>;

function isRecord(value: unknown): value is Raw {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Plain text that YAML 1.1 would read as one of these stays text, as in Go's reader. */
function isPlainText(tag: unknown): boolean {
  if (typeof tag !== 'object' || tag === null) return false;
  const { tag: name, format } = tag as { tag?: unknown; format?: unknown };
  return format === 'TIME' || name === 'tag:yaml.org,2002:timestamp';
}

/** Go's YAML reader is one of YAML 1.1 (yes/no, 010), but makes neither times nor base-60 numbers of plain text. */
const YAML_OPTIONS: Parameters<typeof parseAllDocuments>[1] = {
  version: '1.1',
  uniqueKeys: false,
  customTags: (tags) => tags.filter((tag) => !isPlainText(tag)),
};

function parseYaml(text: string, name: string): Document {
  const documents = parseAllDocuments(text, YAML_OPTIONS);
  const first = documents[0];
  if (first === undefined || documents.length === 0) throw new ConfigError([`${name} is empty: want kind ${KIND}`]);
  const broken = documents.flatMap((document) => document.errors)[0];
  if (broken !== undefined) {
    throw new ConfigError([`${name} is neither YAML nor JSON: ${broken.message.split('\n')[0]?.replace(/:$/, '')}`]);
  }
  if (documents.slice(1).some((document) => document.contents !== null && document.toJS() !== null)) {
    throw new ConfigError([`${name} holds more than one document: want one ${KIND}`]);
  }
  return first;
}

function toValue(document: Document, name: string): Raw {
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    throw new ConfigError([`${name} cannot be read: ${errorText(error)}`]);
  }
  if (value === null) throw new ConfigError([`${name} is empty: want kind ${KIND}`]);
  if (!isRecord(value)) throw new ConfigError([`${name} holds ${kindOf(value)}, not an object: want kind ${KIND}`]);
  return value;
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  return isRecord(value) ? 'an object' : show(value);
}

function checkType(raw: Raw, name: string): void {
  const problems: string[] = [];
  if (raw['kind'] === undefined) problems.push(`${name} has no kind: want kind: ${KIND}`);
  else if (raw['kind'] !== KIND) problems.push(`${name} has kind ${show(raw['kind'])}: want ${KIND}`);
  if (raw['apiVersion'] === undefined) problems.push(`${name} has no apiVersion: want apiVersion: ${API_VERSION}`);
  else if (raw['apiVersion'] !== API_VERSION) {
    problems.push(`${name} has apiVersion ${show(raw['apiVersion'])}: only ${API_VERSION} can be read`);
  }
  if (problems.length > 0) throw new ConfigError(problems);
}

function duplicateKeys(node: unknown, path: string, found: string[]): void {
  if (isSeq(node)) node.items.forEach((item, i) => duplicateKeys(item, `${path}[${i}]`, found));
  if (!isMap(node)) return;
  const seen = new Set<string>();
  for (const { key, value } of node.items) {
    const name = String(isScalar(key) ? key.value : key);
    const below = path === '' ? name : `${path}.${name}`;
    if (seen.has(name)) found.push(`key ${show(below)} is there twice; the last one counts`);
    seen.add(name);
    duplicateKeys(value, below, found);
  }
}

const SECTIONS = new Set(
  FIELD_PATHS.flatMap((path) => path.split('.').map((_, i, parts) => parts.slice(0, i).join('.'))).filter(
    (path) => path !== '',
  ),
);

/** Gathers what a document holds; every mistake is noted, none ends the reading. */
interface Reading {
  readonly found: Map<FieldPath, unknown>;
  readonly unknown: string[];
  readonly mistakes: string[];
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('.')));
}

function unknownField(path: string): string {
  const parent = parentOf(path);
  const siblings = [...FIELD_PATHS, ...SECTIONS].filter((known) => parentOf(known) === parent);
  const meant = nearest(path, siblings);
  return `unknown field ${show(path)}${meant === undefined ? '' : `: did you mean ${show(meant)}?`}`;
}

function readField(path: FieldPath, raw: unknown, reading: Reading): void {
  const field = fieldAt(path);
  const value = field.kind.fromDocument(raw);
  if (value === undefined) {
    const text = `want ${field.kind.expected}, got ${show(raw)}`;
    reading.mistakes.push(formatProblem({ path, text }));
    return;
  }
  if (field.zeroIsUnset && (value === '' || value === 0)) return;
  reading.found.set(path, value);
}

/** Fields of older releases that files still have: nothing that runs now ever did what they say. */
const RETIRED: ReadonlySet<string> = new Set(['udpIdleTimeout']);

function readSection(section: string, raw: Raw, reading: Reading): void {
  for (const [key, value] of Object.entries(raw)) {
    const path = section === '' ? key : `${section}.${key}`;
    if (section === '' && (key === 'apiVersion' || key === 'kind')) continue;
    // null leaves the default, as in Go.
    if (isFieldPath(path)) {
      if (value !== null) readField(path, value, reading);
    } else if (RETIRED.has(path)) {
      reading.unknown.push(`${path} has no effect: gone from kube-proxy; drop it`);
    } else if (!SECTIONS.has(path)) {
      reading.unknown.push(unknownField(path));
    } else if (isRecord(value)) {
      readSection(path, value, reading);
    } else if (value !== null) {
      reading.mistakes.push(formatProblem({ path, text: `want an object, got ${kindOf(value)}` }));
    }
  }
}

/** The defaults of a file that depend on its other fields. */
function withFileDefaults(found: Map<FieldPath, unknown>): FieldValues {
  const values = withFields(defaultValues(), found);
  const bind = parseIp(values.bindAddress);
  const changes = new Map<FieldPath, unknown>();
  if (!found.has('healthzBindAddress') && typeof bind === 'bigint') changes.set('healthzBindAddress', '[::]:10256');
  else changes.set('healthzBindAddress', withDefaultPort(values.healthzBindAddress, 10_256));
  if (!found.has('metricsBindAddress') && typeof bind === 'bigint') changes.set('metricsBindAddress', '[::1]:10249');
  else changes.set('metricsBindAddress', withDefaultPort(values.metricsBindAddress, 10_249));
  return withFields(values, changes);
}

/**
 * Reads a KubeProxyConfiguration v1alpha1 and fills in the defaults. Wrong kinds and values that cannot be read are a
 * ConfigError that names them all; unknown and duplicate keys are warnings.
 *
 * @param name what errors call the text: usually the file's path.
 */
export function readConfigDocument(text: string, name: string): ReadConfig {
  const document = parseYaml(text, name);
  const raw = toValue(document, name);
  checkType(raw, name);
  const reading: Reading = { found: new Map(), unknown: [], mistakes: [] };
  readSection('', raw, reading);
  if (reading.mistakes.length > 0) throw new ConfigError(reading.mistakes);
  const duplicates: string[] = [];
  duplicateKeys(document.contents, '', duplicates);
  return { values: withFileDefaults(reading.found), warnings: [...reading.unknown, ...duplicates] };
}

/** Writes what readConfigDocument reads, every field with its value. */
export function writeConfigDocument(values: FieldValues): string {
  const root: Raw = { apiVersion: API_VERSION, kind: KIND };
  for (const path of FIELD_PATHS) {
    const parts = path.split('.');
    const last = parts.pop() ?? path;
    let section = root;
    for (const part of parts) section = section[part] = isRecord(section[part]) ? section[part] : {};
    section[last] = fieldAt(path).kind.toDocument(values[path]);
  }
  return stringify(root, { version: '1.1', sortMapEntries: true, lineWidth: 0 });
}
