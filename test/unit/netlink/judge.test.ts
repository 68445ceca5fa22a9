import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import * as control from 'netlink/dist/genl/structs.js';
import * as bits from 'netlink/dist/rt/gen_structs.js';
import * as route from 'netlink/dist/rt/structs.js';
import * as base from 'netlink/dist/structs.js';
import type { Ip4, Ip6, IpAddress } from '../../../src/base/ip.ts';
import { cidrOf } from '../../../src/base/cidr.ts';
import { addressFamily } from '../../../src/netlink/codec/address-family.ts';
import { MessageWriter } from '../../../src/netlink/codec/message-writer.ts';
import { decodeFamily, getFamily } from '../../../src/netlink/family/genl-ctrl/family.ts';
import { decodeAddress, deleteAddress, setAddress } from '../../../src/netlink/family/route/address.ts';
import { createLink, decodeLink } from '../../../src/netlink/family/route/link.ts';
import { addHostRoute, decodeLocalTable } from '../../../src/netlink/family/route/host-route.ts';
import { addService } from '../../../src/netlink/family/ipvs/service.ts';
import { answerOf, messages } from '../../../src/netlink/netlink-message.ts';

// The npm package `netlink` as an independent judge: its codecs (the part of it that is plain JavaScript) read what ours
// write and write what ours read, with random values. It knows headers, attributes, generic netlink's controller and route.

/** What the judge reads of the one message that we write. */
function judged(write: (writer: MessageWriter) => void, sequence = 1): base.NetlinkMessage {
  const writer = new MessageWriter();
  write(writer);
  const [message, ...more] = base.parseMessages(Buffer.from(writer.finish(sequence).bytes));
  expect(more).toEqual([]);
  return message!;
}

/** What the judge writes: the attributes, or header and attributes, of a message. */
function formatted(...parts: readonly base.StreamData[]): Buffer {
  const out = new base.AttrStream();
  for (const part of parts) out.emit(part);
  return Buffer.concat(out.bufs);
}

function bytesOf(address: IpAddress): Buffer {
  const hex =
    typeof address === 'number' ? address.toString(16).padStart(8, '0') : address.toString(16).padStart(32, '0');
  return Buffer.from(hex, 'hex');
}

const u8 = fc.nat(0xff);
const u32 = fc.nat(0xffff_ffff);
const index = fc.integer({ min: 1, max: 0x7fff_ffff });
const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,14}$/);
const address4 = u32.map((value) => value as Ip4);
const address6 = fc.bigInt({ min: 0n, max: (1n << 128n) - 1n }).map((value) => value as Ip6);
const address: fc.Arbitrary<IpAddress> = fc.oneof(address4, address6);
const familyOf = (value: IpAddress): 4 | 6 => (typeof value === 'number' ? 4 : 6);

function check<T>(arbitrary: fc.Arbitrary<T>, property: (value: T) => void): void {
  expect(() => fc.assert(fc.property(arbitrary, property), { numRuns: 200 })).not.toThrow();
}

test('headers of messages, both ways', () => {
  check(fc.record({ type: fc.integer({ min: 16, max: 0xffff }), flags: u8, seq: u32 }), ({ type, flags, seq }) => {
    const message = judged((writer) => {
      writer.begin(type, flags);
      writer.end();
    }, seq);
    // NLM_F_REQUEST, and NLM_F_ACK for the last message of a segment.
    expect(message).toMatchObject({ type, flags: flags | 0x5, seq });
    const data = Buffer.alloc(seq % 9, 7);
    const theirs = Buffer.concat(base.formatMessage({ type, flags, seq, port: 1, data }));
    const [read] = messages(theirs);
    expect(read).toMatchObject({ type, flags, sequence: seq });
    expect(Buffer.from(read!.payload)).toEqual(data);
  });
});

test('errors, as the judge writes them', () => {
  check(fc.record({ errno: fc.nat(4095), seq: u32 }), ({ errno, seq }) => {
    const data = Buffer.alloc(20);
    data.writeInt32LE(-errno);
    data.writeUInt32LE(16, 4);
    const [read] = messages(Buffer.concat(base.formatMessage({ type: 2, flags: 0, seq, port: 1, data })));
    expect(answerOf(read!)).toMatchObject({ errno, sequence: seq });
  });
});

test('families of generic netlink', () => {
  check(fc.record({ familyId: fc.nat(0xffff), familyName: name, version: u32 }), (family) => {
    const { data } = judged((writer) => getFamily(writer, family.familyName));
    expect(base.parseGenlHeader(data).x).toMatchObject({ cmd: 3, version: 1 });
    expect(control.parseMessage(data.subarray(4))).toEqual({ familyName: family.familyName });
    const reply = Buffer.concat([Buffer.from([1, 2, 0, 0]), formatted(control.formatMessage(family))]);
    expect(decodeFamily(reply)).toBe(family.familyId);
  });
});

test('addresses', () => {
  const flags = fc.constantFrom(0, 0x02, 0x80, 0x82);
  check(fc.record({ index, address, prefix: u8, flags }), (added) => {
    const read = route.parseAddressMessage(judged((writer) => setAddress(writer, added)).data);
    const family = addressFamily(familyOf(added.address));
    const { prefix } = added;
    expect(read.data).toMatchObject({ family, prefixlen: prefix, scope: 0, index: added.index });
    expect(bits.formatAddressFlags(read.data.flags!)).toBe(added.flags);
    const own = bytesOf(added.address);
    expect(read.attrs).toEqual({ local: own, address: own });
    const deleted = route.parseAddressMessage(judged((writer) => deleteAddress(writer, added)).data);
    expect(deleted.attrs).toEqual({ local: own, address: own });
  });
});

test('addresses, as the judge writes them', () => {
  const values = fc.record({ index, address, prefix: u8, flags: fc.constantFrom(0, 0x02, 0x80, 0x200, 0x202) });
  check(values, (given) => {
    const family = addressFamily(familyOf(given.address));
    const data = { family, prefixlen: given.prefix, scope: 0, index: given.index };
    const attrs = { address: bytesOf(given.address), label: 'eth0', flags: bits.parseAddressFlags(given.flags) };
    const theirs = formatted((out) => route.formatAddressMessage({ kind: 'address', data, attrs }, out));
    expect(decodeAddress(theirs)).toEqual(given);
  });
});

test('links', () => {
  check(fc.record({ index, name }), ({ index: at, name: called }) => {
    const made = route.parseLinkMessage(judged((writer) => createLink(writer, called, 'dummy')).data);
    expect(made.attrs).toMatchObject({ ifname: called });
    const kinds: unknown[] = [];
    base.parseAttributes(made.attrs.linkinfo as Buffer, ({ type, data }) => kinds.push([type, data.toString()]));
    expect(kinds).toEqual([[1, 'dummy\0']]);
    const message = { kind: 'link', data: { index: at }, attrs: { ifname: called } } as const;
    const theirs = formatted((out) => route.formatLinkMessage(message, out));
    expect(decodeLink(theirs)).toMatchObject({ index: at, name: called, kind: undefined });
  });
});

test('local routes', () => {
  const values = fc.record({ index, address, prefix: fc.nat(32), protocol: fc.integer({ min: 32, max: 180 }) });
  check(values, (given) => {
    const family = familyOf(given.address);
    const cidr = cidrOf(given.address, given.prefix);
    const ours = { cidr, index: given.index, protocol: given.protocol };
    const { data, attrs } = route.parseRouteMessage(judged((writer) => addHostRoute(writer, ours)).data);
    expect(data).toMatchObject({ family: addressFamily(family), dstLen: given.prefix, table: 255, type: 'LOCAL' });
    expect(attrs).toEqual({ dst: bytesOf(cidr.address), oif: given.index });
    const theirs = formatted((out) => route.formatRouteMessage({ kind: 'route', data, attrs }, out));
    expect(decodeLocalTable(theirs)).toEqual({ ...ours, isLocal: true });
  });
});

test('the attributes of IPVS, which the judge does not know by name', () => {
  check(fc.record({ address, port: fc.nat(0xffff), timeout: u32 }), ({ address: at, port, timeout }) => {
    const service = { address: at, port, protocol: 'UDP', scheduler: 'rr', flags: 0, timeout, prefix: 32 } as const;
    const { data } = judged((writer) => addService(writer, 28, service));
    expect(base.parseGenlHeader(data).x).toMatchObject({ cmd: 1, version: 1 });
    const found = new Map<number, Buffer>();
    base.parseAttributes(data.subarray(4), (nest) => {
      expect(nest.type).toBe(1);
      base.parseAttributes(nest.data, (attribute) => found.set(attribute.type, attribute.data));
    });
    expect(found.get(2)!.readUInt16LE()).toBe(17);
    expect(found.get(3)!.subarray(0, familyOf(at) === 4 ? 4 : 16)).toEqual(bytesOf(at));
    expect(found.get(4)!.readUInt16BE()).toBe(port);
    expect(found.get(6)!.toString()).toBe('rr\0');
    expect(found.get(8)!.readUInt32LE()).toBe(timeout);
  });
});
