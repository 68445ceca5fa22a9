import { type Ip4, type Ip6, type IpAddress, compareIp, formatIp, isIp4 } from '../../../base/ip.ts';

/** An address with which an interval begins or, with `isEnd`, the first one after an interval. */
export interface Bound {
  readonly address: IpAddress;
  readonly isEnd?: boolean | undefined;
}

/** Returns the intervals of these bounds, in any order, as nft reads them. */
export function intervalTexts(bounds: readonly Bound[]): readonly string[] {
  const ordered = bounds.toSorted((a, b) => compareIp(a.address, b.address));
  return ordered.flatMap(({ address, isEnd }, at) => {
    if (isEnd === true) return [];
    const end = ordered[at + 1];
    const last = end?.isEnd === true ? before(end.address) : lastOf(address);
    return [address === last ? formatIp(address) : `${formatIp(address)}-${formatIp(last)}`];
  });
}

function before(address: IpAddress): IpAddress {
  return isIp4(address) ? ((address - 1) as Ip4) : ((address - 1n) as Ip6);
}

function lastOf(address: IpAddress): IpAddress {
  return isIp4(address) ? (0xffff_ffff as Ip4) : ((2n ** 128n - 1n) as Ip6);
}
