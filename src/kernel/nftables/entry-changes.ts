import { virtualServerKey, type VirtualServerKey } from '../../state/virtual-server.ts';
import { firewallObjects } from './firewall-objects.ts';
import { entryKey } from './keys.ts';
import type { ElementOf } from './nft-port.ts';
import { type TableChange, elementId } from './table-change.ts';
import type { Restricted } from './table-reader.ts';
import { type ServiceUnit, type Unit, entriesOf } from './units.ts';

type ElementKey = Pick<ElementOf, 'set' | 'key'>;

/** Returns the elements that operations delete, by their ids. */
export function deletedElements(units: readonly Unit[]): ReadonlyMap<string, ElementKey> {
  const deleted = new Map<string, ElementKey>();
  for (const element of elementsOf(units, false)) deleted.set(elementId(element), element);
  return deleted;
}

/** Returns the elements of source ranges that operations add. They often add again what is there. */
export function addedRanges(units: readonly Unit[]): readonly ElementKey[] {
  return [
    ...elementsOf(
      units.filter(({ kind }) => kind === 'service'),
      true,
    ),
  ];
}

/** Whether everything that the operations want of source ranges is there. */
export function hasRanges({ firewall }: ServiceUnit, present: ReadonlySet<string>): boolean {
  return firewall.every(({ set, entry, present: wanted }) => {
    return wanted && present.has(elementId({ set, key: entryKey(entry) }));
  });
}

/** Adds the changes of elements. `present`: the ids of elements that exist, among them those to delete. */
export function changeElements(
  change: TableChange,
  units: readonly Unit[],
  deleted: ReadonlyMap<string, ElementKey>,
  present: ReadonlySet<string>,
): void {
  for (const [id, element] of deleted) if (present.has(id)) change.deleteElement(element.set, element);
  for (const element of elementsOf(units, true)) {
    // A transaction deletes last: an element that it adds and deletes is gone.
    if (deleted.size === 0 || !deleted.has(elementId(element))) change.addElement(element.set, element);
  }
}

function* elementsOf(units: readonly Unit[], wanted: boolean): Generator<ElementKey, void, undefined> {
  for (const unit of units) {
    if (unit.kind === 'service') {
      for (const { set, entry, present } of unit.firewall) if (present === wanted) yield { set, key: entryKey(entry) };
    } else if ((unit.ops[0].kind !== 'delete-entry') === wanted) {
      for (const entry of entriesOf(unit.ops[0])) yield { set: unit.set, key: entryKey(entry) };
    }
  }
}

/** Adds the changes of the chain that drops packets from outside of the source ranges. */
export function changeFirewall(
  change: TableChange,
  { id, firewall }: ServiceUnit,
  restricted: ReadonlyMap<VirtualServerKey, Restricted>,
): void {
  const before = restricted.get(virtualServerKey(id));
  const ranges = new Map((before?.ranges ?? []).map((range) => [`${range.address}/${range.prefix}`, range]));
  const wasInForce = before?.inForce === true;
  let inForce = wasInForce;
  for (const { entry, present: wanted } of firewall) {
    if (entry.type === 'hash:ip,port') inForce = wanted;
    if (entry.type !== 'hash:ip,port,net') continue;
    const text = `${entry.network.address}/${entry.network.prefix}`;
    if (wanted) ranges.set(text, entry.network);
    else ranges.delete(text);
  }
  change.replace(
    wasInForce ? firewallObjects(id, before?.ranges ?? []) : undefined,
    inForce ? firewallObjects(id, [...ranges.values()]) : undefined,
  );
}
