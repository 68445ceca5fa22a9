import {
  SERVICE_ANNOTATIONS,
  type ServiceAnnotation,
  isServiceAnnotation,
} from '../base/service/service-annotations.ts';
import type { EndpointCheckMode } from '../base/endpoint-check-mode.ts';
import type { ServiceDefaults } from '../base/service/service-defaults.ts';
import { FieldReader } from './field-reader.ts';
import { endpointCheckMode } from './value/value-kind.ts';
import { readServiceDefaults, serviceDefaultsDocument } from './read-service-defaults.ts';

export const OWN_GROUP = 'kube-ipvs-proxy';
export const OWN_API_VERSION = `${OWN_GROUP}/v1alpha1`;
export const OWN_KIND = 'KubeIPVSProxyConfiguration';

/** The fields that kube-proxy does not have. Absent ones are not in the file. */
export interface OwnFields {
  readonly endpointCheck?: EndpointCheckMode;
  readonly serviceAnnotations?: readonly ServiceAnnotation[];
  readonly serviceDefaults?: readonly ServiceDefaults[];
}

export interface ReadOwnFields {
  readonly fields: OwnFields;
  readonly mistakes: readonly string[];
  /** Unknown fields, which are ignored. */
  readonly warnings: readonly string[];
}

/** Reads the fields of a document whose kind was checked. */
export function readOwnDocument(raw: unknown): ReadOwnFields {
  const reader = new FieldReader(OWN_KIND);
  const known = ['apiVersion', 'kind', 'endpointCheck', 'serviceAnnotations', 'serviceDefaults'];
  const { endpointCheck, serviceAnnotations, serviceDefaults } = reader.fields('', raw, known) ?? {};
  const fields = {
    ...readCheck(reader, endpointCheck),
    ...(serviceAnnotations === undefined ? {} : { serviceAnnotations: readNames(reader, serviceAnnotations) }),
    ...(serviceDefaults === undefined
      ? {}
      : { serviceDefaults: readServiceDefaults(reader, 'serviceDefaults', serviceDefaults) }),
  };
  return { fields, mistakes: reader.mistakes, warnings: reader.warnings };
}

function readCheck(reader: FieldReader, value: unknown): Pick<OwnFields, 'endpointCheck'> {
  const endpointCheck = value === undefined ? undefined : endpointCheckMode.fromDocument(value);
  if (endpointCheck !== undefined) return { endpointCheck };
  if (value !== undefined) reader.mismatch('endpointCheck', endpointCheckMode.expected, value);
  return {};
}

function readNames(reader: FieldReader, value: unknown): readonly ServiceAnnotation[] {
  const wanted = `a list of some of ${SERVICE_ANNOTATIONS.join(', ')}`;
  return reader.list('serviceAnnotations', value, wanted, (path, item) =>
    typeof item === 'string' && isServiceAnnotation(item)
      ? item
      : reader.mismatch(path, `one of ${SERVICE_ANNOTATIONS.join(', ')}`, item),
  );
}

/** Returns the values of the fields, as in a document. */
export function ownFieldsDocument({
  endpointCheck,
  serviceAnnotations,
  serviceDefaults,
}: OwnFields): Readonly<Record<string, unknown>> {
  return {
    ...(endpointCheck === undefined ? {} : { endpointCheck }),
    ...(serviceAnnotations === undefined ? {} : { serviceAnnotations }),
    ...(serviceDefaults === undefined ? {} : { serviceDefaults: serviceDefaultsDocument(serviceDefaults) }),
  };
}
