import { type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import { isAffinityChain } from './affinity-chains.ts';
import { isFirewallChain } from './firewall-objects.ts';
import { indexOfKey, serviceOfKey } from './keys.ts';
import type { NftMessage } from './nft-message.ts';
import type { ElementOf } from './nft-port.ts';
import type { SharedChains } from './service-objects.ts';
import { type SharedChain, type Unused, deletions } from './shared-chain.ts';
import { TableChange } from './table-change.ts';
import { findHeads } from './table-reader.ts';
import type { TableView } from './table-view.ts';

/** Attempts while other programs change the ruleset. The last ones wait for the next occasion. */
const ATTEMPTS = 3;

/** What a change does not need any more, but packets that are on their way may need. */
export interface Left {
  /** Endpoints beyond the number of a virtual server. */
  readonly endpoints: readonly Pick<ElementOf, 'set' | 'key'>[];
  /** Chains to which a virtual server led. */
  readonly shared: readonly SharedChains[];
}

/**
 * What changes have left in a table of one family, until it is deleted. A packet passes the rules of the generation in which
 * it came, but finds the elements of the latest one (net/netfilter/nf_tables_core.c: nft_do_chain; nft_set_hash.c), so one
 * transaction with both would make it miss an endpoint.
 */
export class Leavings {
  readonly #endpoints: Left['endpoints'][number][] = [];
  readonly #shared = new Map<string, SharedChains>();

  get isEmpty(): boolean {
    return this.#endpoints.length === 0 && this.#shared.size === 0;
  }

  add({ endpoints, shared }: Left): void {
    for (const endpoint of endpoints) this.#endpoints.push(endpoint);
    // A full check deletes the others: their number is small, and they may be needed again soon.
    for (const each of shared)
      if (isAffinityChain(each.name) || isFirewallChain(each.name)) this.#shared.set(each.name, each);
  }

  /** Deletes what is not in use again. */
  async remove(view: TableView): Promise<void> {
    for (let attempt = 1; attempt <= ATTEMPTS && !this.isEmpty; attempt++) {
      const found = await this.#messages(view);
      if (found === undefined) continue;
      const { messages, generation } = found;
      const refusal = messages.length === 0 ? undefined : await view.commit(messages, generation);
      if (refusal?.code === 'ERESTART') continue;
      // What the kernel refuses to delete, another program uses.
      this.#endpoints.length = 0;
      this.#shared.clear();
    }
  }

  /** Returns undefined if another program has changed the ruleset meanwhile. */
  async #messages({
    port,
    family,
  }: TableView): Promise<
    { readonly messages: readonly NftMessage[]; readonly generation: number | undefined } | undefined
  > {
    const ids = this.#endpoints.flatMap(({ key }) => serviceOfKey(key, family) ?? []);
    const { generation, found } = await findHeads(port, family, ids);
    const shared = new Map<string, SharedChain>();
    for (const { chains } of this.#shared.values()) for (const each of chains()) shared.set(each.chain.name, each);
    const { elements, chains, ...now } = await port.lookUp(family, {
      elements: this.#endpoints,
      chains: [...shared.keys()],
    });
    if (now.generation !== generation) return undefined;
    const counts = new Map<VirtualServerKey, number>(found.map(({ id, count }) => [virtualServerKey(id), count]));
    const change = new TableChange();
    for (const { set, key } of elements) {
      const id = serviceOfKey(key, family);
      const count = id === undefined ? 0 : (counts.get(virtualServerKey(id)) ?? 0);
      if (indexOfKey(key, family) >= count) change.deleteElement(set, { key });
    }
    const unused = unusedOf([...shared.values()], chains);
    return { messages: [...change.messages(new Set()).messages, ...deletions(unused)], generation };
  }
}

/** Returns the chains to which nothing leads, and their sets. `uses`: of those that exist, as NftFindings has them. */
function unusedOf(shared: readonly SharedChain[], uses: ReadonlyMap<string, number>): Unused {
  const released = new Map<string, number>();
  const unused: SharedChain[] = [];
  // Those that lead to others come first.
  for (const each of shared.toSorted((a, b) => b.elements.length - a.elements.length)) {
    const { name, rules } = each.chain;
    const use = uses.get(name);
    if (use === undefined || use - (released.get(name) ?? 0) !== rules.length) continue;
    unused.push(each);
    for (const target of targetsOf(each)) released.set(target, (released.get(target) ?? 0) + 1);
  }
  return {
    chains: unused.map(({ chain }) => chain.name),
    sets: unused.flatMap(({ sets }) => sets.map(({ name }) => name)),
  };
}

/** The chains to which a chain and the elements of its map lead, once for each of them. */
function targetsOf({ chain, elements }: SharedChain): readonly string[] {
  const data = [
    ...chain.rules.flat().flatMap((step) => (step.name === 'immediate' ? [step.data] : [])),
    ...elements.flatMap((element) => element.data ?? []),
  ];
  return data.flatMap((each) => ('verdict' in each ? (each.verdict?.chain ?? []) : []));
}
