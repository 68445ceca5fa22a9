import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { DecodeError } from '../../src/netlink/codec/decode-error.ts';
import { decodeFlow } from '../../src/netlink/family/conntrack/flow.ts';
import { decodeFamily } from '../../src/netlink/family/genl-ctrl/family.ts';
import { decodeFailedEntry } from '../../src/netlink/family/ipset/entry-message.ts';
import { chooseProtocol, decodeRevision } from '../../src/netlink/family/ipset/set.ts';
import { decodeConfig } from '../../src/netlink/family/ipvs/config.ts';
import { decodeDestination } from '../../src/netlink/family/ipvs/destination.ts';
import { decodeService } from '../../src/netlink/family/ipvs/service.ts';
import { decodeStats } from '../../src/netlink/family/ipvs/stats.ts';
import { decodeAddress } from '../../src/netlink/family/route/address.ts';
import { decodeLink } from '../../src/netlink/family/route/link.ts';
import { NLMSG_DONE, NLMSG_ERROR, type NetlinkMessage } from '../../src/netlink/netlink-message.ts';
import { captured } from './capture.ts';
import { allMessages, listedSets } from './netlink.ts';

type Decoder = (payload: Uint8Array) => unknown;

// It reads errors, whose attributes are within the request that they hold.
const failedEntry: Decoder = (payload) => decodeFailedEntry({ flags: 0, payload });

/** Every decoder that could be given a message of this tool. */
const DECODERS: Readonly<Record<string, readonly Decoder[]>> = {
  'genl-ctrl': [decodeFamily],
  ipvsadm: [decodeService, (p) => decodeDestination(p, 4), (p) => decodeDestination(p, 6), decodeStats, decodeConfig],
  ipset: [(p) => listedSets([p]), decodeRevision, chooseProtocol, failedEntry],
  ip: [decodeLink, decodeAddress],
  'ip-dummy': [decodeLink],
  conntrack: [decodeFlow],
};

/** The different messages that a tool received. */
function messagesOf(tool: string): NetlinkMessage[] {
  const seen = new Map<string, NetlinkMessage>();
  for (const { received } of captured(tool).values()) {
    for (const message of allMessages(received)) seen.set(Buffer.from(message.payload).toString('hex'), message);
  }
  return [...seen.values()];
}

/** Decodes, and takes a DecodeError for an answer; any other exception fails the test. Answers whether it was read. */
function survives(decoder: Decoder, payload: Uint8Array): boolean {
  try {
    decoder(payload);
    return true;
  } catch (error) {
    if (error instanceof DecodeError) return false;
    throw error;
  }
}

/** The payload in the middle of other bytes: what is read past its end would be 0xff. */
function surrounded(payload: Uint8Array): Uint8Array {
  const larger = new Uint8Array(payload.length + 64).fill(0xff);
  larger.set(payload, 32);
  return larger.subarray(32, 32 + payload.length);
}

const cases = Object.entries(DECODERS).map(([tool, decoders]) => {
  const replies = messagesOf(tool);
  return { tool, decoders, replies, payloads: replies.map((message) => message.payload) };
});

/** Gives each payload, damaged in each way, to each decoder; answers how many were read and how many refused. */
function count(
  decoders: readonly Decoder[],
  payloads: readonly Uint8Array[],
  damage: (payload: Uint8Array) => Iterable<Uint8Array>,
): { read: number; refused: number } {
  const counts = { read: 0, refused: 0 };
  for (const payload of payloads) {
    for (const damaged of damage(payload)) {
      for (const decoder of decoders) counts[survives(decoder, damaged) ? 'read' : 'refused']++;
    }
  }
  return counts;
}

/** Cut off at every byte of a short one, at some hundred of a long one. */
function* cuts(payload: Uint8Array): Generator<Uint8Array> {
  const step = Math.max(1, Math.floor(payload.length / 400));
  for (let end = 0; end < payload.length; end += step) yield surrounded(payload.subarray(0, end));
}

/** With each of some wrong lengths wherever a length can be. */
function* wrongLengths(payload: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at + 4 <= Math.min(payload.length, 400); at += 4) {
    for (const length of [0, 1, 3, 4, 5, 7, 8, payload.length - at, payload.length - at + 1, 0x7fff, 0xffff]) {
      const damaged = surrounded(payload);
      damaged[at] = length & 0xff;
      damaged[at + 1] = length >> 8;
      yield damaged;
    }
  }
}

describe.each(cases)('replies to $tool', ({ decoders, replies, payloads }) => {
  test('each undamaged reply is read by at least one decoder', () => {
    const unread = replies
      .filter(({ type }) => type !== NLMSG_ERROR && type !== NLMSG_DONE)
      .filter(({ payload }) => !decoders.some((decoder) => survives(decoder, surrounded(payload))));
    expect(unread).toEqual([]);
  });

  test('a reply cut off at any byte is decoded or a typed error', () => {
    expect(count(decoders, payloads, cuts).refused).toBeGreaterThan(0);
  });

  test('a reply with wrong lengths is decoded or a typed error', () => {
    expect(count(decoders, payloads, wrongLengths).refused).toBeGreaterThan(0);
  });

  test('a reply with random changes is decoded or a typed error', () => {
    const change = fc.tuple(fc.nat(), fc.nat(255));
    const damage = fc.tuple(fc.constantFrom(...payloads), fc.array(change, { minLength: 1, maxLength: 20 }));
    const property = fc.property(damage, ([payload, changes]) => {
      const damaged = surrounded(payload);
      for (const [at, value] of changes) if (damaged.length > 0) damaged[at % damaged.length] = value;
      for (const decoder of decoders) survives(decoder, damaged);
    });
    expect(() => fc.assert(property, { numRuns: 2000 })).not.toThrow();
  });

  test('random bytes are decoded or a typed error', () => {
    const property = fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      for (const decoder of decoders) survives(decoder, surrounded(bytes));
    });
    expect(() => fc.assert(property, { numRuns: 1000 })).not.toThrow();
  });

  test('an unknown attribute after the others changes nothing', () => {
    const unknown = [9, 0, 0xfe, 0x3f, 1, 2, 3, 4, 5, 0, 0, 0];
    const readable = payloads
      .filter((payload) => payload.length % 4 === 0)
      .flatMap((payload) =>
        decoders.filter((d) => d !== failedEntry && survives(d, payload)).map((d) => [d, payload] as const),
      );
    expect(readable.length).toBeGreaterThan(0);
    for (const [decoder, payload] of readable) {
      expect(decoder(surrounded(Uint8Array.from([...payload, ...unknown])))).toEqual(decoder(payload));
    }
  });
});
