import type { EntryOp, ServerOp } from '../../state/op.ts';
import { boundedParts } from '../../base/bounded-parts.ts';
import { IP_FAMILIES, type IpFamily } from '../../base/ip.ts';
import { Yielder } from '../../base/yielder.ts';
import { CLUSTER_IPS } from '../../state/nft-set-name.ts';
import type { OpFailure } from '../../state/outcome.ts';
import type { Transaction } from '../../state/transaction.ts';
import { type VirtualServerId, borrows } from '../../state/virtual-server.ts';
import { byVirtualServer, sortOps } from '../translated-ops.ts';
import { entryKey } from './objects/keys.ts';
import type { ElementOf } from './port/nft-port.ts';
import { NODE_SETS } from './objects/sets.ts';

/** An entry of what Services share. */
export interface EntryUnit {
  readonly kind: 'entry';
  readonly element: Pick<ElementOf, 'set' | 'key'>;
  readonly ops: readonly [EntryOp];
}

/** The operations on one virtual server. The kernel takes all or none: otherwise it could be open to everyone. */
export interface ServiceUnit {
  readonly kind: 'service';
  readonly id: VirtualServerId;
  readonly ops: readonly ServerOp[];
}

/** A part of a transaction that does not depend on the others. */
export type Unit = EntryUnit | ServiceUnit;

export interface Units {
  readonly family: IpFamily;
  readonly units: readonly Unit[];
  /** Operations that this mode does not have. */
  readonly failures: readonly OpFailure[];
}

/**
 * Divides the operations of each family into independent parts. Cluster IPs are added after virtual servers: packets to one are
 * rejected as long as its virtual server is not there. Entries are deleted last. Yields to the event loop between the steps
 * of a large transaction.
 */
export async function* unitsOf(tx: Transaction): AsyncGenerator<Units, void> {
  const yielder = new Yielder();
  for (const family of IP_FAMILIES) {
    const sets = NODE_SETS[family];
    const known = new Map(Array.from(sets, ([name, { ipSet }]) => [name, ipSet]));
    const { services, entries, failures } = sortOps(tx, { mode: 'nftables', family, sets: known });
    await yielder.yieldIfDue();
    const ofEntries = entries.map((op): EntryUnit => {
      const set = sets.get(op.set.name)?.definition.name ?? '';
      return { kind: 'entry', element: { set, key: entryKey(op.entry) }, ops: [op] };
    });
    const { first = [], clusterIps = [], deletions = [] } = Object.groupBy(ofEntries, placeOf);
    await yielder.yieldIfDue();
    const ofServers = byVirtualServer(services).map((server): ServiceUnit => ({ kind: 'service', ...server }));
    const [borrowers, lenders] = [true, false].map((is) => ofServers.filter((unit) => isBorrower(unit) === is));
    await yielder.yieldIfDue();
    yield {
      family,
      units: [...first, ...(lenders ?? []), ...(borrowers ?? []), ...clusterIps, ...deletions],
      failures,
    };
  }
}

/** Where an entry comes in the order of transactions. */
function placeOf({ element, ops: [op] }: EntryUnit): 'first' | 'clusterIps' | 'deletions' {
  if (op.kind === 'delete-entry') return 'deletions';
  return element.set === CLUSTER_IPS ? 'clusterIps' : 'first';
}

/** Whether it gives a virtual server the list of another one, which must exist. */
function isBorrower({ ops }: ServiceUnit): boolean {
  return ops.some((op) => 'virtualServer' in op && borrows(op.virtualServer, op.virtualServer));
}

/** Returns the number of endpoints that a virtual server has, as far as is known. */
type EndpointCount = (unit: ServiceUnit) => number;

/**
 * Divides units into parts of about `most` elements. No unit is divided, so a part may have more elements. A part that turns
 * out to be larger than estimated must be divided again.
 */
export function partsOf(units: readonly Unit[], countOf: EndpointCount, most: number): Iterable<readonly Unit[]> {
  return boundedParts(units, (unit) => estimate(unit, countOf), most);
}

/** The elements that lead to a virtual server and say what it is: one of each is deleted, and one is added. */
const HEADS = 4;
/** The endpoint that goes, and the last one, which is deleted in one place and added in another. */
const MOVED = 3;

function estimate(unit: Unit, countOf: EndpointCount): number {
  if (unit.kind === 'entry') return 1;
  let size = HEADS;
  for (const { kind } of unit.ops) {
    if (kind === 'delete-virtual-server') size += countOf(unit);
    else size += kind === 'add-real-server' ? 1 : MOVED;
  }
  return size;
}
