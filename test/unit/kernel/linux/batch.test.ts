import { constants } from 'node:os';
import { describe, expect, test } from '@jest/globals';
import { type BatchConnection, askAll, runBatch } from '../../../../src/kernel/linux/batch.ts';
import { NLM_F_DUMP_INTR } from '../../../../src/netlink/codec/flags.ts';
import type { MessageWriter } from '../../../../src/netlink/codec/message-writer.ts';
import { NetlinkError } from '../../../../src/netlink/error.ts';

const { EEXIST, ENOBUFS, EPERM, ETIMEDOUT } = constants.errno;

interface Sent {
  readonly sequences: readonly number[];
  readonly segments: readonly number[];
}

/** A socket whose answers a test makes up from the sequence numbers of the request. */
class ScriptedConnection implements BatchConnection {
  readonly maxSegment = 64 * 1024;
  readonly receiveBuffer = 8 * 1024 * 1024;
  readonly sent: Sent[] = [];
  readonly #answer: (sent: Sent) => Uint8Array;
  #next = 1;

  constructor(answer: (sent: Sent) => Uint8Array) {
    this.#answer = answer;
  }

  sequence(n: number): number {
    const first = this.#next;
    this.#next += n;
    return first;
  }

  async transact(request: Uint8Array, segments: readonly number[]): Promise<Uint8Array> {
    const view = new DataView(request.buffer, request.byteOffset, request.byteLength);
    const sequences: number[] = [];
    for (let at = 0; at < request.length; at += view.getUint32(at, true)) sequences.push(view.getUint32(at + 8, true));
    const sent = { sequences, segments };
    this.sent.push(sent);
    return await Promise.resolve(this.#answer(sent));
  }
}

function message(type: number, flags: number, sequence: number, payload: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(16 + payload.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, bytes.length, true);
  view.setUint16(4, type, true);
  view.setUint16(6, flags, true);
  view.setUint32(8, sequence, true);
  bytes.set(payload, 16);
  return bytes;
}

function errorMessage(sequence: number, errno: number): Uint8Array {
  const payload = new Uint8Array(20);
  new DataView(payload.buffer).setInt32(0, -errno, true);
  return message(2, 0x100, sequence, payload);
}

function lost(): NetlinkError {
  return new NetlinkError({ kind: 'lost', operation: 'receive', errno: ENOBUFS, outcomeUnknown: true });
}

function write(writer: MessageWriter, item: number): void {
  writer.begin(16);
  writer.u32(item);
  writer.end();
}

const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

describe('a batch of changes', () => {
  test('a batch reports each refused item by its index in the request', async () => {
    const connection = new ScriptedConnection(({ sequences }) =>
      Buffer.concat([errorMessage(sequences[2] ?? 0, EEXIST), errorMessage(sequences[7] ?? 0, EPERM)]),
    );
    let sends = 0;
    const refused = await runBatch(connection, numbers(10), write, (messages) => {
      sends += messages;
    });
    expect(refused).toMatchObject([
      { item: 2, errno: EEXIST, code: 'EEXIST' },
      { item: 7, errno: EPERM, code: 'EPERM', text: 'needs root or CAP_NET_ADMIN' },
    ]);
    expect(connection.sent).toHaveLength(1);
    expect(sends).toBe(10);
  });

  test('a batch is split into transactions, so that the event loop runs in between', async () => {
    const connection = new ScriptedConnection(() => new Uint8Array(0));
    let ticks = 0;
    const ticking = setInterval(() => {
      ticks += 1;
    }, 1);
    expect(await runBatch(connection, numbers(50_000), write, () => undefined)).toEqual([]);
    clearInterval(ticking);
    expect(connection.sent.length).toBeGreaterThan(5);
    expect(connection.sent.flatMap(({ sequences }) => sequences)).toEqual(numbers(50_000).map((n) => n + 1));
    expect(ticks).toBeGreaterThan(0);
  });

  test('a batch whose replies were lost is repeated in small segments', async () => {
    let losses = 1;
    const connection = new ScriptedConnection(({ sequences }) => {
      if (losses-- > 0) throw lost();
      return sequences.length > 10 ? errorMessage(sequences[10] ?? 0, EEXIST) : new Uint8Array(0);
    });
    const refused = await runBatch(connection, numbers(100), write, () => undefined);
    expect(connection.sent.map(({ sequences }) => sequences.length)).toEqual([100, 32, 32, 32, 4]);
    expect(refused.map(({ item }) => item)).toEqual([10, 42, 74]);
  });

  test('a batch is encoded one segment ahead, and keeps its order if replies were lost', async () => {
    const steps: string[] = [];
    let losses = 1;
    const connection = new ScriptedConnection(({ sequences }) => {
      steps.push(`send ${sequences.length}`);
      if (losses-- > 0) throw lost();
      return new Uint8Array(0);
    });
    const encode = (writer: MessageWriter, item: number): void => {
      if (item % 50 === 0) steps.push(`encode ${item}`);
      write(writer, item);
    };
    expect(await runBatch(connection, numbers(150), encode, () => undefined, 25)).toEqual([]);
    const again = ['encode 0', 'send 32', 'send 18'];
    expect(steps).toEqual(['encode 0', 'send 50', 'encode 50', ...again, 'send 50', 'encode 100', 'send 50']);
  });

  test('a batch whose replies are always lost fails for each item, after a bounded number of attempts', async () => {
    const connection = new ScriptedConnection(() => {
      throw lost();
    });
    const refused = await runBatch(connection, numbers(100), write, () => undefined);
    expect(refused).toHaveLength(100);
    expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(['ENOBUFS']));
    expect(connection.sent).toHaveLength(5);
  });

  test.each([
    ['timeout', ETIMEDOUT, 'TIMEOUT'],
    ['closed', constants.errno.ECANCELED, 'CLOSED'],
  ] as const)('a batch that ends with %s fails for each item, without an errno', async (kind, errno, code) => {
    const connection = new ScriptedConnection(() => {
      throw new NetlinkError({ kind, operation: 'receive', errno });
    });
    const refused = await runBatch(connection, numbers(3), write, () => undefined);
    expect(refused).toMatchObject(numbers(3).map((item) => ({ item, errno: 0, code })));
    expect(connection.sent).toHaveLength(1);
  });
});

describe('dumps and reads', () => {
  const word = (value: number): Uint8Array => Uint8Array.of(value, 0, 0, 0);
  const done = (sequence: number, flags = 0): Uint8Array => message(3, 2 | flags, sequence, word(0));
  const dump = (writer: MessageWriter, item: number): void => {
    writer.begin(16);
    writer.u32(item);
    writer.endDump();
  };

  test('a dump that a change interrupted is discarded and repeated', async () => {
    let interruptions = 2;
    const connection = new ScriptedConnection(({ sequences }) => {
      const flag = interruptions-- > 0 ? NLM_F_DUMP_INTR : 0;
      return Buffer.concat(
        sequences.flatMap((sequence, index) => {
          const own = index === sequences.length - 1 ? flag : 0;
          return [message(30, 2 | own, sequence, word(index)), done(sequence, own)];
        }),
      );
    });
    const read: string[] = [];
    await askAll(connection, [10, 20, 30], {
      operation: 'TEST',
      write: dump,
      read: ({ payload }, item) => read.push(`${item}:${payload[0]}`),
    });
    expect(read).toEqual(['10:0', '20:1', '30:0']);
    expect(connection.sent.map(({ sequences }) => sequences.length)).toEqual([3, 1, 1]);
  });

  test('a reply that was read is released', async () => {
    const replies: Uint8Array[] = [];
    const connection = new ScriptedConnection(({ sequences }) => {
      const reply = message(16, 0, sequences[0] ?? 0, Uint8Array.of(7));
      replies.push(reply);
      return reply;
    });
    const read: (number | undefined)[] = [];
    const question = { operation: 'TEST', write: dump };
    await askAll(connection, [1], { ...question, read: ({ payload }) => read.push(payload[0]) });
    expect(read).toEqual([7]);
    expect(replies.map(({ byteLength }) => byteLength)).toEqual([0]);
  });

  test('a dump that is always interrupted fails', async () => {
    const connection = new ScriptedConnection(({ sequences }) => done(sequences[0] ?? 0, NLM_F_DUMP_INTR));
    const asked = askAll(connection, [1], { operation: 'RTM_GETADDR', write: dump, read: () => undefined });
    await expect(asked).rejects.toMatchObject({ operation: 'RTM_GETADDR', code: 'EINTR' });
    expect(connection.sent.length).toBeLessThan(20);
  });

  test('a read fails with the error of the kernel, unless the error means "does not exist"', async () => {
    const connection = new ScriptedConnection(({ sequences }) => errorMessage(sequences[0] ?? 0, EPERM));
    const question = { operation: 'TEST', write: dump, read: () => undefined };
    await expect(askAll(connection, [1], question)).rejects.toMatchObject({ kind: 'kernel', code: 'EPERM' });
    await askAll(connection, [1], { ...question, absent: new Set([EPERM]) });
  });
});
