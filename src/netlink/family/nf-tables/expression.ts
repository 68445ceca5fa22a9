import {
  decode,
  encode,
  nested,
  type Kind,
  type Decoded,
  type Encodable,
  type Rows,
  type Table,
  fallback,
  optional,
  required,
  table,
} from '../../codec/attribute-table.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { NLA_F_NESTED } from '../../codec/flags.ts';
import { be32, be64, raw, text, u8 } from '../../codec/kind.ts';
import { nftData } from './data.ts';

/**
 * The attributes of each expression that this program uses. linux/netfilter/nf_tables.h: enum nft_*_attributes. Absent
 * fields have the values with which the kernel reports them.
 */
const EXPRESSIONS = {
  payload: table({
    destination: required('NFTA_PAYLOAD_DREG', 1, be32),
    base: required('NFTA_PAYLOAD_BASE', 2, be32),
    offset: required('NFTA_PAYLOAD_OFFSET', 3, be32),
    length: required('NFTA_PAYLOAD_LEN', 4, be32),
  }),
  meta: table({
    destination: optional('NFTA_META_DREG', 1, be32),
    key: required('NFTA_META_KEY', 2, be32),
    source: optional('NFTA_META_SREG', 3, be32),
  }),
  ct: table({
    destination: required('NFTA_CT_DREG', 1, be32),
    key: required('NFTA_CT_KEY', 2, be32),
  }),
  cmp: table({
    source: required('NFTA_CMP_SREG', 1, be32),
    operation: required('NFTA_CMP_OP', 2, be32),
    data: required('NFTA_CMP_DATA', 3, nftData),
  }),
  bitwise: table({
    source: required('NFTA_BITWISE_SREG', 1, be32),
    destination: required('NFTA_BITWISE_DREG', 2, be32),
    length: required('NFTA_BITWISE_LEN', 3, be32),
    mask: required('NFTA_BITWISE_MASK', 4, nftData),
    xor: required('NFTA_BITWISE_XOR', 5, nftData),
  }),
  lookup: table({
    set: required('NFTA_LOOKUP_SET', 1, text),
    source: required('NFTA_LOOKUP_SREG', 2, be32),
    destination: optional('NFTA_LOOKUP_DREG', 3, be32),
    flags: fallback('NFTA_LOOKUP_FLAGS', 5, be32, 0),
  }),
  immediate: table({
    destination: required('NFTA_IMMEDIATE_DREG', 1, be32),
    data: required('NFTA_IMMEDIATE_DATA', 2, nftData),
  }),
  dynset: table({
    set: required('NFTA_DYNSET_SET_NAME', 1, text),
    operation: required('NFTA_DYNSET_OP', 3, be32),
    key: required('NFTA_DYNSET_SREG_KEY', 4, be32),
    timeout: optional('NFTA_DYNSET_TIMEOUT', 6, be64),
  }),
  numgen: table({
    destination: required('NFTA_NG_DREG', 1, be32),
    modulus: required('NFTA_NG_MODULUS', 2, be32),
    type: required('NFTA_NG_TYPE', 3, be32),
    offset: fallback('NFTA_NG_OFFSET', 4, be32, 0),
  }),
  nat: table({
    type: required('NFTA_NAT_TYPE', 1, be32),
    family: required('NFTA_NAT_FAMILY', 2, be32),
    address: required('NFTA_NAT_REG_ADDR_MIN', 3, be32),
    lastAddress: optional('NFTA_NAT_REG_ADDR_MAX', 4, be32),
    port: required('NFTA_NAT_REG_PROTO_MIN', 5, be32),
    lastPort: optional('NFTA_NAT_REG_PROTO_MAX', 6, be32),
    flags: fallback('NFTA_NAT_FLAGS', 7, be32, 0),
  }),
  masq: table({
    flags: fallback('NFTA_MASQ_FLAGS', 1, be32, 0),
    port: optional('NFTA_MASQ_REG_PROTO_MIN', 2, be32),
    lastPort: optional('NFTA_MASQ_REG_PROTO_MAX', 3, be32),
  }),
  redir: table({ flags: fallback('NFTA_REDIR_FLAGS', 3, be32, 0) }),
  reject: table({
    type: required('NFTA_REJECT_TYPE', 1, be32),
    code: required('NFTA_REJECT_ICMP_CODE', 2, u8),
  }),
} as const;

type Expressions = typeof EXPRESSIONS;
type ExpressionName = keyof Expressions;

/** The same tables without the types of their fields. */
const TABLES: Readonly<Record<ExpressionName, Table<Rows>>> = EXPRESSIONS;

/** One step of a rule. Registers hold values between steps. */
export type NftExpression = {
  [Name in ExpressionName]: { readonly name: Name } & Encodable<Expressions[Name]['rows']>;
}[ExpressionName];

type DecodedExpression = {
  [Name in ExpressionName]: { readonly name: Name } & Decoded<Expressions[Name]['rows']>;
}[ExpressionName];

/** An expression of the kernel that this program does not use. */
export interface OtherExpression {
  readonly name: 'other';
  /** Its name in the kernel; undefined if the attribute is missing. */
  readonly of: string;
}

const HEAD = table({
  name: required('NFTA_EXPR_NAME', 1, text),
  data: optional('NFTA_EXPR_DATA', 2, { ...raw, flags: NLA_F_NESTED }),
});

function isKnown(name: string): name is ExpressionName {
  return Object.hasOwn(EXPRESSIONS, name);
}

/** One expression: its name, and the attributes of that name. */
export const expression: Kind<DecodedExpression | OtherExpression, NftExpression> = {
  size: undefined,
  flags: NLA_F_NESTED,
  write: (writer, value) => {
    encode(writer, NAME, value);
    const mark = writer.beginAttribute(HEAD.rows.data.id | NLA_F_NESTED);
    encode(writer, TABLES[value.name], value);
    writer.endAttribute(mark);
  },
  read: (bytes, start, end) => {
    const { name, data = new Uint8Array() } = decode(HEAD, bytes, start, end);
    if (!isKnown(name)) return { name: 'other', of: name };
    try {
      return { name, ...decode(TABLES[name], data) } as DecodedExpression;
    } catch (error) {
      if (error instanceof DecodeError) return { name: 'other', of: name };
      throw error;
    }
  },
  inner: (bytes, start, end) => {
    const { name } = decode(HEAD, bytes, start, end);
    return isKnown(name)
      ? table({ name: HEAD.rows.name, data: optional('NFTA_EXPR_DATA', 2, nested(TABLES[name])) })
      : HEAD;
  },
};

const NAME = table({ name: HEAD.rows.name });
