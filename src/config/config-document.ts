import { parseIp } from '../base/ip.ts';
import { withDefaultPort } from './bind-address.ts';
import { nearest } from './nearest.ts';
import { errorText } from '../base/error-text.ts';
import { ConfigError, fieldProblem, show } from './problem.ts';
import { DEFAULTS, FIELD_PATHS, type FieldPath, type Settings, isFieldPath, settingAt } from './settings.ts';
import { isRecord } from './value-kind.ts';
import { type YamlText, readYaml11, writeYaml } from './yaml11.ts';

export const API_VERSION = 'kubeproxy.config.k8s.io/v1alpha1';
export const KIND = 'KubeProxyConfiguration';

/** A parsed configuration file. */
export interface ReadConfig {
  /** The fields of the file, completed with the defaults. */
  readonly fields: Settings;
  /** Unknown and duplicate keys with their paths. kube-proxy's lenient decoder ignores them. */
  readonly warnings: readonly string[];
}

type Raw = Record<string, unknown>;

function parse(text: string, name: string): { readonly raw: Raw; readonly duplicates: YamlText['duplicates'] } {
  let read: YamlText;
  try {
    read = readYaml11(text);
  } catch (error) {
    throw new ConfigError([`${name} cannot be read as YAML or JSON: ${errorText(error)}`]);
  }
  const [raw = null, ...others] = read.documents;
  if (others.some((other) => other !== null)) {
    throw new ConfigError([`${name} contains more than one document: it must contain one, of kind ${KIND}`]);
  }
  if (raw === null) throw new ConfigError([`${name} is empty: it must contain one document of kind ${KIND}`]);
  if (!isRecord(raw))
    throw new ConfigError([
      `${name} contains ${kindOf(raw)} instead of an object: it must contain one document of kind ${KIND}`,
    ]);
  return { raw, duplicates: read.duplicates };
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
  const meant = nearest(path, siblings);
  return `unknown field ${show(path)}${meant === undefined ? '' : `: did you mean ${show(meant)}?`}`;
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
  const isIpv6 = typeof parseIp(settings.bindAddress) === 'bigint';
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
 * Reads a KubeProxyConfiguration v1alpha1 and fills in the defaults. Throws a ConfigError for a wrong kind, or one that
 * names all fields of the wrong type; unknown and duplicate keys are warnings.
 *
 * @param name name of the text in errors, usually the file's path
 */
export function readConfigDocument(text: string, name: string): ReadConfig {
  const { raw, duplicates } = parse(text, name);
  checkType(raw, name);
  const reading: Reading = { found: new Map(), unknown: [], mistakes: [] };
  readSection('', raw, reading);
  if (reading.mistakes.length > 0) throw new ConfigError(reading.mistakes);
  return {
    fields: withDefaults(reading.found),
    warnings: [...reading.unknown, ...duplicateKeys(raw, '', duplicates)],
  };
}

/** Formats a document that readConfigDocument can read, with all fields. */
export function writeConfigDocument(settings: Settings): string {
  const root: Raw = { apiVersion: API_VERSION, kind: KIND };
  for (const path of FIELD_PATHS) {
    const parts = path.split('.');
    const last = parts.pop() ?? path;
    let section = root;
    for (const part of parts) section = section[part] = isRecord(section[part]) ? section[part] : {};
    section[last] = settingAt(path).kind.toDocument(settings[path]);
  }
  return writeYaml(root);
}
