import { constants } from 'node:os';
import type { IpFamily } from '../../src/base/ip.ts';
import type { NftElement } from '../../src/netlink/family/nf-tables/element.ts';
import type { NftExpression } from '../../src/netlink/family/nf-tables/expression.ts';
import { NFT_DATA_VERDICT } from '../../src/netlink/family/nf-tables/set.ts';
import type { ObservedRule } from '../../src/netlink/family/nf-tables/rule.ts';
import type { NftMessage, SetDefinition } from '../../src/kernel/nftables/port/nft-message.ts';
import type {
  NftFindings,
  NftLookup,
  NftPort,
  NftRefusal,
  ObservedChain,
} from '../../src/kernel/nftables/port/nft-port.ts';

const key = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const keyOf = (element: NftElement): string => `${key(element.key)}${element.isEnd === true ? ' end' : ''}`;

interface Chain {
  readonly chain: ObservedChain;
  readonly rules: { readonly expressions: readonly NftExpression[] }[];
}

interface Set {
  readonly set: SetDefinition;
  readonly elements: Map<string, NftElement>;
}

interface Table {
  dormant: boolean;
  readonly chains: Map<string, Chain>;
  readonly sets: Map<string, Set>;
}

/** Thrown within a transaction; the transaction is then not in force. */
class Refused extends Error {
  readonly code: keyof typeof constants.errno;

  constructor(code: keyof typeof constants.errno, text: string) {
    super(text);
    this.code = code;
  }
}

/** The tables kube-proxy in memory: as nf_tables, it executes a transaction whole or not at all, and checks all references. */
export class FakeNftTable implements NftPort {
  readonly tables = new Map<IpFamily, Table>();
  /** The transactions that were executed. */
  readonly committed: (readonly NftMessage[])[] = [];
  /** Refuses transactions; for tests of what becomes of the others. */
  refuse: (messages: readonly NftMessage[]) => keyof typeof constants.errno | undefined = () => undefined;
  #generation = 1;

  hasTable(family: IpFamily): Promise<boolean> {
    return Promise.resolve(this.tables.has(family));
  }

  isDormant(family: IpFamily): Promise<boolean> {
    return Promise.resolve(this.tables.get(family)?.dormant === true);
  }

  sets(family: IpFamily): Promise<readonly SetDefinition[]> {
    return Promise.resolve([...(this.tables.get(family)?.sets.values() ?? [])].map(({ set }) => set));
  }

  chains(family: IpFamily): Promise<readonly ObservedChain[]> {
    return Promise.resolve([...(this.tables.get(family)?.chains.values() ?? [])].map(({ chain }) => chain));
  }

  rules(family: IpFamily): Promise<readonly ObservedRule[]> {
    const chains = [...(this.tables.get(family)?.chains.values() ?? [])];
    return Promise.resolve(
      chains.flatMap(({ chain, rules }) =>
        rules.map(({ expressions }) => ({
          chain: chain.name,
          expressions: expressions as ObservedRule['expressions'],
        })),
      ),
    );
  }

  eachElement(family: IpFamily, set: string, visit: (element: NftElement) => void): Promise<void> {
    for (const element of this.tables.get(family)?.sets.get(set)?.elements.values() ?? []) visit(element);
    return Promise.resolve();
  }

  lookUp(family: IpFamily, { elements = [], chains = [] }: NftLookup): Promise<NftFindings> {
    const table = this.tables.get(family);
    return Promise.resolve({
      generation: this.#generation,
      elements: elements.flatMap(({ set, key: bytes }) => {
        const found = table?.sets.get(set)?.elements.get(key(bytes));
        return found === undefined ? [] : { set, ...found };
      }),
      chains: new Map(
        chains.flatMap((name) => (table?.chains.has(name) === true ? [[name, usesOf(table, name)] as const] : [])),
      ),
    });
  }

  /** As another program's transaction: every one of ours that began before it fails. */
  changeByOthers(change: (table: Table | undefined) => void, family: IpFamily = 4): void {
    change(this.tables.get(family));
    this.#generation += 1;
  }

  commit(family: IpFamily, messages: readonly NftMessage[], generation?: number): Promise<NftRefusal | undefined> {
    if (messages.length === 0) return Promise.resolve(undefined);
    if (generation !== undefined && generation !== this.#generation) return refusal('ERESTART');
    const code = this.refuse(messages);
    if (code !== undefined) return refusal(code);
    const before = this.tables.get(family);
    const table = executeAll(before === undefined ? undefined : copyOf(before), messages);
    if (table instanceof Refused) return refusal(table.code, table.message);
    if (table === undefined) this.tables.delete(family);
    else this.tables.set(family, table);
    this.#generation += 1;
    this.committed.push(messages);
    return Promise.resolve(undefined);
  }

  tryOut(_family: IpFamily, messages: readonly NftMessage[]): Promise<NftRefusal | undefined> {
    const code = this.refuse(messages);
    if (code !== undefined) return refusal(code);
    const table = executeAll(emptyTable(), messages);
    if (table instanceof Refused) return refusal(table.code, table.message);
    this.#generation += 1;
    return Promise.resolve(undefined);
  }
}

/** Takes back a change of an element. */
type Undo = () => void;

/** Returns the table afterwards, or why the messages are refused. */
function executeAll(before: Table | undefined, messages: readonly NftMessage[]): Table | undefined | Refused {
  let table = before;
  const undo: Undo[] = [];
  try {
    for (const message of messages) table = execute(table, message, undo);
    if (table !== undefined) checkReferences(table);
    return table;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    for (const back of undo.reverse()) back();
    return error;
  }
}

function refusal(code: keyof typeof constants.errno | 'ERESTART', text = ''): Promise<NftRefusal> {
  return Promise.resolve({ errno: code === 'ERESTART' ? 85 : constants.errno[code], code, text });
}

function emptyTable(): Table {
  return { dormant: false, chains: new Map(), sets: new Map() };
}

/** Without the elements: there may be very many, so their changes are taken back one by one. */
function copyOf({ dormant, chains, sets }: Table): Table {
  return {
    dormant,
    chains: new Map(Array.from(chains, ([name, { chain, rules }]) => [name, { chain, rules: [...rules] }])),
    sets: new Map(sets),
  };
}

function execute(table: Table | undefined, message: NftMessage, undo: Undo[]): Table | undefined {
  if (message.kind === 'new-table') return { ...(table ?? emptyTable()), dormant: false };
  if (table === undefined) throw new Refused('ENOENT', 'no such table');
  if (message.kind === 'delete-table') return undefined;
  change(table, message, undo);
  return table;
}

function found<T>(map: Map<string, T>, name: string): T {
  const value = map.get(name);
  if (value === undefined) throw new Refused('ENOENT', name);
  return value;
}

function change({ chains, sets }: Table, message: NftMessage, undo: Undo[]): void {
  switch (message.kind) {
    case 'new-table':
    case 'delete-table':
      break;
    case 'new-set':
      if (!sets.has(message.set.name)) sets.set(message.set.name, { set: message.set, elements: new Map() });
      break;
    case 'delete-set':
      found(sets, message.name);
      sets.delete(message.name);
      break;
    case 'new-chain': {
      const { chain } = message;
      const policy = chain.base === undefined ? undefined : 1;
      if (!chains.has(chain.name)) chains.set(chain.name, { chain: { ...chain, policy }, rules: [] });
      break;
    }
    case 'delete-chain':
      found(chains, message.name);
      chains.delete(message.name);
      break;
    case 'flush-chain':
      found(chains, message.name).rules.length = 0;
      break;
    case 'new-rule':
      found(chains, message.chain).rules.push({ expressions: message.expressions });
      break;
    case 'new-elements':
      for (const element of message.elements) add(found(sets, message.set), element, undo);
      break;
    case 'delete-elements': {
      const { elements } = found(sets, message.set);
      for (const element of message.elements) {
        const id = keyOf(element);
        const there = elements.get(id);
        if (there === undefined) throw new Refused('ENOENT', `${message.set} ${key(element.key)}`);
        elements.delete(id);
        undo.push(() => elements.set(id, there));
      }
    }
  }
}

function add({ set, elements }: Set, element: NftElement, undo: Undo[]): void {
  if (element.key.length !== set.keyLength) throw new Refused('EINVAL', `${set.name}: length of the key`);
  const id = keyOf(element);
  const there = elements.get(id);
  const same = there === undefined || JSON.stringify(there.data) === JSON.stringify(element.data);
  if (!same) throw new Refused('EEXIST', `${set.name} ${key(element.key)}`);
  elements.set(id, element);
  undo.push(() => (there === undefined ? elements.delete(id) : elements.set(id, there)));
}

/** How many rules a chain has and how many rules and elements lead to it. */
function usesOf({ chains, sets }: Table, name: string): number {
  const steps = [...chains.values()].flatMap(({ rules }) => rules.flatMap(({ expressions }) => expressions));
  const data = [
    ...steps.flatMap((step) => (step.name === 'immediate' ? [step.data] : [])),
    ...verdictMaps(sets).flatMap((elements) => [...elements.values()].flatMap((element) => element.data ?? [])),
  ];
  const leading = data.filter((each) => 'verdict' in each && each.verdict?.chain === name);
  return found(chains, name).rules.length + leading.length;
}

/** Only these lead to chains. Maps of endpoints may be large. */
function verdictMaps(sets: Table['sets']): readonly Set['elements'][] {
  return [...sets.values()].filter(({ set }) => set.dataType === NFT_DATA_VERDICT).map(({ elements }) => elements);
}

/** A chain or set that something refers to must exist. */
function checkReferences({ chains, sets }: Table): void {
  const needChain = (name: string | undefined): void => {
    if (name !== undefined && !chains.has(name)) throw new Refused('EBUSY', `chain ${name} is referred to`);
  };
  const needSet = (name: string): void => {
    if (!sets.has(name)) throw new Refused('EBUSY', `set ${name} is referred to`);
  };
  for (const { rules } of chains.values()) {
    for (const step of rules.flatMap(({ expressions }) => expressions)) {
      if (step.name === 'lookup' || step.name === 'dynset') needSet(step.set);
      if (step.name === 'immediate' && 'verdict' in step.data) needChain(step.data.verdict?.chain);
    }
  }
  for (const elements of verdictMaps(sets)) {
    for (const { data } of elements.values())
      if (data !== undefined && 'verdict' in data) needChain(data.verdict.chain);
  }
}
