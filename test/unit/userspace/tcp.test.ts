import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { EngineBed, LOCAL, closed, forwardedPort, freePort, readAll } from './engine-bed.ts';

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

test('an endpoint that does not answer in time is skipped', async () => {
  await using bed = new EngineBed();
  const port = await bed.forward([await bed.silentServer(), await bed.server(greet('a'))]);
  const began = performance.now();
  for (let count = 0; count < 2; count++) expect(await readAll(await bed.client(port))).toBe('a');
  const ms = performance.now() - began;
  expect(ms).toBeGreaterThan(240);
  expect(ms).toBeLessThan(1_500);
  expect(bed.engine.report().totals.failedConnects).toBeGreaterThan(0);
});

test('an endpoint alone that is slow to answer gets more time each time', async () => {
  await using bed = new EngineBed();
  const client = await bed.client(await bed.forward([await bed.silentServer()]));
  await sleep(1_000);
  // After 250 and 750 ms.
  expect(bed.engine.report().totals).toMatchObject({ failedConnects: 2, failedConnections: 0, active: 1 });
  expect(client.destroyed).toBe(false);
});

test('clients that send nothing hold no endpoint of another Service', async () => {
  await using bed = new EngineBed();
  const silent = await bed.forward([await bed.silentServer()], { key: 'default/silent', service: 'default/silent' });
  const port = await bed.forward([await bed.server(greet('a'))]);
  await Promise.all(Array.from({ length: 200 }, () => bed.client(silent)));
  expect(await readAll(await bed.client(port))).toBe('a');
  while (bed.engine.report().totals.active < 200) await sleep(10);
  expect(await readAll(await bed.client(port))).toBe('a');
});

test('a client is reset when every endpoint has failed', async () => {
  await using bed = new EngineBed();
  const refusing = { address: LOCAL, port: await freePort(), weight: 1 };
  expect(await bed.endOf(await bed.forward([refusing]))).toBe('ECONNRESET');
  expect(bed.engine.report().totals).toMatchObject({ failedConnects: 1, failedConnections: 1, active: 0 });
});

test('a change of endpoints does not touch connections to those that stay', async () => {
  await using bed = new EngineBed({ drainMs: 30 });
  const echo = (socket: Socket): void => void socket.pipe(socket);
  const [stays, leaves] = [await bed.server(echo), await bed.server(echo)];
  const port = await bed.forward([stays, leaves]);
  const clients = [await bed.client(port), await bed.client(port)];
  await sleep(20);
  const ends = clients.map(closed);
  await bed.engine.apply({ whole: false, ports: [forwardedPort([stays])] });
  expect(await Promise.race(ends)).toBe('ECONNRESET');
  await sleep(20);
  expect(clients.filter(({ destroyed }) => !destroyed)).toHaveLength(1);
  expect(stays.sockets.size).toBe(1);
  expect(bed.engine.report().totals.active).toBe(1);
});
