import { readU16, readU32 } from './bytes.ts';
import { DecodeError } from './decode-error.ts';
import type { MessageWriter } from './message-writer.ts';

/** The fields of a header in order: 1, 2 or 4 bytes, host byte order. A field without a name is always 0. */
type Fields = readonly (readonly [name: string, bytes: 1 | 2 | 4])[];

type Values<F extends Fields> = Readonly<Record<F[number][0], number>>;

/** The fixed structure of a netlink family, between the netlink header and the attributes. */
export interface Header<F extends Fields = Fields> {
  /** Name of the structure in the kernel's header. */
  readonly struct: string;
  readonly fields: F;
  /** In bytes; the attributes start at this offset. */
  readonly size: number;
}

export function header<const F extends Fields>(struct: string, fields: F): Header<F> {
  return { struct, fields, size: fields.reduce((sum, [, bytes]) => sum + bytes, 0) };
}

/** linux/genetlink.h. */
export const GENERIC = header('struct genlmsghdr', [
  ['cmd', 1],
  ['version', 1],
  ['', 2],
]);

/** linux/netfilter/nfnetlink.h. The version is NFNETLINK_V0; neither ipset nor ctnetlink uses the resource id. */
export const NETFILTER = header('struct nfgenmsg', [
  ['nfgen_family', 1],
  ['', 1],
  ['', 2],
]);

/** Begins a message with its header. Fields that are not in `values` are 0. */
export function beginMessage<F extends Fields>(
  writer: MessageWriter,
  type: number,
  { fields }: Header<F>,
  values: Partial<Values<F>>,
  flags = 0,
): void {
  writer.begin(type, flags);
  for (const [name, bytes] of fields) {
    const value = values[name as F[number][0]] ?? 0;
    if (bytes === 1) writer.u8(value);
    else if (bytes === 2) writer.u16(value);
    else writer.u32(value);
  }
}

/** Throws a DecodeError if the payload is too short. */
export function readHeader<F extends Fields>({ struct, fields, size }: Header<F>, payload: Uint8Array): Values<F> {
  if (payload.length < size)
    throw new DecodeError(struct, 0, `${payload.length} bytes, fewer than the ${size} of this header`);
  const values: Record<string, number> = {};
  let at = 0;
  for (const [name, bytes] of fields) {
    values[name] = bytes === 4 ? readU32(payload, at) : bytes === 2 ? readU16(payload, at) : (payload[at] as number);
    at += bytes;
  }
  return values as Values<F>;
}
