import type { IpAddress } from '../net/ip.ts';
import type { Op } from '../state/op.ts';

/** What brings the addresses of kube-ipvs0 from `have` to `want`. */
export function diffAddresses(want: Iterable<IpAddress>, have: Iterable<IpAddress>): Op[] {
  const ops: Op[] = [];
  const surplus = new Set(have);
  for (const address of want) {
    if (!surplus.delete(address)) ops.push({ kind: 'bind-address', address });
  }
  for (const address of surplus) ops.push({ kind: 'unbind-address', address });
  return ops;
}
