import { MODES } from '../../base/proxy-mode.ts';
import type { FoundAddress } from '../../explain/address-reply.ts';
import { type VirtualServerId, virtualServerKey } from '../../state/virtual-server.ts';
import type { DifferenceParts } from './difference.ts';
import { Ownership } from '../node/ownership.ts';

/** Reads what the kernel has at one address and port. */
export async function readFoundAddress(
  { kernel, desired, excluded }: Pick<DifferenceParts, 'kernel' | 'desired' | 'excluded'>,
  ids: readonly VirtualServerId[],
): Promise<FoundAddress> {
  const present = await kernel.findVirtualServers(ids);
  const ownership = new Ownership({
    sets: await kernel.getSets(),
    boundAddresses: (await kernel.getBoundAddresses()).map(({ address }) => address),
    interfaceAddresses: [],
    excluded,
  });
  return {
    has: (id) => present.has(virtualServerKey(id)),
    owns: (id) => MODES[kernel.mode].ownsAll || ownership.owns(id, desired.plan.wantsAddress(id.address)),
  };
}
