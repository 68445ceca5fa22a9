import { readU16 } from './bytes.ts';
import { DecodeError } from './decode-error.ts';
import { ATTRIBUTE_HEADER_SIZE, NLA_TYPE_MASK, align4 } from './flags.ts';
import type { CompiledRow, Decoded, Rows, Table } from './table.ts';

/** Returns the end of the attribute at `at`, without padding. Throws a DecodeError if it exceeds `end`. */
function attributeEnd(bytes: Uint8Array, at: number, end: number): number {
  if (end - at < ATTRIBUTE_HEADER_SIZE) throw new DecodeError('attribute', at, `${end - at} bytes left over`);
  const length = readU16(bytes, at);
  if (length < ATTRIBUTE_HEADER_SIZE || length > end - at) {
    throw new DecodeError('attribute', at, `length ${length} in ${end - at} bytes`);
  }
  return at + length;
}

function checkRange(bytes: Uint8Array, start: number, end: number): void {
  if (start > end || end > bytes.length) {
    throw new DecodeError('message', start, `ends at ${end} of ${bytes.length} bytes`);
  }
}

/**
 * Decodes the attributes between `start` and `end` into a new object. Skips attributes that are not in the table. If an
 * attribute is repeated, the last one is used, as in the kernel.
 */
export function decode<R extends Rows>(table: Table<R>, bytes: Uint8Array, start = 0, end = bytes.length): Decoded<R> {
  checkRange(bytes, start, end);
  const result: Record<string, unknown> = { ...table.blank };
  for (let at = start; at < end;) {
    const stop = attributeEnd(bytes, at, end);
    const known = table.byId[readU16(bytes, at + 2) & NLA_TYPE_MASK];
    if (known !== undefined) result[known.name] = readRow(known, bytes, at + ATTRIBUTE_HEADER_SIZE, stop);
    at += align4(stop - at);
  }
  for (const { name, row } of table.required) {
    if (result[name] === undefined) throw new DecodeError(row.constant, start, 'missing');
  }
  return result as Decoded<R>;
}

function readRow({ row }: CompiledRow, bytes: Uint8Array, start: number, end: number): unknown {
  const { size } = row.kind;
  if (size !== undefined && end - start !== size) {
    throw new DecodeError(row.constant, start, `${end - start} bytes instead of ${size}`);
  }
  return row.kind.read(bytes, start, end);
}

/** Calls `visit` for each attribute, with its id (without flags) and the bounds of its payload. */
export function forEachAttribute(
  bytes: Uint8Array,
  start: number,
  end: number,
  visit: (id: number, start: number, end: number) => void,
): void {
  checkRange(bytes, start, end);
  for (let at = start; at < end;) {
    const stop = attributeEnd(bytes, at, end);
    visit(readU16(bytes, at + 2) & NLA_TYPE_MASK, at + ATTRIBUTE_HEADER_SIZE, stop);
    at += align4(stop - at);
  }
}

/** Returns the start of the payload of the first attribute with this id, or -1. */
export function findPayload(bytes: Uint8Array, start: number, end: number, id: number): number {
  checkRange(bytes, start, end);
  for (let at = start; at < end;) {
    const stop = attributeEnd(bytes, at, end);
    if ((readU16(bytes, at + 2) & NLA_TYPE_MASK) === id) return at + ATTRIBUTE_HEADER_SIZE;
    at += align4(stop - at);
  }
  return -1;
}

/** Returns the end of the payload that `findPayload` found. */
export function payloadEnd(bytes: Uint8Array, start: number): number {
  return start - ATTRIBUTE_HEADER_SIZE + readU16(bytes, start - ATTRIBUTE_HEADER_SIZE);
}
