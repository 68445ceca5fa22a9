import { Socket } from 'node:net';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, jest, test } from '@jest/globals';
import { ClientAffinity } from '../../../src/userspace/client-affinity.ts';
import { DEFAULT_LIMITS, type EngineLimits } from '../../../src/userspace/engine-limits.ts';
import type { Backend } from '../../../src/userspace/engine-update.ts';
import { CHUNK_BYTES } from '../../../src/userspace/relay-socket.ts';
import { ServiceEndpoints } from '../../../src/userspace/service-endpoints.ts';
import { listenTcp } from '../../../src/userspace/tcp-listener.ts';
import { TcpSession } from '../../../src/userspace/tcp-session.ts';
import { EngineBed, LOCAL, closed, forwardedPort, freePort } from './engine-bed.ts';

/** One session, with both of its sockets. */
class SessionBed extends EngineBed {
  readonly service: ServiceEndpoints;
  ended = 0;
  /** The side of the client. */
  accepted!: Socket;
  /** The side of the endpoint. */
  connected!: Socket;
  session!: TcpSession;

  constructor(endpoints: readonly Backend[]) {
    super();
    this.service = new ServiceEndpoints(forwardedPort(endpoints), {
      affinity: new ClientAffinity(),
      isLoop: () => false,
    });
  }

  /** Starts the session. @param begun called in the same turn */
  async start(limits: Partial<EngineLimits>, begun: () => void = () => undefined): Promise<Socket> {
    const started = Promise.withResolvers<void>();
    const port = await freePort();
    const listening = await listenTcp({ address: LOCAL, port, protocol: 'TCP', key: 'default/web' }, (socket) => {
      listening.close();
      this.accepted = socket;
      const connect = jest.spyOn(Socket.prototype, 'connect');
      this.session = new TcpSession(socket, this.service, { ...DEFAULT_LIMITS, ...limits }, () => (this.ended += 1));
      this.connected = connect.mock.contexts[0] as Socket;
      connect.mockRestore();
      begun();
      started.resolve();
    });
    const client = await this.client(port);
    await started.promise;
    return client;
  }
}

test.each(['accepted', 'connected'] as const)('a reset closes the socket "%s" that is ending', async (name) => {
  await using servers = new EngineBed();
  const server = await servers.server(() => undefined);
  await using bed = new SessionBed([server]);
  await bed.start({});
  await once(bed.connected, 'connect');
  const socket = bed[name];
  const close = closed(socket);
  socket.end();
  await new Promise<void>((resolve) => process.nextTick(resolve));
  bed.session.reset();
  expect(await Promise.race([close.then(() => 'closed'), sleep(500, 'open')])).toBe('closed');
  expect(bed.ended).toBe(1);
});

test('an endpoint that left during its attempt does not end the connection to the next one', async () => {
  await using servers = new EngineBed();
  const server = await servers.server((socket) => void socket.pipe(socket));
  const refusing = { address: LOCAL, port: await freePort(), weight: 1 };
  await using bed = new SessionBed([refusing]);
  const client = await bed.start({ drainMs: 200 }, () => bed.service.update(forwardedPort([server])));
  await sleep(300);
  client.write('x');
  expect(
    await Promise.race([
      new Promise((resolve) => client.once('data', (data) => resolve(String(data)))),
      closed(client),
    ]),
  ).toBe('x');
});

test('an endpoint that does not read is not awaited for ever, and a connection holds one chunk for it', async () => {
  await using servers = new EngineBed();
  const server = await servers.server((socket) => socket.pause().end());
  await using bed = new SessionBed([server]);
  const client = await bed.start({ tcpHalfClosedIdleMs: 500 });
  await once(bed.connected, 'connect');
  const chunk = Buffer.alloc(1024 * 1024);
  while (bed.connected.writableLength === 0) if (!client.write(chunk)) await sleep(1);
  client.end();
  await sleep(100);
  const { connected, accepted } = bed;
  expect(connected.writableLength).toBeLessThanOrEqual(CHUNK_BYTES);
  expect({ ended: bed.ended, unread: accepted.readableLength, isOpen: !connected.destroyed }).toEqual({
    ended: 0,
    unread: 0,
    isOpen: true,
  });
  await once(connected, 'close', { signal: AbortSignal.timeout(2_000) });
  expect(bed.ended).toBe(1);
});

test('a client that does not read holds one chunk, and gets all when it reads', async () => {
  await using servers = new EngineBed();
  const sent = Buffer.alloc(64 * 1024 * 1024, 'chunk');
  const server = await servers.server((socket) => socket.end(sent));
  await using bed = new SessionBed([server]);
  const client = await bed.start({});
  await once(bed.connected, 'connect');
  while (bed.accepted.writableLength === 0) await sleep(10);
  await sleep(100);
  expect(bed.accepted.writableLength).toBeLessThanOrEqual(CHUNK_BYTES);
  expect(bed.connected.readableLength).toBe(0);
  client.end();
  expect(Buffer.concat(await client.toArray()).equals(sent)).toBe(true);
});
