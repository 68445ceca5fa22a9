import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { SERVICE_ANNOTATIONS } from '../../../src/base/service/service-annotations.ts';
import { FIELD_PATHS, settingAt } from '../../../src/config/flags/settings.ts';

/** Values of each type of JSON, of which the daemon accepts at least one in a field that may have the type. */
const SAMPLES: Readonly<Record<string, readonly unknown[]>> = {
  string: ['', 'x', '1s', '10'],
  integer: [1],
  number: [1.5],
  boolean: [true],
  array: [['x'], [{ filePattern: 'a', verbosity: 1 }]],
  object: [{ A: true }],
};

interface Schema {
  readonly type?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
}

const schema = JSON.parse(readFileSync('charts/kube-ipvs-proxy/values.schema.json', 'utf8')) as {
  readonly properties: { readonly config: Schema };
  readonly definitions: { readonly annotation: { readonly enum: readonly string[] } };
};

/** The paths and types below an object. */
function typesIn({ properties = {} }: Schema, parent = ''): [path: string, types: readonly string[]][] {
  return Object.entries(properties).flatMap(([name, child]) =>
    child.properties === undefined
      ? [[`${parent}${name}`, child.type ?? []] as [string, readonly string[]]]
      : typesIn(child, `${parent}${name}.`),
  );
}

test('the chart checks the type of each field of the configuration; null is an absent field, as in Go', () => {
  const wanted = FIELD_PATHS.map((path): [string, readonly string[]] => {
    const { kind } = settingAt(path);
    const accepts = (samples: readonly unknown[]): boolean =>
      samples.some((sample) => kind.fromDocument(sample) !== undefined);
    const types = Object.entries(SAMPLES).flatMap(([type, samples]) => (accepts(samples) ? [type] : []));
    // For JSON Schema, an integer is a number, too.
    return [path, [...types.filter((type) => type !== 'integer' || !types.includes('number')), 'null']];
  });
  // The mode is an enum, and these two are constants.
  const apart = new Set(['mode', 'apiVersion', 'kind']);
  const found = typesIn(schema.properties.config).filter(([path]) => !apart.has(path));
  expect(Object.fromEntries(found)).toEqual(Object.fromEntries(wanted.filter(([path]) => !apart.has(path))));
});

test('the chart has the names of all annotations', () => {
  expect(schema.definitions.annotation.enum).toEqual(SERVICE_ANNOTATIONS);
});
