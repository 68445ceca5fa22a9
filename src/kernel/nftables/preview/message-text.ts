import type { Interval } from '../../../base/cidr-intervals.ts';
import { type Ip4, type Ip6, type IpFamily, formatIp, isIp4 } from '../../../base/ip.ts';
import type { ElementList } from '../../../netlink/family/nf-tables/element-list.ts';
import type { NftHook } from '../../../netlink/family/nf-tables/chain.ts';
import {
  NFT_DATA_VERDICT,
  NFT_SET_EVAL,
  NFT_SET_INTERVAL,
  NFT_SET_TIMEOUT,
} from '../../../netlink/family/nf-tables/set.ts';
import { commentOfSet } from '../../../netlink/family/nf-tables/user-data.ts';
import { TABLE_COMMENT, nftTable } from '../../../state/nft-table.ts';
import { intervalsIn } from '../objects/firewall-objects.ts';
import type { NftMessage, SetDefinition } from '../port/nft-message.ts';
import { dataText, definitionOf, fieldTypes, valueText } from './data-text.ts';

/** Returns a change as a line of a script for nft. */
export function messageText(message: NftMessage, family: IpFamily): string {
  const table = nftTable(family);
  switch (message.kind) {
    case 'new-table':
      return `add table ${table} { comment "${TABLE_COMMENT}"; }`;
    case 'delete-table':
      return `delete table ${table}`;
    case 'new-set': {
      const { name, dataType } = message.set;
      return `add ${dataType === undefined ? 'set' : 'map'} ${table} ${name} { ${definitionText(message.set)} }`;
    }
    case 'delete-set':
      return `delete ${definitionOf(message.name, family)?.dataType === undefined ? 'set' : 'map'} ${table} ${message.name}`;
    case 'new-chain': {
      const { name, base } = message.chain;
      return `add chain ${table} ${name}${base === undefined ? '' : ` { ${hookText(base)} }`}`;
    }
    case 'delete-chain':
      return `delete chain ${table} ${message.name}`;
    case 'flush-chain':
      return `flush chain ${table} ${message.name}`;
    case 'new-rule':
      return `add rule ${table} ${message.chain} ${message.text}`;
    case 'new-elements':
    case 'delete-elements': {
      const verb = message.kind === 'new-elements' ? 'add' : 'delete';
      const elements = elementTexts(message.elements, definitionOf(message.set, family));
      return `${verb} element ${table} ${message.set} { ${elements.join(', ')} }`;
    }
  }
}

function hookText({ type, hook, priority }: NftHook): string {
  return `type ${type} hook ${hook} priority ${priority}; policy accept;`;
}

/** nft has no name for the type of a number, so it is that of an expression. */
function definitionText({ flags, keyType, dataType, timeout, userData }: SetDefinition): string {
  const key = fieldTypes(keyType);
  const data = dataType === undefined || dataType === NFT_DATA_VERDICT ? [] : fieldTypes(dataType);
  const word = key.some(({ name }) => name === 'integer') ? 'typeof' : 'type';
  const textOf = (types: typeof key): string =>
    types.map(({ name, expression }) => (word === 'type' ? name : expression)).join(' . ');
  const to = dataType === undefined ? '' : ` : ${dataType === NFT_DATA_VERDICT ? 'verdict' : textOf(data)}`;
  const words = FLAGS.flatMap(([flag, name]) => ((flags & flag) === 0 ? [] : [name]));
  const comment = userData === undefined ? undefined : commentOfSet(userData);
  return [
    `${word} ${textOf(key)}${to};`,
    ...(words.length === 0 ? [] : [`flags ${words.join(',')};`]),
    ...(timeout === undefined ? [] : [`timeout ${timeout / 1_000}s;`]),
    ...(comment === undefined ? [] : [`comment "${comment}";`]),
  ].join(' ');
}

const FLAGS: readonly (readonly [number, string])[] = [
  [NFT_SET_INTERVAL, 'interval'],
  [NFT_SET_EVAL, 'dynamic'],
  [NFT_SET_TIMEOUT, 'timeout'],
];

function elementTexts(elements: ElementList, set: SetDefinition | undefined): readonly string[] {
  if (set === undefined) return Array.from(elements, ({ key }) => `0x${Buffer.from(key).toString('hex')}`);
  if ((set.flags & NFT_SET_INTERVAL) !== 0) {
    const family = set.keyLength === 4 ? 4 : 6;
    return intervalsIn(elements, family).map(intervalText);
  }
  return Array.from(elements, ({ key, data }) => {
    // The catch-all element.
    const text = key.length === 0 ? '*' : valueText(set.keyType, key);
    return data === undefined ? text : `${text} : ${dataText(data, set)}`;
  });
}

/** Returns an interval as nft reads it. */
function intervalText({ from, until }: Interval): string {
  const last = isIp4(from)
    ? ((((until ?? 2 ** 32) as number) - 1) as Ip4)
    : ((((until ?? 1n << 128n) as bigint) - 1n) as Ip6);
  return from === last ? formatIp(from) : `${formatIp(from)}-${formatIp(last)}`;
}
