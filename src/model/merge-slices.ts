import { type IpAddress, compareIp, isIp4 } from '../net/ip.ts';
import type { Port } from '../net/port.ts';
import type { EndpointModel, ServiceDefinition, ServiceModel, ServicePortDefinition } from './service-model.ts';
import type { SliceModel } from './slice-model.ts';
import type { ModelWarning } from './warnings.ts';

const NO_ENDPOINTS: readonly EndpointModel[] = Object.freeze([]);

/** The service with the endpoints of all its slices. Linear in their number, but for the sorting. */
export function mergeSlices(definition: ServiceDefinition, slices: readonly SliceModel[]): ServiceModel {
  const inOrder = slices.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
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
  const found = new Map<number | bigint, EndpointModel>();
  for (const slice of slices) {
    for (const target of slice.ports) {
      if (target.name !== port.name || target.protocol !== port.protocol) continue;
      for (const { address, traits } of slice.endpoints) {
        const key = endpointKey(address, target.port);
        const known = found.get(key);
        if (known !== undefined && (known.local || !traits.local)) continue;
        const { local, ready, serving, terminating, zones, nodes } = traits;
        found.set(key, { address, port: target.port, local, ready, serving, terminating, zones, nodes });
      }
    }
  }
  if (found.size === 0) return NO_ENDPOINTS;
  return [...found.values()].sort((a, b) => compareIp(a.address, b.address) || a.port - b.port);
}

function endpointKey(address: IpAddress, port: Port): number | bigint {
  return isIp4(address) ? address * 0x1_0000 + port : (address << 16n) | BigInt(port);
}

function mergeWarnings(own: readonly ModelWarning[], slices: readonly SliceModel[]): readonly ModelWarning[] {
  const merged = new Map(own.map((warning) => [warning.reason, warning]));
  for (const slice of slices) {
    for (const warning of slice.warnings) if (!merged.has(warning.reason)) merged.set(warning.reason, warning);
  }
  return merged.size === own.length ? own : [...merged.values()];
}
