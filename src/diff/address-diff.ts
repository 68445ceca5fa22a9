import { type IpAddress, isIp4 } from '../base/ip.ts';
import { type BoundAddress, hostPrefix } from '../state/bound-address.ts';
import type { Op } from '../state/op.ts';
import { STRIDE } from './stride.ts';

/** Returns the operations that change kube-ipvs0's addresses from `found` to `wanted`. Rebinding corrects the flags. */
export function* diffAddresses(
  wanted: Iterable<IpAddress>,
  found: Iterable<BoundAddress>,
): Generator<void, readonly Op[]> {
  const ops: Op[] = [];
  const surplus = new Map<IpAddress, BoundAddress>();
  const otherPrefixes: BoundAddress[] = [];
  for (const bound of found) {
    // An interface can have an IPv6 address only once, but the same IPv4 address with several prefix lengths.
    if (isIp4(bound.address) && bound.prefix !== hostPrefix(bound.address)) otherPrefixes.push(bound);
    else surplus.set(bound.address, bound);
  }
  let count = 0;
  for (const address of wanted) {
    const op = bindingOf(address, surplus.get(address));
    if (op !== undefined) ops.push(op);
    surplus.delete(address);
    if (++count % STRIDE === 0) yield;
  }
  for (const bound of surplus.values()) ops.push(unbind(bound));
  for (const bound of otherPrefixes) ops.push(unbind(bound));
  return ops;
}

/** Returns the operation that makes the address one of kube-ipvs0 to which packets arrive; undefined if it is. */
export function bindingOf(address: IpAddress, found: BoundAddress | undefined): Op | undefined {
  if (found?.unrouted === true) return { kind: 'bind-address', address, again: true };
  return found?.conforms === true ? undefined : { kind: 'bind-address', address };
}

function unbind({ address, prefix }: BoundAddress): Op {
  return { kind: 'unbind-address', address, ...(prefix === hostPrefix(address) ? {} : { prefix }) };
}
