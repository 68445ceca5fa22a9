import { constants } from 'node:os';
import type { IpFamily } from '../../../base/ip.ts';
import { MessageWriter } from '../../../netlink/codec/message-writer.ts';
import type { SocketConnection } from '../../../netlink/transport/connection.ts';
import { NetlinkError } from '../../../netlink/error.ts';
import { beginBatch, endBatch, decodeGeneration, getGeneration } from '../../../netlink/family/nf-tables/nft-batch.ts';
import {
  decodeChain,
  decodeChainUse,
  deleteChain,
  dumpChains,
  getChain,
  newChain,
} from '../../../netlink/family/nf-tables/chain.ts';
import {
  type NftElement,
  decodeElements,
  deleteElements,
  dumpElements,
  getElement,
  newElements,
} from '../../../netlink/family/nf-tables/element.ts';
import {
  type ObservedRule,
  decodeRule,
  deleteRules,
  dumpRules,
  newRule,
} from '../../../netlink/family/nf-tables/rule.ts';
import { decodeSet, deleteSet, dumpSetHeaders, newSet } from '../../../netlink/family/nf-tables/set.ts';
import {
  NFT_TABLE_F_DORMANT,
  type NftTable,
  decodeTable,
  deleteTable,
  dumpTables,
  newTable,
} from '../../../netlink/family/nf-tables/table.ts';
import { tableComment } from '../../../netlink/family/nf-tables/user-data.ts';
import { answerOf, messages } from '../../../netlink/netlink-message.ts';
import { TABLE_OWNED } from '../../kernel-error.ts';
import { askAll } from '../../linux/batch.ts';
import { refusalOf, refusalsOf } from '../../linux/netlink-failure.ts';
import { TABLE, TABLE_COMMENT } from '../../../state/nft-table.ts';
import type { NftMessage, SetDefinition } from './nft-message.ts';
import type { ElementOf, NftFindings, NftLookup, NftPort, NftRefusal, ObservedChain } from './nft-port.ts';

const COMMENT = tableComment(TABLE_COMMENT);
/** Of a table that no packet ever finds. */
const TRIAL_TABLE = 'kube-proxy-trial';
/** A transaction is one datagram. */
const ONE_DATAGRAM = { messages: Infinity, bytes: Infinity };
const ABSENT: ReadonlySet<number> = new Set([constants.errno.ENOENT]);

/** The tables in the kernel of one network namespace. */
export class NftLink implements NftPort {
  readonly #connection: SocketConnection;
  readonly #onWrite: (messages: number) => void;

  constructor(connection: SocketConnection, onWrite: (messages: number) => void) {
    this.#connection = connection;
    this.#onWrite = onWrite;
  }

  async hasTable(family: IpFamily): Promise<boolean> {
    return (await this.#table(family)) !== undefined;
  }

  async isDormant(family: IpFamily): Promise<boolean> {
    const table = await this.#table(family);
    return ((table?.flags ?? 0) & NFT_TABLE_F_DORMANT) !== 0;
  }

  async #table(family: IpFamily): Promise<NftTable | undefined> {
    const tables = await askAll(this.#connection, [family], {
      operation: 'NFT_MSG_GETTABLE',
      write: dumpTables,
      read: ({ payload }) => decodeTable(payload),
    });
    return tables.find(({ name }) => name === TABLE);
  }

  async sets(family: IpFamily): Promise<readonly SetDefinition[]> {
    return await askAll(this.#connection, [family], {
      operation: 'NFT_MSG_GETSET',
      write: (writer) => dumpSetHeaders(writer, family, TABLE),
      read: ({ payload }) => decodeSet(payload),
      absent: ABSENT,
    });
  }

  async chains(family: IpFamily): Promise<readonly ObservedChain[]> {
    return await this.#chainsOf(family, TABLE);
  }

  /** Returns the names of the chains of any table. */
  async chainNames(family: IpFamily, table: string): Promise<readonly string[]> {
    return (await this.#chainsOf(family, table)).map(({ name }) => name);
  }

  async #chainsOf(family: IpFamily, wanted: string): Promise<readonly ObservedChain[]> {
    return await askAll(this.#connection, [family], {
      operation: 'NFT_MSG_GETCHAIN',
      write: dumpChains,
      read: ({ payload }) => {
        const { table, bound, ...chain } = decodeChain(payload);
        return table === wanted && !bound ? chain : undefined;
      },
    });
  }

  async rules(family: IpFamily): Promise<readonly ObservedRule[]> {
    return await askAll(this.#connection, [family], {
      operation: 'NFT_MSG_GETRULE',
      write: (writer) => dumpRules(writer, family, TABLE),
      read: ({ payload }) => {
        const { table, ...rule } = decodeRule(payload);
        return table === TABLE ? rule : undefined;
      },
      absent: ABSENT,
    });
  }

  async eachElement(family: IpFamily, set: string, visit: (element: NftElement) => void): Promise<void> {
    await askAll(this.#connection, [set], {
      operation: 'NFT_MSG_GETSETELEM',
      write: (writer) => dumpElements(writer, family, { table: TABLE, set }),
      read: ({ payload }) => {
        for (const element of decodeElements(payload)) visit(element);
        return undefined;
      },
      absent: ABSENT,
    });
  }

  async lookUp(family: IpFamily, { elements = [], chains = [] }: NftLookup): Promise<NftFindings> {
    const found = { generation: 0, elements: [] as ElementOf[], chains: new Map<string, number>() };
    await askAll<LookedUp, never>(
      this.#connection,
      ['generation', ...chains.map((chain) => ({ chain })), ...elements],
      {
        operation: 'NFT_MSG_GET*',
        write: (writer, wanted) => {
          if (wanted === 'generation') return getGeneration(writer);
          if ('chain' in wanted) return getChain(writer, family, { table: TABLE, name: wanted.chain });
          return getElement(writer, family, { table: TABLE, set: wanted.set, elements: [{ key: wanted.key }] });
        },
        read: ({ payload }, wanted) => {
          if (wanted === 'generation') found.generation = decodeGeneration(payload);
          else if ('chain' in wanted) found.chains.set(wanted.chain, decodeChainUse(payload));
          else for (const element of decodeElements(payload)) found.elements.push({ set: wanted.set, ...element });
          return undefined;
        },
        absent: ABSENT,
      },
    );
    return found;
  }

  async commit(family: IpFamily, changes: readonly NftMessage[], generation?: number): Promise<NftRefusal | undefined> {
    const writer = new MessageWriter(ONE_DATAGRAM, bytesOf(changes));
    beginBatch(writer, generation);
    for (const [id, change] of changes.entries()) writeMessage(writer, { family, table: TABLE }, change, id + 1);
    const refusal = await this.#send(writer);
    return refusal?.code === 'EPERM' ? await this.#namingOwner(family, refusal) : refusal;
  }

  /** The kernel also says EPERM, whatever our rights are, if another process owns the table. */
  async #namingOwner(family: IpFamily, refusal: NftRefusal): Promise<NftRefusal> {
    const owner = (await this.#table(family))?.owner;
    if (owner === undefined) return refusal;
    const text = `another process owns it (flags owner; netlink port ${owner}, usually the process ID), and only that one can change it: stop that process`;
    return { ...refusal, code: TABLE_OWNED, text };
  }

  async tryOut(family: IpFamily, changes: readonly NftMessage[]): Promise<NftRefusal | undefined> {
    const writer = new MessageWriter(ONE_DATAGRAM, bytesOf(changes));
    beginBatch(writer, undefined);
    newTable(writer, family, { name: TRIAL_TABLE, flags: NFT_TABLE_F_DORMANT });
    for (const [id, change] of changes.entries()) writeMessage(writer, { family, table: TRIAL_TABLE }, change, id + 1);
    deleteTable(writer, family, TRIAL_TABLE);
    return await this.#send(writer);
  }

  async #send(writer: MessageWriter): Promise<NftRefusal | undefined> {
    // Without a change, no message would be acknowledged.
    if (writer.messages === 1) return undefined;
    endBatch(writer);
    this.#onWrite(writer.messages - 2);
    const { bytes, segments } = writer.finish(this.#connection.sequence(writer.messages));
    try {
      return firstRefusal(await this.#connection.transact(bytes, segments));
    } catch (error) {
      if (!(error instanceof NetlinkError)) throw error;
      const [refusal] = refusalsOf([undefined], error);
      return refusal === undefined ? undefined : named(refusal);
    }
  }
}

/** What one request reads. */
type LookedUp = 'generation' | { readonly chain: string } | Pick<ElementOf, 'set' | 'key'>;

/** More than the headers of a message with elements. */
const HEADERS = 128;
const ROOM_FOR_OTHERS = 16 * 1024;

/** A buffer that grows would be copied, and twice as long as needed. */
function bytesOf(changes: readonly NftMessage[]): number {
  const elements = changes.flatMap((change) => ('elements' in change ? change.elements.messages : []));
  return elements.reduce((sum, { length }) => sum + length + HEADERS, ROOM_FOR_OTHERS);
}

/** linux/errno.h; Node.js has no name for it, because user space usually does not see it. */
const ERESTART = 85;

function named({ errno, code, text }: NftRefusal): NftRefusal {
  return { errno, code: errno === ERESTART ? 'ERESTART' : code, text };
}

function firstRefusal(reply: Uint8Array): NftRefusal | undefined {
  for (const message of messages(reply)) {
    const answer = answerOf(message);
    if (answer !== undefined && answer.errno !== 0) return named(refusalOf(undefined, answer, message));
  }
  return undefined;
}

interface Place {
  readonly family: IpFamily;
  readonly table: string;
}

/** Appends the messages of a change. `id` identifies a new set in its batch. */
function writeMessage(writer: MessageWriter, { family, table }: Place, change: NftMessage, id: number): void {
  switch (change.kind) {
    case 'new-table':
      newTable(writer, family, { name: table, userData: COMMENT });
      break;
    case 'delete-table':
      deleteTable(writer, family, table);
      break;
    case 'new-set':
      newSet(writer, family, { ...change.set, table }, id);
      break;
    case 'delete-set':
      deleteSet(writer, family, { table, name: change.name });
      break;
    case 'new-chain':
      newChain(writer, family, { ...change.chain, table });
      break;
    case 'delete-chain':
      deleteChain(writer, family, { table, name: change.name });
      break;
    case 'flush-chain':
      deleteRules(writer, family, { table, chain: change.name });
      break;
    case 'new-rule':
      newRule(writer, family, { table, chain: change.chain, expressions: change.expressions });
      break;
    case 'new-elements':
    case 'delete-elements': {
      const write = change.kind === 'new-elements' ? newElements : deleteElements;
      for (const elements of change.elements.messages) {
        write(writer, family, { table, set: change.set, elements });
      }
    }
  }
}
