/**
 * What nft stores with tables, sets and rules, and the kernel only keeps: types, lengths and values. libnftnl/udata.h:
 * enum nftnl_udata_types, nftnl_udata_set_types, nftnl_udata_set_typeof_types.
 */
const TABLE_COMMENT = 0;
const KEY_BYTE_ORDER = 0;
const DATA_BYTE_ORDER = 1;
const KEY_TYPE_OF = 3;
const DATA_TYPE_OF = 4;
const SET_COMMENT = 7;
const TYPE_OF_EXPRESSION = 0;
const TYPE_OF_DATA = 1;

/** Numbers of nft itself (nftables: expression.h, datatype.h, proto.h). They are stored in the kernel, so they are stable. */
const HOST_ENDIAN = 1;
const BIG_ENDIAN = 2;
const NOT_ONE_ORDER = 0;
const EXPRESSION = { verdict: 1, payload: 7, meta: 9, concatenation: 13, numgen: 23 } as const;

type Item = readonly number[];

function item(type: number, value: Item): Item {
  return [type, value.length, ...value];
}

function u32(value: number): Item {
  return [value & 255, (value >>> 8) & 255, (value >>> 16) & 255, value >>> 24];
}

function text(type: number, value: string): Item {
  return item(type, [...new TextEncoder().encode(value), 0]);
}

/** The expression from which a field of a key or of data comes (nft's `typeof`). */
export type TypeOf =
  | { readonly of: 'payload'; readonly protocol: number; readonly field: number }
  | { readonly of: 'meta'; readonly key: number }
  | { readonly of: 'numgen'; readonly type: number; readonly modulus: number };

function typeOf(field: TypeOf): Item {
  const values =
    field.of === 'payload'
      ? [field.protocol, field.field]
      : field.of === 'meta'
        ? [field.key]
        : [field.type, field.modulus, 0];
  return [
    ...item(TYPE_OF_EXPRESSION, u32(EXPRESSION[field.of])),
    ...item(
      TYPE_OF_DATA,
      values.flatMap((value, at) => item(at, u32(value))),
    ),
  ];
}

function isOne(fields: TypeOf | readonly TypeOf[]): fields is TypeOf {
  return 'of' in fields;
}

function typeOfAll(fields: readonly TypeOf[]): Item {
  return [
    ...item(TYPE_OF_EXPRESSION, u32(EXPRESSION.concatenation)),
    ...item(
      TYPE_OF_DATA,
      fields.flatMap((field, at) => item(at, typeOf(field))),
    ),
  ];
}

const VERDICT: Item = [...item(TYPE_OF_EXPRESSION, u32(EXPRESSION.verdict)), ...item(TYPE_OF_DATA, [])];

export function tableComment(comment: string): Uint8Array {
  return Uint8Array.from(text(TABLE_COMMENT, comment));
}

/** How nft shows a set. Without `key`, its type says it. */
export interface SetNotes {
  readonly comment: string;
  /** Whether the key has several fields. */
  readonly concatenated: boolean;
  readonly key?: TypeOf | readonly TypeOf[];
  /** nft needs it in addition to `key`, also for verdicts. */
  readonly data?: readonly TypeOf[] | 'verdict';
}

export function setNotes({ comment, concatenated, key, data }: SetNotes): Uint8Array {
  return Uint8Array.from([
    ...item(KEY_BYTE_ORDER, u32(concatenated ? NOT_ONE_ORDER : byteOrderOf(key))),
    ...item(DATA_BYTE_ORDER, u32(NOT_ONE_ORDER)),
    ...(key === undefined ? [] : item(KEY_TYPE_OF, isOne(key) ? typeOf(key) : typeOfAll(key))),
    ...(data === undefined ? [] : item(DATA_TYPE_OF, data === 'verdict' ? VERDICT : typeOfAll(data))),
    ...text(SET_COMMENT, comment),
  ]);
}

function byteOrderOf(key: SetNotes['key']): number {
  return key !== undefined && isOne(key) && key.of === 'numgen' ? HOST_ENDIAN : BIG_ENDIAN;
}

/** Returns the comment of a set; undefined if it has none. */
export function commentOfSet(userData: Uint8Array): string | undefined {
  for (let at = 0; at + 2 <= userData.length; at += 2 + (userData[at + 1] ?? 0)) {
    const end = at + 2 + (userData[at + 1] ?? 0);
    if (userData[at] === SET_COMMENT) return new TextDecoder().decode(userData.subarray(at + 2, end - 1));
  }
  return undefined;
}
