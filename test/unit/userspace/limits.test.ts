import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { EngineBed, closed, forwardedPort, readAll } from './engine-bed.ts';

const BLOCK = Buffer.alloc(65_536);

function echo(socket: Socket): void {
  socket.pipe(socket);
}

test('connections beyond the limit of a Service are refused and counted; another Service is not affected', async () => {
  await using bed = new EngineBed({ mostOfService: 2 });
  const server = await bed.server(echo);
  const port = await bed.forward([server]);
  const other = await bed.forward([server], { key: 'default/other', service: 'default/other' });
  const clients = [await bed.client(port), await bed.client(port)];
  expect(await bed.endOf(port)).toBe('ECONNRESET');
  const ofOther = await bed.client(other);
  ofOther.end('x');
  expect(await readAll(ofOther)).toBe('x');
  expect(bed.engine.report().totals).toMatchObject({ refused: 1, active: 2 });
  clients[0]?.destroy();
  await sleep(50);
  const again = await bed.client(port);
  again.end('y');
  expect(await readAll(again)).toBe('y');
});

test('a port without endpoints resets its clients', async () => {
  await using bed = new EngineBed();
  expect(await bed.endOf(await bed.forward([]))).toBe('ECONNRESET');
});

test('a client that does not read stops the endpoint, and buffers little', async () => {
  await using bed = new EngineBed();
  let sent = 0;
  const server = await bed.server((socket) => {
    const send = (): void => {
      while (sent < 256 * 2 ** 20 && !socket.destroyed) {
        sent += BLOCK.length;
        if (!socket.write(BLOCK)) break;
      }
    };
    socket.on('drain', send);
    send();
  });
  const client = await bed.client(await bed.forward([server]));
  client.pause();
  await sleep(400);
  const before = sent;
  await sleep(200);
  // What the sockets of the kernel hold, and not more with time.
  expect(sent).toBe(before);
  expect(sent).toBeLessThan(64 * 2 ** 20);
  client.resume();
  await sleep(300);
  expect(sent).toBeGreaterThan(before);
});

test('a silent connection ends after the idle timeout, a half-closed one after its own', async () => {
  await using bed = new EngineBed({ tcpIdleMs: 10_000, tcpHalfClosedIdleMs: 60 });
  const server = await bed.server(() => undefined);
  const port = await bed.forward([server]);
  const [silent, halfClosed] = [await bed.client(port), await bed.client(port)];
  await sleep(30);
  halfClosed.end();
  expect(await closed(halfClosed)).toBe('ECONNRESET');
  expect(silent.destroyed).toBe(false);
  expect(bed.engine.report().totals.active).toBe(1);
});

test('a client that was served keeps its endpoint with session affinity, and another one if that fails', async () => {
  await using bed = new EngineBed();
  const [a, b] = [await bed.server((socket) => socket.end('a')), await bed.server((socket) => socket.end('b'))];
  const port = await bed.forward([a, b], { affinitySeconds: 10 });
  const first = await readAll(await bed.client(port));
  for (let count = 0; count < 3; count++) expect(await readAll(await bed.client(port))).toBe(first);
  (first === 'a' ? a : b).server.close();
  const second = await readAll(await bed.client(port));
  expect(second).toBe(first === 'a' ? 'b' : 'a');
  const { failedConnects } = bed.engine.report().totals;
  expect(await readAll(await bed.client(port))).toBe(second);
  expect(bed.engine.report().totals.failedConnects).toBe(failedConnects);
});

test('the same update twice changes nothing, and a whole one ends what it does not name', async () => {
  await using bed = new EngineBed();
  const server = await bed.server(echo);
  const port = await bed.forward([server]);
  const client = await bed.client(port);
  const id = { address: server.address, port, protocol: 'TCP' } as const;
  const update = { whole: true, ports: [forwardedPort([server])], listeners: [{ ...id, key: 'default/web' }] };
  await bed.engine.apply(update);
  await bed.engine.apply(update);
  client.write('x');
  expect(await new Promise((resolve) => client.once('data', (data) => resolve(String(data))))).toBe('x');
  await bed.engine.apply({ whole: true });
  await expect(bed.client(port)).rejects.toThrow('ECONNREFUSED');
  // Without a drain timeout, the connection remains.
  client.write('y');
  expect(await new Promise((resolve) => client.once('data', (data) => resolve(String(data))))).toBe('y');
  expect(bed.engine.report().totals).toMatchObject({ connections: 1, active: 1 });
});

test('a listener without a key asks for the original destination', async () => {
  await using bed = new EngineBed({}, () => ({ address: server.address, port: server.port }));
  const server = await bed.server(echo);
  const shared = await bed.forward([server], {}, { isShared: true });
  expect(await bed.endOf(shared)).toBe('ECONNRESET');
  const destination = { address: server.address, port: server.port, protocol: 'TCP', key: 'default/web' } as const;
  await bed.engine.apply({ whole: false, destinations: [destination] });
  const client = await bed.client(shared);
  client.end('x');
  expect(await readAll(client)).toBe('x');
});
