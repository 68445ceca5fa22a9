import { type IpFamily, formatIp } from '../../../base/ip.ts';
import { readBe16, readText, readU32 } from '../../../netlink/codec/bytes.ts';
import type { NftExpression } from '../../../netlink/family/nf-tables/expression.ts';
import { nftFamily } from '../../../state/nft-table.ts';
import { addressAt } from '../objects/keys.ts';
import {
  IFNAMSIZ,
  NFT_CMP_NEQ,
  NFT_META_IIFNAME,
  NFT_META_L4PROTO,
  NFT_META_MARK,
  NFT_PAYLOAD_NETWORK_HEADER,
  NFT_REG32_00,
  NFT_REG_1,
  NFT_REG_VERDICT,
  NF_NAT_RANGE_PROTO_RANDOM_FULLY,
} from '../objects/steps.ts';
import {
  definitionOf,
  endpointText,
  fieldTypes,
  markText,
  protocolText,
  registersOf,
  verdictText,
} from './data-text.ts';

/** What a register holds. */
type Held =
  | { readonly is: 'value'; readonly bytes: Uint8Array }
  | { readonly is: 'field'; readonly field: Field; readonly text: string }
  | { readonly is: 'changed'; readonly of: Held; readonly mask: Uint8Array; readonly xor: Uint8Array };

type Field = 'address' | 'port' | 'icmp' | 'protocol' | 'mark' | 'interface' | 'state' | 'other';

type Expression<Name extends NftExpression['name']> = Extract<NftExpression, { readonly name: Name }>;

/** Returns a rule of ours as nft lists it. Its expressions are those of src/kernel/nftables/objects/steps.ts. */
export function ruleText(expressions: readonly NftExpression[], family: IpFamily): string {
  const writer = new RuleWriter(family);
  for (const expression of expressions) writer.add(expression);
  return writer.text;
}

/** Follows what registers hold. */
class RuleWriter {
  readonly #family: IpFamily;
  /** By their place, in units of 4 bytes. */
  readonly #registers = new Map<number, Held>();
  readonly #parts: string[] = [];

  constructor(family: IpFamily) {
    this.#family = family;
  }

  get text(): string {
    return this.#parts.join(' ');
  }

  add(expression: NftExpression): void {
    switch (expression.name) {
      case 'payload':
      case 'meta':
      case 'ct':
      case 'numgen':
        return this.#load(expression);
      case 'bitwise': {
        const { source, destination, mask, xor } = expression;
        const of = this.#held(source);
        return this.#set(destination, { is: 'changed', of, mask: valueOf(mask), xor: valueOf(xor) });
      }
      case 'cmp':
        return this.#compare(expression);
      case 'lookup':
        return this.#lookUp(expression);
      case 'immediate':
        if (expression.data.verdict !== undefined) this.#parts.push(verdictText(expression.data.verdict));
        else this.#set(expression.destination, { is: 'value', bytes: valueOf(expression.data) });
        return;
      case 'dynset': {
        const { set, key, timeout = 0 } = expression;
        const seconds = Number(timeout) / 1_000;
        this.#parts.push(`update @${set} { ${this.#keyText(set, key)} timeout ${seconds}s }`);
        return;
      }
      case 'nat':
        return this.#translate(expression);
      case 'masq':
        return this.#masquerade(expression);
      case 'redir':
        return void this.#parts.push('redirect');
      case 'reject':
        return void this.#parts.push('reject');
    }
  }

  #load(expression: Expression<'payload' | 'meta' | 'ct' | 'numgen'>): void {
    const { destination } = expression;
    if (destination !== undefined) return this.#set(destination, fieldOf(expression, this.#family));
    if (expression.name === 'meta' && expression.source !== undefined) {
      this.#parts.push(`meta mark set ${changedText(this.#held(expression.source))}`);
    }
  }

  #compare({ source, operation, data }: Expression<'cmp'>): void {
    const value = valueOf(data);
    const held = this.#held(source);
    const not = operation === NFT_CMP_NEQ;
    const field = held.is === 'changed' ? held.of : held;
    if (field.is !== 'field') return;
    if (field.field === 'state') return void this.#parts.push('ct state new');
    if (field.field === 'mark') {
      return void this.#parts.push(`${changedText(held)} ${not ? '!=' : '=='} ${markText(readU32(value, 0))}`);
    }
    const prefix = held.is === 'changed' ? prefixOf(held.mask) : 8 * value.length;
    this.#parts.push(`${field.text} ${not ? '!= ' : ''}${comparedText(field, value, prefix, this.#family)}`);
  }

  #lookUp({ set, source, destination }: Expression<'lookup'>): void {
    const key = this.#keyText(set, source);
    if (destination === undefined) this.#parts.push(`${key} @${set}`);
    else if (destination === NFT_REG_VERDICT) this.#parts.push(`${key} vmap @${set}`);
    else this.#set(destination, { is: 'field', field: 'other', text: `${key} map @${set}` });
  }

  /** Returns the fields of a key, one after the other. */
  #keyText(set: string, source: number): string {
    const { keyType = 0 } = definitionOf(set, this.#family) ?? {};
    let at = placeOf(source);
    const fields = fieldTypes(keyType).map((type) => {
      const held = this.#registers.get(at);
      at += registersOf(type);
      if (held?.is === 'value') return type.format(held.bytes, 0);
      return held?.is === 'field' ? held.text : '';
    });
    return fields.join(' . ');
  }

  #translate({ address, port }: Expression<'nat'>): void {
    const [to, at] = [this.#held(address), this.#held(port)];
    if (to.is === 'field') this.#parts.push(`dnat ${nftFamily(this.#family)} to ${to.text}`);
    else if (to.is === 'value' && at.is === 'value') this.#parts.push(`dnat to ${endpointText(to.bytes, at.bytes)}`);
  }

  #masquerade({ flags = 0, port, lastPort }: Expression<'masq'>): void {
    const ports = [port, lastPort].flatMap((register) => {
      const held = register === undefined ? undefined : this.#held(register);
      return held?.is === 'value' ? [readBe16(held.bytes, 0)] : [];
    });
    const to = ports.length === 0 ? '' : ` to :${ports.join('-')}`;
    this.#parts.push(`masquerade${to}${(flags & NF_NAT_RANGE_PROTO_RANDOM_FULLY) === 0 ? '' : ' fully-random'}`);
  }

  #held(register: number): Held {
    return this.#registers.get(placeOf(register)) ?? NOTHING;
  }

  #set(register: number, held: Held): void {
    this.#registers.set(placeOf(register), held);
  }
}

const NOTHING: Held = { is: 'field', field: 'other', text: '' };

/** Returns the place of a register in units of 4 bytes, which has two numbers if it is a multiple of 4. */
function placeOf(register: number): number {
  return register >= NFT_REG32_00 ? register - NFT_REG32_00 : 4 * (register - NFT_REG_1);
}

function valueOf({ value = NO_BYTES }: { readonly value?: Uint8Array | undefined }): Uint8Array {
  return value;
}

const NO_BYTES = new Uint8Array();

function fieldOf(expression: Expression<'payload' | 'meta' | 'ct' | 'numgen'>, family: IpFamily): Held {
  const [field, text] = namesOf(expression, family);
  return { is: 'field', field, text };
}

function namesOf(
  expression: Expression<'payload' | 'meta' | 'ct' | 'numgen'>,
  family: IpFamily,
): readonly [Field, string] {
  switch (expression.name) {
    case 'payload':
      if (expression.base === NFT_PAYLOAD_NETWORK_HEADER) {
        const isSource = expression.offset === (family === 4 ? 12 : 8);
        return ['address', `${nftFamily(family)} ${isSource ? 'saddr' : 'daddr'}`];
      }
      return expression.offset === 0 ? ['icmp', family === 4 ? 'icmp type' : 'icmpv6 type'] : ['port', 'th dport'];
    case 'ct':
      return ['state', 'ct state'];
    case 'numgen':
      return ['other', `numgen random mod ${expression.modulus}${offsetText(expression.offset)}`];
    case 'meta':
      return META.get(expression.key) ?? ['other', ''];
  }
}

function offsetText(offset = 0): string {
  return offset === 0 ? '' : ` offset ${offset}`;
}

const META: ReadonlyMap<number, readonly [Field, string]> = new Map([
  [NFT_META_L4PROTO, ['protocol', 'meta l4proto']],
  [NFT_META_MARK, ['mark', 'meta mark']],
  [NFT_META_IIFNAME, ['interface', 'iifname']],
]);

/** Returns what the bits of a mark become. */
function changedText(held: Held): string {
  if (held.is !== 'changed') return held.is === 'field' ? held.text : '';
  const [mask, xor] = [readU32(held.mask, 0), readU32(held.xor, 0)];
  const of = changedText(held.of);
  if (xor === 0) return `${of} & ${markText(mask)}`;
  return mask === 0xffff_ffff ? `${of} ^ ${markText(xor)}` : `${of} | ${markText(xor)}`;
}

function prefixOf(mask: Uint8Array): number {
  return mask.reduce((bits, byte) => bits + byte.toString(2).replaceAll('0', '').length, 0);
}

function comparedText(
  { field }: Extract<Held, { is: 'field' }>,
  value: Uint8Array,
  prefix: number,
  family: IpFamily,
): string {
  if (field === 'protocol') return protocolText(value[0] ?? 0);
  if (field === 'icmp') return 'echo-request';
  if (field === 'interface') {
    return `"${readText(value, 0, value.length)}${value.length < IFNAMSIZ ? '*' : ''}"`;
  }
  const whole = new Uint8Array(family === 4 ? 4 : 16);
  whole.set(value);
  return `${formatIp(addressAt(whole, 0, family))}${prefix < 8 * whole.length ? `/${prefix}` : ''}`;
}
