import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type IpAddress, parseIp } from '../../../../src/base/ip.ts';
import {
  decode,
  forEachAttribute,
  encode,
  nested,
  type Encodable,
  type Rows,
  type Table,
  constant,
  fallback,
  optional,
  reported,
  required,
  table,
  traced,
} from '../../../../src/netlink/codec/attribute-table.ts';
import { DecodeError, MISSING } from '../../../../src/netlink/codec/decode-error.ts';
import {
  address,
  be16,
  be32,
  inetAddress,
  marked,
  raw,
  text,
  u16,
  u32,
  u64,
  u8,
} from '../../../../src/netlink/codec/kind.ts';
import { MessageWriter } from '../../../../src/netlink/codec/message-writer.ts';

const hex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text.replaceAll(' ', ''), 'hex'));

function encoded<R extends Rows>(rows: Table<R>, value: Encodable<R>): Uint8Array {
  const writer = new MessageWriter();
  writer.begin(0);
  encode(writer, rows, value);
  writer.end();
  return writer.finish(0).bytes.subarray(16);
}

const INNER = table({ port: required('PORT', 4, be16), note: optional('NOTE', 1, text) });
const ALL = table({
  small: optional('SMALL', 1, u8),
  half: optional('HALF', 2, u16),
  word: optional('WORD', 3, u32),
  long: optional('LONG', 5, u64),
  net: optional('NET', 6, marked(be32)),
  name: optional('NAME', 7, text),
  bytes: optional('BYTES', 8, raw),
  v4: optional('V4', 9, address),
  v6: optional('V6', 10, address),
  union4: optional('UNION4', 11, inetAddress(4)),
  union6: optional('UNION6', 12, inetAddress(6)),
  inner: optional('INNER', 13, nested(INNER)),
});

const ip4 = fc.nat(0xffff_ffff).map((value) => value as IpAddress);
const ip6 = fc.bigInt({ min: 0n, max: (1n << 128n) - 1n }).map((value) => value as IpAddress);

describe('encode and decode', () => {
  test('are each other’s inverse', () => {
    const value = fc.record(
      {
        small: fc.nat(0xff),
        half: fc.nat(0xffff),
        word: fc.nat(0xffff_ffff),
        long: fc.maxSafeNat(),
        net: fc.nat(0xffff_ffff),
        name: fc.string({ unit: 'grapheme', maxLength: 40 }).filter((s) => !s.includes('\0')),
        bytes: fc.uint8Array({ maxLength: 40 }),
        v4: ip4,
        v6: ip6,
        union4: ip4,
        union6: ip6,
        inner: fc.record({ port: fc.nat(0xffff), note: fc.constantFrom('', 'a') }),
      },
      { requiredKeys: [] },
    );
    fc.assert(fc.property(value, (v) => expect(decode(ALL, encoded(ALL, v))).toEqual(v)));
  });

  test('the bytes of each kind', () => {
    const value = { half: 0x0102, net: 0x03040506, name: 'é', v4: parseIp('10.0.0.1')!, inner: { port: 80 } };
    expect(Buffer.from(encoded(ALL, value)).toString('hex')).toBe(
      '06000200' +
        '02010000' +
        '08000640' +
        '03040506' +
        '07000700' +
        'c3a90000' +
        '08000900' +
        '0a000001' +
        '0c000d80' +
        '06000400' +
        '00500000',
    );
  });

  const PRESENCE = table({
    need: required('NEED', 1, u8),
    may: optional('MAY', 2, u8),
    other: fallback('OTHER', 3, u8, 7),
    always: constant('ALWAYS', 4, u8, 9),
  });

  test('presence', () => {
    expect(Buffer.from(encoded(PRESENCE, { need: 1 })).toString('hex')).toBe(
      '0500010001000000' + '0500030007000000' + '0500040009000000',
    );
    expect(decode(PRESENCE, hex('05000100 01000000'))).toEqual({ need: 1, may: undefined, other: 7 });
    expect(decode(PRESENCE, hex('05000100 01000000 05000300 02000000 05000400 03000000'))).toEqual({
      need: 1,
      may: undefined,
      other: 2,
    });
    expect(() => decode(PRESENCE, hex('05000200 01000000'))).toThrow(new DecodeError('NEED', 0, MISSING));
  });

  test('reported: only replies need it; traced: neither written nor read', () => {
    const rows = table({ said: reported('SAID', 5, u8), shown: traced('SHOWN', 6, u8) });
    const shown = { shown: 3 };
    expect(encoded(rows, shown)).toHaveLength(0);
    expect(decode(rows, hex('05000500 01000000 05000600 03000000'))).toEqual({ said: 1 });
    expect(() => decode(rows, hex('05000600 03000000'))).toThrow(new DecodeError('SAID', 0, MISSING));
  });

  test('the last of two counts, flags in the type do not, unknown ones are skipped', () => {
    expect(decode(PRESENCE, hex('050001c0 01000000 05000100 02000000 0400ff3f')).need).toBe(2);
  });

  test('text without a NUL, or with more behind it', () => {
    expect(decode(ALL, hex('06000700 6162 ffff')).name).toBe('ab');
    expect(decode(ALL, hex('0a000700 61620063 ffff 0000')).name).toBe('ab');
    expect(decode(ALL, hex('08000700 c3a900ff')).name).toBe('é');
  });
});

describe('malformed', () => {
  test.each([
    ['a length below that of its header', '03000100', /attribute at byte 0: length 3/],
    ['a length of 0', '00000100 00000000', /length 0/],
    ['a length past the end', '09000100 01000000', /length 9 exceeds the remaining 8 bytes/],
    ['bytes left over', '05000100 01000000 0500', /the remaining 2 bytes are less than its header/],
    ['a scalar too short', '05000200 01000000', /HALF at byte 4: 1 bytes instead of 2/],
    ['a scalar too long', '08000200 01000000', /HALF at byte 4: 4 bytes instead of 2/],
    ['an address too short', '07000900 0a000000', /address at byte 4: 3 bytes instead of 4 or 16/],
    [
      'a nest whose attribute is longer than it',
      '0a000d80 09000400 0050 0000',
      /length 9 exceeds the remaining 6 bytes/,
    ],
    ['a nest that lacks what it needs', '04000d80', /PORT at byte 4: the required attribute is missing/],
  ])('%s', (_name, bytes, message) => {
    expect(() => decode(ALL, hex(bytes))).toThrow(DecodeError);
    expect(() => decode(ALL, hex(bytes))).toThrow(message);
  });

  test('a range outside of the bytes', () => {
    const bytes = hex('05000100 01000000');
    expect(() => decode(ALL, bytes, 0, 12)).toThrow(DecodeError);
    expect(() => decode(ALL, bytes, 12)).toThrow(DecodeError);
    expect(() => forEachAttribute(bytes, 0, 12, () => undefined)).toThrow(DecodeError);
  });
});

describe('single attributes', () => {
  const bytes = hex('05000100 01000000 06000280 02030000');

  test('forEachAttribute', () => {
    const seen: number[][] = [];
    forEachAttribute(bytes, 0, bytes.length, (...args) => seen.push(args));
    expect(seen).toEqual([
      [1, 4, 5],
      [2, 12, 14],
    ]);
  });
});
