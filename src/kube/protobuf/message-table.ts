import type { Interner } from '../objects/interner.ts';
import { WIRE, WireError, WireReader } from './wire-reader.ts';

/** How a value is read. */
interface Kind<T> {
  readonly wireType: number;
  /** @param end where the value ends; without meaning for a number */
  readonly read: (reader: WireReader, end: number) => T;
}

/** How the values of a field that occurs several times are collected. */
interface Repeated<T, All> extends Kind<T> {
  readonly add: (all: All | undefined, value: T) => All;
}

type AnyKind = Kind<unknown> & { readonly add?: (all: never, value: never) => unknown };

/** The fields that are read, by their numbers in the API's generated.proto: the name in the JSON of the API, and the kind. */
type Fields = Readonly<Record<number, readonly [name: string, kind: AnyKind]>>;

type ValueOf<K> = K extends Repeated<never, infer All> ? All : K extends Kind<infer T> ? T : never;

/** What is read of a message; a field that did not occur is undefined. */
type Draft<F extends Fields> = {
  [Field in F[keyof F] as Field extends readonly [infer Name extends string, AnyKind] ? Name : never]:
    (Field extends readonly [string, infer K] ? ValueOf<K> : never) | undefined;
};

/** A message: a table of the fields that are read. Others are skipped. */
export interface Message<D> extends Kind<D> {
  readonly name: string;
  readonly empty: () => D;
  readonly fields: readonly (Fields[number] | undefined)[];
}

export function message<const F extends Fields>(name: string, numbered: F): Message<Draft<F>> {
  const fields: (Fields[number] | undefined)[] = [];
  for (const [number, field] of Object.entries(numbered)) fields[Number(number)] = field;
  const table = { name, empty: () => ({}) as Draft<F>, fields: Array.from(fields) };
  return {
    ...table,
    wireType: WIRE.length,
    read: (reader, end) => readFields(table.empty(), reader, end, table),
  };
}

export const text: Kind<string> = { wireType: WIRE.length, read: (reader, end) => reader.text(end) };

/** A text that many objects repeat. */
export const repeatedText: Kind<string> = { wireType: WIRE.length, read: (reader, end) => reader.repeatedText(end) };

export const bytes: Kind<Buffer> = { wireType: WIRE.length, read: (reader, end) => reader.bytes(end) };

export const integer: Kind<number> = { wireType: WIRE.varint, read: (reader) => reader.integer() };

export const flag: Kind<boolean> = { wireType: WIRE.varint, read: (reader) => reader.flag() };

export function mapped<T, R>({ wireType, read }: Kind<T>, convert: (value: T) => R): Kind<R> {
  return { wireType, read: (reader, end) => convert(read(reader, end)) };
}

export function list<T>(kind: Kind<T>): Repeated<T, T[]> {
  return {
    ...kind,
    add: (all = [], value) => {
      all.push(value);
      return all;
    },
  };
}

/**
 * Reads one message. Throws a WireError.
 *
 * @param draft is filled up to the error
 */
export function readMessage<D>(raw: Buffer, table: Message<D>, interner?: Interner, draft: D = table.empty()): D {
  return readFields(draft, new WireReader(raw, interner), raw.length, table);
}

function readFields<D>(
  draft: D,
  reader: WireReader,
  end: number,
  { name, fields }: Pick<Message<D>, 'name' | 'fields'>,
): D {
  const values = draft as Record<string, unknown>;
  while (reader.at < end) {
    const tag = reader.tag();
    const wireType = tag & 7;
    const field = fields[tag >>> 3];
    if (field === undefined) {
      reader.skip(wireType, end);
      continue;
    }
    const [key, kind] = field;
    if (kind.wireType !== wireType) throw new WireError(`field ${tag >>> 3} of ${name} has the wrong wire type`);
    const value = kind.read(reader, wireType === WIRE.length ? reader.end(end) : end);
    values[key] = kind.add === undefined ? value : kind.add(values[key] as never, value as never);
  }
  if (reader.at !== end) throw new WireError(`${name} ends within a field`);
  return draft;
}
