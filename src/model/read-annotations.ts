import { readAnnotationValue } from '../base/service/annotation-value.ts';
import {
  ANNOTATION_PREFIX,
  type ServiceAnnotation,
  SERVICE_ANNOTATIONS,
  isServiceAnnotation,
} from '../base/service/service-annotations.ts';
import type { DefaultAnnotation, ServiceDefaults } from '../base/service/service-defaults.ts';
import type { ServiceRequests } from '../base/service/service-requests.ts';
import { startOfText } from '../base/text/start-of-text.ts';
import { EMPTY } from '../base/trim-capacity.ts';
import type { Service } from '../kube/objects/objects.ts';
import { type ModelWarning, SHOWN_LENGTH, quoted } from './warnings.ts';

/** A setting of a Service: an annotation of it, or an operator's default that is in its place. */
export interface AskedAnnotation {
  /** Without the prefix. */
  readonly name: string;
  /** If the annotation is ignored, at most its first 80 characters. */
  readonly value: string;
  /** The place in the operator's configuration; absent for an annotation of the Service. */
  readonly from?: string;
  /** Why the annotation is ignored. */
  readonly problem?: ModelWarning;
}

export interface ReadAnnotations {
  readonly requests: ServiceRequests;
  readonly asked: readonly AskedAnnotation[];
}

/** The first default that has the annotation. */
interface ChosenDefault extends DefaultAnnotation {
  readonly from: string;
  readonly override: boolean;
}

/**
 * Reads the annotations of a Service that are ours, and the operator's defaults for it. Returns undefined if it has
 * neither.
 */
export function readAnnotations(
  { annotations = EMPTY, defaults = EMPTY }: Pick<Service, 'annotations' | 'defaults'>,
  permitted: ReadonlySet<ServiceAnnotation>,
): ReadAnnotations | undefined {
  if (annotations.length === 0 && defaults.length === 0) return undefined;
  const chosen = firstOfEach(defaults);
  const asked: AskedAnnotation[] = [];
  let requests: ServiceRequests = {};
  for (const { name, value } of annotations) {
    const read = readAnnotation(name, value, permitted, chosen);
    if ('message' in read) {
      asked.push({ name, value: startOfText(value, SHOWN_LENGTH), problem: read });
      continue;
    }
    chosen.delete(name);
    asked.push({ name, value });
    requests = { ...requests, ...read };
  }
  for (const { name, value, from, requests: more } of chosen.values()) {
    asked.push({ name, value, from });
    requests = { ...requests, ...more };
  }
  return { requests, asked };
}

function firstOfEach(defaults: readonly ServiceDefaults[]): Map<string, ChosenDefault> {
  const chosen = new Map<string, ChosenDefault>();
  for (const { path: from, override, annotations } of defaults) {
    for (const each of annotations) {
      if (!chosen.has(each.name)) chosen.set(each.name, { ...each, from, override });
    }
  }
  return chosen;
}

function readAnnotation(
  name: string,
  value: string,
  permitted: ReadonlySet<ServiceAnnotation>,
  defaults: ReadonlyMap<string, ChosenDefault>,
): ServiceRequests | ModelWarning {
  if (!isServiceAnnotation(name)) {
    const known = SERVICE_ANNOTATIONS.join(', ');
    return {
      reason: 'unknown-annotation',
      message: `annotation ${quoted(ANNOTATION_PREFIX + name)} is none of ours (${known}): ignored`,
    };
  }
  const shown = `annotation ${ANNOTATION_PREFIX}${name}: ${quoted(value)}`;
  if (!permitted.has(name)) {
    return {
      reason: 'annotation-not-permitted',
      message: `${shown} is not permitted by --service-annotations, or this mode does not have it: ignored`,
    };
  }
  const read = readAnnotationValue(name, value);
  if (typeof read === 'string') {
    return { reason: 'invalid-annotation', message: `${shown} is ignored: want ${read}` };
  }
  const stronger = defaults.get(name);
  if (stronger?.override !== true || stronger.value === value) return read;
  return {
    reason: 'annotation-overridden',
    message: `${shown} is ignored: the operator has set ${quoted(stronger.value)} (${stronger.from}, with override)`,
  };
}
