import { type IpAddress, ip4FromBytes, ip6FromBytes, isIp4 } from '../../src/base/ip.ts';
import { PROTOCOL_NUMBER } from '../../src/base/protocol.ts';
import { addressKey, addressLength } from '../../src/kernel/nftables/objects/keys.ts';
import { AF_INET } from '../../src/netlink/codec/address-family.ts';
import { NFT_VERDICT } from '../../src/netlink/family/nf-tables/data.ts';
import type { NftExpression } from '../../src/netlink/family/nf-tables/expression.ts';
import type { NftElements } from './nft-elements.ts';
import type { NftRegisters } from './nft-registers.ts';
import type { Passage, Step, Verdict } from './ruleset.ts';

/** A value or a verdict. */
interface Data {
  readonly value?: Uint8Array | undefined;
  readonly verdict?: { readonly code: number; readonly chain?: string | undefined } | undefined;
}

type Sets = ReadonlyMap<string, NftElements>;
type Compilers = {
  readonly [Name in NftExpression['name']]: (
    expression: Extract<NftExpression, { readonly name: Name }>,
    registers: NftRegisters,
    sets: Sets,
  ) => Step;
};

/** Compiles an expression, which reads and writes registers. Throws on what it does not know. */
export function compileExpression(expression: NftExpression, registers: NftRegisters, sets: Sets): Step {
  const compile = COMPILERS[expression.name] as (of: NftExpression, registers: NftRegisters, sets: Sets) => Step;
  return compile(expression, registers, sets);
}

/** linux/netfilter/nf_tables.h: enum nft_registers, nft_payload_bases, nft_meta_keys, nft_ct_keys, nft_cmp_ops, nft_nat_types. */
const NFT_REG_VERDICT = 0;
const NFT_PAYLOAD_NETWORK_HEADER = 1;
const NFT_PAYLOAD_TRANSPORT_HEADER = 2;
const NFT_META_MARK = 3;
const NFT_META_IIFNAME = 6;
const NFT_META_L4PROTO = 16;
const NFT_CT_STATE = 0;
const NFT_CMP_EQ = 0;
const NFT_CMP_NEQ = 1;
const NFT_NG_RANDOM = 1;
const NFT_NAT_DNAT = 1;
const NFT_DYNSET_OP_UPDATE = 1;
/** linux/netfilter/nf_conntrack_common.h: NF_CT_STATE_BIT(IP_CT_NEW). */
const STATE_NEW = 8;
const IFNAMSIZ = 16;

const COMPILERS: Compilers = {
  payload: ({ destination, base, offset, length }, registers) => {
    const header = HEADERS[base];
    if (header === undefined) throw new Error(`unknown header ${base}`);
    return stored(registers, destination, (passage) => header(passage).subarray(offset, offset + length));
  },
  meta: ({ destination, source, key }, registers) => {
    if (destination !== undefined) return stored(registers, destination, one(META, key, 'meta'));
    if (source === undefined || key !== NFT_META_MARK) throw new Error(`unknown meta ${key}`);
    return (passage) => {
      passage.mark = numberOf(registers.load(source, 4));
      return true;
    };
  },
  ct: ({ destination, key }, registers) => {
    if (key !== NFT_CT_STATE) throw new Error(`unknown ct ${key}`);
    return stored(registers, destination, () => numberBytes(STATE_NEW));
  },
  cmp: ({ source, operation, data }, registers) => {
    if (operation !== NFT_CMP_EQ && operation !== NFT_CMP_NEQ) throw new Error(`unknown comparison ${operation}`);
    const value = valueOf(data);
    return () => isEqual(registers.load(source, value.length), value) === (operation === NFT_CMP_EQ);
  },
  bitwise: ({ source, destination, length, mask, xor }, registers) => {
    const [masked, inverted] = [valueOf(mask), valueOf(xor)];
    return stored(registers, destination, () =>
      registers.load(source, length).map((byte, at) => (byte & (masked[at] ?? 0)) ^ (inverted[at] ?? 0)),
    );
  },
  lookup: ({ set, source, destination, flags = 0 }, registers, sets) => {
    if (flags !== 0) throw new Error(`unknown flags ${flags} of a lookup`);
    const elements = found(sets, set);
    const key = (): Uint8Array => registers.load(source, elements.keyLength);
    if (destination === undefined) return (passage) => elements.has(key(), passage);
    return () => {
      const data = elements.dataOf(key());
      return data !== undefined && assigned(data, destination, registers);
    };
  },
  immediate:
    ({ destination, data }, registers) =>
    () =>
      assigned(data, destination, registers),
  dynset: ({ set, operation, key, timeout }, registers, sets) => {
    if (operation !== NFT_DYNSET_OP_UPDATE) throw new Error(`unknown change ${operation} of a set`);
    const elements = found(sets, set);
    return (passage) => {
      elements.addClient(registers.load(key, elements.keyLength), timeout, passage);
      return true;
    };
  },
  numgen: ({ destination, modulus, type, offset = 0 }, registers) => {
    if (type !== NFT_NG_RANDOM) throw new Error(`unknown generator ${type} of numbers`);
    const probabilities = Array.from({ length: modulus }, () => 1 / modulus);
    return stored(registers, destination, ({ choose }) => numberBytes(choose(probabilities) + offset));
  },
  nat: ({ type, family, address, port }, registers) => {
    if (type !== NFT_NAT_DNAT) throw new Error(`unknown translation ${type}`);
    const length = addressLength(family === AF_INET ? 4 : 6);
    return (passage) => {
      passage.destination = addressOf(registers.load(address, length));
      passage.port = portOf(registers.load(port, 2));
      passage.isTranslated = true;
      return { kind: 'accept' };
    };
  },
  masq: () => (passage) => {
    passage.isMasqueraded = true;
    return { kind: 'accept' };
  },
  redir: () => () => {
    throw new Error('packets that are redirected are not traced');
  },
  reject: () => () => ({ kind: 'reject' }),
};

/** The headers of the packet, as far as rules read them. */
const HEADERS: Readonly<Record<number, (passage: Passage) => Uint8Array>> = {
  [NFT_PAYLOAD_NETWORK_HEADER]: networkHeader,
  [NFT_PAYLOAD_TRANSPORT_HEADER]: ({ port }) => Uint8Array.of(0, 0, port >> 8, port & 255),
};

/** Rules read the same header several times. */
let last: { readonly source: IpAddress; readonly destination: IpAddress; readonly bytes: Uint8Array } | undefined;

function networkHeader({ source, destination }: Passage): Uint8Array {
  if (last?.source === source && last.destination === destination) return last.bytes;
  const [length, sourceAt] = isIp4(source) ? [20, 12] : [40, 8];
  const bytes = new Uint8Array(length);
  const from = addressKey(source);
  bytes.set(from, sourceAt);
  bytes.set(addressKey(destination), sourceAt + from.length);
  last = { source, destination, bytes };
  return bytes;
}

const META: Readonly<Record<number, (passage: Passage) => Uint8Array>> = {
  [NFT_META_MARK]: ({ mark }) => numberBytes(mark),
  [NFT_META_L4PROTO]: ({ protocol }) => Uint8Array.of(PROTOCOL_NUMBER[protocol]),
  [NFT_META_IIFNAME]: ({ through }) => {
    const bytes = new Uint8Array(IFNAMSIZ);
    bytes.set(new TextEncoder().encode(through));
    return bytes;
  },
};

function one<T>(table: Readonly<Record<number, T>>, key: number, what: string): T {
  const value = table[key];
  if (value === undefined) throw new Error(`unknown ${what} ${key}`);
  return value;
}

function stored(registers: NftRegisters, destination: number, value: (passage: Passage) => Uint8Array): Step {
  return (passage) => {
    registers.store(destination, value(passage));
    return true;
  };
}

/** Stores a value, or returns a verdict. */
function assigned(data: Data, destination: number, registers: NftRegisters): true | Verdict {
  if (data.verdict !== undefined) {
    if (destination !== NFT_REG_VERDICT) throw new Error(`a verdict in register ${destination}`);
    return verdictOf(data.verdict);
  }
  registers.store(destination, valueOf(data));
  return true;
}

function verdictOf({ code, chain = '' }: NonNullable<Data['verdict']>): Verdict {
  switch (code) {
    case NFT_VERDICT.jump:
      return { kind: 'jump', chain };
    case NFT_VERDICT.goto:
      return { kind: 'goto', chain };
    case NFT_VERDICT.return:
      return { kind: 'return' };
    case NFT_VERDICT.drop:
      return { kind: 'drop' };
    default:
      throw new Error(`unknown verdict ${code}`);
  }
}

function found(sets: Sets, name: string): NftElements {
  const set = sets.get(name);
  if (set === undefined) throw new Error(`no set ${name}`);
  return set;
}

function valueOf({ value }: Data): Uint8Array {
  if (value === undefined) throw new Error('no value');
  return value;
}

function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

/** In host byte order, little-endian. */
function numberBytes(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

function numberOf(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
}

function portOf(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint16(0);
}

function addressOf(bytes: Uint8Array): IpAddress {
  return bytes.length === 4 ? ip4FromBytes(bytes, 0) : ip6FromBytes(bytes, 0);
}
