import { readFileSync } from 'node:fs';
import type { IpAddress } from '../../base/ip.ts';
import type { KernelReader } from '../../kernel/kernel.ts';

/** Whether this node has a route to the address, over an interface that is up. Without one, all there are silent. */
export async function hasLinkTo(address: IpAddress, kernel: Pick<KernelReader, 'findRoutes'>): Promise<boolean> {
  const route = (await kernel.findRoutes([address])).get(address);
  return route !== undefined && (route.local || hasCarrier(route.interfaceName));
}

/** Reading the file fails with EINVAL while the interface is set down. */
function hasCarrier(interfaceName: string): boolean {
  try {
    return readFileSync(`/sys/class/net/${interfaceName}/carrier`, 'latin1').trim() === '1';
  } catch {
    return false;
  }
}
