import { decode } from './decode.ts';
import { encode } from './encode.ts';
import { NLA_F_NESTED } from './flags.ts';
import type { Kind, Decoded, Encodable, Rows, Table } from './attribute-table.ts';

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
