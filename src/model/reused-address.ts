import { type IpAddress, parseIp } from '../base/ip.ts';
import type { EndpointModel } from './service-model.ts';
import type { SliceModel, SlicePort, UnusableEndpoint } from './slice-model.ts';

/**
 * Returns the endpoints without each terminating one whose address and port belong to another Pod already, which is
 * not ready yet: the network may give an address to a new Pod while the old one still terminates.
 *
 * @param targets the slices, each with the ports that lead to these endpoints
 */
export function withoutReused(
  endpoints: readonly EndpointModel[],
  targets: Iterable<{ readonly slice: SliceModel; readonly port: SlicePort }>,
): readonly EndpointModel[] {
  if (!endpoints.some(({ traits }) => traits.terminating)) return endpoints;
  const starting = new Set<string>();
  for (const { slice, port } of targets) {
    for (const address of startingAddresses(slice.unusable)) starting.add(`${address} ${port.port}`);
  }
  return endpoints.filter(({ address, port, traits }) => !traits.terminating || !starting.has(`${address} ${port}`));
}

/** Whether a change of a slice's unusable endpoints changes what withoutReused() returns for its Service. */
export function reuseChanged(
  before: readonly UnusableEndpoint[],
  after: readonly UnusableEndpoint[],
  slices: readonly SliceModel[],
): boolean {
  const [was, is] = [startingAddresses(before), startingAddresses(after)];
  if (was.size + is.size === 0) return false;
  return slices.some(({ endpoints }) =>
    endpoints.some(({ address, traits }) => traits.terminating && was.has(address) !== is.has(address)),
  );
}

function startingAddresses(unusable: readonly UnusableEndpoint[]): ReadonlySet<IpAddress> {
  return new Set(unusable.flatMap(({ address, why }) => (why === 'not ready' ? (parseIp(address) ?? []) : [])));
}
