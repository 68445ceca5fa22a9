import type { IpFamily } from '../../base/ip.ts';
import { familyOfOp } from '../../state/op.ts';
import type { RuleSettings } from '../../state/rules/rule-settings.ts';
import type { OpFailure } from '../../state/outcome.ts';
import { Transaction } from '../../state/transaction.ts';
import { type ChainPlan, baseChains, contents } from './objects/base-chains.ts';
import type { NftMessage } from './port/nft-message.ts';
import type { NftPort, NftRefusal } from './port/nft-port.ts';
import { NftTables } from './nft-tables.ts';
import { ENDPOINTS, constantSets } from './objects/sets.ts';
import { TableView } from './table-view.ts';

/** Maps that kube-proxy creates when it starts, also in a table of ours. We never create them. */
const MAPS_OF_KUBE_PROXY: readonly string[] = ['service-nodeports', 'no-endpoint-nodeports'];

/** Whose a table is: `foreign` means that of another program, usually kube-proxy. */
export type TableState = 'missing' | 'ours' | 'foreign';

/** A table is ours if it has the map of endpoints, its sets have our types, and kube-proxy has not written to it. */
export async function tableState(port: NftPort, family: IpFamily): Promise<TableState> {
  if (!(await port.hasTable(family))) return 'missing';
  const sets = new Map((await port.sets(family)).map((set) => [set.name, set]));
  const same = constantSets(family).every(({ name, keyType, flags, dataType }) => {
    const found = sets.get(name);
    return found === undefined || (found.keyType === keyType && found.flags === flags && found.dataType === dataType);
  });
  const isOurs = sets.has(ENDPOINTS) && same && !MAPS_OF_KUBE_PROXY.some((name) => sets.has(name));
  return isOurs ? 'ours' : 'foreign';
}

export interface TakenOver {
  readonly chains: readonly string[];
  readonly failures: readonly OpFailure[];
  /** Why the table is still the other one. */
  readonly refusal: NftRefusal | undefined;
}

/**
 * The take-over of tables that another program wrote. Such a table serves until everything that ours must contain is
 * known: then one transaction deletes it and creates ours, with rules, elements and source ranges, so that every packet
 * finds the one or the other.
 */
export class TableTakeOver {
  /** What is to be written, by the family of the table that waits. */
  readonly #waiting = new Map<IpFamily, Transaction>();

  /** From now on, operations on the table wait. Those of an earlier attempt are forgotten: they may no longer be true. */
  expect(family: IpFamily): void {
    this.#waiting.set(family, new Transaction());
  }

  forget(family: IpFamily): void {
    this.#waiting.delete(family);
  }

  /** Finds out whether the table is that of another program, also for a process that only reads: it has nothing of ours then. */
  async recognize(port: NftPort, family: IpFamily): Promise<void> {
    const isForeign = (await tableState(port, family)) === 'foreign';
    if (!isForeign) this.forget(family);
    else if (!this.isExpected(family)) this.expect(family);
  }

  isExpected(family: IpFamily): boolean {
    return this.#waiting.has(family);
  }

  /** Keeps the operations on tables that wait, and returns the others. */
  keep(tx: Transaction): Transaction {
    if (this.#waiting.size === 0) return tx;
    return tx.filter((op) => {
      const waiting = this.#waiting.get(familyOfOp(op));
      waiting?.push(op);
      return waiting === undefined;
    });
  }

  /** Replaces the table. Must be called when all operations are known. */
  async run(port: NftPort, family: IpFamily, settings: RuleSettings): Promise<TakenOver> {
    const plans = baseChains(settings, family);
    const chains = plans.map(({ name }) => name);
    // If the kernel refuses the parts that each transaction has, it need not be tried with a part of the Services.
    const refusal = await port.tryOut(family, contents(plans, family));
    if (refusal !== undefined) return { chains, failures: [], refusal };
    const tx = this.#waiting.get(family) ?? new Transaction();
    const replacing = replacingPort(port, plans);
    const { failures } = await new NftTables((of) => new TableView(replacing, of), Infinity).apply(tx);
    // Without Services there was nothing to write.
    const last = failures.length > 0 || replacing.replaced ? failures[0] : await replacing.commit(family, []);
    if (!replacing.replaced) return { chains, failures, refusal: last };
    this.#waiting.delete(family);
    return { chains, failures, refusal: undefined };
  }
}

interface ReplacingPort extends NftPort {
  /** Whether the other table is gone. */
  readonly replaced: boolean;
}

/**
 * Stands for a table that will replace another program's table of the same name. It is empty, and its first transaction
 * also replaces that table: so no packet sees neither. Later transactions are as on the port itself.
 */
function replacingPort(port: NftPort, chains: readonly ChainPlan[]): ReplacingPort {
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
