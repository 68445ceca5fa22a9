import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { SilentServer } from './silent-server.ts';
import { EngineBed, LOCAL, closed, forwardedPort, freePort, readAll } from './engine-bed.ts';
import { address } from '../../support/state.ts';

function greet(name: string): (socket: Socket) => void {
  return (socket) => socket.end(name);
}

test('each direction is closed by itself', async () => {
  await using bed = new EngineBed();
  const server = await bed.server((socket) => void readAll(socket).then((text) => socket.end(`got ${text}`)));
  const client = await bed.client(await bed.forward([server]));
  client.end('question');
  expect(await readAll(client)).toBe('got question');
  await sleep(20);
  expect(bed.engine.report().totals).toMatchObject({ connections: 1, active: 0, bytesIn: 8, bytesOut: 12 });
});

test('a reset of the endpoint reaches the client', async () => {
  await using bed = new EngineBed();
  const server = await bed.server((socket) => socket.once('data', () => socket.resetAndDestroy()));
  const client = await bed.client(await bed.forward([server]));
  client.write('x');
  expect(await closed(client)).toBe('ECONNRESET');
});

test('a reset of the client reaches the endpoint', async () => {
  await using bed = new EngineBed();
  const reset = Promise.withResolvers<string | undefined>();
  const server = await bed.server((socket) => {
    socket.write('x');
    void closed(socket).then(reset.resolve);
  });
  const client = await bed.client(await bed.forward([server]));
  await new Promise((resolve) => client.once('data', resolve));
  client.resetAndDestroy();
  expect(await reset.promise).toBe('ECONNRESET');
});

test('an endpoint that refuses is skipped, and the client does not notice', async () => {
  await using bed = new EngineBed();
  const server = await bed.server(greet('a'));
  const refusing = { address: LOCAL, port: await freePort(), weight: 1 };
  const port = await bed.forward([refusing, server]);
  for (let count = 0; count < 4; count++) expect(await readAll(await bed.client(port))).toBe('a');
  const { failedConnects, failedConnections } = bed.engine.report().totals;
  expect(failedConnects).toBeGreaterThanOrEqual(2);
  expect(failedConnections).toBe(0);
});

test('the attempts of a connection are bounded, however many endpoints refuse', async () => {
  await using bed = new EngineBed();
  const port = await freePort();
  const addresses = Array.from({ length: 40 }, (_, index) => address(`127.0.1.${index + 1}`));
  const client = await bed.client(await bed.forward(addresses.map((each) => ({ address: each, port, weight: 1 }))));
  await closed(client);
  expect(bed.engine.report().totals.failedConnects).toBe(16);
});

test('an endpoint that does not answer delays one client, and those that follow go to others first', async () => {
  await using bed = new EngineBed();
  const server = await bed.server((socket) => void socket.pipe(socket));
  await using silent = await SilentServer.start();
  const port = await bed.forward([silent.backend, server]);
  for (let clients = 0; clients < 6; clients++) {
    const client = await bed.client(port);
    client.write('x');
    await once(client, 'data');
    client.destroy();
  }
  expect(bed.engine.report().totals.failedConnects).toBe(1);
});

test('a client is reset when every endpoint has failed', async () => {
  await using bed = new EngineBed();
  const refusing = { address: LOCAL, port: await freePort(), weight: 1 };
  const client = await bed.client(await bed.forward([refusing]));
  expect(await closed(client)).toBe('ECONNRESET');
  expect(bed.engine.report().totals).toMatchObject({ failedConnects: 1, failedConnections: 1, active: 0 });
});

test.each([
  [{ drainMs: 30 }, {}],
  [{ drainMs: 0 }, { drainMs: 30 }],
])(
  'with limits %j, a change of endpoints of port %j touches no connections to those that stay',
  async (limits, own) => {
    await using bed = new EngineBed(limits);
    const echo = (socket: Socket): void => void socket.pipe(socket);
    const [stays, leaves] = [await bed.server(echo), await bed.server(echo)];
    const port = await bed.forward([stays, leaves], own);
    const clients = [await bed.client(port), await bed.client(port)];
    await sleep(20);
    const ends = clients.map(closed);
    await bed.engine.apply({ whole: false, ports: [forwardedPort([stays], own)] });
    expect(await Promise.race(ends)).toBe('ECONNRESET');
    await sleep(20);
    expect(clients.filter(({ destroyed }) => !destroyed)).toHaveLength(1);
    expect(stays.sockets.size).toBe(1);
    expect(bed.engine.report().totals.active).toBe(1);
  },
);

test('a Service that is its own endpoint is not connected to itself', async () => {
  await using bed = new EngineBed();
  const port = await freePort();
  const loop = forwardedPort([{ address: LOCAL, port, weight: 1 }]);
  const listener = { address: LOCAL, port, protocol: 'TCP', key: loop.key } as const;
  await bed.engine.apply({ whole: false, ports: [loop], listeners: [listener] });
  // It may be reset before its own event says that it is connected.
  const reset = bed.client(port).then(closed, ({ code }: NodeJS.ErrnoException) => code);
  expect(await reset).toBe('ECONNRESET');
  expect(bed.engine.report().totals).toMatchObject({ connections: 1, failedConnections: 1, failedConnects: 0 });
});
