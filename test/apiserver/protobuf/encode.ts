import { isRecord } from '../json-object.ts';

type Scalar = 'string' | 'int' | 'bool' | 'time' | 'map' | 'json' | 'int-or-string';

/** The type of a field. With a dash, also its zero value is sent. In brackets, it is repeated. */
type FieldType = Scalar | `-${Scalar}` | Schema | readonly [Scalar | Schema];

/** By the name of the field in JSON: its number, its type, and whether it is sent even if it is absent. */
export interface Schema {
  readonly [name: string]: readonly [number: number, type: FieldType, always?: 'always'];
}

const ZERO = { string: '', int: 0, bool: false, time: null, map: {}, json: {}, 'int-or-string': 0 } as const;

/** Encodes an integer; a negative one has ten bytes. */
export function varint(value: number | bigint): Buffer {
  if (value >= 0 && value < 0x80) return Buffer.of(Number(value));
  let rest = BigInt.asUintN(64, BigInt(value));
  const out: number[] = [];
  while (rest > 0x7fn) {
    out.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  return Buffer.from([...out, Number(rest)]);
}

/** A field whose value has a length. */
export function lengthField(number: number, value: Buffer): Buffer {
  return Buffer.concat([varint(number * 8 + 2), varint(value.length), value]);
}

function integerField(number: number, value: number | bigint): Buffer {
  return Buffer.concat([varint(number * 8), varint(value)]);
}

function textField(number: number, text: string): Buffer {
  return lengthField(number, Buffer.from(text));
}

/** Encodes an object in the form of its JSON. As in Go, the fields are in the order of their numbers. */
export function encodeFields(object: Readonly<Record<string, unknown>>, schema: Schema): Buffer {
  return Buffer.concat(
    Object.entries(schema).map(([name, [number, type, always]]) => encodeField(object[name], number, type, always)),
  );
}

function encodeField(value: unknown, number: number, type: FieldType, always: 'always' | undefined): Buffer {
  const absent = value === undefined || value === null;
  if (typeof type === 'string') {
    const sent = type.startsWith('-');
    const scalar = (sent ? type.slice(1) : type) as Scalar;
    if (absent && !sent) return Buffer.alloc(0);
    return encodeScalar(absent ? ZERO[scalar] : value, number, scalar);
  }
  if (Array.isArray(type)) {
    const [item] = type as readonly [Scalar | Schema];
    const items: readonly unknown[] = Array.isArray(value) ? value : [];
    return Buffer.concat(
      items.map((one) => (typeof item === 'string' ? encodeScalar(one, number, item) : encodeInner(one, number, item))),
    );
  }
  return absent && always === undefined ? Buffer.alloc(0) : encodeInner(value, number, type as Schema);
}

function encodeInner(value: unknown, number: number, schema: Schema): Buffer {
  return lengthField(number, encodeFields(isRecord(value) ? value : {}, schema));
}

function encodeScalar(value: unknown, number: number, type: Scalar): Buffer {
  switch (type) {
    case 'string':
      return textField(number, String(value));
    case 'int':
      return integerField(number, Number(value));
    case 'bool':
      return integerField(number, value === true ? 1 : 0);
    case 'time':
      return lengthField(number, encodeTime(value));
    case 'json':
      return lengthField(number, textField(1, JSON.stringify(value)));
    case 'map':
      return Buffer.concat(
        Object.entries(value as Readonly<Record<string, string>>)
          .toSorted(([a], [b]) => (a < b ? -1 : 1))
          .map(([key, text]) => lengthField(number, Buffer.concat([textField(1, key), textField(2, text)]))),
      );
    case 'int-or-string':
      return lengthField(
        number,
        typeof value === 'string'
          ? Buffer.concat([integerField(1, 1), integerField(2, 0), textField(3, value)])
          : Buffer.concat([integerField(1, 0), integerField(2, Number(value)), textField(3, '')]),
      );
  }
}

/** @param time RFC 3339; null is the zero time, which has no fields */
function encodeTime(time: unknown): Buffer {
  if (typeof time !== 'string') return Buffer.alloc(0);
  return Buffer.concat([integerField(1, Math.floor(Date.parse(time) / 1000)), integerField(2, 0)]);
}
