import { type Cidr, formatCidr } from '../base/cidr.ts';
import type { LocalRoute } from '../state/local-route.ts';
import type { Op } from '../state/op.ts';

/** Returns the operations that change the local routes from `have` to `want`. */
export function diffRoutes(want: readonly Cidr[], have: readonly LocalRoute[]): readonly Op[] {
  const wanted = new Set(want.map(formatCidr));
  const there = new Set(have.map(({ cidr }) => formatCidr(cidr)));
  const missing = want.filter((cidr) => !there.has(formatCidr(cidr)));
  const surplus = have.filter(({ cidr, ours }) => ours && !wanted.has(formatCidr(cidr)));
  return [
    ...missing.map((cidr): Op => ({ kind: 'add-route', cidr })),
    ...surplus.map(({ cidr }): Op => ({ kind: 'delete-route', cidr })),
  ];
}
