import { type IpAddress, isIp4, isLinkLocal6, isLoopback, isUnspecified, parseIp } from '../base/ip.ts';
import { type Warnings, quoted } from './warnings.ts';

/** Whether the address is in 224.0.0.0/3 (multicast, reserved, broadcast) or ff00::/8. */
function isMulticastOrReserved(address: IpAddress): boolean {
  return isIp4(address) ? address >>> 28 >= 14 : address >> 120n === 0xffn;
}

function isLinkLocal4(address: IpAddress): boolean {
  return isIp4(address) && address >>> 16 === 0xa9fe;
}

/** Whether a Service may have this address. Binding any other address would break the host's own use of it. */
function isVirtual(address: IpAddress): boolean {
  return !isUnspecified(address) && !isLoopback(address) && !isLinkLocal6(address) && !isMulticastOrReserved(address);
}

/**
 * Like isVirtual, but also excludes 169.254.0.0/16: otherwise users who may write Services or EndpointSlices could
 * intercept or reach the metadata server of a cloud. The API server rejects these addresses too.
 */
function isOrdinary(address: IpAddress): boolean {
  return isVirtual(address) && !isLinkLocal4(address);
}

export type AddressUse = 'cluster IP' | 'external IP' | 'load balancer IP' | 'endpoint';

/** Parses an address. If it is invalid or not allowed for this use, adds a warning and returns undefined. */
export function usableAddress(text: string, use: AddressUse, warnings: Warnings): IpAddress | undefined {
  const address = parseIp(text);
  if (address === undefined) {
    warnings.add('invalid-address', `${use} ${quoted(text)} is not an IP address: ignored`);
    return undefined;
  }
  const usable = use === 'external IP' || use === 'endpoint' ? isOrdinary(address) : isVirtual(address);
  if (usable) return address;
  warnings.add('special-address', `${use} ${quoted(text)} is loopback, link-local, multicast or unspecified: ignored`);
  return undefined;
}
