import type { Kind } from './kind.ts';

/**
 * What becomes of an attribute that is not there.
 * - required: writing needs it, reading without it is a DecodeError;
 * - optional: not written where the value has none, undefined where the message has none;
 * - fallback: the row's `value` is written or read in its place;
 * - constant: the row's `value` is always written, and what is read is ignored.
 */
export type Presence = 'required' | 'optional' | 'fallback' | 'constant';

/** One attribute of a message. */
export interface Row<T, P extends Presence = Presence, W = T> {
  /** Its name in the kernel's header. */
  readonly constant: string;
  readonly id: number;
  readonly kind: Kind<T, W>;
  readonly presence: P;
  readonly value: T | undefined;
}

/** The rows of a table by the name of the field; the types below recover each row's T. */
export type Rows = Readonly<Record<string, Row<unknown>>>;

export function required<T, W>(constant: string, id: number, kind: Kind<T, W>): Row<T, 'required', W> {
  return { constant, id, kind, presence: 'required', value: undefined };
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

type NamesOf<R extends Rows, P extends Presence> = {
  [K in keyof R]: R[K] extends Row<infer _, infer Q, infer _W> ? (Q extends P ? K : never) : never;
}[keyof R];

type ReadFrom<R> = R extends Row<infer T, Presence, infer _> ? T : never;

type WrittenTo<R> = R extends Row<infer _, Presence, infer W> ? W : never;

/** What decoding yields: a fresh object, without the constant rows. */
export type Decoded<R extends Rows> = {
  [K in NamesOf<R, 'required' | 'fallback'>]: ReadFrom<R[K]>;
} & { [K in NamesOf<R, 'optional'>]: ReadFrom<R[K]> | undefined };

/** What encoding takes; fields that are not in the table are left out of the message. */
export type Encodable<R extends Rows> = {
  readonly [K in NamesOf<R, 'required'>]: WrittenTo<R[K]>;
} & { readonly [K in NamesOf<R, 'optional' | 'fallback'>]?: WrittenTo<R[K]> | undefined };

/** A row as the encoder and the decoder use it. */
export interface CompiledRow {
  readonly name: string;
  readonly row: Row<unknown>;
  /** The id with the NLA_F_* bits of its kind. */
  readonly type: number;
}

/** The attributes of a message or a nest, in the order in which they are written. */
export interface Table<R extends Rows> {
  readonly rows: R;
  readonly order: readonly CompiledRow[];
  /** Indexed by attribute id; undefined for an id that we do not know, or skip. */
  readonly byId: readonly (CompiledRow | undefined)[];
  /** What decoding starts from: every field, with its fallback. */
  readonly blank: Readonly<Record<string, unknown>>;
  readonly required: readonly CompiledRow[];
}

export function table<R extends Rows>(rows: R): Table<R> {
  const order: CompiledRow[] = [];
  const byId: (CompiledRow | undefined)[] = [];
  const blank: Record<string, unknown> = {};
  for (const [name, row] of Object.entries(rows)) {
    const compiled = { name, row, type: row.id | row.kind.flags };
    order.push(compiled);
    while (byId.length < row.id) byId.push(undefined);
    if (row.presence === 'constant') continue;
    byId[row.id] = compiled;
    blank[name] = row.value;
  }
  return { rows, order, byId, blank, required: order.filter(({ row }) => row.presence === 'required') };
}
