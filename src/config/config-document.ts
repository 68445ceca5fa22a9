import { readIp } from '../base/read-ip.ts';
import { withDefaultPort } from './value/bind-address.ts';
import { didYouMean } from './value/nearest.ts';
import { errorText } from '../base/text/error-text.ts';
import { OWN_API_VERSION, OWN_KIND, type OwnFields, ownFieldsDocument, readOwnDocument } from './own-document.ts';
import { ConfigError, fieldProblem, show } from './value/problem.ts';
import { DEFAULTS, FIELD_PATHS, type FieldPath, type Settings, isFieldPath, settingAt } from './flags/settings.ts';
import { isRecord } from './value/value-kind.ts';
import { type YamlText, readYaml11, writeYaml } from './yaml11.ts';

export const CONFIG_API_VERSION = 'kubeproxy.config.k8s.io/v1alpha1';
export const KUBE_PROXY_KIND = 'KubeProxyConfiguration';

/** A parsed configuration file. */
export interface ReadConfig {
  /** The fields of the file, completed with the defaults. */
  readonly fields: Settings;
  /** The fields of our own document, as far as the file has it. */
  readonly own: OwnFields;
  /** Unknown and duplicate keys with their paths. kube-proxy's lenient decoder ignores them. */
  readonly warnings: readonly string[];
}

type Raw = Record<string, unknown>;

interface Parsed {
  readonly raw: Raw;
  /** Our own document; undefined if the file has none. */
  readonly own: Raw | undefined;
  readonly duplicates: YamlText['duplicates'];
}

function parse(text: string, name: string): Parsed {
  let read: YamlText;
  try {
    read = readYaml11(text);
  } catch (error) {
    throw new ConfigError([`${name} cannot be read as YAML or JSON: ${errorText(error)}`]);
  }
  const [raw = null, ...rest] = read.documents;
  const [own, ...others] = rest.filter((other) => other !== null);
  if (others.length > 0) {
    throw new ConfigError([
      `${name} contains more than two documents: it must contain one of kind ${KUBE_PROXY_KIND}, and may then contain one of kind ${OWN_KIND}`,
    ]);
  }
  if (raw === null)
    throw new ConfigError([`${name} is empty: it must contain one document of kind ${KUBE_PROXY_KIND}`]);
  if (!isRecord(raw))
    throw new ConfigError([
      `${name} contains ${kindOf(raw)} instead of an object: it must contain one document of kind ${KUBE_PROXY_KIND}`,
    ]);
  if (own !== undefined && !isRecord(own)) {
    throw new ConfigError([`${name} contains ${kindOf(own)} as second document: want an object of kind ${OWN_KIND}`]);
  }
  return { raw, own, duplicates: read.duplicates };
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  return isRecord(value) ? 'an object' : show(value);
}

/** @param what the file, or the document in it */
function checkType(raw: Raw, what: string, kind: string, apiVersion: string): void {
  const problems: string[] = [];
  if (raw['kind'] === undefined) problems.push(`${what} has no kind: want kind: ${kind}`);
  else if (raw['kind'] !== kind) problems.push(`${what} has kind ${show(raw['kind'])}: want ${kind}`);
  if (raw['apiVersion'] === undefined) problems.push(`${what} has no apiVersion: want apiVersion: ${apiVersion}`);
  else if (raw['apiVersion'] !== apiVersion) {
    problems.push(`${what} has apiVersion ${show(raw['apiVersion'])}: only ${apiVersion} can be read`);
  }
  if (problems.length > 0) throw new ConfigError(problems);
}

function checkTypes({ raw, own }: Parsed, name: string): void {
  if (raw['kind'] === OWN_KIND) {
    throw new ConfigError([
      `${name} begins with a document of kind ${OWN_KIND}: put it behind that of kind ${KUBE_PROXY_KIND}, because kube-proxy reads only the first`,
    ]);
  }
  checkType(raw, name, KUBE_PROXY_KIND, CONFIG_API_VERSION);
  if (own !== undefined) checkType(own, `the second document of ${name}`, OWN_KIND, OWN_API_VERSION);
}

/** Returns a warning for each duplicate key, with its path. */
function duplicateKeys(value: unknown, path: string, duplicates: YamlText['duplicates']): string[] {
  if (typeof value !== 'object' || value === null) return [];
  const at = (key: string): string => (path === '' ? key : `${path}.${key}`);
  return [
    ...(duplicates.get(value) ?? []).map((key) => `key ${show(at(key))} is there twice; the last one counts`),
    ...(Array.isArray(value)
      ? value.flatMap((item, i) => duplicateKeys(item, `${path}[${i}]`, duplicates))
      : Object.entries(value).flatMap(([key, item]) => duplicateKeys(item, at(key), duplicates))),
  ];
}

const SECTIONS = new Set(
  FIELD_PATHS.flatMap((path) => path.split('.').map((_, i, parts) => parts.slice(0, i).join('.'))).filter(
    (path) => path !== '',
  ),
);

/** The results of reading a document. Reading continues after a mistake. */
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
  return `unknown field ${show(path)}${didYouMean(path, siblings)}`;
}

function readField(path: FieldPath, raw: unknown, reading: Reading): void {
  const field = settingAt(path);
  const value = field.kind.fromDocument(raw);
  if (value === undefined) {
    const text = `want ${field.kind.expected}, got ${show(raw)}`;
    reading.mistakes.push(fieldProblem(path, text));
    return;
  }
  if (field.zeroIsUnset && (value === '' || value === 0)) return;
  reading.found.set(path, value);
}

/** Fields that kube-proxy no longer has but that existing files may still contain. Each gets a warning of its own. */
const RETIRED: ReadonlySet<string> = new Set(['udpIdleTimeout']);

function readSection(section: string, raw: Raw, reading: Reading): void {
  for (const [key, value] of Object.entries(raw)) {
    const path = section === '' ? key : `${section}.${key}`;
    if (section === '' && (key === 'apiVersion' || key === 'kind')) continue;
    // null keeps the default, as in Go.
    if (isFieldPath(path)) {
      if (value !== null) readField(path, value, reading);
    } else if (RETIRED.has(path)) {
      reading.unknown.push(`${path} has no effect: kube-proxy no longer has it; remove it`);
    } else if (!SECTIONS.has(path)) {
      reading.unknown.push(unknownField(path));
    } else if (isRecord(value)) {
      readSection(path, value, reading);
    } else if (value !== null) {
      reading.mistakes.push(fieldProblem(path, `want an object, got ${kindOf(value)}`));
    }
  }
}

/** Returns the fields found and the defaults of the others; some defaults depend on other fields. */
function withDefaults(found: ReadonlyMap<FieldPath, unknown>): Settings {
  const settings = { ...DEFAULTS, ...(Object.fromEntries(found) as Partial<Settings>) };
  const isIpv6 = typeof readIp(settings.bindAddress) === 'bigint';
  const { healthzPort, metricsPort } = DEFAULTS;
  const ipv6Bind = {
    ...(found.has('healthzBindAddress') ? {} : { healthzBindAddress: `[::]:${healthzPort}` }),
    ...(found.has('metricsBindAddress') ? {} : { metricsBindAddress: `[::1]:${metricsPort}` }),
  };
  return {
    ...settings,
    healthzBindAddress: withDefaultPort(settings.healthzBindAddress, healthzPort),
    metricsBindAddress: withDefaultPort(settings.metricsBindAddress, metricsPort),
    ...(isIpv6 ? ipv6Bind : {}),
  };
}

/**
 * Reads a KubeProxyConfiguration v1alpha1 and fills in the defaults; our own document may follow it. Throws a ConfigError
 * for a wrong kind, or one that names all fields of the wrong type; unknown and duplicate keys are warnings.
 *
 * @param name name of the text in errors, usually the file's path
 */
export function readConfigDocument(text: string, name: string): ReadConfig {
  const parsed = parse(text, name);
  checkTypes(parsed, name);
  const { raw, duplicates } = parsed;
  const reading: Reading = { found: new Map(), unknown: [], mistakes: [] };
  readSection('', raw, reading);
  const own = readOwnDocument(parsed.own ?? {});
  const mistakes = [...reading.mistakes, ...own.mistakes];
  if (mistakes.length > 0) throw new ConfigError(mistakes);
  return {
    fields: withDefaults(reading.found),
    own: own.fields,
    warnings: [
      ...reading.unknown,
      ...duplicateKeys(raw, '', duplicates),
      ...own.warnings,
      ...duplicateKeys(parsed.own, OWN_KIND, duplicates),
    ],
  };
}

/** Returns all fields of kube-proxy's as a KubeProxyConfiguration v1alpha1. */
export function configDocument(settings: Settings): Readonly<Raw> {
  const root: Raw = { apiVersion: CONFIG_API_VERSION, kind: KUBE_PROXY_KIND };
  for (const path of FIELD_PATHS) {
    const parts = path.split('.');
    const last = parts.pop() ?? path;
    let section = root;
    for (const part of parts) section = section[part] = isRecord(section[part]) ? section[part] : {};
    section[last] = settingAt(path).kind.toDocument(settings[path]);
  }
  return root;
}

/** Formats text that readConfigDocument can read: all fields of kube-proxy's, and the given ones of our own. */
export function writeConfigDocument(settings: Settings, own: OwnFields = {}): string {
  const root = configDocument(settings);
  const ownFields = ownFieldsDocument(own);
  if (Object.keys(ownFields).length === 0) return writeYaml(root);
  return `${writeYaml(root)}---\n${writeYaml({ apiVersion: OWN_API_VERSION, kind: OWN_KIND, ...ownFields })}`;
}
