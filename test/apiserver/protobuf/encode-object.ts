import { encodeFields, lengthField } from './encode.ts';
import { LIST_META, SCHEMAS } from './schemas.ts';
import { isRecord } from '../json-object.ts';

export const PROTOBUF_TYPE = 'application/vnd.kubernetes.protobuf';

const MAGIC = Buffer.from('k8s\0');

interface Typed {
  readonly kind: string;
  readonly apiVersion: string;
}

/** Puts an encoded object into a runtime.Unknown. */
function envelope({ kind, apiVersion }: Typed, raw: Buffer): Buffer {
  const type = Buffer.concat([lengthField(1, Buffer.from(apiVersion)), lengthField(2, Buffer.from(kind))]);
  const empty = Buffer.alloc(0);
  return Buffer.concat([
    MAGIC,
    lengthField(1, type),
    lengthField(2, raw),
    lengthField(3, empty),
    lengthField(4, empty),
  ]);
}

/** Encodes the JSON of an object without an envelope. */
export function encodeRaw(kind: string, object: Readonly<Record<string, unknown>>): Buffer {
  const schema = SCHEMAS[kind];
  if (schema === undefined) throw new Error(`no schema for ${kind}`);
  return encodeFields(object, schema);
}

/** Encodes the JSON of an object or list that names its kind. */
export function encodeObject(object: unknown): Buffer {
  if (!isRecord(object)) throw new Error('not an object');
  const typed: Typed = { kind: String(object['kind']), apiVersion: String(object['apiVersion']) };
  const { items } = object;
  if (!Array.isArray(items)) return envelope(typed, encodeRaw(typed.kind, object));
  const itemKind = typed.kind.replace(/List$/, '');
  const meta = isRecord(object['metadata']) ? object['metadata'] : {};
  const parts = items.map((item: Readonly<Record<string, unknown>>) => lengthField(2, encodeRaw(itemKind, item)));
  return envelope(typed, Buffer.concat([lengthField(1, encodeFields(meta, LIST_META)), ...parts]));
}

/** Encodes an event of a watch, whose object names its kind, with the length in front of it. */
export function encodeFrame(type: string, object: unknown): Buffer {
  const event = Buffer.concat([
    lengthField(1, Buffer.from(type)),
    lengthField(2, lengthField(1, encodeObject(object))),
  ]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(event.length);
  return Buffer.concat([length, event]);
}
