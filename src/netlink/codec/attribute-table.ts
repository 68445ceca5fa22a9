import type { MessageWriter } from './message-writer.ts';
import { NLA_F_NESTED, ATTRIBUTE_HEADER_SIZE, NLA_TYPE_MASK, align4 } from './flags.ts';
import { readU16 } from './bytes.ts';
import { DecodeError, MISSING } from './decode-error.ts';

/** How the payload of an attribute is read into a T and written from a W. */
export interface Kind<T, W = T> {
  /** Required length of the payload in bytes; undefined if it varies. */
  readonly size: number | undefined;
  /** NLA_F_* bits to set in the attribute type. */
  readonly flags: number;
  /** Appends the payload, without padding. */
  write(writer: MessageWriter, value: W): void;
  /** Reads the payload from `start` up to `end`. The caller has checked the length against `size`. */
  read(bytes: Uint8Array, start: number, end: number): T;
  /** Formats the value for the trace. Default: String(). */
  show?(value: T): string;
  /** Returns the table of the nested attributes, for the trace. */
  inner?(bytes: Uint8Array, start: number, end: number): Table<Rows>;
}

/**
 * How an absent attribute is handled.
 * - required: encoding needs a value; decoding throws a DecodeError if the attribute is missing;
 * - reported: required in replies; omitted from a request if the field is undefined;
 * - optional: omitted if the field is undefined; decoded as undefined if missing;
 * - fallback: the row's `value` replaces a missing field or attribute;
 * - constant: the row's `value` is always written; decoding ignores the attribute;
 * - traced: neither written nor decoded; only the trace reads it.
 */
export type Presence = 'required' | 'reported' | 'optional' | 'fallback' | 'constant' | 'traced';

/** One attribute of a message. */
export interface Row<T, P extends Presence = Presence, W = T> {
  /** Its name in the kernel's header. */
  readonly constant: string;
  readonly id: number;
  readonly kind: Kind<T, W>;
  readonly presence: P;
  readonly value: T | undefined;
}

/** The rows of a table by field name. The types below derive the field types from them. */
export type Rows = Readonly<Record<string, Row<unknown>>>;

export function required<T, W>(constant: string, id: number, kind: Kind<T, W>): Row<T, 'required', W> {
  return { constant, id, kind, presence: 'required', value: undefined };
}

export function reported<T, W>(constant: string, id: number, kind: Kind<T, W>): Row<T, 'reported', W> {
  return { constant, id, kind, presence: 'reported', value: undefined };
}

export function optional<T, W>(constant: string, id: number, kind: Kind<T, W>): Row<T, 'optional', W> {
  return { constant, id, kind, presence: 'optional', value: undefined };
}

export function fallback<T>(constant: string, id: number, kind: Kind<T>, value: T): Row<T, 'fallback'> {
  return { constant, id, kind, presence: 'fallback', value };
}

export function constant<T>(name: string, id: number, kind: Kind<T>, value: T): Row<T, 'constant'> {
  return { constant: name, id, kind, presence: 'constant', value };
}

export function traced<T, W>(constant: string, id: number, kind: Kind<T, W>): Row<T, 'traced', W> {
  return { constant, id, kind, presence: 'traced', value: undefined };
}

type NamesOf<R extends Rows, P extends Presence> = {
  [K in keyof R]: R[K] extends Row<infer _, infer Q, infer _W> ? (Q extends P ? K : never) : never;
}[keyof R];

type ReadFrom<R> = R extends Row<infer T, Presence, infer _> ? T : never;

type WrittenTo<R> = R extends Row<infer _, Presence, infer W> ? W : never;

/** The decoded object, without the constant and traced rows. */
export type Decoded<R extends Rows> = {
  [K in NamesOf<R, 'required' | 'reported' | 'fallback'>]: ReadFrom<R[K]>;
} & { [K in NamesOf<R, 'optional'>]: ReadFrom<R[K]> | undefined };

/** The object to encode. Fields that are not in the table are ignored. */
export type Encodable<R extends Rows> = {
  readonly [K in NamesOf<R, 'required'>]: WrittenTo<R[K]>;
} & { readonly [K in NamesOf<R, 'reported' | 'optional' | 'fallback'>]?: WrittenTo<R[K]> | undefined };

/** A row with its field name and attribute type. */
export interface CompiledRow {
  readonly name: string;
  readonly row: Row<unknown>;
  /** The attribute's id, combined with the NLA_F_* bits that its kind needs (NLA_F_NESTED for a nested attribute). */
  readonly type: number;
}

/** The attributes of a message or of a nested attribute. */
export interface Table<R extends Rows> {
  readonly rows: R;
  /** The rows to encode, in order. */
  readonly order: readonly CompiledRow[];
  /** Indexed by attribute id; undefined for ids that are not decoded. */
  readonly byId: readonly (CompiledRow | undefined)[];
  /** Initial value of a decoded object: every field with its fallback. */
  readonly blank: Readonly<Record<string, unknown>>;
  readonly required: readonly CompiledRow[];
}

export function table<R extends Rows>(rows: R): Table<R> {
  const order: CompiledRow[] = [];
  const byId: (CompiledRow | undefined)[] = [];
  const blank: Record<string, unknown> = {};
  const needed: CompiledRow[] = [];
  for (const [name, row] of Object.entries(rows)) {
    if (row.presence === 'traced') continue;
    const compiled = { name, row, type: row.id | row.kind.flags };
    order.push(compiled);
    while (byId.length < row.id) byId.push(undefined);
    if (row.presence === 'constant') continue;
    byId[row.id] = compiled;
    blank[name] = row.value;
    if (row.presence === 'required' || row.presence === 'reported') needed.push(compiled);
  }
  return { rows, order, byId, blank, required: needed };
}

/** Appends the attributes of `value` in the table's order. */
export function encode<R extends Rows>(writer: MessageWriter, table: Table<R>, value: Encodable<R>): void {
  const fields = value as Readonly<Record<string, unknown>>;
  for (const { name, row, type } of table.order) {
    const field = row.presence === 'constant' ? row.value : (fields[name] ?? row.value);
    if (field === undefined) continue;
    const mark = writer.beginAttribute(type);
    row.kind.write(writer, field);
    writer.endAttribute(mark);
  }
}

/** Appends a nested attribute that contains the attributes of `value`. */
export function encodeNest<R extends Rows>(
  writer: MessageWriter,
  id: number,
  table: Table<R>,
  value: Encodable<R>,
): void {
  const mark = writer.beginAttribute(id | NLA_F_NESTED);
  encode(writer, table, value);
  writer.endAttribute(mark);
}

/**
 * Decodes the attributes between `start` and `end` into a new object. Skips attributes that are not in the table. If an
 * attribute is repeated, the last one is used, as in the kernel. Throws DecodeError.
 */
export function decode<R extends Rows>(table: Table<R>, bytes: Uint8Array, start = 0, end = bytes.length): Decoded<R> {
  const result: Record<string, unknown> = { ...table.blank };
  forEachAttribute(bytes, start, end, (id, from, to) => {
    const known = table.byId[id];
    if (known !== undefined) result[known.name] = readRow(known.row, bytes, from, to);
  });
  for (const { name, row } of table.required) {
    if (result[name] === undefined) throw new DecodeError(row.constant, start, MISSING);
  }
  return result as Decoded<R>;
}

function readRow({ constant, kind }: Row<unknown>, bytes: Uint8Array, start: number, end: number): unknown {
  if (kind.size !== undefined && end - start !== kind.size) {
    throw new DecodeError(constant, start, `${end - start} bytes instead of ${kind.size}`);
  }
  return kind.read(bytes, start, end);
}

/** Calls `visit` for each attribute, with its id (without flags) and the bounds of its payload. Throws DecodeError. */
export function forEachAttribute(
  bytes: Uint8Array,
  start: number,
  end: number,
  visit: (id: number, start: number, end: number) => void,
): void {
  if (start > end || end > bytes.length) {
    throw new DecodeError('message', start, `its attributes end at byte ${end}, but it has ${bytes.length} bytes`);
  }
  for (let at = start; at < end;) {
    const left = end - at;
    if (left < ATTRIBUTE_HEADER_SIZE)
      throw new DecodeError('attribute', at, `the remaining ${left} bytes are less than its header`);
    const length = readU16(bytes, at);
    if (length < ATTRIBUTE_HEADER_SIZE) {
      throw new DecodeError(
        'attribute',
        at,
        `length ${length} is less than the ${ATTRIBUTE_HEADER_SIZE} bytes of its header`,
      );
    }
    if (length > left) throw new DecodeError('attribute', at, `length ${length} exceeds the remaining ${left} bytes`);
    visit(readU16(bytes, at + 2) & NLA_TYPE_MASK, at + ATTRIBUTE_HEADER_SIZE, at + length);
    at += align4(length);
  }
}

/** An attribute whose payload contains the attributes of table `inner`. */
export function nested<R extends Rows>(inner: Table<R>): Kind<Decoded<R>, Encodable<R>> {
  return {
    size: undefined,
    flags: NLA_F_NESTED,
    write: (writer, value) => encode(writer, inner, value),
    read: (bytes, start, end) => decode(inner, bytes, start, end),
    inner: () => inner,
  };
}
