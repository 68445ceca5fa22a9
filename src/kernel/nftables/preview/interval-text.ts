import type { Interval } from '../../../base/cidr-intervals.ts';
import { type Ip4, type Ip6, formatIp, isIp4 } from '../../../base/ip.ts';

/** Returns an interval as nft reads it. */
export function intervalText({ from, until }: Interval): string {
  const last = isIp4(from)
    ? ((((until ?? 2 ** 32) as number) - 1) as Ip4)
    : ((((until ?? 1n << 128n) as bigint) - 1n) as Ip6);
  return from === last ? formatIp(from) : `${formatIp(from)}-${formatIp(last)}`;
}
