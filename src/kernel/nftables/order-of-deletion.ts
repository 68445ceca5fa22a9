import { isEndpointChain } from './affinity-chains.ts';
import { isOfClients } from './sets.ts';
import type { Unused } from './shared-chain.ts';
import type { Surplus } from './surplus-removal.ts';

/**
 * Puts them in an order in which nothing leads to a chain, and no rule uses a set, when those before it are gone: the
 * chains of endpoints come after those whose rules and maps lead there, and the sets of clients, which the rules of both
 * use, last. With more than `most` sets, it ends after so many.
 */
export function inOrderOfDeletion({ chains, sets }: Unused, most: number): readonly Surplus[] {
  const ordered = [
    ...chains.filter((name) => !isEndpointChain(name)).map(chain),
    ...sets.filter((name) => !isOfClients(name)).map(set),
    ...chains.filter(isEndpointChain).map(chain),
    ...sets.filter(isOfClients).map(set),
  ];
  const next = sets.length > most ? ordered.filter(({ kind }) => kind === 'delete-set')[most] : undefined;
  return next === undefined ? ordered : ordered.slice(0, ordered.indexOf(next));
}

function chain(name: string): Surplus {
  return { kind: 'delete-chain', name };
}

function set(name: string): Surplus {
  return { kind: 'delete-set', name };
}
