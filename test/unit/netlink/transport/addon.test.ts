import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { build } from 'esbuild';
import { type NativeSocket, loadAddon } from '../../../../src/netlink/transport/addon.ts';
import * as nl from '../netlink-bytes.ts';

// The addon as JavaScript without types may call it: whatever it gets, it throws, and the process lives.

const run = promisify(execFile);
const root = resolve(import.meta.dirname, '../../../..');
const ADDON = join(root, 'build/native/netlink_socket.node');
const PEER = join(root, 'build/test/socketpair.node');
const { NetlinkSocket } = createRequire(import.meta.url)(ADDON) as {
  NetlinkSocket: new (...args: unknown[]) => NativeSocket;
};

type Loose = Record<string, (...args: unknown[]) => unknown>;

const throwing = {
  get protocol(): number {
    throw new RangeError('from the getter');
  },
};
const junk: unknown[] = [
  undefined,
  null,
  true,
  'x',
  1n,
  Symbol('s'),
  () => 1,
  {},
  [],
  new Date(),
  new DataView(new ArrayBuffer(8)),
];

describe('constructor', () => {
  test.each<[string, unknown[]]>([
    ['nothing', []],
    ['a number', [0]],
    ['no protocol', [{}]],
    ['a protocol that is text', [{ protocol: '0' }]],
    ['a protocol that is no whole number', [{ protocol: 0.5 }]],
    ['a protocol out of range', [{ protocol: 256 }]],
    ['a protocol that is not a number', [{ protocol: Number.NaN }]],
    ['a buffer size that is negative', [{ protocol: 0, sndbuf: -1 }]],
    ['a buffer size beyond an int', [{ protocol: 0, rcvbuf: 2 ** 31 }]],
    ['a namespace that is a number', [{ protocol: 0, netns: 3 }]],
    ['a descriptor that is null', [{ protocol: 0, fd: null }]],
    ['a getter that throws', [throwing]],
  ])('%s', (_, args) => {
    expect(() => new NetlinkSocket(...args)).toThrow(/must be|from the getter/);
  });

  test('an exception of a getter in the options reaches the caller', () => {
    expect(() => new NetlinkSocket(throwing)).toThrow('from the getter');
    const proxy = new Proxy({}, { get: () => Symbol('no') });
    expect(() => new NetlinkSocket(proxy)).toThrow('must be a whole number');
  });

  test('the addon exports a class', () => {
    const callable = NetlinkSocket as unknown as () => void;
    expect(() => callable()).toThrow("without 'new'");
    class Derived extends NetlinkSocket {}
    const derived = new Derived({ protocol: 0 });
    expect(derived.info().port).toBeGreaterThan(0);
    derived.close();
  });
});

describe('methods', () => {
  test('methods of the addon on another object throw', () => {
    const methods = NetlinkSocket.prototype as unknown as Loose;
    for (const name of ['transact', 'counters', 'info', 'close']) {
      for (const self of [...junk, Object.create(NetlinkSocket.prototype)]) {
        expect(() => methods[name]!.call(self, new Uint8Array(0), new Uint32Array(0), 1)).toThrow(
          /Illegal invocation|Invalid argument/,
        );
      }
    }
  });

  test('transact with arguments of other types throws', () => {
    const socket = new NetlinkSocket({ protocol: 0 });
    const loose = socket as unknown as Loose;
    const request = nl.noop(1);
    const segments = Uint32Array.of(16);
    const others = [...junk, new Float64Array(1), new Int8Array(16), new BigUint64Array(2), new ArrayBuffer(16)];
    for (const other of others) {
      expect(() => loose['transact']!(other, segments, 100)).toThrow('must be a Uint8Array');
      expect(() => loose['transact']!(request, other, 100)).toThrow('must be a Uint32Array');
    }
    for (const other of [...junk, 0, -1, 1.5, Infinity, 2 ** 31]) {
      expect(() => loose['transact']!(request, segments, other)).toThrow('deadlineMs must be');
    }
    expect(socket.counters()).toEqual({ sends: 0, bytesSent: 0, bytesReceived: 0, messages: 0, systemCalls: 0 });
    socket.close();
  });

  test('shared, detached, resized and offset arrays have their state at the time of the call', async () => {
    const socket = new NetlinkSocket({ protocol: 0 });
    const segments = Uint32Array.of(16);
    const shared = new Uint8Array(new SharedArrayBuffer(16));
    shared.set(nl.noop(1));
    expect(await socket.transact(shared, segments, 1000)).toHaveLength(0);

    const offset = nl.concat(new Uint8Array(5), nl.noop(2)).subarray(5);
    expect(await socket.transact(offset, new Uint32Array([0, 16, 0]).subarray(1, 2), 1000)).toHaveLength(0);

    const detached = nl.noop(3);
    structuredClone(detached, { transfer: [detached.buffer] });
    await expect(socket.transact(detached, segments, 1000)).rejects.toMatchObject({ errno: 22 });

    const buffer = new ArrayBuffer(16, { maxByteLength: 64 });
    const resized = new Uint8Array(buffer);
    resized.set(nl.noop(4));
    buffer.resize(8);
    await expect(socket.transact(resized, segments, 1000)).rejects.toMatchObject({ errno: 22 });

    const reused = nl.noop(5);
    const reply = socket.transact(reused, segments, 1000);
    structuredClone(reused, { transfer: [reused.buffer] });
    expect(await reply).toHaveLength(0);
    socket.close();
  });

  test('a second transaction is refused while one is in flight', async () => {
    const peer = nl.loadPeer();
    const [own, fd] = peer.pair(nl.SOCK_SEQPACKET);
    const socket = new NetlinkSocket({ fd: own });
    const first = socket.transact(nl.noop(1), Uint32Array.of(16), 5000);
    await expect(socket.transact(nl.noop(2), Uint32Array.of(16), 5000)).rejects.toMatchObject({ errno: 16, sent: 0 });
    peer.receive(fd, 5000);
    peer.send(fd, nl.answer(1));
    expect(await first).toHaveLength(0);
    socket.close();
    await expect(socket.transact(nl.noop(3), Uint32Array.of(16), 5000)).rejects.toMatchObject({ errno: 9 });
    expect(socket.info().port).toBe(0);
    peer.close(fd);
  });
});

describe('a batch of netfilter', () => {
  /** linux/netfilter/nfnetlink.h: NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END. */
  const [BEGIN, END, NETFILTER] = [16, 17, 12];
  const part = (type: number, sequence: number, flags = 0): Uint8Array =>
    nl.message({ type, flags: nl.REQUEST | flags, sequence }, nl.u32(0));
  const change = (sequence: number, flags = 0): Uint8Array => part(0x0a00, sequence, flags);
  const batch = nl.concat(part(BEGIN, 1), change(2), change(3, nl.ACK), part(END, 4));

  async function replyTo(...answers: readonly Uint8Array[]): Promise<Uint8Array> {
    const peer = nl.loadPeer();
    const [own, fd] = peer.pair(nl.SOCK_SEQPACKET);
    const socket = new NetlinkSocket({ protocol: NETFILTER, fd: own });
    const reply = socket.transact(batch, Uint32Array.of(batch.length), 1_000);
    peer.receive(fd, 5_000);
    for (const each of answers) peer.send(fd, each);
    try {
      return await reply;
    } finally {
      socket.close();
      peer.close(fd);
    }
  }

  test('ends with the answer to its last acknowledged message, and keeps earlier errors', async () => {
    expect(await replyTo(nl.answer(3))).toHaveLength(0);
    const reply = await replyTo(nl.answer(2, 17), nl.answer(3));
    expect([...nl.refusals(reply)].map(([sequence, { errno }]) => [sequence, errno])).toEqual([[2, 17]]);
  });

  test('ends with an error of its first message, which is that of the whole batch', async () => {
    const reply = await replyTo(nl.answer(1, 85));
    expect([...nl.refusals(reply)].map(([sequence, { errno }]) => [sequence, errno])).toEqual([[1, 85]]);
  });

  test('must have an acknowledged message and an end, and is no batch of another protocol', async () => {
    const refused = async (protocol: number, ...parts: readonly Uint8Array[]): Promise<unknown> => {
      const peer = nl.loadPeer();
      const [own, fd] = peer.pair(nl.SOCK_SEQPACKET);
      const socket = new NetlinkSocket({ protocol, fd: own });
      const request = nl.concat(...parts);
      const error = await socket.transact(request, Uint32Array.of(request.length), 300).then(
        () => undefined,
        (reason: { errno: number }) => reason.errno,
      );
      socket.close();
      peer.close(fd);
      return error;
    };
    const EINVAL = 22;
    expect(await refused(NETFILTER, part(BEGIN, 1), change(2), part(END, 3))).toBe(EINVAL);
    expect(await refused(NETFILTER, part(BEGIN, 1), change(2, nl.ACK))).toBe(EINVAL);
    expect(await refused(nl.NETLINK_ROUTE, part(BEGIN, 1), change(2, nl.ACK), part(END, 3))).toBe(EINVAL);
  });
});

describe('lifetime', () => {
  const prelude = `
    const { NetlinkSocket } = require(${JSON.stringify(ADDON)});
    const peer = require(${JSON.stringify(PEER)});
    const request = new Uint8Array(16);
    new DataView(request.buffer).setUint32(0, 16, true);
    new DataView(request.buffer).setUint32(4, 0x0005_0001, true);
    new DataView(request.buffer).setUint32(8, 1, true);
    const hang = (deadlineMs = 300) => {
      const [own, fd] = peer.pair(5);
      const socket = new NetlinkSocket({ fd: own });
      return { socket, fd, promise: socket.transact(request, Uint32Array.of(16), deadlineMs) };
    };`;

  async function script(body: string, ...flags: string[]): Promise<string> {
    return (await run(process.execPath, [...flags, '-e', prelude + body], { timeout: 20_000 })).stdout;
  }

  test('an unreferenced socket finishes its transaction before it is collected', async () => {
    const body = `
      let { promise } = hang();
      for (let i = 0; i < 5; i++) gc();
      promise.catch((e) => console.log(e.errno));`;
    expect(await script(body, '--expose-gc')).toBe('110\n');
  });

  test('file descriptors are closed when their objects are collected', async () => {
    const body = `
      const open = () => require('node:fs').readdirSync('/proc/self/fd').length;
      (async () => {
        const before = open();
        for (let i = 0; i < 200; i++) new NetlinkSocket({ protocol: 0 });
        for (let i = 0; i < 10; i++) { gc(); await new Promise((r) => setImmediate(r)); }
        for (let i = 0; i < 20; i++) { try { new NetlinkSocket({ protocol: 31 }); } catch {} }
        console.log(open() - before < 20);
      })();`;
    expect(await script(body, '--expose-gc')).toBe('true\n');
  });

  test('transactions that wait for the kernel delay neither DNS look-ups nor file reads', async () => {
    const body = `
      const hung = Array.from({ length: 8 }, () => hang(10_000));
      let ended = 0;
      for (const { promise } of hung) promise.catch(() => ended++);
      (async () => {
        await require('node:dns').promises.lookup('localhost');
        await require('node:fs').promises.readFile('/proc/self/stat');
        console.log(ended);
        for (const { socket } of hung) socket.close();
      })();`;
    expect(await script(body)).toBe('0\n');
  });

  test('the thread of a socket ends when the socket is closed or collected', async () => {
    const body = `
      const threads = () => require('node:fs').readdirSync('/proc/self/task').length;
      (async () => {
        const before = threads();
        let used = Array.from({ length: 20 }, () => hang(1));
        await Promise.allSettled(used.map(({ promise }) => promise));
        const during = threads();
        for (const { socket } of used.slice(0, 10)) socket.close();
        used = undefined;
        for (let i = 0; i < 500 && threads() > before; i++) { gc(); await new Promise((r) => setTimeout(r, 10)); }
        console.log(during - before, threads() - before);
      })();`;
    expect(await script(body, '--expose-gc')).toBe('20 0\n');
  });

  test('the process may exit, and a worker may be terminated, during a transaction', async () => {
    await expect(script('hang().promise.catch(() => {}); setTimeout(() => process.exit(0), 20);')).resolves.toBe('');
    const body = `
      const { Worker } = require('node:worker_threads');
      const worker = new Worker(${JSON.stringify(prelude)} + 'hang().promise.catch(() => {}); require("node:worker_threads").parentPort.postMessage(1);', { eval: true });
      worker.once('message', () => worker.terminate().then((code) => console.log('ended', code)));`;
    expect(await script(body)).toBe('ended 1\n');
  });
});

describe('loadAddon', () => {
  test('loadAddon finds the addon when run from the source', () => {
    expect(typeof loadAddon().NetlinkSocket).toBe('function');
  });

  test('loadAddon finds the addon next to the bundle, and nowhere else', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'netlink-addon-'));
    try {
      const outfile = join(folder, 'bundle.mjs');
      const contents = `import { loadAddon } from './src/netlink/transport/addon.ts'; console.log(typeof loadAddon().NetlinkSocket);`;
      await build({ stdin: { contents, resolveDir: root }, bundle: true, platform: 'node', format: 'esm', outfile });
      await expect(run(process.execPath, [outfile])).rejects.toThrow('native/netlink_socket.node');
      mkdirSync(join(folder, 'native'));
      copyFileSync(ADDON, join(folder, 'native/netlink_socket.node'));
      expect((await run(process.execPath, [outfile])).stdout).toBe('function\n');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
