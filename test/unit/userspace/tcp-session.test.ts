import { type Socket, createServer } from 'node:net';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { ClientAffinity } from '../../../src/userspace/client-affinity.ts';
import { DEFAULT_LIMITS, type EngineLimits } from '../../../src/userspace/engine-limits.ts';
import type { Backend } from '../../../src/userspace/engine-update.ts';
import { ServiceEndpoints } from '../../../src/userspace/service-endpoints.ts';
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
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
      server.close();
      this.accepted = socket;
      const made = (message: unknown): void => {
        this.connected = (message as { readonly socket: Socket }).socket;
      };
      subscribe('net.client.socket', made);
      this.session = new TcpSession(socket, this.service, { ...DEFAULT_LIMITS, ...limits }, () => (this.ended += 1));
      unsubscribe('net.client.socket', made);
      begun();
      started.resolve();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const client = await this.client((server.address() as { readonly port: number }).port);
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

test('a connection counts until both sides have closed, and an endpoint that does not read is not awaited for ever', async () => {
  await using servers = new EngineBed();
  const server = await servers.server((socket) => socket.pause().end());
  await using bed = new SessionBed([server]);
  const client = await bed.start({ tcpHalfClosedIdleMs: 200 });
  await once(bed.connected, 'connect');
  const chunk = Buffer.alloc(16 * 1024);
  for (let sent = 0; bed.connected.writableLength === 0; sent += chunk.length) {
    client.write(chunk);
    while (bed.accepted.bytesRead < sent) await sleep(1);
  }
  client.end();
  await once(bed.accepted, 'close');
  expect(bed).toMatchObject({ ended: 0, connected: { destroyed: false } });
  await once(bed.connected, 'close', { signal: AbortSignal.timeout(2_000) });
  expect(bed.ended).toBe(1);
});
