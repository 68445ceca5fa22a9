import { readFileSync } from 'node:fs';
import path from 'node:path';
import { loadAll } from 'js-yaml';

export type Item = Readonly<Record<string, unknown>>;

/** What a kustomization yields, as far as ours go: resources, components, generated ConfigMaps and strategic merge patches. */
export interface Built {
  readonly objects: readonly Item[];
  /** Files of generated ConfigMaps, by ConfigMap and file name. */
  readonly files: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

const KNOWN_KEYS = new Set([
  'nameSuffix',
  'apiVersion',
  'kind',
  'namespace',
  'labels',
  'resources',
  'components',
  'patches',
  'configMapGenerator',
]);

export function isItem(value: unknown): value is Item {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function itemsOf(value: unknown): readonly Item[] {
  return Array.isArray(value) ? value.filter(isItem) : [];
}

/** The value at a path of keys; an object without fields where there is none. */
export function at(item: Item, ...keys: readonly string[]): Item {
  let value: unknown = item;
  for (const key of keys) value = isItem(value) ? value[key] : undefined;
  return isItem(value) ? value : {};
}

/** Throws for text that is not YAML or has a key twice. */
export function readYaml(file: string): Item[] {
  return loadAll(readFileSync(file, 'utf8'), { filename: file }).map((value) => {
    if (!isItem(value)) throw new Error(`${file}: no object`);
    return value;
  });
}

/** Lists of objects that Kubernetes merges by a key, and by which. */
const MERGE_KEYS: Readonly<Record<string, string>> = {
  containers: 'name',
  initContainers: 'name',
  volumes: 'name',
  env: 'name',
  volumeMounts: 'mountPath',
  ports: 'containerPort',
};

function mergeLists(key: string, before: readonly Item[], patch: readonly Item[]): Item[] {
  const by = MERGE_KEYS[key] ?? '';
  const merged = [...before];
  for (const item of patch) {
    const i = merged.findIndex((known) => known[by] === item[by]);
    if (item['$patch'] === 'delete') {
      if (i < 0) throw new Error(`${key} has nothing to delete at ${String(item[by])}`);
      merged.splice(i, 1);
    } else if (i < 0) merged.push(item);
    else merged[i] = merge(merged[i] ?? {}, item);
  }
  return merged;
}

function merge(before: Item, patch: Item): Item {
  const result: Record<string, unknown> = { ...before };
  for (const [key, value] of Object.entries(patch)) {
    const old = before[key];
    if (value === null) delete result[key];
    else if (isItem(value) && isItem(old)) result[key] = merge(old, value);
    else if (key in MERGE_KEYS && Array.isArray(old)) result[key] = mergeLists(key, itemsOf(old), itemsOf(value));
    else result[key] = value;
  }
  return result;
}

function identity(item: Item): string {
  return [item['apiVersion'], item['kind'], at(item, 'metadata')['name']].join(' ');
}

function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

function patched(objects: readonly Item[], file: string): Item[] {
  const [patch] = readYaml(file);
  if (patch === undefined) throw new Error(`${file} is empty`);
  if (!objects.some((object) => identity(object) === identity(patch))) throw new Error(`${file} patches nothing`);
  return objects.map((object) => (identity(object) === identity(patch) ? merge(object, patch) : object));
}

/** Fields that name another object. */
const REFERENCES: ReadonlySet<string> = new Set(['metadata', 'roleRef', 'subjects', 'configMap']);

/** The names of objects and ConfigMaps with a suffix, and the references to them. */
function withSuffix({ objects, files }: Built, suffix: string): Built {
  const renamed = (value: unknown, field: string): unknown => {
    if (Array.isArray(value)) return value.map((item) => renamed(item, field));
    if (!isItem(value)) return field === 'serviceAccountName' ? `${String(value)}${suffix}` : value;
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => {
        const isName = key === 'name' && REFERENCES.has(field);
        return [key, isName ? `${String(item)}${suffix}` : renamed(item, key)];
      }),
    );
  };
  if (suffix === '') return { objects, files };
  return {
    objects: objects.map((object) => renamed(object, '')).filter(isItem),
    files: Object.fromEntries(Object.entries(files).map(([name, content]) => [`${name}${suffix}`, content])),
  };
}

/** Every file that it names must be there; a key that this does not know is an error. */
export function build(folder: string, onto: Built = { objects: [], files: {} }): Built {
  const [kustomization = {}] = readYaml(path.join(folder, 'kustomization.yaml'));
  const unknown = Object.keys(kustomization).filter((key) => !KNOWN_KEYS.has(key));
  if (unknown.length > 0) throw new Error(`${folder}: unknown keys ${unknown.join(', ')}`);
  let { objects, files } = onto;
  for (const name of strings(kustomization['resources'])) {
    const target = path.join(folder, name);
    const more = name.endsWith('.yaml') ? { objects: readYaml(target), files: {} } : build(target);
    objects = [...objects, ...more.objects];
    files = { ...files, ...more.files };
  }
  for (const generator of itemsOf(kustomization['configMapGenerator'])) {
    const named = strings(generator['files']).map((file) => [file, readFileSync(path.join(folder, file), 'utf8')]);
    files = { ...files, [String(generator['name'])]: Object.fromEntries(named) as Record<string, string> };
  }
  for (const { path: file } of itemsOf(kustomization['patches']))
    objects = patched(objects, path.join(folder, String(file)));
  const suffix = kustomization['nameSuffix'];
  let built = withSuffix({ objects, files }, typeof suffix === 'string' ? suffix : '');
  for (const name of strings(kustomization['components'])) built = build(path.join(folder, name), built);
  return built;
}
