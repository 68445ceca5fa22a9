import type { IpFamily } from '../../base/ip.ts';
import type { Log } from '../../observe/log/log.ts';
import { nftTable } from '../../state/nft-table.ts';
import { type Bisected, bisect } from '../bisect.ts';
import type { ModeObserver } from '../mode-observer.ts';
import { reasonOf } from '../../state/outcome.ts';
import { isEndpointChain } from './objects/affinity-chains.ts';
import type { NftMessage } from './port/nft-message.ts';
import type { NftPort, NftRefusal } from './port/nft-port.ts';
import { isOfClients } from './objects/sets.ts';
import { type ChainsAndSets, deletions } from './objects/shared-chain.ts';
import { nextOf } from './table-view.ts';

/** A chain or set to delete. */
export interface Surplus {
  readonly kind: 'delete-chain' | 'delete-set';
  readonly name: string;
}

export interface Removed {
  readonly gone: readonly Surplus[];
  /** Whether another program changed the ruleset, so that the rest was not tried. */
  readonly interrupted: boolean;
}

function deletionsOf(some: readonly Surplus[]): readonly NftMessage[] {
  const named = (wanted: Surplus['kind']): readonly string[] =>
    some.flatMap(({ kind, name }) => (kind === wanted ? [name] : []));
  return deletions({ chains: named('delete-chain'), sets: named('delete-set') });
}

/** Deletes chains and sets that nothing of ours needs. Something of another program may still need one: it stays. */
export class SurplusRemoval {
  readonly #log: Log;
  readonly #observer: Pick<ModeObserver, 'cleanUpFailed'>;
  readonly #told = new Map<IpFamily, string>();

  constructor(log: Log, observer: Pick<ModeObserver, 'cleanUpFailed'>) {
    this.#log = log;
    this.#observer = observer;
  }

  /**
   * Deletes those that can be deleted, chains with their rules. One may depend on the deletion of those before it. With
   * `generation`, it ends when another program changes the ruleset.
   */
  async run(port: NftPort, family: IpFamily, surplus: readonly Surplus[], generation?: number): Promise<Removed> {
    const gone: Surplus[] = [];
    let current = generation;
    const { refused, stoppedBy } = await bisect<Surplus, NftRefusal>(surplus.length === 0 ? [] : [surplus], {
      write: async (some) => {
        const refusal = await port.commit(family, deletionsOf(some), current);
        if (refusal !== undefined) return refusal;
        if (current !== undefined) current = nextOf(current);
        for (const each of some) gone.push(each);
        return undefined;
      },
      isOfAll: ({ code }) => Promise.resolve(current !== undefined && code === 'ERESTART'),
      inOrder: true,
    });
    if (stoppedBy === undefined) this.#tell(family, refused);
    return { gone, interrupted: stoppedBy !== undefined };
  }

  #tell(family: IpFamily, refused: Bisected<Surplus, NftRefusal>['refused']): void {
    const [first] = refused;
    if (first !== undefined) this.#observer.cleanUpFailed(family);
    const names = refused
      .flatMap(({ units }) => units)
      .map(({ kind, name }) => `${kind === 'delete-chain' ? 'chain' : 'set'} ${name}`)
      .join(', ');
    if (first !== undefined && names !== this.#told.get(family)) {
      const reason = reasonOf(first.refusal);
      this.#log.warn(
        `cannot delete ${names} of table ${nftTable(family)}, which nothing of this program uses: ${reason}`,
      );
    }
    this.#told.set(family, names);
  }
}

/**
 * Puts them in an order in which nothing leads to a chain, and no rule uses a set, when those before it are gone: the
 * chains of endpoints come after those whose rules and maps lead there, and the sets of clients, which the rules of both
 * use, last. With more than `most` sets, it ends after so many.
 */
export function inOrderOfDeletion({ chains, sets }: ChainsAndSets, most: number): readonly Surplus[] {
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
