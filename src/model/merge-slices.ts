import { compareIp } from '../net/ip.ts';
import { eachOnce } from '../net/each-once.ts';
import type { EndpointModel, ServiceDefinition, ServiceModel, ServicePortDefinition } from './service-model.ts';
import type { SliceModel } from './slice-model.ts';
import type { ModelWarning } from './warnings.ts';

/** The service with the endpoints of all its slices. Linear in their number, but for the sorting. */
export function mergeSlices(definition: ServiceDefinition, slices: readonly SliceModel[]): ServiceModel {
  const inOrder = slices.length < 2 ? slices : slices.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return {
    ...definition,
    ports: definition.ports.map((port) => ({ ...port, endpoints: endpointsOf(port, inOrder) })),
    warnings: mergeWarnings(definition.warnings, inOrder),
  };
}

/**
 * Slices match a service port by name and protocol; the number to connect to is theirs. An endpoint may be in two slices while
 * it moves: the first in the order of slice names counts, unless only a later one knows that it is local.
 */
function endpointsOf(port: ServicePortDefinition, slices: readonly SliceModel[]): readonly EndpointModel[] {
  const found: EndpointModel[] = [];
  for (const slice of slices) {
    for (const target of slice.ports) {
      if (target.name !== port.name || target.protocol !== port.protocol) continue;
      for (const { address, traits } of slice.endpoints) {
        const { local, ready, serving, terminating, zones, nodes } = traits;
        found.push({ address, port: target.port, local, ready, serving, terminating, zones, nodes });
      }
    }
  }
  return eachOnce(found, compareEndpoints, isLocal);
}

function isLocal({ local }: EndpointModel): boolean {
  return local;
}

function compareEndpoints(a: EndpointModel, b: EndpointModel): number {
  return compareIp(a.address, b.address) || a.port - b.port;
}

function mergeWarnings(own: readonly ModelWarning[], slices: readonly SliceModel[]): readonly ModelWarning[] {
  if (slices.every(({ warnings }) => warnings.length === 0)) return own;
  const merged = new Map(own.map((warning) => [warning.reason, warning]));
  for (const slice of slices) {
    for (const warning of slice.warnings) if (!merged.has(warning.reason)) merged.set(warning.reason, warning);
  }
  return merged.size === own.length ? own : [...merged.values()];
}
