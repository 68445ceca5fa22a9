import { readU16 } from './bytes.ts';
import { DecodeError, MISSING } from './decode-error.ts';
import { ATTRIBUTE_HEADER_SIZE, NLA_TYPE_MASK, align4 } from './flags.ts';
import type { Decoded, Row, Rows, Table } from './attribute-table.ts';

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
