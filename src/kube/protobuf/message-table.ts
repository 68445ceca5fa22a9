import type { Interner } from '../objects/interner.ts';
import { WIRE, WireError, WireReader } from './wire-reader.ts';

/** A field that is read into a draft of type D. */
interface Field<D> {
  readonly wireType: number;
  /** @param end where the value ends; without meaning for a number */
  read(draft: D, reader: WireReader, end: number): void;
}

/** A message: a table of the fields that are read, by number. Others are skipped. */
export interface Message<D> {
  readonly name: string;
  readonly empty: () => D;
  readonly fields: readonly (Field<D> | undefined)[];
}

/**
 * @param Draft has the names that the fields have in the JSON of the API
 * @param numbered the fields by their numbers in the API's generated.proto
 */
export function message<D>(name: string, Draft: new () => D, numbered: Readonly<Record<number, Field<D>>>): Message<D> {
  const fields: (Field<D> | undefined)[] = [];
  for (const [number, field] of Object.entries(numbered)) fields[Number(number)] = field;
  return { name, empty: () => new Draft(), fields: Array.from(fields) };
}

export function text<D>(set: (draft: D, value: string) => void): Field<D> {
  return { wireType: WIRE.length, read: (draft, reader, end) => set(draft, reader.text(end)) };
}

/** A text that many objects repeat. */
export function repeatedText<D>(set: (draft: D, value: string) => void): Field<D> {
  return { wireType: WIRE.length, read: (draft, reader, end) => set(draft, reader.repeatedText(end)) };
}

export function bytes<D>(set: (draft: D, value: Buffer) => void): Field<D> {
  return { wireType: WIRE.length, read: (draft, reader, end) => set(draft, reader.bytes(end)) };
}

export function integer<D>(set: (draft: D, value: number) => void): Field<D> {
  return { wireType: WIRE.varint, read: (draft, reader) => set(draft, reader.integer()) };
}

export function flag<D>(set: (draft: D, value: boolean) => void): Field<D> {
  return { wireType: WIRE.varint, read: (draft, reader) => set(draft, reader.flag()) };
}

/** A message in the message. */
export function inner<D, I>(table: Message<I>, set: (draft: D, value: I) => void): Field<D> {
  return {
    wireType: WIRE.length,
    read: (draft, reader, end) => {
      const value = table.empty();
      readFields(value, reader, end, table);
      set(draft, value);
    },
  };
}

/**
 * Reads one message. Throws a WireError.
 *
 * @param draft is filled up to the error
 */
export function readMessage<D>(raw: Buffer, table: Message<D>, interner?: Interner, draft: D = table.empty()): D {
  readFields(draft, new WireReader(raw, interner), raw.length, table);
  return draft;
}

function readFields<D>(draft: D, reader: WireReader, end: number, { name, fields }: Message<D>): void {
  while (reader.at < end) {
    const tag = reader.tag();
    const wireType = tag & 7;
    const field = fields[tag >>> 3];
    if (field === undefined) reader.skip(wireType, end);
    else if (field.wireType !== wireType) throw new WireError(`field ${tag >>> 3} of ${name} has the wrong wire type`);
    else field.read(draft, reader, wireType === WIRE.length ? reader.end(end) : end);
  }
  if (reader.at !== end) throw new WireError(`${name} ends within a field`);
}
