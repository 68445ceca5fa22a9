import { type Cidr, formatCidr } from '../base/cidr.ts';
import type { LocalRoute } from '../state/local-route.ts';
import type { Op } from '../state/op.ts';

/** Returns the operations that change the local routes from `found` to `wanted`. */
export function diffRoutes(wanted: readonly Cidr[], found: readonly LocalRoute[]): readonly Op[] {
  const wantedTexts = new Set(wanted.map(formatCidr));
  const foundTexts = new Set(found.map(({ cidr }) => formatCidr(cidr)));
  const missing = wanted.filter((cidr) => !foundTexts.has(formatCidr(cidr)));
  const surplus = found.filter(({ cidr, ours }) => ours && !wantedTexts.has(formatCidr(cidr)));
  return [
    ...missing.map((cidr): Op => ({ kind: 'add-route', cidr })),
    ...surplus.map(({ cidr }): Op => ({ kind: 'delete-route', cidr })),
  ];
}
