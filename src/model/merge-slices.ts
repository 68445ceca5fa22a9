import { compareIp } from '../base/ip.ts';
import { sortedUnique } from '../base/sorted-unique.ts';
import type { EndpointModel, ServiceDefinition, ServiceModel, ServicePortDefinition } from './service-model.ts';
import { withoutReused } from './reused-address.ts';
import { type SliceModel, rankAmongEqual } from './slice-model.ts';
import type { ModelWarning } from './warnings.ts';

export function mergeSlices(definition: ServiceDefinition, slices: readonly SliceModel[]): ServiceModel {
  const inOrder = slices.length < 2 ? slices : slices.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return {
    ...definition,
    ports: definition.ports.map((port) => ({ ...port, endpoints: endpointsOf(port, inOrder) })),
    warnings: mergeWarnings(definition.warnings, inOrder),
  };
}

/**
 * Slice ports match service ports by name and protocol; the target port number comes from the slice. While an endpoint is
 * moved, two slices may contain it, and while an address is reused, two endpoints have it: see rankAmongEqual(), of equal
 * ones the first by name of the slice.
 */
function endpointsOf(port: ServicePortDefinition, slices: readonly SliceModel[]): readonly EndpointModel[] {
  const targets = slices.flatMap((slice) =>
    slice.ports
      .filter(({ name, protocol }) => name === port.name && protocol === port.protocol)
      .map((target) => ({ slice, port: target })),
  );
  const found: EndpointModel[] = [];
  for (const { slice, port: target } of targets) {
    for (const { address, traits } of slice.endpoints) found.push({ address, port: target.port, traits });
  }
  return withoutReused(sortedUnique(found, compareEndpoints, rankAmongEqual), targets);
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
