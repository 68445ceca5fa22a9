import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, networkInterfaces } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import { afterEach, describe, expect, test } from '@jest/globals';
import {
  type ConnectionOptions,
  type SocketConnection,
  openConnection,
} from '../../../../src/netlink/transport/connection.ts';
import { NetlinkError } from '../../../../src/netlink/error.ts';
import { type NetlinkMessage, answerOf, messages } from '../../../../src/netlink/netlink-message.ts';
import * as nl from '../netlink-bytes.ts';

// Against the real kernel, in this network namespace, reading only: no rights are needed, except where a test says so.

const isRoot = process.getuid?.() === 0;
const open: SocketConnection[] = [];

function connect(options: Partial<ConnectionOptions> = {}): SocketConnection {
  const connection = openConnection({ protocol: nl.NETLINK_ROUTE, ...options });
  open.push(connection);
  return connection;
}

afterEach(() => {
  for (const connection of open.splice(0)) connection.close();
});

async function dumpLinks(connection: SocketConnection): Promise<NetlinkMessage[]> {
  const request = nl.getLink(connection.sequence(1), 0, nl.DUMP);
  return [...messages(await connection.transact(request, [request.length]))];
}

function linkName({ payload }: NetlinkMessage): string {
  return Buffer.from(nl.attributes(payload, 16).get(3)!).toString('latin1').replace('\0', '');
}

async function failure(promise: Promise<unknown>): Promise<NetlinkError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(NetlinkError);
  return error as NetlinkError;
}

describe('replies', () => {
  test('a dump of links holds the loopback and ends with DONE', async () => {
    const found = await dumpLinks(connect());
    expect(found.at(-1)!.type).toBe(nl.DONE);
    expect(answerOf(found.at(-1)!)!.errno).toBe(0);
    const links = found.slice(0, -1);
    expect(links.every(({ type, sequence }) => type === nl.RTM_NEWLINK && sequence === 1)).toBe(true);
    expect(links.map(linkName)).toContain('lo');
  });

  test('a dump of addresses holds every IPv4 address that the system library knows', async () => {
    const connection = connect();
    const request = nl.getAddresses(connection.sequence(1));
    const found = new Set<string>();
    for (const { type, payload } of messages(await connection.transact(request, [request.length]))) {
      if (type === nl.RTM_NEWADDR && payload[0] === 2) found.add(nl.attributes(payload, 8).get(2)!.join('.'));
    }
    const expected = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    const v4 = expected.filter(({ family }) => family === 'IPv4').map(({ address }) => address);
    expect(v4.length).toBeGreaterThan(0);
    expect([...found]).toEqual(expect.arrayContaining(v4));
  });

  test('several dumps go in one transaction, a segment each', async () => {
    const connection = connect();
    const first = connection.sequence(3);
    const requests = [nl.getLink(first, 0, nl.DUMP), nl.getAddresses(first + 1), nl.getLink(first + 2, 0, nl.DUMP)];
    const reply = await connection.transact(
      nl.concat(...requests),
      requests.map(({ length }) => length),
    );
    const done = [...messages(reply)].filter(({ type }) => type === nl.DONE);
    expect(done.map(({ sequence }) => sequence)).toEqual([first, first + 1, first + 2]);
    expect(connection.counters).toMatchObject({ sends: 3, messages: 3, bytesSent: nl.concat(...requests).length });
  });

  test('an acknowledged success has an empty reply', async () => {
    const connection = connect();
    const request = nl.noop(connection.sequence(1));
    expect(await connection.transact(request, [request.length])).toHaveLength(0);
    // What an earlier transaction left is looked for; then sent, and the answer read.
    expect(connection.counters).toMatchObject({ sends: 1, messages: 1, bytesSent: 16, systemCalls: 3 });
    expect(connection.counters.bytesReceived).toBeGreaterThan(0);
  });

  test('the refusal of a message names it and gives the reason in the words of the kernel', async () => {
    const connection = connect();
    // ifi_change must be 0 in a request, and NETLINK_GET_STRICT_CHK makes the kernel look at it.
    const bad = nl.message(
      { type: nl.RTM_GETLINK, flags: nl.REQUEST | nl.DUMP, sequence: connection.sequence(1) },
      nl.u32(0, 0, 0, 1),
    );
    const refused = nl.refusals(await connection.transact(bad, [bad.length]));
    expect(refused.get(1)).toMatchObject({ errno: constants.errno.EINVAL, text: expect.stringMatching(/\w+ \w+/) });
  });
});

describe('a batch', () => {
  test('1,000 messages in one send: the ten that fail are answered, by sequence number, and stop no other', async () => {
    const connection = connect();
    const first = connection.sequence(1000);
    const batch: Uint8Array[] = [];
    const bad: number[] = [];
    for (let i = 0; i < 1000; i++) {
      if (i % 100 === 50) {
        batch.push(nl.getLink(first + i, nl.NO_LINK));
        bad.push(first + i);
      } else batch.push(nl.noop(first + i, i === 999 ? nl.ACK : 0));
    }
    const request = nl.concat(...batch);
    const refused = nl.refusals(await connection.transact(request, [request.length]));
    expect([...refused.keys()]).toEqual(bad);
    expect([...refused.values()].every(({ errno }) => errno === constants.errno.ENODEV)).toBe(true);
    expect(connection.counters).toMatchObject({ sends: 1, messages: 1000, bytesSent: request.length });
  });

  test('1,000 reads of a link, in segments of 50: each reply or ENODEV has its own sequence number', async () => {
    const connection = connect();
    const loopback = (await dumpLinks(connection)).find(
      (link) => link.type === nl.RTM_NEWLINK && linkName(link) === 'lo',
    );
    const index = new DataView(loopback!.payload.slice().buffer).getUint32(4, true);
    const first = connection.sequence(1000);
    const parts = Array.from({ length: 1000 }, (_, i) =>
      nl.getLink(first + i, i % 7 === 3 ? nl.NO_LINK : index, i % 50 === 49 ? nl.ACK : 0),
    );
    const reply = await connection.transact(nl.concat(...parts), Array<number>(20).fill(50 * parts[0]!.length));
    const outcome = new Map([...messages(reply)].map((m) => [m.sequence, answerOf(m)?.errno ?? linkName(m)]));
    expect(outcome.size).toBe(1000);
    for (let i = 0; i < 1000; i++) {
      expect(outcome.get(first + i)).toBe(i % 7 === 3 ? constants.errno.ENODEV : 'lo');
    }
    expect(connection.counters).toMatchObject({ sends: 1 + 20, messages: 1 + 1000 });
  });

  test('the longest segment that the kernel takes is maxSegment', async () => {
    const connection = connect();
    const fits = nl.noop(1, nl.ACK, new Uint8Array(connection.maxSegment - 16));
    expect(await connection.transact(fits, [fits.length])).toHaveLength(0);
    const tooLong = nl.noop(2, nl.ACK, new Uint8Array(connection.maxSegment - 16 + 4));
    const error = await failure(connection.transact(tooLong, [tooLong.length]));
    expect(error).toMatchObject({ kind: 'system', operation: 'send', code: 'EMSGSIZE', outcomeUnknown: false });
  });

  test('a later segment that cannot be sent leaves the outcome of the earlier ones unknown', async () => {
    const connection = connect();
    const parts = [nl.noop(1), nl.noop(2, nl.ACK, new Uint8Array(connection.maxSegment))];
    const error = await failure(
      connection.transact(
        nl.concat(...parts),
        parts.map(({ length }) => length),
      ),
    );
    expect(error).toMatchObject({ kind: 'system', code: 'EMSGSIZE', outcomeUnknown: true });
  });

  test('replies that overflow the receive buffer are an error of their own, and the socket goes on', async () => {
    const connection = connect({ receiveBuffer: 2048 });
    const first = connection.sequence(500);
    const request = nl.concat(...Array.from({ length: 500 }, (_, i) => nl.noop(first + i)));
    const error = await failure(connection.transact(request, [request.length]));
    expect(error).toMatchObject({ kind: 'lost', operation: 'receive', code: 'ENOBUFS', outcomeUnknown: true });
    expect(connection.counters).toMatchObject({ sends: 1, messages: 500 });
    expect((await dumpLinks(connection)).map(({ sequence }) => sequence)).toContain(501);
  });

  test('what an earlier transaction left unread disturbs no later dump', async () => {
    const connection = connect();
    // The acknowledgement of the second message ends the transaction while the dump of the first goes on.
    const request = nl.concat(nl.getAddresses(connection.sequence(1)), nl.noop(connection.sequence(1)));
    await connection.transact(request, [request.length]);
    const sequences = new Set((await dumpLinks(connection)).map(({ sequence, type }) => `${sequence}:${type}`));
    expect(sequences).toEqual(new Set([`3:${nl.RTM_NEWLINK}`, `3:${nl.DONE}`]));
  });
});

describe('a malformed request sends nothing', () => {
  const one = nl.noop(7);
  test.each<[string, Uint8Array, number[]]>([
    ['segments shorter than the request', nl.concat(one, nl.noop(8)), [one.length]],
    ['segments longer than the request', one, [one.length, one.length]],
    ['a segment of no bytes', one, [one.length, 0]],
    ['a negative segment', one, [-16, 32]],
    ['a cut inside a message', nl.concat(one, nl.noop(8)), [20, 12]],
    ['a message shorter than its header', nl.message({ type: nl.NOOP, flags: 5, sequence: 7, length: 15 }), [16]],
    ['a message of no length', nl.message({ type: nl.NOOP, flags: 5, sequence: 7, length: 0 }), [16]],
    ['a message longer than its segment', nl.message({ type: nl.NOOP, flags: 5, sequence: 7, length: 17 }), [16]],
    ['a message of 4 GiB', nl.message({ type: nl.NOOP, flags: 5, sequence: 7, length: 0xffff_ffff }), [16]],
    ['sequence number 0', nl.noop(0), [16]],
    ['a sequence number twice', nl.concat(one, one), [32]],
    ['sequence numbers that fall', nl.concat(nl.noop(8), one), [16, 16]],
    ['a last message that nothing answers', nl.noop(7, 0), [16]],
    ['a replace, which shares bits with a dump, not acknowledged', nl.noop(7, 0x100), [16]],
    ['a request without segments', one, []],
  ])('%s', async (_, request, segments) => {
    const connection = connect();
    const error = await failure(connection.transact(request, segments));
    expect(error).toMatchObject({ kind: 'system', code: 'EINVAL', operation: 'check request', outcomeUnknown: false });
    expect(connection.counters).toEqual({ sends: 0, bytesSent: 0, bytesReceived: 0, messages: 0, systemCalls: 0 });
  });

  test('a deadline of nothing is a mistake of the caller', async () => {
    const connection = connect();
    await expect(connection.transact(one, [16], { deadlineMs: 0 })).rejects.toThrow('deadlineMs must be');
    await expect(connection.transact(one, [16], { deadlineMs: Number.NaN })).rejects.toThrow('deadlineMs must be');
    expect(await connection.transact(one, [16], { deadlineMs: 2 ** 31 - 1 })).toHaveLength(0);
  });

  test('nothing to do is done without a system call', async () => {
    const connection = connect();
    expect(await connection.transact(new Uint8Array(0), [])).toHaveLength(0);
    expect(connection.counters.sends).toBe(0);
  });
});

describe('one owner', () => {
  test('transactions run in the order of the calls, and the request is free as soon as the call returns', async () => {
    const connection = connect();
    const shared = new Uint8Array(32);
    const finished: number[] = [];
    const pending = Array.from({ length: 20 }, async (_, i) => {
      const sequence = connection.sequence(1);
      shared.set(nl.getLink(sequence, nl.NO_LINK, nl.ACK));
      const reply = connection.transact(shared, [32]);
      shared.fill(0xff);
      const refused = nl.refusals(await reply);
      finished.push(i);
      return refused.get(sequence)?.errno;
    });
    expect(await Promise.all(pending)).toEqual(Array(20).fill(constants.errno.ENODEV));
    expect(finished).toEqual(Array.from({ length: 20 }, (_, i) => i));
  });

  test('a failed transaction does not keep the next from its turn', async () => {
    const connection = connect();
    const bad = connection.transact(nl.noop(1, 0), [16]);
    const late = connection.transact(nl.noop(2), [16], { deadlineMs: -1 });
    const good = connection.transact(nl.getLink(3, nl.NO_LINK, nl.ACK), [32]);
    await expect(bad).rejects.toThrow(NetlinkError);
    await expect(late).rejects.toThrow('deadlineMs');
    expect(nl.refusals(await good).has(3)).toBe(true);
  });

  test('sequence numbers are consecutive, never 0, and start over before a run would pass 2^32', () => {
    const connection = connect();
    expect(connection.sequence(0xffff_ffef)).toBe(1);
    expect(connection.sequence(10)).toBe(0xffff_fff0);
    expect(connection.sequence(6)).toBe(0xffff_fffa);
    expect(connection.sequence(1)).toBe(1);
    connection.sequence(0xffff_ffee);
    expect(connection.sequence(17)).toBe(1);
    for (const n of [0, -1, 1.5, Number.NaN, 2 ** 32]) expect(() => connection.sequence(n)).toThrow(RangeError);
  });

  test('a batch may run over the end of the sequence numbers', async () => {
    const connection = connect();
    connection.sequence(0xffff_fffe);
    const parts = [
      nl.getLink(connection.sequence(1), nl.NO_LINK),
      nl.getLink(connection.sequence(1), nl.NO_LINK, nl.ACK),
    ];
    const refused = nl.refusals(await connection.transact(nl.concat(...parts), [64]));
    expect([...refused.keys()]).toEqual([0xffff_ffff, 1]);
  });

  test('the event loop turns while the kernel works through a long transaction', async () => {
    const connection = connect();
    const dumps = 1500;
    const request = nl.concat(...Array.from({ length: dumps }, (_, i) => nl.getLink(i + 1, 0, nl.DUMP)));
    let turns = 0;
    let settled = false;
    const heartbeat = (async (): Promise<void> => {
      while (!settled) {
        turns++;
        await setImmediate();
      }
    })();
    const reply = await connection.transact(request, Array<number>(dumps).fill(32));
    settled = true;
    await heartbeat;
    expect([...messages(reply)].filter(({ type }) => type === nl.DONE)).toHaveLength(dumps);
    expect(turns).toBeGreaterThan(10);
  });
});

describe('opening', () => {
  test('a protocol that the kernel has not', () => {
    expect(() => connect({ protocol: 31 })).toThrow(
      expect.objectContaining({ code: 'EPROTONOSUPPORT', kind: 'system' }),
    );
    expect(() => connect({ protocol: -1 })).toThrow('protocol must be');
  });

  test('a namespace that is not there, or is none', () => {
    const missing = expect.objectContaining({
      code: 'ENOENT',
      operation: 'open network namespace',
      object: '/run/netns/no',
    });
    expect(() => connect({ netns: '/run/netns/no' })).toThrow(missing);
    const wrong = expect.objectContaining({ operation: 'enter network namespace', code: 'EINVAL' });
    expect(() => connect({ netns: '/proc/self/ns/uts' })).toThrow(wrong);
    expect(() => connect({ netns: '' })).toThrow('netns must be');
    expect(() => connect({ netns: '/proc/self/ns/net\0x' })).toThrow('netns must be');
  });

  // Either way this fails if netns is ignored.
  test('in another namespace, for root; for others the refusal says why', async () => {
    await expect(isRoot ? newAndOwnLoopback() : refusalOfNamespace()).resolves.toEqual(
      isRoot ? ['down', 'up'] : 'EPERM',
    );
  });
});

// A new namespace has its loopback down: IFF_UP is bit 0 of ifi_flags.
async function loopbackState(options: Partial<ConnectionOptions>): Promise<string> {
  const links = (await dumpLinks(connect(options))).filter(({ type }) => type === nl.RTM_NEWLINK);
  return links.find((link) => linkName(link) === 'lo')!.payload[8]! & 1 ? 'up' : 'down';
}

/** Of a new namespace, and after that of our own. */
async function newAndOwnLoopback(): Promise<string[]> {
  const child = spawn('unshare', ['--net', 'sh', '-c', 'echo ready; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    await once(child.stdout, 'data');
    return [await loopbackState({ netns: `/proc/${child.pid}/ns/net` }), await loopbackState({})];
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
}

async function refusalOfNamespace(): Promise<string> {
  return (await failure((async () => connect({ netns: '/proc/self/ns/net' }))())).code;
}
