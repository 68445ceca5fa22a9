import { type Cidr, formatCidr } from '../../../base/cidr.ts';
import { type IpAddress, type IpFamily, familyOf, formatHostPort, formatIp } from '../../../base/ip.ts';
import type { Port } from '../../../base/port.ts';
import { PROTOCOL_NUMBER, type Protocol } from '../../../base/protocol.ts';
import { addressFamily } from '../../../netlink/codec/address-family.ts';
import { NFT_VERDICT } from '../../../netlink/family/nf-tables/data.ts';
import type { NftExpression } from '../../../netlink/family/nf-tables/expression.ts';
import { nftFamily } from '../../../state/nft-table.ts';
import type { RulePart } from '../port/nft-message.ts';
import { addressKey, addressLength, portKey } from './keys.ts';

function part(text: string, ...expressions: readonly NftExpression[]): RulePart {
  return { expressions, text };
}

/** linux/netfilter/nf_tables.h: enum nft_registers, nft_payload_bases, nft_meta_keys, nft_ct_keys, nft_cmp_ops. */
const NFT_REG_VERDICT = 0;
const NFT_REG_1 = 1;
const NFT_REG32_00 = 8;
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
const NFT_REJECT_ICMP_UNREACH = 0;
/** linux/netfilter/nf_nat.h. */
const NF_NAT_RANGE_MAP_IPS = 1;
const NF_NAT_RANGE_PROTO_SPECIFIED = 2;
const NF_NAT_RANGE_PROTO_RANDOM_FULLY = 16;
/** linux/netfilter/nf_conntrack_common.h: NF_CT_STATE_BIT(IP_CT_NEW). */
const STATE_NEW = 8;
/** linux/if.h. */
const IFNAMSIZ = 16;
/** linux/in.h: IPPROTO_ICMP, IPPROTO_ICMPV6, with their names in nft; the type of an echo request. */
const ICMP = {
  4: { number: 1, protocol: 'icmp', type: 'icmp type', echoRequest: 8 },
  6: { number: 58, protocol: 'ipv6-icmp', type: 'icmpv6 type', echoRequest: 128 },
} as const;

/** The register at this offset, in units of 4 bytes, by the number with which the kernel reports it. */
function register(at: number): number {
  return at % 4 === 0 ? NFT_REG_1 + at / 4 : NFT_REG32_00 + at;
}

type Field = 'source' | 'destination' | 'protocol' | 'port';

function fieldLength(field: Field, family: IpFamily): number {
  return field === 'source' || field === 'destination' ? addressLength(family) / 4 : 1;
}

function fieldText(field: Field, family: IpFamily): string {
  if (field === 'protocol') return 'meta l4proto';
  if (field === 'port') return 'th dport';
  return `${nftFamily(family)} ${field === 'source' ? 'saddr' : 'daddr'}`;
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

interface Loading extends RulePart {
  /** The register after them. */
  readonly end: number;
}

/** Loads fields of the packet one after the other. */
function load(fields: readonly Field[], family: IpFamily): Loading {
  let end = 0;
  const expressions = fields.map((field) => {
    const step = loadField(field, end, family);
    end += fieldLength(field, family);
    return step;
  });
  return { expressions, text: fields.map((field) => fieldText(field, family)).join(' . '), end };
}

/** Which fields of the packet are looked up in a set. */
type Lookup = 'service' | 'service-and-source' | 'service-by-source' | 'source' | 'destination';

const LOADED: Readonly<Record<IpFamily, Readonly<Record<Lookup, Loading>>>> = { 4: lookups(4), 6: lookups(6) };

function lookups(family: IpFamily): Readonly<Record<Lookup, Loading>> {
  return {
    service: load(['destination', 'protocol', 'port'], family),
    'service-and-source': load(['destination', 'protocol', 'port', 'source'], family),
    /** The source in place of the destination: finds the service address to which a host connects that has it itself. */
    'service-by-source': load(['source', 'protocol', 'port'], family),
    source: load(['source'], family),
    destination: load(['destination'], family),
  };
}

/** Continues if the set contains the fields. */
export function inSet(set: string, fields: Lookup, family: IpFamily): RulePart {
  const { expressions, text } = LOADED[family][fields];
  return { expressions: [...expressions, { name: 'lookup', set, source: NFT_REG_1 }], text: `${text} @${set}` };
}

/** Does what a verdict map has for the packet's address, protocol and port; continues if it has nothing. */
export function serviceVerdict(map: string, family: IpFamily): RulePart {
  return verdictOf(map, LOADED[family].service);
}

/** Does what a verdict map has for one of its first `count` indices. */
export function chooseIndex(map: string, count: number): RulePart {
  return verdictOf(map, randomIndex(count));
}

function verdictOf(map: string, { expressions, text }: RulePart): RulePart {
  const lookup = { name: 'lookup', set: map, source: NFT_REG_1, destination: NFT_REG_VERDICT } as const;
  return part(`${text} vmap @${map}`, ...expressions, lookup);
}

/** Loads a random number below `count`. */
export function randomIndex(count: number, at = 0): RulePart {
  const numgen = { name: 'numgen', destination: register(at), modulus: count, type: NFT_NG_RANDOM } as const;
  return part(`numgen random mod ${count}`, numgen);
}

/** Loads a number of 32 bits. nft has no word for a constant in a key, but for one of a single random number. */
function loadNumber(offset: number, at: number): RulePart {
  const { expressions, text } = randomIndex(1, at);
  const constant = expressions.map((each) => ({ ...each, offset }));
  return part(`${text}${offset === 0 ? '' : ` offset ${offset}`}`, ...constant);
}

/** Translates the destination to one of the first `count` endpoints that a map has for the packet's service port. */
export function chooseEndpoint(map: string, count: number, family: IpFamily): RulePart {
  const { service } = LOADED[family];
  return translateByMap(map, [service, randomIndex(count, service.end)], family);
}

/** Translates the destination of packets of a protocol to one of the first `count` endpoints of a list in a map. */
export function chooseOfList(
  map: string,
  list: readonly number[],
  count: number,
  protocol: Protocol,
  family: IpFamily,
): RulePart {
  return rule(
    ofProtocol(protocol),
    translateByMap(map, [...list.map(loadNumber), randomIndex(count, list.length)], family),
  );
}

function translateByMap(map: string, key: readonly RulePart[], family: IpFamily): RulePart {
  return part(
    `dnat ${nftFamily(family)} to ${key.map(({ text }) => text).join(' . ')} map @${map}`,
    ...key.flatMap(({ expressions }) => expressions),
    { name: 'lookup', set: map, source: NFT_REG_1, destination: NFT_REG_1 },
    translate(register(0), register(fieldLength('destination', family)), family),
  );
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

function loadValue(at: number, value: Uint8Array): NftExpression {
  return { name: 'immediate', destination: register(at), data: { value } };
}

/** Translates the destination of packets of a protocol to an endpoint. */
export function translateTo(
  protocol: Protocol,
  { address, port }: { readonly address: IpAddress; readonly port: number },
): RulePart {
  const translation = part(
    `dnat to ${formatHostPort(address, port)}`,
    loadValue(0, addressKey(address)),
    loadValue(4, portKey(port)),
    translate(register(0), register(4), familyOf(address)),
  );
  return rule(ofProtocol(protocol), translation);
}

/** Remembers the packet's service port and source address in a set for some time. */
export function rememberClient(set: string, seconds: number, family: IpFamily): RulePart {
  const { expressions, text } = LOADED[family]['service-and-source'];
  return part(`update @${set} { ${text} timeout ${seconds}s }`, ...expressions, {
    name: 'dynset',
    set,
    operation: NFT_DYNSET_OP_UPDATE,
    key: NFT_REG_1,
    timeout: seconds * 1_000,
  });
}

function u32(value: number): { readonly value: Uint8Array } {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return { value: bytes };
}

function compare(value: Uint8Array, operation = NFT_CMP_EQ): NftExpression {
  return { name: 'cmp', source: NFT_REG_1, operation, data: { value } };
}

function bitwise(length: number, mask: Uint8Array, xor: Uint8Array): NftExpression {
  return {
    name: 'bitwise',
    source: NFT_REG_1,
    destination: NFT_REG_1,
    length,
    mask: { value: mask },
    xor: { value: xor },
  };
}

function bits(mask: number, xor: number): NftExpression {
  return bitwise(4, u32(mask).value, u32(xor).value);
}

export function ofProtocol(protocol: Protocol): RulePart {
  return ofProtocolNumber(PROTOCOL_NUMBER[protocol], protocol.toLowerCase());
}

function ofProtocolNumber(number: number, name: string): RulePart {
  const loading = { name: 'meta', destination: NFT_REG_1, key: NFT_META_L4PROTO } as const;
  return part(`meta l4proto ${name}`, loading, compare(Uint8Array.of(number)));
}

/** Continues for the first packet of a connection. */
export const NEW_CONNECTION: RulePart = part(
  'ct state new',
  { name: 'ct', destination: NFT_REG_1, key: NFT_CT_STATE },
  bits(STATE_NEW, 0),
  compare(u32(0).value, NFT_CMP_NEQ),
);

/** Continues if the source is in the network; with `not`, if it is outside. */
export function sourceIn({ address, prefix }: Cidr, not = false): RulePart {
  const family = familyOf(address);
  const length = addressLength(family);
  const operation = not ? NFT_CMP_NEQ : NFT_CMP_EQ;
  const { expressions, text: field } = LOADED[family].source;
  const network = prefix < 8 * length ? formatCidr({ address, prefix }) : formatIp(address);
  const text = `${field} ${not ? '!= ' : ''}${network}`;
  // As nft writes it: the whole bytes of the prefix alone.
  if (prefix > 0 && prefix % 8 === 0) {
    const bytes = prefix / 8;
    const loading = expressions.map((step) => (step.name === 'payload' ? { ...step, length: bytes } : step));
    return part(text, ...loading, compare(addressKey(address).subarray(0, bytes), operation));
  }
  const mask = Uint8Array.from({ length }, (_, at) => 256 - 2 ** (8 - Math.min(8, Math.max(0, prefix - at * 8))));
  const masked = bitwise(length, mask, new Uint8Array(length));
  return part(text, ...expressions, masked, compare(addressKey(address), operation));
}

/** Continues if the packet came in through another interface; a name that ends with + stands for all that begin so. */
export function notFromInterface(name: string): RulePart {
  const prefix = name.replace(/\+$/, '');
  const bytes = new TextEncoder().encode(prefix);
  const whole = new Uint8Array(IFNAMSIZ);
  whole.set(bytes.subarray(0, IFNAMSIZ - 1));
  return part(
    `iifname != "${name.endsWith('+') ? `${prefix}*` : name}"`,
    { name: 'meta', destination: NFT_REG_1, key: NFT_META_IIFNAME },
    compare(name.endsWith('+') ? bytes : whole, NFT_CMP_NEQ),
  );
}

/** Continues for ICMP (ICMPv6) echo requests. */
export function echoRequest(family: IpFamily): RulePart {
  const icmp = ICMP[family];
  const type = part(
    `${icmp.type} echo-request`,
    { name: 'payload', destination: NFT_REG_1, base: NFT_PAYLOAD_TRANSPORT_HEADER, offset: 0, length: 1 },
    compare(Uint8Array.of(icmp.echoRequest)),
  );
  return rule(ofProtocolNumber(icmp.number, icmp.protocol), type);
}

/** Translates the destination to this node. */
export const TO_THIS_NODE: RulePart = part('redirect', { name: 'redir' });

const LOAD_MARK: NftExpression = { name: 'meta', destination: NFT_REG_1, key: NFT_META_MARK };
const STORE_MARK: NftExpression = { name: 'meta', key: NFT_META_MARK, source: NFT_REG_1 };

function markText(mark: number): string {
  return `0x${(mark >>> 0).toString(16).padStart(8, '0')}`;
}

/** Sets bits of the mark. */
export function setMark(mark: number): RulePart {
  return part(`meta mark set meta mark | ${markText(mark)}`, LOAD_MARK, bits(~mark >>> 0, mark), STORE_MARK);
}

/** Inverts bits of the mark. */
export function invertMark(mark: number): RulePart {
  return part(`meta mark set meta mark ^ ${markText(mark)}`, LOAD_MARK, bits(0xffff_ffff, mark), STORE_MARK);
}

/** Continues if none of the bits of the mark is set. */
export function unmarked(mark: number): RulePart {
  return part(`meta mark & ${markText(mark)} == ${markText(0)}`, LOAD_MARK, bits(mark, 0), compare(u32(0).value));
}

/** Masquerades; `ports` needs a protocol that has ports. */
export function masquerade(
  randomFully: boolean,
  ports: { readonly from: Port; readonly to: Port } | undefined,
): RulePart {
  const random = randomFully ? NF_NAT_RANGE_PROTO_RANDOM_FULLY : 0;
  const randomText = randomFully ? ' fully-random' : '';
  if (ports === undefined) return part(`masquerade${randomText}`, { name: 'masq', flags: random });
  const { from, to } = ports;
  return part(`masquerade to :${from}-${to}${randomText}`, loadValue(0, portKey(from)), loadValue(4, portKey(to)), {
    name: 'masq',
    flags: random | NF_NAT_RANGE_PROTO_SPECIFIED,
    port: register(0),
    lastPort: register(4),
  });
}

/** Refuses the packet with an ICMP error that says that the port is unreachable. */
export function reject(family: IpFamily): RulePart {
  return part('reject', { name: 'reject', type: NFT_REJECT_ICMP_UNREACH, code: family === 4 ? 3 : 4 });
}

function verdict(text: string, code: number, chain?: string): RulePart {
  const data = { verdict: chain === undefined ? { code } : { code, chain } };
  return part(text, { name: 'immediate', destination: NFT_REG_VERDICT, data });
}

export const RETURN = verdict('return', NFT_VERDICT.return);
export const DROP = verdict('drop', NFT_VERDICT.drop);

export function jump(chain: string): RulePart {
  return verdict(`jump ${chain}`, NFT_VERDICT.jump, chain);
}

export function goto(chain: string): RulePart {
  return verdict(`goto ${chain}`, NFT_VERDICT.goto, chain);
}

export function rule(...parts: readonly RulePart[]): RulePart {
  let expressions: readonly NftExpression[] = [];
  let text = '';
  for (const each of parts) {
    expressions = expressions.concat(each.expressions);
    text = text === '' ? each.text : `${text} ${each.text}`;
  }
  return { expressions, text };
}
