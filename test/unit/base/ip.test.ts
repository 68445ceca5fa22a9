import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { cidrContains, cidrOf, formatCidr, parseCidr } from '../../../src/base/cidr.ts';
import {
  type Ip4,
  type Ip6,
  compareIp,
  familyOf,
  formatHostPort,
  formatIp,
  ip4FromBytes,
  ip6FromBytes,
  isLinkLocal6,
  isLoopback,
  parseIp,
} from '../../../src/base/ip.ts';
import { toPort } from '../../../src/base/port.ts';

const ip4 = fc.nat(0xffff_ffff).map((value) => value as Ip4);
const ip6 = fc.bigInt(1n << 48n, (1n << 128n) - 1n).map((value) => value as Ip6);

describe('parseIp', () => {
  test.each([
    ['10.0.0.1', '10.0.0.1'],
    ['255.255.255.255', '255.255.255.255'],
    ['010.000.000.001', '10.0.0.1'],
    ['fd00::1', 'fd00::1'],
    ['FD00:0:0:0:0:0:0:1', 'fd00::1'],
    ['::', '::'],
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['::ffff:010.0.00.0001', '10.0.0.1'],
    ['::ffff:a00:1', '10.0.0.1'],
    ['0:0:0:0:0:FFFF:a00:1', '10.0.0.1'],
    ['2001:db8::10.0.0.1', '2001:db8::a00:1'],
    ['::10.0.0.1', '::a00:1'],
    ['1:2:3:4:5:6:7:8', '1:2:3:4:5:6:7:8'],
    ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
    ['::2:3:4:5:6:7:8', '0:2:3:4:5:6:7:8'],
    ['1:2:3:4:5:6:10.0.0.1', '1:2:3:4:5:6:a00:1'],
  ])('reads %s as %s', (text, canonical) => {
    const address = parseIp(text);
    expect(address === undefined ? undefined : formatIp(address)).toBe(canonical);
  });

  test.each([
    '',
    '10',
    '10.0.0',
    '10.0.0.256',
    '10.0.0.1.2',
    '10.0.0.1 ',
    '0x0a.0.0.1',
    'fe80::1%eth0',
    '::g',
    'a',
    '1:2',
    ':',
    ':::',
    ':1',
    '1:',
    '1::2::3',
    '1:::2',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '1:2:3:4:5:6:7:8:',
    '1:2:3:4::5:6:7:8',
    '12345::',
    '::1.2.3',
    '::1.2.3.4:5',
    '::1.2.3.4.5',
    '::0x1.2.3.4',
    '1:2:3:4:5:6:7:1.2.3.4',
    '1.2.3.4::',
    ':: ',
  ])('refuses %p', (text) => expect(parseIp(text)).toBeUndefined());

  test('parsing and formatting an address are inverse, as text and as bytes', () => {
    fc.assert(
      fc.property(fc.oneof(ip4, ip6), (address) => {
        const bytes = Uint8Array.of(0, 0, ...ipaddr.parse(formatIp(address)).toByteArray());
        expect(familyOf(address) === 4 ? ip4FromBytes(bytes, 2) : ip6FromBytes(bytes, 2)).toBe(address);
        expect(parseIp(formatIp(address))).toBe(address);
      }),
    );
  });

  test('IPv6 text is read and written as by ipaddr.js, with any zeros omitted', () => {
    const group = fc.oneof(fc.constant(0), fc.nat(0xffff));
    fc.assert(
      fc.property(fc.array(group, { minLength: 8, maxLength: 8 }), fc.nat(7), fc.nat(7), (groups, at, length) => {
        const words = groups.map((value) => value.toString(16));
        const left = groups.slice(at, at + length).every((value) => value === 0) && length > 0;
        const text = left
          ? `${words.slice(0, at).join(':')}::${words.slice(at + length).join(':')}`
          : words.join(':').toUpperCase();
        const theirs = ipaddr.IPv6.parse(text);
        const address = ip6FromBytes(Uint8Array.from(theirs.toByteArray()), 0);
        expect(formatIp(address)).toBe(theirs.toRFC5952String());
        fc.pre(address >> 32n !== 0xffffn);
        expect(parseIp(text)).toBe(address);
      }),
    );
  });

  test('addresses have an order, a host:port form and special ranges', () => {
    const [a, b, c] = ['10.0.0.1', '200.0.0.1', 'fd00::1'].map((text) => parseIp(text) ?? (0 as Ip4));
    expect([c, b, a].toSorted((x, y) => compareIp(x as Ip4, y as Ip4))).toEqual([a, b, c]);
    expect(formatHostPort(c as Ip6, 80)).toBe('[fd00::1]:80');
    expect(isLoopback(parseIp('127.3.2.1') as Ip4)).toBe(true);
    expect(isLoopback(parseIp('::1') as Ip6)).toBe(true);
    expect(isLinkLocal6(parseIp('febf::1') as Ip6)).toBe(true);
    expect(isLinkLocal6(parseIp('fec0::1') as Ip6)).toBe(false);
  });
});

describe('cidr', () => {
  test.each([
    ['10.1.2.3/8', '10.0.0.0/8'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['200.1.2.3/31', '200.1.2.2/31'],
    ['fd00:1::1/32', 'fd00:1::/32'],
    ['::/0', '::/0'],
  ])('%s is %s', (text, canonical) => {
    const cidr = parseCidr(text);
    expect(cidr && formatCidr(cidr)).toBe(canonical);
  });

  test.each(['10.0.0.0', '10.0.0.0/33', '10.0.0.0/-1', '10.0.0.0/', 'fd00::/129', '/8', '10.0.0.0/8/8'])(
    'refuses %p',
    (text) => expect(parseCidr(text)).toBeUndefined(),
  );

  test('a CIDR contains its own address, and no address with another bit inside the prefix', () => {
    fc.assert(
      fc.property(ip4, fc.integer({ min: 1, max: 32 }), (address, prefix) => {
        const cidr = cidrOf(address, prefix);
        expect(cidrContains(cidr, address)).toBe(true);
        expect(cidrContains(cidr, ((address ^ (1 << (32 - prefix))) >>> 0) as Ip4)).toBe(false);
      }),
    );
    expect(cidrContains(cidrOf(0 as Ip4, 0), 1n as Ip6)).toBe(false);
  });
});

test.each([
  [1, 1],
  [65_535, 65_535],
  [0, undefined],
  [70_000, undefined],
  [1.5, undefined],
  ['80', undefined],
  [null, undefined],
])('toPort(%p) is %p', (value, port) => expect(toPort(value)).toBe(port));
