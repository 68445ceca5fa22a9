// The files of the chart that are generated from the table of flags.
import { readFileSync } from 'node:fs';
import { format, resolveConfig } from 'prettier';
import { MODES } from '../src/base/proxy-mode.ts';
import { SERVICE_ANNOTATIONS } from '../src/base/service/service-annotations.ts';
import { FLAGS, type Flag } from '../src/config/flags/flag-table.ts';
import { type Setting, helpOf } from '../src/config/flags/setting.ts';
import { FIELD_PATHS, settingAt } from '../src/config/flags/settings.ts';

const CHART = 'charts/kube-ipvs-proxy';

/** Values of each type of JSON, of which a field that may have the type accepts at least one. */
const SAMPLES: Readonly<Record<string, readonly unknown[]>> = {
  string: ['', 'x', '1s', '10'],
  integer: [1],
  number: [1.5],
  boolean: [true],
  array: [['x'], [{ filePattern: 'a', verbosity: 1 }]],
  object: [{ A: true }],
};

/** Go's format of a duration. */
const DURATION = String.raw`^[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$`;

/** A JSON Schema of draft 7. */
interface Schema {
  readonly [key: string]: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
}

function typesOf({ kind }: Setting<unknown>): string[] {
  const types = Object.entries(SAMPLES).flatMap(([type, samples]) =>
    samples.some((sample) => kind.fromDocument(sample) !== undefined) ? [type] : [],
  );
  // For JSON Schema, an integer is a number, too. Null is an absent field, as in Go.
  return [...types.filter((type) => type !== 'integer' || !types.includes('number')), 'null'];
}

function schemaOf(setting: Setting<unknown>): Schema {
  return {
    description: setting.name === undefined ? `Want ${setting.kind.expected}.` : `${helpOf(setting)}.`,
    type: typesOf(setting),
    ...(setting.kind.hint === 'duration' && { pattern: DURATION }),
  };
}

function withField(schema: Schema, [name = '', ...rest]: readonly string[], field: Schema): Schema {
  const { properties = {}, ...others } = schema;
  const child: Schema = properties[name] ?? { type: ['object', 'null'], additionalProperties: false };
  return {
    ...others,
    properties: { ...properties, [name]: rest.length === 0 ? field : withField(child, rest, field) },
  };
}

/** The schema of a KubeProxyConfiguration. Another field than those of kube-proxy is an error. */
function configSchema(): Schema {
  const start: Schema = {
    description: 'A KubeProxyConfiguration of v1alpha1. A field that is null is absent.',
    type: 'object',
    additionalProperties: false,
    required: ['mode'],
    properties: {
      apiVersion: { const: 'kubeproxy.config.k8s.io/v1alpha1' },
      kind: { const: 'KubeProxyConfiguration' },
    },
  };
  const schema = FIELD_PATHS.reduce(
    (known, path) => withField(known, path.split('.'), schemaOf(settingAt(path))),
    start,
  );
  return withField(schema, ['mode'], { description: 'There is no other mode.', enum: Object.keys(MODES) });
}

/** Text of a JSON file, as `make format` writes it. */
async function formatted(path: string, content: unknown): Promise<string> {
  return await format(JSON.stringify(content), { ...(await resolveConfig(path)), filepath: path });
}

/** values.schema.json with the parts of the tables in the code; the rest of the file is written by hand. */
export async function valuesSchema(): Promise<string> {
  const path = `${CHART}/values.schema.json`;
  const written = JSON.parse(readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')) as Schema & {
    readonly definitions: Readonly<Record<string, Schema>>;
  };
  const schema = {
    ...written,
    properties: { ...written.properties, config: configSchema() },
    definitions: {
      ...written.definitions,
      annotation: { ...written.definitions['annotation'], enum: SERVICE_ANNOTATIONS },
    },
  };
  return await formatted(path, schema);
}

/** Flags that the chart sets itself, or with which the Pod would not serve. */
const NOT_IN_CHART: Readonly<Record<string, string>> = {
  config: 'the chart sets it',
  'hostname-override': "the chart sets it to the Node's name",
  'dsr-prepare-pods': 'set preparePods.enabled',
  'dsr-netns-dir': 'set preparePods.namespaceFolder',
  'master-kubeconfig': 'set kubeletKubeconfig',
  'dry-run': 'use manifests/overlays/shadow',
  manifests: 'the Pods have an API server',
};

/** What to do instead of giving a flag in `extraArgs`, or undefined if it has an effect there. */
function insteadOf({ name, key, group, inFile, ignored }: Flag): string | undefined {
  if (NOT_IN_CHART[name] !== undefined) return NOT_IN_CHART[name];
  if (group === 'One task, then exit') return 'the Pod would exit instead of serving';
  if (ignored !== undefined) return `it has no effect: ${ignored}`;
  // With a file, only flags of the log override its fields.
  return inFile && !key.startsWith('logging.')
    ? `the file of the configuration replaces it: set config.${key}`
    : undefined;
}

/** Each flag with what to do instead; "" if it may be in `extraArgs`. The template reads it. */
export async function flagsFile(): Promise<string> {
  const rows = FLAGS.flatMap((flag) =>
    [flag.name, ...(flag.short === undefined ? [] : [flag.short])].map((name) => [name, insteadOf(flag) ?? '']),
  );
  return await formatted(`${CHART}/files/flags.json`, Object.fromEntries(rows));
}
