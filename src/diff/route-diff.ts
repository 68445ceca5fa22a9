import { type Cidr, formatCidr } from '../base/cidr.ts';
import type { LocalRoute } from '../state/local-route.ts';
import type { Op } from '../state/op.ts';

/** Returns the operations that change the local routes from `found` to `wanted`, which have no source. */
export function diffRoutes(wanted: readonly Cidr[], found: readonly LocalRoute[]): readonly Op[] {
  const wantedTexts = new Set(wanted.map(formatCidr));
  const plain = found.filter(({ source }) => source === undefined);
  const foundTexts = new Set(plain.map(({ cidr }) => formatCidr(cidr)));
  const missing = wanted.filter((cidr) => !foundTexts.has(formatCidr(cidr)));
  const surplus = found.filter(
    ({ cidr, ours, source }) => ours && (source !== undefined || !wantedTexts.has(formatCidr(cidr))),
  );
  return [...missing.map((cidr): Op => ({ kind: 'add-route', cidr })), ...surplus.map(deletionOf)];
}

export function deletionOf({ cidr, source }: Pick<LocalRoute, 'cidr' | 'source'>): Op {
  return { kind: 'delete-route', cidr, ...(source === undefined ? {} : { source }) };
}
