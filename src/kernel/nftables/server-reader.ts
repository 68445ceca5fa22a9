import { NOWHERE, type VirtualServer, type VirtualServerId, virtualServerKey } from '../../state/virtual-server.ts';
import { virtualServerOf } from '../linux/translating-kernel.ts';
import type { Head } from './table-reader.ts';
import type { TableView } from './table-view.ts';
import { traitsOf } from './objects/trait-elements.ts';
import { type ExpectedTraits, type TraitsByServer, readAllRanges, readTraits } from './trait-reader.ts';

/** Returns all virtual servers of a family, without endpoints. */
export async function listServers(view: TableView): Promise<readonly VirtualServer[]> {
  const heads = await view.listHeads();
  return await observed(view, heads, await readTraits(view.port, view.family));
}

/** Returns those of these virtual servers that exist, without endpoints. */
export async function findServers(view: TableView, ids: readonly ExpectedTraits[]): Promise<readonly VirtualServer[]> {
  const heads = await view.findHeads(ids);
  const exists = new Set(heads.map(({ id }) => virtualServerKey(id)));
  // The others have nothing yet, or are to be deleted with all that they have.
  const known = ids.filter((id) => id.traits === undefined || exists.has(virtualServerKey(id)));
  return await observed(view, heads, await view.findTraits(known));
}

/** One that leads nowhere, or of which the table says something that no traits of ours would be, differs from every planned one. */
async function observed(
  { port, family }: TableView,
  heads: readonly Head[],
  found: TraitsByServer,
): Promise<readonly VirtualServer[]> {
  const ranges = await readAllRanges(port, family, found.values());
  const others = new Map(found);
  const servers = heads.map(({ id, affinity, list, misled }) => {
    const traits = found.get(virtualServerKey(id));
    others.delete(virtualServerKey(id));
    const known = traits && traitsOf(traits, ranges);
    const server = { ...virtualServerOf(id, affinity), ...(list && { list }), ...(known && { traits: known }) };
    return misled ? { ...server, scheduler: NOWHERE } : server;
  });
  return [...servers, ...Array.from(others.values(), ({ id }) => unlike(id))];
}

function unlike(id: VirtualServerId): VirtualServer {
  return { ...virtualServerOf(id, 0), scheduler: NOWHERE };
}
