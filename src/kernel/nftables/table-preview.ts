import type { IpFamily } from '../../base/ip.ts';
import type { NftElement } from '../../netlink/family/nf-tables/element.ts';
import type { ObservedRule } from '../../netlink/family/nf-tables/rule.ts';
import type { NftMessage, SetDefinition } from './port/nft-message.ts';
import type { ElementOf, NftFindings, NftLookup, NftPort, ObservedChain } from './port/nft-port.ts';
import { elementId } from './table-change.ts';

export interface FamilyMessage {
  readonly family: IpFamily;
  readonly message: NftMessage;
}

/**
 * Tables whose changes are written down here instead of being made. The elements and chains are those afterwards, as
 * operations need them; sets, rules and the table itself are those before.
 */
export class TablePreview implements NftPort {
  readonly #base: NftPort | undefined;
  /** The families of which nothing from before is left. */
  readonly #replaced = new Set<IpFamily>();
  /** By family and id; undefined: deleted. */
  readonly #elements = new Map<string, ElementOf | undefined>();
  /** By family and name: whether it exists. */
  readonly #chains = new Map<string, boolean>();
  #messages: FamilyMessage[] = [];

  /** @param base the tables before; absent: none */
  constructor(base?: NftPort) {
    this.#base = base;
  }

  /** Returns the messages since the last call. */
  take(): readonly FamilyMessage[] {
    const messages = this.#messages;
    this.#messages = [];
    return messages;
  }

  async hasTable(family: IpFamily): Promise<boolean> {
    return (await this.#base?.hasTable(family)) ?? false;
  }

  async isDormant(family: IpFamily): Promise<boolean> {
    return (await this.#base?.isDormant(family)) ?? false;
  }

  async sets(family: IpFamily): Promise<readonly SetDefinition[]> {
    return (await this.#base?.sets(family)) ?? [];
  }

  async chains(family: IpFamily): Promise<readonly ObservedChain[]> {
    return (await this.#base?.chains(family)) ?? [];
  }

  async rules(family: IpFamily): Promise<readonly ObservedRule[]> {
    return (await this.#base?.rules(family)) ?? [];
  }

  async eachElement(family: IpFamily, set: string, visit: (element: NftElement) => void): Promise<void> {
    if (!this.#replaced.has(family)) {
      await this.#base?.eachElement(family, set, (element) => {
        if (!this.#elements.has(`${family} ${elementId({ set, ...element })}`)) visit(element);
      });
    }
    const start = `${family} ${set} `;
    for (const [id, element] of this.#elements) if (element !== undefined && id.startsWith(start)) visit(element);
  }

  async lookUp(family: IpFamily, lookup: NftLookup): Promise<NftFindings> {
    const { elements = [], chains = [] } = lookup;
    const before = await this.#base?.lookUp(family, this.#replaced.has(family) ? {} : lookup);
    const { generation, ...found } = before ?? { generation: 1, elements: [], chains: new Map<string, number>() };
    const kept = found.elements.filter((element) => !this.#elements.has(`${family} ${elementId(element)}`));
    const added = elements.flatMap((element) => this.#elements.get(`${family} ${elementId(element)}`) ?? []);
    const existing = chains.filter((name) => this.#chains.get(`${family} ${name}`) ?? found.chains.has(name));
    return {
      generation,
      elements: [...kept, ...added],
      chains: new Map(existing.map((name) => [name, found.chains.get(name) ?? 1])),
    };
  }

  commit(family: IpFamily, messages: readonly NftMessage[]): Promise<undefined> {
    for (const message of messages) {
      this.#messages.push({ family, message });
      this.#note(family, message);
    }
    return Promise.resolve(undefined);
  }

  /** Nothing is tried out. */
  tryOut(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  #note(family: IpFamily, message: NftMessage): void {
    if (message.kind === 'delete-table') this.#replaced.add(family);
    else if (message.kind === 'new-chain') this.#chains.set(`${family} ${message.chain.name}`, true);
    else if (message.kind === 'delete-chain') this.#chains.set(`${family} ${message.name}`, false);
    else if (message.kind === 'new-elements' || message.kind === 'delete-elements') {
      for (const each of message.elements) {
        const element = { set: message.set, ...each };
        this.#elements.set(`${family} ${elementId(element)}`, message.kind === 'new-elements' ? element : undefined);
      }
    }
  }
}
