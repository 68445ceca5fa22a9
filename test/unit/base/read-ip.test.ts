import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { type Ip4, type Ip6, formatIp, parseIp } from '../../../src/base/ip.ts';
import { readIp } from '../../../src/base/read-ip.ts';
import { cidrContains, cidrOf, formatCidr, parseCidr } from '../../../src/base/cidr.ts';

// The two parsers of addresses, one for every endpoint and one with ipaddr.js, read the same texts.

const octet = fc.oneof(
  fc.nat(300).map(String),
  fc.tuple(fc.constantFrom('0', '00', '000'), fc.nat(300)).map(([zeros, value]) => `${zeros}${value}`),
);
const quad = fc.array(octet, { minLength: 3, maxLength: 5 }).map((octets) => octets.join('.'));
const group = fc.oneof(
  fc.constantFrom('0', '0000', '00001', 'ffff', 'FFFF', 'g', ''),
  fc.nat(0x1_ffff).map((value) => value.toString(16)),
);
const groups = (most: number): fc.Arbitrary<string> => fc.array(group, { maxLength: most }).map((all) => all.join(':'));
const ip6 = fc.oneof(
  groups(9),
  fc.tuple(groups(8), groups(8)).map((halves) => halves.join('::')),
  fc.tuple(groups(7), quad).map((parts) => parts.join(':')),
  fc.tuple(groups(5), groups(4), quad).map(([left, right, last]) => `${left}::${right}${right && ':'}${last}`),
  fc
    .tuple(fc.constantFrom('::ffff:', '::FFFF:', '0:0:0:0:0:ffff:', '::', '64:ff9b::'), quad)
    .map((all) => all.join('')),
  fc
    .bigInt(0n, (1n << 128n) - 1n)
    .map((value) => formatIp(value as Ip6))
    .chain((text) => fc.constantFrom(text, text.toUpperCase())),
);
const pieces = fc
  .array(
    fc.constantFrom(
      '0',
      '1',
      '10',
      '010',
      'ff',
      'ABCD',
      '12345',
      '255',
      '256',
      '0x1',
      ':',
      '::',
      '.',
      ' ',
      '%',
      'g',
      '-',
    ),
    {
      maxLength: 18,
    },
  )
  .map((all) => all.join(''));
const zoned = fc.tuple(ip6, fc.constantFrom('%', '%eth0', '%1')).map((parts) => parts.join(''));
const anyText = fc.oneof(quad, ip6, pieces, zoned, fc.string({ unit: 'binary' }));

describe('readIp', () => {
  test('reads and refuses any text as parseIp does', () => {
    fc.assert(
      fc.property(anyText, (text) => expect([text, readIp(text)]).toEqual([text, parseIp(text)])),
      { numRuns: 20_000 },
    );
  });

  test('reads what parseIp and ipaddr.js print', () => {
    const address = fc.oneof(
      fc.nat(0xffff_ffff).map((value) => value as Ip4),
      fc.bigInt(1n << 48n, (1n << 128n) - 1n).map((value) => value as Ip6),
    );
    fc.assert(
      fc.property(address, (value) => {
        const text = formatIp(value);
        const theirs = ipaddr.parse(text);
        expect([readIp(text), readIp(theirs.toNormalizedString())]).toEqual([value, value]);
        expect(text).toBe(theirs instanceof ipaddr.IPv6 ? theirs.toRFC5952String() : theirs.toString());
      }),
    );
  });

  // Where ipaddr.js alone reads another address, or one where Kubernetes reads none.
  test.each([
    ['a leading zero is not octal', '010.0.0.1', '8.0.0.1', '10.0.0.1'],
    ['"::" before IPv4 is zeros', '::10.0.0.1', '::ffff:a00:1', '::a00:1'],
    ['a mapped address is IPv4', '::ffff:10.0.0.1', '::ffff:a00:1', '10.0.0.1'],
    ['a zone is no part of an address', 'fe80::1%eth0', 'fe80::1%eth0', undefined],
    ['a hexadecimal part', '0x0a.0.0.1', '10.0.0.1', undefined],
    ['two parts', '10.1', '10.0.0.1', undefined],
    ['one part', '167772161', '10.0.0.1', undefined],
  ])('%s: %s', (_what, text, alone, ours) => {
    expect(ipaddr.parse(text).toString()).toBe(alone);
    const address = readIp(text);
    expect(address === undefined ? undefined : formatIp(address)).toBe(ours);
  });
});

describe('parseCidr', () => {
  test('any text: the network that ipaddr.js matches, by the address that parseIp reads', () => {
    const length = fc.oneof(fc.nat(140).map(String), fc.constantFrom('', '08', '-1', '1.5', ' 8', '0008', '8/8'));
    fc.assert(
      fc.property(anyText, length, (text, prefix) => {
        fc.pre(!text.includes('/'));
        const address = parseIp(text);
        const bits = typeof address === 'number' ? 32 : 128;
        const isValid = address !== undefined && /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits;
        expect(parseCidr(`${text}/${prefix}`)).toEqual(isValid ? cidrOf(address, Number(prefix)) : undefined);
      }),
      { numRuns: 5_000 },
    );
  });

  test('any network with any prefix, /0 too: what ipaddr.js says of its address and of what it contains', () => {
    const ip4 = fc.nat(0xffff_ffff).map((value) => value as Ip4);
    const large = fc.bigInt(1n << 48n, (1n << 128n) - 1n).map((value) => value as Ip6);
    const pair = fc.oneof(fc.tuple(ip4, ip4, fc.nat(32), fc.nat(32)), fc.tuple(large, large, fc.nat(128), fc.nat(128)));
    fc.assert(
      fc.property(pair, ([network, other, prefix, bit]) => {
        const cidr = parseCidr(`${formatIp(network)}/${prefix}`)!;
        const theirs = ipaddr.parse(formatIp(network)).kind() === 'ipv4' ? ipaddr.IPv4 : ipaddr.IPv6;
        const own = theirs.networkAddressFromCIDR(`${formatIp(network)}/${prefix}`);
        expect(readIp(own.toString())).toBe(cidr.address);
        expect(ipaddr.parseCIDR(formatCidr(cidr))[1]).toBe(prefix);
        // One that differs in one bit, and any other one.
        const near =
          typeof network === 'number' ? (network ^ (1 << (bit % 32))) >>> 0 : network ^ (1n << BigInt(bit % 128));
        for (const address of [near, other] as (Ip4 | Ip6)[]) {
          const isIn = ipaddr.parse(formatIp(address)).match(ipaddr.parseCIDR(formatCidr(cidr)));
          expect(cidrContains(cidr, address)).toBe(isIn);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
