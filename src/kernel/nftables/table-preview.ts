import type { IpFamily } from '../../base/ip.ts';
import type { NftElement } from '../../netlink/family/nf-tables/element.ts';
import type { ObservedRule } from '../../netlink/family/nf-tables/rule.ts';
import type { NftMessage, SetDefinition } from './port/nft-message.ts';
import type { ElementOf, NftFindings, NftLookup, NftPort, NftRefusal, ObservedChain } from './port/nft-port.ts';
import { elementId } from './table-change.ts';

/** linux/netfilter.h: NF_ACCEPT. */
const ACCEPT = 1;

export interface FamilyMessage {
  readonly family: IpFamily;
  readonly message: NftMessage;
}

/** What the messages of one family change; undefined: deleted. */
interface Changes {
  /** Whether the table was created or deleted; undefined: neither. */
  exists: boolean | undefined;
  /** Whether nothing of the table beneath is left. */
  isNew: boolean;
  isAwake: boolean;
  readonly sets: Map<string, SetDefinition | undefined>;
  readonly chains: Map<string, ObservedChain | undefined>;
  /** The rules of chains that were flushed, and those that were added to others. */
  readonly flushed: Set<string>;
  readonly rules: ObservedRule[];
  readonly elements: Map<string, ElementOf | undefined>;
}

/** The tables as they would be after messages that are written down here instead of being executed. */
export class TablePreview implements NftPort {
  readonly #base: NftPort;
  readonly #changes: Readonly<Record<IpFamily, Changes>> = { 4: noChanges(), 6: noChanges() };
  #messages: FamilyMessage[] = [];
  #transactions = 0;

  constructor(base: NftPort) {
    this.#base = base;
  }

  /** Returns the messages since the last call. */
  take(): readonly FamilyMessage[] {
    const messages = this.#messages;
    this.#messages = [];
    return messages;
  }

  async hasTable(family: IpFamily): Promise<boolean> {
    return this.#changes[family].exists ?? (await this.#base.hasTable(family));
  }

  async isDormant(family: IpFamily): Promise<boolean> {
    const { isNew, isAwake } = this.#changes[family];
    return !isNew && !isAwake && (await this.#base.isDormant(family));
  }

  async sets(family: IpFamily): Promise<readonly SetDefinition[]> {
    const { isNew, sets } = this.#changes[family];
    const base = isNew ? [] : await this.#base.sets(family);
    return [...base.filter(({ name }) => !sets.has(name)), ...present(sets.values())];
  }

  async chains(family: IpFamily): Promise<readonly ObservedChain[]> {
    const { isNew, chains } = this.#changes[family];
    const base = isNew ? [] : await this.#base.chains(family);
    return [...base.filter(({ name }) => !chains.has(name)), ...present(chains.values())];
  }

  async rules(family: IpFamily): Promise<readonly ObservedRule[]> {
    const { isNew, flushed, rules } = this.#changes[family];
    const base = isNew ? [] : await this.#base.rules(family);
    return [...base.filter(({ chain }) => !flushed.has(chain)), ...rules];
  }

  async eachElement(family: IpFamily, set: string, visit: (element: NftElement) => void): Promise<void> {
    const { isNew, sets, elements } = this.#changes[family];
    if (!isNew && !sets.has(set)) {
      await this.#base.eachElement(family, set, (element) => {
        if (elements.size === 0 || !elements.has(elementId({ set, ...element }))) visit(element);
      });
    }
    for (const element of present(elements.values())) if (element.set === set) visit(element);
  }

  async lookUp(family: IpFamily, lookup: NftLookup): Promise<NftFindings> {
    const { isNew, chains, elements } = this.#changes[family];
    const { generation, ...base } = await this.#base.lookUp(family, isNew ? {} : lookup);
    const added = (lookup.elements ?? []).flatMap((element) => elements.get(elementId(element)) ?? []);
    const created = (lookup.chains ?? []).filter((name) => chains.get(name) !== undefined);
    return {
      generation: generation + this.#transactions,
      elements: [...base.elements.filter((element) => !elements.has(elementId(element))), ...added],
      chains: new Map([
        ...[...base.chains].filter(([name]) => !chains.has(name)),
        ...created.map((name) => [name, 1] as const),
      ]),
    };
  }

  commit(family: IpFamily, messages: readonly NftMessage[]): Promise<NftRefusal | undefined> {
    if (messages.length > 0) this.#transactions += 1;
    for (const message of messages) {
      this.#messages.push({ family, message });
      note(message, this.#changes[family]);
    }
    return Promise.resolve(undefined);
  }

  /** Nothing is tried out. */
  tryOut(): Promise<undefined> {
    return Promise.resolve(undefined);
  }
}

function noChanges(isNew = false): Changes {
  return {
    exists: isNew ? false : undefined,
    isNew,
    isAwake: false,
    sets: new Map(),
    chains: new Map(),
    flushed: new Set(),
    rules: [],
    elements: new Map(),
  };
}

function note(message: NftMessage, changes: Changes): void {
  switch (message.kind) {
    case 'new-table':
      changes.exists = true;
      changes.isAwake = true;
      break;
    case 'delete-table':
      Object.assign(changes, noChanges(true));
      break;
    case 'new-set':
      changes.sets.set(message.set.name, message.set);
      break;
    case 'delete-set':
      changes.sets.set(message.name, undefined);
      break;
    case 'new-chain':
      changes.chains.set(message.chain.name, { ...message.chain, policy: ACCEPT });
      break;
    case 'flush-chain':
    case 'delete-chain':
      changes.flushed.add(message.name);
      changes.rules.splice(0, Infinity, ...changes.rules.filter(({ chain }) => chain !== message.name));
      if (message.kind === 'delete-chain') changes.chains.set(message.name, undefined);
      break;
    case 'new-rule':
      changes.rules.push({
        chain: message.chain,
        expressions: message.expressions as ObservedRule['expressions'],
      });
      break;
    case 'new-elements':
    case 'delete-elements':
      for (const element of message.elements) {
        const of = { set: message.set, ...element };
        changes.elements.set(elementId(of), message.kind === 'new-elements' ? of : undefined);
      }
  }
}

function* present<T>(items: Iterable<T | undefined>): Generator<T, void, undefined> {
  for (const item of items) if (item !== undefined) yield item;
}
