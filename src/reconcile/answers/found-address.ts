import type { FoundAddress } from '../../explain/address-reply.ts';
import { NOWHERE, type VirtualServerId, virtualServerKey } from '../../state/virtual-server.ts';
import type { ComparisonParts } from '../compare/comparison.ts';
import { ownershipIn } from '../node/ownership.ts';

/** Reads what the kernel has at one address and port. */
export async function readFoundAddress(parts: ComparisonParts, ids: readonly VirtualServerId[]): Promise<FoundAddress> {
  const { kernel } = parts;
  const present = await kernel.findVirtualServers(ids);
  const owns = ownershipIn(parts, {
    sets: await kernel.getSets(),
    boundAddresses: (await kernel.getBoundAddresses()).map(({ address }) => address),
    interfaceAddresses: [],
  });
  return { has: (id) => (present.get(virtualServerKey(id))?.scheduler ?? NOWHERE) !== NOWHERE, owns };
}
