import type { IpAddress } from '../net/ip.ts';
import type { Op } from '../state/op.ts';
import { STRIDE } from './stride.ts';

/** What brings the addresses of kube-ipvs0 from `have` to `want`; in steps, because there may be as many as services. */
export function* diffAddresses(want: Iterable<IpAddress>, have: Iterable<IpAddress>): Generator<void, readonly Op[]> {
  const ops: Op[] = [];
  const surplus = new Set(have);
  let count = 0;
  for (const address of want) {
    if (!surplus.delete(address)) ops.push({ kind: 'bind-address', address });
    if (++count % STRIDE === 0) yield;
  }
  for (const address of surplus) ops.push({ kind: 'unbind-address', address });
  return ops;
}
