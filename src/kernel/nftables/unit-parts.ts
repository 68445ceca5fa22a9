import { boundedParts } from '../../base/bounded-parts.ts';
import { type Unit, entriesOf } from './units.ts';

/** Returns the number of endpoints that a virtual server has, as far as is known. */
export type EndpointCount = (unit: Extract<Unit, { kind: 'service' }>) => number;

/**
 * Divides groups into parts of about `most` elements. No group is divided, so a part may have more elements. A part that
 * turns out to be larger than estimated must be divided again.
 */
export function* partsOf(
  groups: readonly (readonly Unit[])[],
  countOf: EndpointCount,
  most: number,
): Generator<readonly Unit[], void, undefined> {
  const sizeOf = (group: readonly Unit[]): number => group.reduce((sum, unit) => sum + estimate(unit, countOf), 0);
  for (const part of boundedParts(groups, sizeOf, most)) yield part.flat();
}

/** The elements that lead to a virtual server: one is deleted, and one is added. */
const HEADS = 2;
/** The endpoint that goes, and the last one, which is deleted in one place and added in another. */
const MOVED = 3;

function estimate(unit: Unit, countOf: EndpointCount): number {
  if (unit.kind === 'entry') return entriesOf(unit.ops[0]).length;
  let size = HEADS + unit.firewallOps.length;
  for (const { kind } of unit.ops) {
    if (kind === 'delete-virtual-server') size += countOf(unit);
    else size += kind === 'add-real-server' ? 1 : MOVED;
  }
  return size;
}
