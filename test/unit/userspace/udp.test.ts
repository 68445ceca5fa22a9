import { type RemoteInfo, Socket, createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, jest, test } from '@jest/globals';
import type { Port } from '../../../src/base/port.ts';
import { listenUdp } from '../../../src/userspace/udp-listener.ts';
import { EngineBed, LOCAL } from './engine-bed.ts';

const sockets: Socket[] = [];

afterEach(() => {
  jest.restoreAllMocks();
  for (const socket of sockets.splice(0)) socket.close();
});

async function udpSocket(): Promise<Socket & { readonly number: Port }> {
  const socket = createSocket('udp4');
  sockets.push(socket);
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return Object.assign(socket, { number: socket.address().port as Port });
}

/** Answers each datagram with the same. */
async function echo(): Promise<Socket & { readonly number: Port }> {
  const server = await udpSocket();
  server.on('message', (datagram, client) => server.send(datagram, client.port, client.address));
  return server;
}

async function ask(client: Socket, port: Port, text: string): Promise<string> {
  client.send(text, port, '127.0.0.1');
  const [answer] = (await once(client, 'message')) as [Buffer, RemoteInfo];
  return String(answer);
}

/** Resolves when the engine has dropped a datagram. */
async function dropped(bed: EngineBed): Promise<void> {
  while (bed.engine.report().totals.droppedDatagrams === 0) await sleep(1);
}

function openSockets(): number {
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith('socket:');
    } catch {
      return false;
    }
  }).length;
}

test('a datagram from port 0, which nobody can answer, is ignored', async () => {
  await using bed = new EngineBed();
  const server = await echo();
  const bind = jest.spyOn(Socket.prototype, 'bind');
  const port = await bed.forward([{ address: LOCAL, port: server.number, weight: 1 }], { protocol: 'UDP' });
  const listener = bind.mock.contexts[0] as Socket;
  listener.emit('message', Buffer.from('x'), { address: '127.0.0.1', port: 0, family: 'IPv4', size: 1 });
  expect(bed.engine.report().totals.connections).toBe(0);
  expect(await ask(await udpSocket(), port, 'still here')).toBe('still here');
});

test('an answer that the socket refuses is lost, and nothing else', async () => {
  await using bed = new EngineBed();
  const server = await echo();
  const port = await bed.forward([{ address: LOCAL, port: server.number, weight: 1 }], { protocol: 'UDP' });
  const client = await udpSocket();
  expect(await ask(client, port, 'one')).toBe('one');
  client.send('two', port, '127.0.0.1');
  const refused = jest.spyOn(Socket.prototype, 'send').mockImplementation(() => {
    throw new RangeError('refused');
  });
  await dropped(bed);
  refused.mockRestore();
  expect(await ask(client, port, 'three')).toBe('three');
});

test('a port that is refused leaves no socket', async () => {
  const taken = await udpSocket();
  const before = openSockets();
  const handler = { portOf: () => undefined, admit: () => 'all' as const, idleMs: 0 };
  for (let count = 0; count < 4; count++) {
    const listening = listenUdp({ address: LOCAL, port: taken.number, protocol: 'UDP' }, handler);
    await expect(listening).rejects.toMatchObject({ code: 'EADDRINUSE' });
  }
  await sleep(10);
  expect(openSockets()).toBeLessThanOrEqual(before);
});

test('datagrams are dropped, and counted, while too many wait to be sent', async () => {
  await using bed = new EngineBed();
  const server = await echo();
  const port = await bed.forward([{ address: LOCAL, port: server.number, weight: 1 }], { protocol: 'UDP' });
  const client = await udpSocket();
  expect(await ask(client, port, 'one')).toBe('one');
  const queue = jest.spyOn(Socket.prototype, 'getSendQueueSize').mockReturnValue(300 * 1024);
  client.send('two', port, '127.0.0.1');
  await dropped(bed);
  queue.mockReturnValue(0);
  expect(await ask(client, port, 'three')).toBe('three');
  expect(bed.engine.report().totals).toMatchObject({ droppedDatagrams: 1, bytesIn: 8, bytesOut: 8 });
});

test('a Service that has all its clients forgets the stalest one for a new one', async () => {
  await using bed = new EngineBed({ mostOfService: 2 });
  const server = await echo();
  const port = await bed.forward([{ address: LOCAL, port: server.number, weight: 1 }], { protocol: 'UDP' });
  const [first, second, third] = [await udpSocket(), await udpSocket(), await udpSocket()];
  const asked = async (client: Socket): Promise<number> => {
    await ask(client, port, 'x');
    return bed.engine.report().totals.connections;
  };
  // The first one is known when it asks again; the third one takes the place of the second.
  const clients = [first, second, first, third, first, second];
  const known: number[] = [];
  for (const client of clients) known.push(await asked(client));
  expect(known).toEqual([1, 2, 2, 3, 3, 4]);
  expect(bed.engine.report().totals).toMatchObject({ active: 2, refused: 0 });
});

test('an endpoint that is a virtual server of the engine gets nothing', async () => {
  await using bed = new EngineBed();
  const server = await echo();
  const loop = { address: LOCAL, port: (await udpSocket()).number, weight: 1 };
  const destination = { address: LOCAL, port: loop.port, protocol: 'UDP', key: 'default/web' } as const;
  await bed.engine.apply({ whole: false, destinations: [destination] });
  const endpoints = [loop, { address: LOCAL, port: server.number, weight: 1 }];
  const port = await bed.forward(endpoints, { protocol: 'UDP' });
  for (let count = 0; count < 4; count++) expect(await ask(await udpSocket(), port, 'x')).toBe('x');
});
