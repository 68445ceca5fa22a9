import { readAnnotationValue } from '../base/service/annotation-value.ts';
import { type LabelSelector, type LabelTerm, isLabelKey, isLabelValue } from '../base/label-selector.ts';
import { ANNOTATION_PREFIX, SERVICE_ANNOTATIONS, isServiceAnnotation } from '../base/service/service-annotations.ts';
import type { DefaultAnnotation, ServiceDefaults } from '../base/service/service-defaults.ts';
import { type FieldReader, pathOf } from './field-reader.ts';
import { didYouMean } from './value/nearest.ts';
import { show } from './value/problem.ts';
import { isRecord } from './value/value-kind.ts';

/** The operators of a LabelSelector of the API. */
const OPERATORS = ['In', 'NotIn', 'Exists', 'DoesNotExist'];
const LABEL_KEY = 'the name of a label such as "app" or "example.com/tier"';
const LABEL_VALUE = 'the value of a label, which is a string of at most 63 characters such as "web"';

export function readServiceDefaults(reader: FieldReader, path: string, value: unknown): readonly ServiceDefaults[] {
  return reader.list(path, value, 'a list of objects with selector and annotations', (at, item) =>
    readEntry(reader, at, item),
  );
}

function readEntry(reader: FieldReader, path: string, value: unknown): ServiceDefaults | undefined {
  const fields = reader.fields(path, value, ['selector', 'annotations', 'override']);
  if (fields === undefined) return undefined;
  const { selector, annotations, override = false } = fields;
  if (typeof override !== 'boolean') reader.mismatch(pathOf(path, 'override'), 'true or false', override);
  return {
    path,
    selector: readSelector(reader, pathOf(path, 'selector'), selector),
    annotations: readAnnotations(reader, pathOf(path, 'annotations'), annotations),
    override: override === true,
  };
}

function readAnnotations(reader: FieldReader, path: string, value: unknown): readonly DefaultAnnotation[] {
  const entries = isRecord(value) ? Object.entries(value) : [];
  if (entries.length === 0) reader.mismatch(path, 'names of annotations with values, such as {scheduler: wrr}', value);
  return entries
    .map(([name, text]) => readAnnotation(reader, path, name, text))
    .filter((annotation) => annotation !== undefined);
}

function readAnnotation(
  reader: FieldReader,
  path: string,
  name: string,
  value: unknown,
): DefaultAnnotation | undefined {
  if (!isServiceAnnotation(name)) {
    const bare = name.startsWith(ANNOTATION_PREFIX) ? name.slice(ANNOTATION_PREFIX.length) : name;
    const hint = didYouMean(bare, SERVICE_ANNOTATIONS);
    return reader.mistake(path, `want some of ${SERVICE_ANNOTATIONS.join(', ')}, got ${show(name)}${hint}`);
  }
  const at = pathOf(path, name);
  if (typeof value !== 'string') {
    return reader.mistake(at, `want a string, got ${show(value)}: put the value in quotes`);
  }
  const requests = readAnnotationValue(name, value);
  return typeof requests === 'string' ? reader.mismatch(at, requests, value) : { name, value, requests };
}

function readSelector(reader: FieldReader, path: string, value: unknown): Pick<LabelSelector, 'terms'> {
  if (value === undefined) reader.mistake(path, 'is missing: want a label selector; {} selects all Services');
  const fields =
    value === undefined ? undefined : reader.strictFields(path, value, ['matchLabels', 'matchExpressions']);
  const { matchLabels = {}, matchExpressions = [] } = fields ?? {};
  return {
    terms: [
      ...readLabels(reader, pathOf(path, 'matchLabels'), matchLabels),
      ...reader.list(pathOf(path, 'matchExpressions'), matchExpressions, 'a list of objects', (at, item) =>
        readExpression(reader, at, item),
      ),
    ],
  };
}

function readLabels(reader: FieldReader, path: string, value: unknown): readonly LabelTerm[] {
  if (!isRecord(value)) reader.mismatch(path, 'labels with values, such as {app: web}', value);
  return Object.entries(isRecord(value) ? value : {}).flatMap(([key, text]) => {
    if (!isLabelKey(key)) reader.mismatch(path, LABEL_KEY, key);
    const label = readLabelValue(reader, pathOf(path, key), text);
    return label === undefined ? [] : [{ key, values: new Set([label]), negated: false }];
  });
}

function readLabelValue(reader: FieldReader, path: string, value: unknown): string | undefined {
  return typeof value === 'string' && isLabelValue(value) ? value : reader.mismatch(path, LABEL_VALUE, value);
}

function readExpression(reader: FieldReader, path: string, value: unknown): LabelTerm | undefined {
  const fields = reader.strictFields(path, value, ['key', 'operator', 'values']);
  if (fields === undefined) return undefined;
  const { key, operator, values = [] } = fields;
  const valuesPath = pathOf(path, 'values');
  const list = reader.list(valuesPath, values, 'a list of strings', (at, item) => readLabelValue(reader, at, item));
  if (typeof key !== 'string' || !isLabelKey(key)) return reader.mismatch(pathOf(path, 'key'), LABEL_KEY, key);
  if (typeof operator !== 'string' || !OPERATORS.includes(operator)) {
    return reader.mismatch(pathOf(path, 'operator'), OPERATORS.join(', '), operator);
  }
  const needsValues = operator === 'In' || operator === 'NotIn';
  if (Array.isArray(values) && values.length > 0 !== needsValues) {
    const wanted = needsValues ? 'at least one value' : 'no values';
    return reader.mismatch(valuesPath, `${wanted}, because the operator is ${operator}`, values);
  }
  const negated = operator === 'NotIn' || operator === 'DoesNotExist';
  return { key, values: needsValues ? new Set(list) : 'any', negated };
}

/** Returns what readServiceDefaults() reads back. */
export function serviceDefaultsDocument(defaults: readonly ServiceDefaults[]): unknown {
  return defaults.map(({ selector, annotations, override }) => ({
    selector: { matchExpressions: selector.terms.map(expressionOf) },
    annotations: Object.fromEntries(annotations.map(({ name, value }) => [name, value])),
    override,
  }));
}

function expressionOf({ key, values, negated }: LabelTerm): unknown {
  return values === 'any'
    ? { key, operator: negated ? 'DoesNotExist' : 'Exists' }
    : { key, operator: negated ? 'NotIn' : 'In', values: [...values] };
}
