import { constants } from 'node:os';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { NetlinkError } from '../../../src/netlink/error.ts';
import { answerOf, interruptedDumps, messages, refusal } from '../../../src/netlink/netlink-message.ts';
import * as nl from './netlink-bytes.ts';

const { EEXIST, EINVAL, EBADMSG } = constants.errno;
const CAPPED = 0x100;
const TLVS = 0x200;

function attribute(type: number, value: Uint8Array): Uint8Array {
  const bytes = new Uint8Array((4 + value.length + 3) & ~3);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, 4 + value.length, true);
  view.setUint16(2, type, true);
  bytes.set(value, 4);
  return bytes;
}

function error(flags: number, ...parts: Uint8Array[]): Uint8Array {
  return nl.message({ type: nl.ERROR, flags, sequence: 9 }, nl.concat(nl.u32(-EINVAL), ...parts));
}

const only = (bytes: Uint8Array) => answerOf([...messages(bytes)][0]!);
const text = (words: string): Uint8Array => attribute(1, Buffer.from(`${words}\0`));
const request = (length: number): Uint8Array => nl.message({ type: 16, sequence: 9, length }, new Uint8Array(20));

describe('messages', () => {
  test('each with its own payload, however it ends', () => {
    const reply = nl.concat(
      nl.message({ type: 16, flags: 2, sequence: 1 }, Uint8Array.of(1, 2, 3)),
      nl.message({ type: 17, sequence: 0xffff_ffff }),
      nl.message({ type: 18, sequence: 3 }, Uint8Array.of(4)).subarray(0, 17),
    );
    expect([...messages(reply)].map((m) => ({ ...m, payload: [...m.payload] }))).toEqual([
      { type: 16, flags: 2, sequence: 1, payload: [1, 2, 3] },
      { type: 17, flags: 0, sequence: 0xffff_ffff, payload: [] },
      { type: 18, flags: 0, sequence: 3, payload: [4] },
    ]);
  });

  test('of nothing there are none', () => expect([...messages(new Uint8Array(0))]).toEqual([]));

  test.each<[string, Uint8Array]>([
    ['shorter than a header', new Uint8Array(15)],
    ['a length of 0', nl.message({ type: 16, sequence: 9, length: 0 })],
    ['a length of 15', nl.message({ type: 16, sequence: 9, length: 15 })],
    ['a length beyond the end', nl.message({ type: 16, sequence: 9, length: 17 })],
    ['a length of 4 GiB', nl.message({ type: 16, sequence: 9, length: 0xffff_ffff })],
    ['a rest', nl.concat(nl.message({ type: 16, sequence: 9 }), new Uint8Array(4))],
  ])('%s is a typed error', (_, bytes) => {
    expect(() => [...messages(bytes)]).toThrow(NetlinkError);
    expect(() => [...messages(bytes)]).toThrow(expect.objectContaining({ kind: 'malformed', errno: EBADMSG }));
  });

  test('any bytes are views inside the reply or a typed error', () => {
    // Small numbers in the length fields, so that many get past the first message.
    const bytes = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 40 }), fc.nat(255)), { maxLength: 200 });
    fc.assert(
      fc.property(bytes, (values) => {
        const whole = new Uint8Array(64 + values.length + 64).fill(0xee);
        whole.set(values, 64);
        const reply = whole.subarray(64, 64 + values.length);
        let end = 64;
        try {
          for (const message of messages(reply)) {
            expect(message.payload.byteOffset).toBe(end + 16);
            end = message.payload.byteOffset + ((message.payload.length + 3) & ~3);
            expect(message.payload.byteOffset + message.payload.length).toBeLessThanOrEqual(64 + values.length);
            answerOf({ ...message, type: nl.ERROR, flags: values[0] === 0 ? TLVS : TLVS | CAPPED });
          }
        } catch (thrown) {
          if (!(thrown instanceof NetlinkError) || thrown.kind !== 'malformed') throw thrown;
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe('answers', () => {
  test('an acknowledgement, a refusal, the end of a dump', () => {
    expect(only(nl.answer(9))).toEqual({ errno: 0, sequence: 9, text: undefined, offset: undefined });
    expect(only(nl.answer(9, EEXIST))).toMatchObject({ errno: EEXIST, sequence: 9 });
    expect(only(nl.message({ type: nl.DONE, sequence: 9 }, nl.u32(0)))).toMatchObject({ errno: 0 });
    expect(only(nl.message({ type: nl.DONE, sequence: 9 }, nl.u32(-EINVAL)))).toMatchObject({
      errno: EINVAL,
    });
    expect(only(nl.message({ type: nl.DONE, sequence: 9 }, nl.u32(12)))).toMatchObject({ errno: 0 });
    expect(only(nl.message({ type: nl.DONE, sequence: 9 }))).toMatchObject({ errno: 0, sequence: 9 });
    expect(only(nl.message({ type: 16, sequence: 9 }, nl.u32(-1)))).toBeUndefined();
  });

  test('text and offset follow the header of the request', () => {
    const answer = only(
      error(CAPPED | TLVS, request(36).subarray(0, 16), text('No such thing'), attribute(2, nl.u32(20))),
    );
    expect(answer).toEqual({ errno: EINVAL, sequence: 9, text: 'No such thing', offset: 20 });
  });

  test('or, where it is not capped, all of the request, aligned', () => {
    expect(only(error(TLVS, request(36), text('whole')))).toMatchObject({ text: 'whole' });
    expect(only(error(TLVS, request(33), text('odd')))).toMatchObject({ text: 'odd' });
  });

  test('and the errno of a DONE', () => {
    const bytes = nl.message({ type: nl.DONE, flags: TLVS, sequence: 9 }, nl.concat(nl.u32(-EINVAL), text('dump')));
    expect(only(bytes)).toMatchObject({ errno: EINVAL, text: 'dump' });
  });

  test('unknown attributes and text without a NUL are read over', () => {
    const parts = [
      request(16).subarray(0, 16),
      attribute(77, nl.u32(1)),
      attribute(0x4002, Uint8Array.of(1)),
      attribute(1, Buffer.from('bare')),
    ];
    expect(only(error(CAPPED | TLVS, ...parts))).toMatchObject({ text: 'bare', offset: undefined });
    expect(only(error(CAPPED, request(16).subarray(0, 16), text('not announced')))).toMatchObject({
      text: undefined,
    });
  });

  test.each<[string, Uint8Array]>([
    ['no errno', nl.message({ type: nl.ERROR, sequence: 9 })],
    ['half an errno', nl.message({ type: nl.DONE, sequence: 9 }, Uint8Array.of(1, 2))],
    ['a positive errno', nl.message({ type: nl.ERROR, sequence: 9 }, nl.u32(5))],
    ['no request where attributes follow', error(TLVS)],
    ['a request longer than the message', error(TLVS, request(100))],
    ['a request of 4 GiB', error(TLVS, request(0xffff_ffff))],
    ['an attribute of no length', error(CAPPED | TLVS, request(16).subarray(0, 16), nl.u32(0))],
    ['an attribute beyond the end', error(CAPPED | TLVS, request(16).subarray(0, 16), nl.u32(0x0001_0009))],
  ])('%s is malformed', (_, bytes) => {
    expect(() => only(bytes)).toThrow(expect.objectContaining({ kind: 'malformed' }));
  });

  test('refusals by sequence number; interrupted dumps', () => {
    const reply = nl.concat(
      nl.answer(1),
      nl.answer(2, EEXIST),
      nl.message({ type: 16, flags: nl.MULTI | nl.DUMP_INTR, sequence: 3 }),
      nl.message({ type: nl.DONE, sequence: 3 }, nl.u32(0)),
      nl.message({ type: nl.DONE, flags: nl.DUMP_INTR, sequence: 4 }, nl.u32(0)),
    );
    expect([...nl.refusals(reply).keys()]).toEqual([2]);
    expect([...interruptedDumps(reply)]).toEqual([3, 4]);
  });

  test('as an error it says operation, errno and the words of the kernel', () => {
    const answer = { errno: EEXIST, sequence: 9, text: 'Exclusivity flag on', offset: 20 };
    const made = refusal('RTM_NEWADDR', answer);
    expect(made).toMatchObject({ kind: 'kernel', code: 'EEXIST', outcomeUnknown: false });
    expect(made.message).toBe('RTM_NEWADDR: file already exists (EEXIST): Exclusivity flag on');
  });
});
