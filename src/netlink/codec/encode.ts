import { NLA_F_NESTED } from './flags.ts';
import type { MessageWriter } from './message-writer.ts';
import type { Encodable, Rows, Table } from './attribute-table.ts';

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
