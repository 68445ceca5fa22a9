import {
  CORE_SCHEMA,
  NOT_RESOLVED,
  YAMLException,
  boolYaml11Tag,
  dump,
  intYaml11Tag,
  loadAll,
  mapTag,
  mergeTag,
} from 'js-yaml';

/** The parsed documents, and the duplicate keys of each mapping in them. */
export interface YamlText {
  readonly documents: readonly unknown[];
  readonly duplicates: ReadonlyMap<object, readonly string[]>;
}

/** Limits aliases, because one alias may expand to many values. No configuration needs more. */
const MAX_ALIASES = 16;

/**
 * Parses YAML as Go does: YAML 1.1 (yes and no are booleans, 010 is 8), but without timestamps and base-60 numbers. Of
 * duplicate keys, the last one wins.
 *
 * @throws Error that names what is wrong, with line and column
 */
export function readYaml11(text: string): YamlText {
  const duplicates = new Map<object, string[]>();
  const schema = CORE_SCHEMA.withTags(
    boolYaml11Tag,
    {
      ...intYaml11Tag,
      resolve: (source, ...rest) => (source.includes(':') ? NOT_RESOLVED : intYaml11Tag.resolve(source, ...rest)),
    },
    mergeTag,
    {
      ...mapTag,
      addPair: (record: Record<string, unknown>, key, value) => {
        if (mapTag.has(record, key)) duplicates.set(record, [...(duplicates.get(record) ?? []), String(key)]);
        return mapTag.addPair(record, key, value);
      },
    },
  );
  try {
    return { documents: loadAll(text, { schema, json: true, maxAliases: MAX_ALIASES }), duplicates };
  } catch (error) {
    if (!(error instanceof YAMLException) || error.mark === undefined || error.mark === null) throw error;
    const { line, column } = error.mark;
    throw new Error(`${error.reason} at line ${line + 1}, column ${column + 1}`, { cause: error });
  }
}

/** Writes YAML that YAML 1.1 and 1.2 parsers read alike. */
export function writeYaml(value: unknown): string {
  return dump(value, { sortKeys: true, lineWidth: -1, quoteStyle: 'double' });
}
