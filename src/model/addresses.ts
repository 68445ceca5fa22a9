import { type IpAddress, isIp4, isLinkLocal6, isLoopback, isUnspecified, parseIp } from '../net/ip.ts';
import { type Warnings, quoted } from './warnings.ts';

/** 224.0.0.0/4 and above (multicast, reserved, broadcast), or ff00::/8. */
function isMulticastOrReserved(address: IpAddress): boolean {
  return isIp4(address) ? address >>> 28 >= 14 : address >> 120n === 0xffn;
}

function isLinkLocal4(address: IpAddress): boolean {
  return isIp4(address) && address >>> 16 === 0xa9fe;
}

/** A service may be reached at this address: binding any of the others would take it from the host itself. */
function isVirtual(address: IpAddress): boolean {
  return !isUnspecified(address) && !isLoopback(address) && !isLinkLocal6(address) && !isMulticastOrReserved(address);
}

/**
 * As isVirtual, and not 169.254.0.0/16: whoever may write a Service or an EndpointSlice could else intercept or reach the
 * metadata server of a cloud. The API server refuses the same.
 */
function isOrdinary(address: IpAddress): boolean {
  return isVirtual(address) && !isLinkLocal4(address);
}

export type AddressUse = 'cluster IP' | 'external IP' | 'load balancer IP' | 'endpoint';

/** Reads an address that may serve as `use`; else warns and answers undefined. */
export function usableAddress(text: string, use: AddressUse, warnings: Warnings): IpAddress | undefined {
  const address = parseIp(text);
  if (address === undefined) {
    warnings.add('invalid-address', `${use} ${quoted(text)} is not an IP address: it is left out`);
    return undefined;
  }
  const usable = use === 'external IP' || use === 'endpoint' ? isOrdinary(address) : isVirtual(address);
  if (usable) return address;
  warnings.add(
    'special-address',
    `${use} ${quoted(text)} is loopback, link-local, multicast or unspecified: it is left out`,
  );
  return undefined;
}
