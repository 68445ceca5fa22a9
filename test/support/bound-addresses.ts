import type { Kernel } from '../../src/kernel/kernel.ts';
import type { IpAddress } from '../../src/base/ip.ts';

/** Returns the addresses of kube-ipvs0 without their properties. */
export async function boundAddresses(kernel: Kernel): Promise<IpAddress[]> {
  return (await kernel.getBoundAddresses()).map(({ address }) => address);
}
