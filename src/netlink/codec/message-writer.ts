import { type IpAddress, isIp4 } from '../../base/ip.ts';
import { NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, align4 } from './flags.ts';

/** Limits of a segment of a batch. A segment is sent with one sendmsg, so it is at most SO_SNDBUF bytes. */
export interface SegmentLimits {
  readonly messages: number;
  /** Bytes; a single message may be larger. */
  readonly bytes: number;
}

// The error replies fit in a default receive buffer even if every message of a segment fails. Beyond a few hundred
// messages, larger segments do not reduce the cost per message. The bytes fit in a default send buffer (212,992).
export const SEGMENT_LIMITS: SegmentLimits = { messages: 500, bytes: 128 * 1024 };

/** An encoded batch. `bytes` is a view of the writer's buffer, valid until its next `reset`. */
export interface EncodedRequest {
  readonly bytes: Uint8Array;
  /** Lengths of the segments, in order; their sum is the length of `bytes`. */
  readonly segments: readonly number[];
  /** The message with index i has this sequence number + i (modulo 2^32). */
  readonly firstSequence: number;
  readonly messages: number;
}

const encoder = new TextEncoder();

/**
 * Appends netlink messages to one growing buffer that all batches reuse. Call `reset`; for each message `begin`, header
 * fields, attributes and `end`; then `finish`. Host order is little-endian.
 *
 * The last message of each segment requests an acknowledgement or is a dump. The kernel replies to the others only if
 * they fail (net/netlink/af_netlink.c: netlink_rcv_skb).
 */
export class MessageWriter {
  #limits: SegmentLimits;
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView<ArrayBuffer>;
  #at = 0;
  #messages = 0;
  #messageStart = 0;
  #previousStart = -1;
  #segmentStart = 0;
  #segmentMessages = 0;
  #segments: number[] = [];
  #finished = false;

  constructor(limits: Partial<SegmentLimits> = {}, capacity = 256 * 1024) {
    this.#limits = { ...SEGMENT_LIMITS, ...limits };
    this.#bytes = new Uint8Array(align4(capacity));
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** Completed messages. `finish` uses one sequence number for each. */
  get messages(): number {
    return this.#messages;
  }

  /** Starts a new batch, which overwrites the result of the last `finish`. */
  reset(limits: SegmentLimits = this.#limits): void {
    this.#limits = limits;
    this.#at = 0;
    this.#messages = 0;
    this.#segmentStart = 0;
    this.#segmentMessages = 0;
    this.#previousStart = -1;
    this.#segments = [];
    this.#finished = false;
  }

  /** Writes a struct nlmsghdr; NLM_F_REQUEST is added to the flags. */
  begin(type: number, flags = 0): void {
    if (this.#finished) throw new Error('netlink: the batch is finished; reset the writer first');
    this.#messageStart = this.#at;
    this.u32(0);
    this.u16(type);
    this.u16(flags | NLM_F_REQUEST);
    this.u32(0);
    this.u32(0);
  }

  /** Ends the message. Returns its index in the batch. */
  end(): number {
    this.#close();
    const start = this.#messageStart;
    if (this.#at - this.#segmentStart > this.#limits.bytes && this.#segmentMessages > 0) this.#cut(start);
    this.#previousStart = start;
    this.#segmentMessages++;
    if (this.#segmentMessages >= this.#limits.messages) this.#cut(this.#at);
    return this.#messages++;
  }

  /** Ends a dump request and its segment: a socket runs one dump at a time. */
  endDump(): number {
    this.#close();
    this.#addFlags(this.#messageStart, NLM_F_DUMP);
    this.#pushSegment(this.#at);
    return this.#messages++;
  }

  /**
   * Ends the last message of a batch that the kernel executes as a whole (nfnetlink), and its segment. The kernel does
   * not acknowledge this message, so the one before it requests an acknowledgement.
   */
  endBatch(): number {
    this.#close();
    this.#cut(this.#at);
    return this.#messages++;
  }

  /** Sets the sequence numbers that the connection allocated, one per message. */
  finish(firstSequence: number): EncodedRequest {
    if (this.#segmentMessages > 0) this.#cut(this.#at);
    let sequence = firstSequence;
    for (let at = 0; at < this.#at; at += align4(this.#view.getUint32(at, true))) {
      this.#view.setUint32(at + 8, sequence, true);
      sequence = (sequence + 1) >>> 0;
    }
    this.#finished = true;
    return {
      bytes: this.#bytes.subarray(0, this.#at),
      segments: this.#segments,
      firstSequence,
      messages: this.#messages,
    };
  }

  /** Writes the header of an attribute (type with its NLA_F_* bits). Returns the mark for `endAttribute`. */
  beginAttribute(type: number): number {
    const mark = this.#at;
    this.u16(0);
    this.u16(type);
    return mark;
  }

  endAttribute(mark: number): void {
    const length = this.#at - mark;
    if (length > 0xffff) throw new RangeError(`netlink: an attribute of ${length} bytes is too long`);
    this.#view.setUint16(mark, length, true);
    this.zeros(align4(length) - length);
  }

  u8(value: number): void {
    this.#reserve(1);
    this.#view.setUint8(this.#at, value);
    this.#at += 1;
  }

  u16(value: number): void {
    this.#reserve(2);
    this.#view.setUint16(this.#at, value, true);
    this.#at += 2;
  }

  u32(value: number): void {
    this.#reserve(4);
    this.#view.setUint32(this.#at, value, true);
    this.#at += 4;
  }

  be16(value: number): void {
    this.#reserve(2);
    this.#view.setUint16(this.#at, value);
    this.#at += 2;
  }

  be32(value: number): void {
    this.#reserve(4);
    this.#view.setUint32(this.#at, value);
    this.#at += 4;
  }

  /** 4 or 16 bytes in network order. */
  address(value: IpAddress): void {
    if (isIp4(value)) {
      this.be32(value);
      return;
    }
    this.#reserve(16);
    this.#view.setBigUint64(this.#at, value >> 64n);
    this.#view.setBigUint64(this.#at + 8, BigInt.asUintN(64, value));
    this.#at += 16;
  }

  zeros(count: number): void {
    this.#reserve(count);
    // fill() is slower for a few bytes.
    const end = this.#at + count;
    while (this.#at < end) this.#bytes[this.#at++] = 0;
  }

  /** UTF-8 text with a terminating NUL. */
  text(value: string): void {
    this.raw(encoder.encode(value));
    this.u8(0);
  }

  raw(value: Uint8Array): void {
    this.#reserve(value.length);
    this.#bytes.set(value, this.#at);
    this.#at += value.length;
  }

  #close(): void {
    const length = this.#at - this.#messageStart;
    this.#view.setUint32(this.#messageStart, length, true);
    this.zeros(align4(length) - length);
  }

  /** Ends the segment at offset `end` and requests an acknowledgement of its last message. */
  #cut(end: number): void {
    this.#addFlags(this.#previousStart, NLM_F_ACK);
    this.#pushSegment(end);
  }

  #pushSegment(end: number): void {
    this.#segments.push(end - this.#segmentStart);
    this.#segmentStart = end;
    this.#segmentMessages = 0;
  }

  #addFlags(message: number, flags: number): void {
    const at = message + 6;
    this.#view.setUint16(at, this.#view.getUint16(at, true) | flags, true);
  }

  #reserve(count: number): void {
    if (this.#at + count <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(this.#bytes.length * 2, align4(this.#at + count)));
    grown.set(this.#bytes);
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}
