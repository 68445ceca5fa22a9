import type { IpFamily } from '../../base/ip.ts';
import type { ChainPlan } from './objects/base-chains.ts';
import type { NftMessage } from './port/nft-message.ts';
import type { NftPort } from './port/nft-port.ts';
import { constantSets } from './objects/sets.ts';
import { rulesOf } from './table-change.ts';

export interface ReplacingPort extends NftPort {
  /** Whether the other table is gone. */
  readonly replaced: boolean;
}

/**
 * Stands for a table that will replace another program's table of the same name. It is empty, and its first transaction
 * also replaces that table: so no packet sees neither. Later transactions are as on the port itself.
 */
export function replacingPort(port: NftPort, chains: readonly ChainPlan[]): ReplacingPort {
  let replaced = false;
  return {
    get replaced() {
      return replaced;
    },
    hasTable: (family) => port.hasTable(family),
    isDormant: (family) => port.isDormant(family),
    sets: (family) => port.sets(family),
    chains: (family) => port.chains(family),
    rules: (family) => port.rules(family),
    eachElement: async (family, set, visit) => {
      if (replaced) await port.eachElement(family, set, visit);
    },
    lookUp: async (family, lookup) =>
      replaced
        ? await port.lookUp(family, lookup)
        : { ...(await port.lookUp(family, {})), elements: [], chains: new Map() },
    commit: async (family: IpFamily, messages, generation) => {
      const all = replaced ? messages : [...REPLACEMENT, ...contents(chains, family), ...messages];
      const refusal = await port.commit(family, all, generation);
      replaced ||= refusal === undefined;
      return refusal;
    },
    tryOut: (family, messages) => port.tryOut(family, messages),
  };
}

const REPLACEMENT: readonly NftMessage[] = [{ kind: 'delete-table' }, { kind: 'new-table' }];

/** Returns what a new table gets, whatever the Services are. */
export function contents(chains: readonly ChainPlan[], family: IpFamily): readonly NftMessage[] {
  return [
    ...constantSets(family).map((set): NftMessage => ({ kind: 'new-set', set })),
    ...chains.map(({ name, base }): NftMessage => ({
      kind: 'new-chain',
      chain: base === undefined ? { name } : { name, base },
    })),
    ...chains.flatMap(rulesOf),
  ];
}
