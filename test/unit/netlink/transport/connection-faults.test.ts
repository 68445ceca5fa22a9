import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from '@jest/globals';
import { type SocketConnection, openConnection } from '../../../../src/netlink/transport/connection.ts';
import { NetlinkError } from '../../../../src/netlink/error.ts';
import { interruptedDumps, messages } from '../../../../src/netlink/netlink-message.ts';
import * as nl from '../netlink-bytes.ts';

// A socket pair whose other end is played here: what a kernel does seldom, or never.

const peer = nl.loadPeer();

interface Stage {
  readonly connection: SocketConnection;
  /** The connection's own descriptor. */
  readonly own: number;
  /** The other end. */
  readonly fd: number;
}

const stages: Stage[] = [];

function stage(type = nl.SOCK_SEQPACKET): Stage {
  return adopt(peer.pair(type));
}

function adopt([own, fd]: [number, number]): Stage {
  const connection = openConnection({ protocol: nl.NETLINK_ROUTE, fd: own });
  const made = { connection, own, fd };
  stages.push(made);
  return made;
}

afterEach(() => {
  for (const { connection, fd } of stages.splice(0)) {
    connection.close();
    peer.close(fd);
  }
});

async function failure(promise: Promise<unknown>): Promise<NetlinkError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(NetlinkError);
  return error as NetlinkError;
}

/** Starts a transaction of one dump with this sequence number and waits until its request has come over. */
function begin({ connection, fd }: Stage, sequence: number, deadlineMs = 10_000): Promise<Uint8Array> {
  const request = nl.getLink(sequence, 0, nl.DUMP);
  const promise = connection.transact(request, [request.length], { deadlineMs });
  // Looked at later: until then it must not count as unhandled.
  promise.catch(() => undefined);
  expect(peer.receive(fd, 5000)).toEqual(request);
  return promise;
}

const part = (sequence: number, payload = nl.u32(0)): Uint8Array =>
  nl.message({ type: nl.RTM_NEWLINK, flags: nl.MULTI, sequence }, payload);
const done = (sequence: number): Uint8Array => nl.message({ type: nl.DONE, flags: nl.MULTI, sequence }, nl.u32(0));
const sequences = (reply: Uint8Array): number[] => [...messages(reply)].map(({ sequence }) => sequence);

describe.each([
  ['datagrams', nl.SOCK_DGRAM],
  ['sequenced packets', nl.SOCK_SEQPACKET],
])('replies over %s', (_, type) => {
  test('the parts of a dump are concatenated up to DONE', async () => {
    const made = stage(type);
    const reply = begin(made, 5);
    peer.send(made.fd, nl.concat(part(5), part(5)));
    peer.send(made.fd, part(5));
    peer.send(made.fd, done(5));
    expect([...messages(await reply)].map(({ type: t }) => t)).toEqual([16, 16, 16, 3]);
  });

  test('a datagram far larger than the buffer is read whole', async () => {
    const made = stage(type);
    const payload = new Uint8Array(150_000).map((_value, index) => index % 251);
    const reply = begin(made, 5);
    peer.send(made.fd, part(5, payload));
    peer.send(made.fd, nl.concat(part(5, payload.subarray(0, 40_001)), done(5)));
    const found = [...messages(await reply)];
    expect(found.map((m) => m.payload.length)).toEqual([150_000, 40_001, 4]);
    expect(Buffer.compare(found[0]!.payload, payload)).toBe(0);
    expect(Buffer.compare(found[1]!.payload, payload.subarray(0, 40_001))).toBe(0);
    expect(made.connection.counters.bytesReceived).toBe(150_016 + 40_020 + 20);
  });
});

describe('lengths that lie', () => {
  const short = nl.message({ type: nl.RTM_NEWLINK, sequence: 5, length: 15 });
  test.each<[string, Uint8Array]>([
    ['an empty datagram', new Uint8Array(0)],
    ['a datagram shorter than a header', new Uint8Array(15)],
    ['a length of 0', nl.message({ type: nl.RTM_NEWLINK, sequence: 5, length: 0 })],
    ['a length of 15', short],
    ['a length one beyond the datagram', nl.message({ type: nl.RTM_NEWLINK, sequence: 5, length: 17 })],
    ['a length of 4 GiB', nl.message({ type: nl.RTM_NEWLINK, sequence: 5, length: 0xffff_ffff })],
    ['a true message, then one too long', nl.concat(part(5), nl.message({ type: nl.DONE, sequence: 5, length: 64 }))],
    ['a true message, then a rest too short for a header', nl.concat(part(5), new Uint8Array(8))],
    ['the lie in a message that is not ours', nl.message({ type: nl.RTM_NEWLINK, sequence: 4, length: 9 })],
  ])('%s: malformed, and the socket goes on', async (_, bytes) => {
    const made = stage();
    const reply = begin(made, 5);
    peer.send(made.fd, bytes);
    const error = await failure(reply);
    expect(error).toMatchObject({ kind: 'malformed', operation: 'receive', code: 'EBADMSG', outcomeUnknown: true });
    const next = begin(made, 6);
    peer.send(made.fd, done(6));
    expect(sequences(await next)).toEqual([6]);
  });

  test('the last message of a datagram may lack padding, which is added in the reply', async () => {
    const made = stage();
    const reply = begin(made, 5);
    peer.send(
      made.fd,
      nl.message({ type: nl.RTM_NEWLINK, sequence: 5, length: 17 }, nl.u32(0xdddd_ddaa)).subarray(0, 17),
    );
    peer.send(made.fd, done(5));
    const found = await reply;
    expect([...found.subarray(16, 20)]).toEqual([0xaa, 0, 0, 0]);
    expect(sequences(found)).toEqual([5, 5]);
  });
});

describe('replies of others', () => {
  test('messages from before the request, and late ones, are skipped', async () => {
    const made = stage();
    peer.send(made.fd, done(5));
    peer.send(made.fd, new Uint8Array(3));
    const reply = begin(made, 5);
    peer.send(made.fd, nl.answer(4));
    peer.send(made.fd, nl.concat(part(4), part(5, nl.u32(55)), part(6)));
    peer.send(made.fd, nl.concat(done(4), done(5)));
    const found = [...messages(await reply)];
    expect(found.map(({ sequence, type }) => [sequence, type])).toEqual([
      [5, nl.RTM_NEWLINK],
      [5, nl.DONE],
    ]);
    expect([...found[0]!.payload]).toEqual([55, 0, 0, 0]);
  });

  test('the reply to a transaction that timed out is not used for the next one', async () => {
    const made = stage();
    expect(await failure(begin(made, 5, 30))).toMatchObject({
      kind: 'timeout',
      code: 'ETIMEDOUT',
      outcomeUnknown: true,
    });
    const next = begin(made, 6);
    peer.send(made.fd, done(5));
    peer.send(made.fd, part(6));
    peer.send(made.fd, done(6));
    expect(sequences(await next)).toEqual([6, 6]);
  });

  test('a stream of foreign replies does not extend the deadline', async () => {
    const made = stage();
    const reply = begin(made, 5, 100);
    const flood = setInterval(() => peer.send(made.fd, part(4)), 1);
    try {
      expect((await failure(reply)).kind).toBe('timeout');
    } finally {
      clearInterval(flood);
    }
  });

  test('an uninterrupted stream of foreign replies does not extend the deadline', async () => {
    const made = stage();
    const reply = begin(made, 5, 20);
    const stale = nl.concat(...Array.from({ length: 1000 }, () => part(4)));
    const flood = (durationMs: number): number => {
      const end = performance.now() + durationMs;
      while (performance.now() < end) peer.send(made.fd, stale);
      return made.connection.counters.bytesReceived;
    };
    const received = flood(150);
    expect(flood(50)).toBe(received);
    expect((await failure(reply)).kind).toBe('timeout');
  });

  test('messages of another process are not taken for those of the kernel', async () => {
    const made = adopt(peer.netlinkPair());
    const reply = begin(made, 5, 50);
    peer.send(made.fd, nl.concat(nl.answer(5, constants.errno.EPERM), done(5)));
    expect((await failure(reply)).kind).toBe('timeout');
    expect(made.connection.counters.bytesReceived).toBe(36 + 20);
  });
});

describe('segments', () => {
  test('the next segment is sent after the reply to the one before, which may contain refusals', async () => {
    const { connection, fd } = stage();
    const first = nl.concat(nl.noop(1, 0), nl.noop(2, 0), nl.noop(3));
    const second = nl.noop(4);
    const reply = connection.transact(nl.concat(first, second), [48, 16]);
    expect(peer.receive(fd, 5000)).toEqual(first);
    peer.send(fd, nl.answer(2, constants.errno.EEXIST));
    expect(peer.receive(fd, 50)).toBeUndefined();
    peer.send(fd, nl.answer(3));
    expect(peer.receive(fd, 5000)).toEqual(second);
    peer.send(fd, nl.answer(4, constants.errno.ENOENT));
    expect(new Map([...nl.refusals(await reply)].map(([sequence, { errno }]) => [sequence, errno]))).toEqual(
      new Map([
        [2, constants.errno.EEXIST],
        [4, constants.errno.ENOENT],
      ]),
    );
    expect(connection.counters).toMatchObject({ sends: 2, messages: 4, bytesSent: 64 });
  });

  test('an acknowledgement is omitted from the reply unless it has a warning', async () => {
    const { connection, fd } = stage();
    const reply = connection.transact(nl.concat(nl.noop(1), nl.noop(2)), [16, 16]);
    peer.receive(fd, 5000);
    peer.send(fd, nl.answer(1));
    peer.receive(fd, 5000);
    peer.send(fd, nl.answer(2, 0, 0x300));
    expect(sequences(await reply)).toEqual([2]);
  });

  test('a dump that a change interrupted is marked', async () => {
    const made = stage();
    const reply = begin(made, 5);
    peer.send(made.fd, nl.message({ type: nl.RTM_NEWLINK, flags: nl.MULTI | nl.DUMP_INTR, sequence: 5 }));
    peer.send(made.fd, done(5));
    expect(interruptedDumps(await reply)).toEqual(new Set([5]));
  });

  test('a dump may end with an error', async () => {
    const made = stage();
    const reply = begin(made, 5);
    peer.send(made.fd, nl.answer(5, constants.errno.EBUSY));
    expect(nl.refusals(await reply).get(5)?.errno).toBe(constants.errno.EBUSY);
  });
});

describe('waiting', () => {
  test('signals interrupt system calls, not transactions', async () => {
    const made = stage();
    const reply = begin(made, 5);
    const before = peer.interruptOthers();
    for (let i = 0; i < 20; i++) {
      await sleep(2);
      peer.interruptOthers();
    }
    await sleep(2);
    expect(peer.interruptOthers()).toBeGreaterThan(before);
    peer.send(made.fd, done(5));
    expect(sequences(await reply)).toEqual([5]);
  });

  test('a full send queue delays the transaction until the deadline', async () => {
    const { connection, own, fd } = stage();
    const junk = new Uint8Array(4096);
    while (peer.send(own, junk));
    const request = nl.noop(1, nl.ACK, new Uint8Array(4096));
    const error = await failure(connection.transact(request, [request.length], { deadlineMs: 50 }));
    expect(error).toMatchObject({ kind: 'timeout', operation: 'send', outcomeUnknown: false });
    expect(connection.counters.sends).toBe(0);

    const reply = connection.transact(request, [request.length]);
    let received = peer.receive(fd, 5000);
    while (received?.length === junk.length) received = peer.receive(fd, 5000);
    expect(received).toEqual(request);
    peer.send(fd, nl.answer(1));
    expect(await reply).toHaveLength(0);
  });

  test('the event loop runs while a transaction waits', async () => {
    const made = stage();
    let ticks = 0;
    const reply = begin(made, 5);
    const heartbeat = setInterval(() => {
      ticks++;
      if (ticks === 20) peer.send(made.fd, done(5));
    }, 5);
    await reply;
    clearInterval(heartbeat);
    expect(ticks).toBeGreaterThanOrEqual(20);
  });

  test('a dump that makes progress is not cancelled, although it takes longer than the deadline', async () => {
    const made = stage();
    const deadlineMs = 1500;
    const reply = begin(made, 5, deadlineMs);
    const start = performance.now();
    let parts = 0;
    for (; performance.now() - start < 1.3 * deadlineMs; parts++) {
      peer.send(made.fd, part(5));
      await sleep(100);
    }
    peer.send(made.fd, done(5));
    expect(sequences(await reply)).toEqual(Array(parts + 1).fill(5));
  });

  test('segments with timely replies may together take longer than the deadline', async () => {
    const { connection, fd } = stage();
    const deadlineMs = 1000;
    const request = nl.concat(...Array.from({ length: 8 }, (_, i) => nl.noop(i + 1)));
    const start = performance.now();
    const reply = connection.transact(request, Array<number>(8).fill(16), { deadlineMs });
    reply.catch(() => undefined);
    for (let sequence = 1; sequence <= 8; sequence++) {
      peer.receive(fd, 5000);
      await sleep(150);
      peer.send(fd, nl.answer(sequence));
    }
    expect(await reply).toHaveLength(0);
    expect(performance.now() - start).toBeGreaterThan(deadlineMs);
  });

  test('a dump without progress is cancelled when the deadline has passed since its last part', async () => {
    const made = stage();
    const deadlineMs = 1200;
    const reply = begin(made, 5, deadlineMs);
    await sleep(deadlineMs / 3);
    const last = performance.now();
    peer.send(made.fd, part(5));
    const error = await failure(reply);
    expect(error).toMatchObject({ kind: 'timeout', operation: 'receive', code: 'ETIMEDOUT', outcomeUnknown: true });
    expect(performance.now() - last).toBeGreaterThanOrEqual(deadlineMs - 4);
    const next = begin(made, 6);
    peer.send(made.fd, done(6));
    expect(sequences(await next)).toEqual([6]);
  });

  test('the deadline of a transaction overrides that of the connection, and starts when the transaction does', async () => {
    const [own, fd] = peer.pair(nl.SOCK_SEQPACKET);
    const connection = openConnection({ protocol: 0, fd: own, deadlineMs: 80 });
    stages.push({ connection, own, fd });
    const start = performance.now();
    const errors = await Promise.all([
      failure(connection.transact(nl.noop(1), [16])),
      failure(connection.transact(nl.noop(2), [16], { deadlineMs: 40 })),
    ]);
    expect(errors.map(({ kind }) => kind)).toEqual(['timeout', 'timeout']);
    expect(performance.now() - start).toBeGreaterThanOrEqual(80 + 40 - 4);
    expect(connection.counters.sends).toBe(2);
  });
});

describe('closing', () => {
  test('close rejects the running transaction and those that wait, and closes the descriptor', async () => {
    const made = stage();
    const flying = begin(made, 5);
    const waiting = made.connection.transact(nl.noop(6), [16]);
    made.connection.close();
    made.connection.close();
    expect(await failure(waiting)).toMatchObject({ kind: 'closed', outcomeUnknown: false });
    expect(await failure(flying)).toMatchObject({ kind: 'closed', code: 'ECANCELED', outcomeUnknown: true });
    expect(await failure(made.connection.transact(nl.noop(7), [16]))).toMatchObject({ kind: 'closed' });
    // The end of the stream: the other end is closed.
    expect(peer.receive(made.fd, 5000)).toHaveLength(0);
    expect(made.connection.counters).toMatchObject({ sends: 1, messages: 1 });
  });

  test('close without a transaction closes the descriptor immediately', () => {
    const { connection, fd } = stage();
    connection.close();
    expect(peer.receive(fd, 5000)).toHaveLength(0);
  });

  test('a closed peer is an error', async () => {
    const made = stage();
    stages.pop();
    const flying = begin(made, 5);
    peer.close(made.fd);
    expect((await failure(flying)).outcomeUnknown).toBe(true);
    const error = await failure(made.connection.transact(nl.noop(6), [16]));
    expect(error).toMatchObject({ kind: 'system', operation: 'send', code: 'EPIPE', outcomeUnknown: false });
    made.connection.close();
  });

  test('only datagram sockets are adopted', () => {
    const [own, fd] = peer.pair(nl.SOCK_STREAM);
    expect(() => openConnection({ protocol: 0, fd: own })).toThrow(
      expect.objectContaining({ code: 'EINVAL', operation: 'adopt descriptor' }),
    );
    peer.close(own);
    peer.close(fd);
    expect(() => openConnection({ protocol: 0, fd: own })).toThrow(expect.objectContaining({ code: 'EBADF' }));
  });
});
