import type { Cidr } from '../../../base/cidr.ts';
import { type IpAddress, type IpFamily, familyOf } from '../../../base/ip.ts';
import type { Port } from '../../../base/port.ts';
import { PROTOCOL_NUMBER, type Protocol } from '../../../base/protocol.ts';
import { addressFamily } from '../../../netlink/codec/address-family.ts';
import { NFT_VERDICT } from '../../../netlink/family/nf-tables/data.ts';
import type { NftExpression } from '../../../netlink/family/nf-tables/expression.ts';
import { addressKey, addressLength, portKey } from './keys.ts';

/** The expressions of a rule, or of a part of it. */
export type Steps = readonly NftExpression[];

/** linux/netfilter/nf_tables.h: enum nft_registers, nft_payload_bases, nft_meta_keys, nft_ct_keys, nft_cmp_ops. */
export const NFT_REG_VERDICT = 0;
export const NFT_REG_1 = 1;
export const NFT_REG32_00 = 8;
export const NFT_PAYLOAD_NETWORK_HEADER = 1;
const NFT_PAYLOAD_TRANSPORT_HEADER = 2;
export const NFT_META_MARK = 3;
export const NFT_META_IIFNAME = 6;
export const NFT_META_L4PROTO = 16;
const NFT_CT_STATE = 0;
const NFT_CMP_EQ = 0;
export const NFT_CMP_NEQ = 1;
const NFT_NG_RANDOM = 1;
const NFT_NAT_DNAT = 1;
const NFT_DYNSET_OP_UPDATE = 1;
const NFT_REJECT_ICMP_UNREACH = 0;
/** linux/netfilter/nf_nat.h. */
const NF_NAT_RANGE_MAP_IPS = 1;
const NF_NAT_RANGE_PROTO_SPECIFIED = 2;
export const NF_NAT_RANGE_PROTO_RANDOM_FULLY = 16;
/** linux/netfilter/nf_conntrack_common.h: NF_CT_STATE_BIT(IP_CT_NEW). */
const STATE_NEW = 8;
/** linux/if.h. */
export const IFNAMSIZ = 16;

/** The register at this offset, in units of 4 bytes, by the number with which the kernel reports it. */
function register(at: number): number {
  return at % 4 === 0 ? NFT_REG_1 + at / 4 : NFT_REG32_00 + at;
}

type Field = 'source' | 'destination' | 'protocol' | 'port';

function fieldLength(field: Field, family: IpFamily): number {
  return field === 'source' || field === 'destination' ? addressLength(family) / 4 : 1;
}

function loadField(field: Field, at: number, family: IpFamily): NftExpression {
  const destination = register(at);
  if (field === 'protocol') return { name: 'meta', destination, key: NFT_META_L4PROTO };
  if (field === 'port') {
    return { name: 'payload', destination, base: NFT_PAYLOAD_TRANSPORT_HEADER, offset: 2, length: 2 };
  }
  const sourceOffset = family === 4 ? 12 : 8;
  const length = addressLength(family);
  const offset = field === 'source' ? sourceOffset : sourceOffset + length;
  return { name: 'payload', destination, base: NFT_PAYLOAD_NETWORK_HEADER, offset, length };
}

/** Loads fields of the packet one after the other. */
function load(fields: readonly Field[], family: IpFamily): { readonly steps: Steps; readonly end: number } {
  let end = 0;
  const steps = fields.map((field) => {
    const step = loadField(field, end, family);
    end += fieldLength(field, family);
    return step;
  });
  return { steps, end };
}

const SERVICE: readonly Field[] = ['destination', 'protocol', 'port'];

/** Which fields of the packet are looked up in a set. */
export const LOOKUP = {
  service: SERVICE,
  'service-and-source': [...SERVICE, 'source'],
  /** The source in place of the destination: finds the service address to which a host connects that has it itself. */
  'service-by-source': ['source', 'protocol', 'port'],
  source: ['source'],
  destination: ['destination'],
} as const satisfies Record<string, readonly Field[]>;

/** Continues if the set contains the fields. */
export function inSet(set: string, fields: keyof typeof LOOKUP, family: IpFamily): Steps {
  return [...load(LOOKUP[fields], family).steps, { name: 'lookup', set, source: NFT_REG_1 }];
}

/** Does what a verdict map has for the packet's address, protocol and port; continues if it has nothing. */
export function serviceVerdict(map: string, family: IpFamily): Steps {
  return [
    ...load(SERVICE, family).steps,
    { name: 'lookup', set: map, source: NFT_REG_1, destination: NFT_REG_VERDICT },
  ];
}

/** Loads a random number below `count`. */
export function randomIndex(count: number, at = 0): Steps {
  return [{ name: 'numgen', destination: register(at), modulus: count, type: NFT_NG_RANDOM }];
}

/** Loads numbers of 32 bits. nft has no word for a constant in a key, but for one of a single random number. */
function loadNumbers(numbers: readonly number[]): Steps {
  return numbers.map((offset, at) => ({
    name: 'numgen',
    destination: register(at),
    modulus: 1,
    type: NFT_NG_RANDOM,
    offset,
  }));
}

/** Translates the destination to one of the first `count` endpoints that a map has for the packet's service port. */
export function chooseEndpoint(map: string, count: number, family: IpFamily): Steps {
  const { steps, end } = load(SERVICE, family);
  return [
    ...steps,
    ...randomIndex(count, end),
    { name: 'lookup', set: map, source: NFT_REG_1, destination: NFT_REG_1 },
    translate(register(0), register(fieldLength('destination', family)), family),
  ];
}

/** Translates the destination of packets of a protocol to one of the first `count` endpoints of a list in a map. */
export function chooseOfList(
  map: string,
  list: readonly number[],
  count: number,
  protocol: Protocol,
  family: IpFamily,
): Steps {
  return [
    ...ofProtocol(protocol),
    ...loadNumbers(list),
    ...randomIndex(count, list.length),
    { name: 'lookup', set: map, source: NFT_REG_1, destination: NFT_REG_1 },
    translate(register(0), register(fieldLength('destination', family)), family),
  ];
}

/** Does what a verdict map has for one of its first `count` indices. */
export function chooseIndex(map: string, count: number): Steps {
  return [...randomIndex(count), { name: 'lookup', set: map, source: NFT_REG_1, destination: NFT_REG_VERDICT }];
}

function translate(address: number, port: number, family: IpFamily): NftExpression {
  return {
    name: 'nat',
    type: NFT_NAT_DNAT,
    family: addressFamily(family),
    address,
    lastAddress: address,
    port,
    lastPort: port,
    flags: NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED,
  };
}

/** Translates the destination of packets of a protocol to an endpoint. */
export function translateTo(
  protocol: Protocol,
  endpoint: { readonly address: IpAddress; readonly port: number },
): Steps {
  const family = familyOf(endpoint.address);
  return [
    ...ofProtocol(protocol),
    { name: 'immediate', destination: register(0), data: { value: addressKey(endpoint.address) } },
    { name: 'immediate', destination: register(4), data: { value: portKey(endpoint.port) } },
    translate(register(0), register(4), family),
  ];
}

/** Remembers the packet's service port and source address in a set for some time. */
export function rememberClient(set: string, seconds: number, family: IpFamily): Steps {
  return [
    ...load(LOOKUP['service-and-source'], family).steps,
    { name: 'dynset', set, operation: NFT_DYNSET_OP_UPDATE, key: NFT_REG_1, timeout: seconds * 1_000 },
  ];
}

function u32(value: number): { readonly value: Uint8Array } {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return { value: bytes };
}

function compare(value: Uint8Array, operation = NFT_CMP_EQ): NftExpression {
  return { name: 'cmp', source: NFT_REG_1, operation, data: { value } };
}

function bits(mask: number, xor: number): NftExpression {
  return {
    name: 'bitwise',
    source: NFT_REG_1,
    destination: NFT_REG_1,
    length: 4,
    mask: u32(mask),
    xor: u32(xor),
  };
}

export function ofProtocol(protocol: Protocol | number): Steps {
  const number = typeof protocol === 'number' ? protocol : PROTOCOL_NUMBER[protocol];
  return [{ name: 'meta', destination: NFT_REG_1, key: NFT_META_L4PROTO }, compare(Uint8Array.of(number))];
}

/** Continues for the first packet of a connection. */
export const NEW_CONNECTION: Steps = [
  { name: 'ct', destination: NFT_REG_1, key: NFT_CT_STATE },
  bits(STATE_NEW, 0),
  compare(u32(0).value, NFT_CMP_NEQ),
];

/** Continues if the source is in the network; with `not`, if it is outside. */
export function sourceIn({ address, prefix }: Cidr, not = false): Steps {
  const family = familyOf(address);
  const length = addressLength(family);
  const operation = not ? NFT_CMP_NEQ : NFT_CMP_EQ;
  const { steps } = load(['source'], family);
  // As nft writes it: the whole bytes of the prefix alone.
  if (prefix > 0 && prefix % 8 === 0) {
    const bytes = prefix / 8;
    const loading = steps.map((step) => (step.name === 'payload' ? { ...step, length: bytes } : step));
    return [...loading, compare(addressKey(address).subarray(0, bytes), operation)];
  }
  const mask = Uint8Array.from({ length }, (_, at) => 256 - 2 ** (8 - Math.min(8, Math.max(0, prefix - at * 8))));
  const xor = new Uint8Array(length);
  return [
    ...steps,
    {
      name: 'bitwise',
      source: NFT_REG_1,
      destination: NFT_REG_1,
      length,
      mask: { value: mask },
      xor: { value: xor },
    },
    compare(addressKey(address), operation),
  ];
}

/** Continues if the packet came in through another interface; a name that ends with + stands for all that begin so. */
export function notFromInterface(name: string): Steps {
  const bytes = new TextEncoder().encode(name.replace(/\+$/, ''));
  const whole = new Uint8Array(IFNAMSIZ);
  whole.set(bytes.subarray(0, IFNAMSIZ - 1));
  return [
    { name: 'meta', destination: NFT_REG_1, key: NFT_META_IIFNAME },
    compare(name.endsWith('+') ? bytes : whole, NFT_CMP_NEQ),
  ];
}

/** Continues for ICMP (ICMPv6) echo requests. */
export function echoRequest(family: IpFamily): Steps {
  const [protocol, type] = family === 4 ? [1, 8] : [58, 128];
  return [
    ...ofProtocol(protocol),
    { name: 'payload', destination: NFT_REG_1, base: NFT_PAYLOAD_TRANSPORT_HEADER, offset: 0, length: 1 },
    compare(Uint8Array.of(type)),
  ];
}

/** Translates the destination to this node. */
export const TO_THIS_NODE: Steps = [{ name: 'redir' }];

const LOAD_MARK: NftExpression = { name: 'meta', destination: NFT_REG_1, key: NFT_META_MARK };
const STORE_MARK: NftExpression = { name: 'meta', key: NFT_META_MARK, source: NFT_REG_1 };

/** Sets bits of the mark. */
export function setMark(mark: number): Steps {
  return [LOAD_MARK, bits(~mark >>> 0, mark), STORE_MARK];
}

/** Inverts bits of the mark. */
export function invertMark(mark: number): Steps {
  return [LOAD_MARK, bits(0xffff_ffff, mark), STORE_MARK];
}

/** Continues if none of the bits of the mark is set. */
export function unmarked(mark: number): Steps {
  return [LOAD_MARK, bits(mark, 0), compare(u32(0).value)];
}

/** Masquerades; `ports` needs a protocol that has ports. */
export function masquerade(randomFully: boolean, ports: { readonly from: Port; readonly to: Port } | undefined): Steps {
  const random = randomFully ? NF_NAT_RANGE_PROTO_RANDOM_FULLY : 0;
  if (ports === undefined) return [{ name: 'masq', flags: random }];
  return [
    { name: 'immediate', destination: register(0), data: { value: portKey(ports.from) } },
    { name: 'immediate', destination: register(4), data: { value: portKey(ports.to) } },
    { name: 'masq', flags: random | NF_NAT_RANGE_PROTO_SPECIFIED, port: register(0), lastPort: register(4) },
  ];
}

/** Refuses the packet with an ICMP error that says that the port is unreachable. */
export function reject(family: IpFamily): Steps {
  return [{ name: 'reject', type: NFT_REJECT_ICMP_UNREACH, code: family === 4 ? 3 : 4 }];
}

function verdict(code: number, chain?: string): Steps {
  const data = { verdict: chain === undefined ? { code } : { code, chain } };
  return [{ name: 'immediate', destination: NFT_REG_VERDICT, data }];
}

export const RETURN = verdict(NFT_VERDICT.return);
export const DROP = verdict(NFT_VERDICT.drop);

export function jump(chain: string): Steps {
  return verdict(NFT_VERDICT.jump, chain);
}

export function goto(chain: string): Steps {
  return verdict(NFT_VERDICT.goto, chain);
}

export function rule(...parts: readonly Steps[]): Steps {
  return parts.flat();
}
