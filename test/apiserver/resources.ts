import { isRecord } from './json-object.ts';
import type { JsonObject } from './json-object.ts';
import { badRequest, invalid } from './status.ts';

export interface ResourceType {
  readonly plural: string;
  readonly kind: string;
  readonly apiVersion: string;
  readonly namespaced: boolean;
  readonly fields: readonly string[];
  /** Returns an error if the object is invalid. */
  validate(object: JsonObject): string | undefined;
  /** Fields that no update may change. */
  readonly immutable?: readonly string[];
}

function validateService({ spec }: JsonObject): string | undefined {
  if (!isRecord(spec)) return 'spec: Required value';
  const { ports, type, clusterIP } = spec;
  if (type === 'ExternalName' || clusterIP === 'None') return undefined;
  if (!Array.isArray(ports) || ports.length === 0) return 'spec.ports: Required value';
  for (const port of ports as readonly unknown[]) {
    const number = isRecord(port) ? port['port'] : undefined;
    if (typeof number !== 'number' || number < 1 || number > 65_535) {
      return `spec.ports[].port: Invalid value: ${JSON.stringify(number)}: must be between 1 and 65535, inclusive`;
    }
  }
  return undefined;
}

function validateSlice({ addressType }: JsonObject): string | undefined {
  if (addressType === 'IPv4' || addressType === 'IPv6' || addressType === 'FQDN') return undefined;
  return `addressType: Unsupported value: ${JSON.stringify(addressType)}: supported values: "FQDN", "IPv4", "IPv6"`;
}

const anything = (): undefined => undefined;

export const RESOURCE_TYPES: readonly ResourceType[] = [
  {
    plural: 'services',
    kind: 'Service',
    apiVersion: 'v1',
    namespaced: true,
    fields: ['spec.clusterIP', 'spec.type'],
    validate: validateService,
  },
  {
    plural: 'endpointslices',
    kind: 'EndpointSlice',
    apiVersion: 'discovery.k8s.io/v1',
    namespaced: true,
    fields: [],
    validate: validateSlice,
  },
  {
    plural: 'nodes',
    kind: 'Node',
    apiVersion: 'v1',
    namespaced: false,
    fields: ['spec.unschedulable'],
    validate: anything,
  },
  {
    plural: 'events',
    kind: 'Event',
    apiVersion: 'events.k8s.io/v1',
    namespaced: true,
    fields: ['reason'],
    validate: anything,
    immutable: [
      'regarding',
      'reason',
      'note',
      'type',
      'eventTime',
      'action',
      'reportingController',
      'reportingInstance',
    ],
  },
];

export function typeOfObject(object: JsonObject): ResourceType {
  const type = RESOURCE_TYPES.find(({ kind, apiVersion }) => kind === object.kind && apiVersion === object.apiVersion);
  if (type === undefined) throw badRequest(`no kind "${object.kind}" is registered for version "${object.apiVersion}"`);
  return type;
}

export function selectableFields(type: ResourceType): ReadonlySet<string> {
  return new Set(['metadata.name', ...(type.namespaced ? ['metadata.namespace'] : []), ...type.fields]);
}

const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

export function validateUpdate(type: ResourceType, before: JsonObject, after: JsonObject): void {
  validate(type, after);
  const changed = type.immutable?.find((field) => JSON.stringify(before[field]) !== JSON.stringify(after[field]));
  if (changed !== undefined)
    throw invalid(`${type.kind} "${after.metadata.name}" is invalid: ${changed}: Invalid value: field is immutable`);
}

/** Validates the common fields, then the fields of the kind. */
export function validate(type: ResourceType, object: JsonObject): void {
  const { name } = object.metadata;
  if (typeof name !== 'string' || name === '')
    throw invalid(`${type.kind} "" is invalid: metadata.name: Required value`);
  const problem = NAME.test(name) ? type.validate(object) : `metadata.name: Invalid value: "${name}"`;
  if (problem !== undefined) throw invalid(`${type.kind} "${name}" is invalid: ${problem}`);
}
