import type { IpFamily } from '../../base/ip.ts';
import type { Log } from '../../observe/log/log.ts';
import { nftTable } from '../../state/nft-table.ts';
import { type Bisected, bisect } from '../bisect.ts';
import type { ModeObserver } from '../mode-observer.ts';
import { reasonOf } from '../../state/outcome.ts';
import { isEndpointChain } from './objects/affinity-chains.ts';
import type { NftPort, NftRefusal } from './port/nft-port.ts';
import { isOfClients } from './objects/sets.ts';
import { type Deletion, deleteChain, deleteSet, deletionsOf } from './objects/shared-chain.ts';
import { nextOf } from './table-view.ts';

export interface Removed {
  readonly gone: readonly Deletion[];
  /** Whether another program changed the ruleset, so that the rest was not tried. */
  readonly interrupted: boolean;
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
  async run(port: NftPort, family: IpFamily, surplus: readonly Deletion[], generation?: number): Promise<Removed> {
    const gone: Deletion[] = [];
    let current = generation;
    const { refused, stoppedBy } = await bisect<Deletion, NftRefusal>(surplus.length === 0 ? [] : [surplus], {
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

  #tell(family: IpFamily, refused: Bisected<Deletion, NftRefusal>['refused']): void {
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
export function inOrderOfDeletion(
  chains: readonly string[],
  sets: readonly string[],
  most: number,
): readonly Deletion[] {
  const ordered = [
    ...chains.filter((name) => !isEndpointChain(name)).map(deleteChain),
    ...sets.filter((name) => !isOfClients(name)).map(deleteSet),
    ...chains.filter(isEndpointChain).map(deleteChain),
    ...sets.filter(isOfClients).map(deleteSet),
  ];
  const next = sets.length > most ? ordered.filter(({ kind }) => kind === 'delete-set')[most] : undefined;
  return next === undefined ? ordered : ordered.slice(0, ordered.indexOf(next));
}
