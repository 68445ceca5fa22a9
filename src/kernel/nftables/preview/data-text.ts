import { type IpFamily, formatIp } from '../../../base/ip.ts';
import { protocolFromNumber } from '../../../base/protocol.ts';
import { readU32 } from '../../../netlink/codec/bytes.ts';
import type { NftData } from '../../../netlink/family/nf-tables/data.ts';
import { NFT_VERDICT } from '../../../netlink/family/nf-tables/data.ts';
import { addressAt, portAt } from '../objects/keys.ts';
import type { SetDefinition } from '../port/nft-message.ts';
import {
  AFFINITY_ENDPOINTS,
  CLIENTS,
  SOURCES,
  TYPE,
  affinityMap,
  affinitySet,
  constantSets,
  sourcesSet,
} from '../objects/sets.ts';

/** The name that nft has for a type of sets, an expression of that type, and the bytes of a value. */
interface FieldType {
  readonly name: string;
  readonly expression: string;
  readonly size: number;
  readonly format: (bytes: Uint8Array, at: number) => string;
}

const FIELD_TYPES: ReadonlyMap<number, FieldType> = new Map<number, FieldType>([
  [
    TYPE.integer,
    {
      name: 'integer',
      expression: 'numgen random mod 1',
      size: 4,
      format: (bytes, at) => String(readU32(bytes, at)),
    },
  ],
  [
    TYPE.ipv4,
    { name: 'ipv4_addr', expression: 'ip daddr', size: 4, format: (bytes, at) => formatIp(addressAt(bytes, at, 4)) },
  ],
  [
    TYPE.ipv6,
    { name: 'ipv6_addr', expression: 'ip6 daddr', size: 16, format: (bytes, at) => formatIp(addressAt(bytes, at, 6)) },
  ],
  [
    TYPE.protocol,
    {
      name: 'inet_proto',
      expression: 'meta l4proto',
      size: 1,
      format: (bytes, at) => protocolText(bytes[at] as number),
    },
  ],
  [
    TYPE.port,
    { name: 'inet_service', expression: 'th dport', size: 2, format: (bytes, at) => String(portAt(bytes, at)) },
  ],
]);

function protocolText(number: number): string {
  return protocolFromNumber(number)?.toLowerCase() ?? String(number);
}

/** Returns the types of the fields of a key or of data. */
export function fieldTypes(type: number): readonly FieldType[] {
  const types: FieldType[] = [];
  for (let rest = type; rest > 0; rest = Math.floor(rest / 64)) {
    const found = FIELD_TYPES.get(rest % 64);
    if (found !== undefined) types.unshift(found);
  }
  return types;
}

/** Returns a key, or the value of an element, as nft lists it. */
export function valueText(type: number, bytes: Uint8Array): string {
  let at = 0;
  const fields = fieldTypes(type).map((field) => {
    const text = field.format(bytes, at);
    // A field fills whole registers of 4 bytes.
    at += 4 * Math.ceil(field.size / 4);
    return text;
  });
  return fields.join(' . ');
}

function verdictText({ code, chain = '' }: { readonly code: number; readonly chain?: string | undefined }) {
  switch (code) {
    case NFT_VERDICT.jump:
      return `jump ${chain}`;
    case NFT_VERDICT.goto:
      return `goto ${chain}`;
    case NFT_VERDICT.return:
      return 'return';
    case NFT_VERDICT.drop:
      return 'drop';
    default:
      return 'accept';
  }
}

/** Returns what a key leads to, as nft lists it. */
export function dataText(data: NftData, { dataType = 0 }: Pick<SetDefinition, 'dataType'>): string {
  return 'verdict' in data ? verdictText(data.verdict) : valueText(dataType, data.value);
}

/** Returns the definition of one of our sets and maps. */
export function definitionOf(name: string, family: IpFamily): SetDefinition | undefined {
  if (name.startsWith(CLIENTS)) return affinitySet(name, 0, family);
  if (name.startsWith(AFFINITY_ENDPOINTS)) return affinityMap(name);
  if (name.startsWith(SOURCES)) return sourcesSet(name, family);
  return CONSTANT_SETS[family].get(name);
}

const CONSTANT_SETS = { 4: byName(4), 6: byName(6) };

function byName(family: IpFamily): ReadonlyMap<string, SetDefinition> {
  return new Map(constantSets(family).map((set) => [set.name, set]));
}
