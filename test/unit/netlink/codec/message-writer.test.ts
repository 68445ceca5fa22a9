import { describe, expect, test } from '@jest/globals';
import { MessageWriter } from '../../../../src/netlink/codec/message-writer.ts';
import { messages } from '../../../../src/netlink/netlink-message.ts';

const ACK = 0x4;
const DUMP = 0x300;

/** Appends `count` messages with a payload of so many bytes. */
function append(writer: MessageWriter, count: number, bytes = 4): void {
  for (let i = 0; i < count; i++) {
    writer.begin(0x40);
    writer.zeros(bytes);
    writer.end();
  }
}

/** The flags of the messages in each segment. */
function flagsBySegment(bytes: Uint8Array, segments: readonly number[]): number[][] {
  let at = 0;
  return segments.map((length) => {
    const flags = [...messages(bytes.subarray(at, at + length))].map((message) => message.flags);
    at += length;
    return flags;
  });
}

describe('MessageWriter', () => {
  test('a message has a header, payload and padding', () => {
    const writer = new MessageWriter();
    writer.begin(0x1234, 0x500);
    const mark = writer.beginAttribute(7);
    writer.text('ab');
    writer.endAttribute(mark);
    expect(writer.end()).toBe(0);
    const { bytes, segments, messages: count, firstSequence } = writer.finish(0x0a0b0c0d);
    expect(Buffer.from(bytes).toString('hex')).toBe(
      '18000000' + '3412' + '0505' + '0d0c0b0a' + '00000000' + '07000700' + '61620000',
    );
    expect({ segments, count, firstSequence }).toEqual({ segments: [24], count: 1, firstSequence: 0x0a0b0c0d });
  });

  test('every scalar is written in its byte order', () => {
    const writer = new MessageWriter();
    writer.begin(0);
    writer.u8(0x01);
    writer.u16(0x0203);
    writer.u32(0x04050607);
    writer.be16(0x1011);
    writer.be32(0x12131415);
    writer.raw(Uint8Array.of(0x16, 0x17, 0x18));
    writer.end();
    expect(Buffer.from(writer.finish(0).bytes.subarray(16)).toString('hex')).toBe(
      '01' + '0302' + '07060504' + '1011' + '12131415' + '161718',
    );
  });

  test('only the last message of each segment requests an acknowledgement', () => {
    const writer = new MessageWriter({ messages: 3 });
    append(writer, 7);
    const { bytes, segments } = writer.finish(1);
    expect(segments).toEqual([60, 60, 20]);
    expect(flagsBySegment(bytes, segments)).toEqual([[1, 1, 1 | ACK], [1, 1, 1 | ACK], [1 | ACK]]);
    expect([...messages(bytes)].map((message) => message.sequence)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  test('a segment ends before the message that would make it too long; a single message may be longer', () => {
    const writer = new MessageWriter({ bytes: 64 });
    append(writer, 4);
    append(writer, 1, 100);
    append(writer, 1);
    const { bytes, segments } = writer.finish(1);
    expect(segments).toEqual([60, 20, 116, 20]);
    expect(flagsBySegment(bytes, segments).map((flags) => flags.at(-1))).toEqual([5, 5, 5, 5]);
    expect(
      flagsBySegment(bytes, segments)
        .flat()
        .filter((flags) => (flags & ACK) === 0),
    ).toHaveLength(2);
  });

  test('a dump ends its segment and requests no acknowledgement', () => {
    const writer = new MessageWriter();
    append(writer, 1);
    writer.begin(0x41);
    expect(writer.endDump()).toBe(1);
    writer.begin(0x41);
    writer.endDump();
    append(writer, 2);
    const { bytes, segments } = writer.finish(1);
    expect(flagsBySegment(bytes, segments)).toEqual([[1, 1 | DUMP], [1 | DUMP], [1, 1 | ACK]]);
  });

  test('the message writer grows, is reused, and holds one batch at a time', () => {
    const writer = new MessageWriter({}, 16);
    append(writer, 100, 60);
    const { bytes } = writer.finish(1);
    expect([...messages(bytes)]).toHaveLength(100);
    expect(() => writer.begin(0)).toThrow(/finished/);
    writer.reset();
    expect(writer.finish(1)).toMatchObject({ segments: [], messages: 0 });
    writer.reset();
    append(writer, 2);
    expect(writer.messages).toBe(2);
    const again = writer.finish(9);
    expect(again).toMatchObject({ segments: [40], messages: 2, firstSequence: 9 });
    expect([...messages(again.bytes)].map((message) => message.sequence)).toEqual([9, 10]);
  });

  test('an attribute that is too long for its length field is an error', () => {
    const writer = new MessageWriter();
    writer.begin(0);
    const mark = writer.beginAttribute(1);
    writer.zeros(0x10000);
    expect(() => writer.endAttribute(mark)).toThrow(RangeError);
  });
});
