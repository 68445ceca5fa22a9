import { type Socket, createSocket } from 'node:dgram';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from '@jest/globals';
import type { Port } from '../../../src/base/port.ts';
import type { Backend } from '../../../src/userspace/engine-update.ts';
import { EngineBed, LOCAL, forwardedPort, freePort } from './engine-bed.ts';

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.close();
});

async function bound(): Promise<Socket> {
  const socket = createSocket('udp4');
  sockets.push(socket);
  await new Promise<void>((resolve) => socket.bind({ address: '127.0.0.1', port: 0 }, resolve));
  return socket;
}

/** Answers each datagram with its name and the datagram. */
async function server(name: string): Promise<Backend> {
  const socket = await bound();
  socket.on('message', (data, { port, address }) =>
    socket.send(Buffer.concat([Buffer.from(name), data]), port, address),
  );
  return { address: LOCAL, port: socket.address().port as Port, weight: 1 };
}

/** Resolves to the answer; undefined if none comes within `ms`. */
async function ask(socket: Socket, port: number, data: string | Buffer, ms = 300): Promise<Buffer | undefined> {
  const { promise, resolve } = Promise.withResolvers<Buffer | undefined>();
  socket.once('message', resolve);
  socket.send(data, port, '127.0.0.1');
  const answer = await Promise.race([promise, sleep(ms, undefined)]);
  socket.off('message', resolve);
  return answer;
}

async function forward(bed: EngineBed, endpoints: readonly Backend[]): Promise<Port> {
  return await bed.forward(endpoints, { protocol: 'UDP' });
}

test('a client keeps its endpoint, and another client gets the next one', async () => {
  await using bed = new EngineBed();
  const port = await forward(bed, [await server('a'), await server('b')]);
  const [one, two] = [await bound(), await bound()];
  const answers = [];
  for (const client of [one, one, two, two]) answers.push(String(await ask(client, port, '')));
  expect(answers[0]).toBe(answers[1]);
  expect(answers[2]).toBe(answers[3]);
  expect(new Set(answers)).toEqual(new Set(['a', 'b']));
  expect(bed.engine.report().totals).toMatchObject({ connections: 2, active: 2, bytesOut: 4 });
});

test('the largest datagrams pass', async () => {
  await using bed = new EngineBed();
  const port = await forward(bed, [await server('')]);
  const answer = await ask(await bound(), port, Buffer.alloc(65_507, 'x'), 1_000);
  expect(answer?.length).toBe(65_507);
});

test('an idle client is forgotten, one in use is not', async () => {
  await using bed = new EngineBed({ udpIdleMs: 120 });
  const port = await forward(bed, [await server('a')]);
  const [idle, busy] = [await bound(), await bound()];
  await ask(idle, port, '');
  for (let count = 0; count < 4; count++) {
    await ask(busy, port, '');
    await sleep(60);
  }
  expect(bed.engine.report().totals).toMatchObject({ connections: 2, active: 1 });
});

test('the clients of an endpoint that leaves go to another one at once', async () => {
  await using bed = new EngineBed();
  const [a, b] = [await server('a'), await server('b')];
  const port = await forward(bed, [a, b]);
  const client = await bound();
  const first = String(await ask(client, port, ''));
  const left = first === 'a' ? b : a;
  await bed.engine.apply({ whole: false, ports: [forwardedPort([left], { protocol: 'UDP' })] });
  expect(bed.engine.report().totals.active).toBe(0);
  expect(String(await ask(client, port, ''))).toBe(first === 'a' ? 'b' : 'a');
});

test('after an ICMP error, the next datagram of the client goes to another endpoint', async () => {
  await using bed = new EngineBed();
  const dead = { address: LOCAL, port: await freePort(), weight: 1 };
  const port = await forward(bed, [dead, await server('a')]);
  const client = await bound();
  const answers = [];
  for (let count = 0; count < 3; count++) answers.push(await ask(client, port, '', 100));
  expect(answers.map(String)).toContain('a');
  expect(String(answers[2])).toBe('a');
});

test('clients beyond the limit are refused and counted', async () => {
  await using bed = new EngineBed({ mostInAll: 10 });
  const port = await forward(bed, [await server('a')]);
  const clients = await Promise.all(Array.from({ length: 30 }, bound));
  const answers = await Promise.all(clients.map((client) => ask(client, port, '')));
  expect(answers.filter((answer) => answer !== undefined)).toHaveLength(10);
  expect(bed.engine.report().totals).toMatchObject({ connections: 10, active: 10, refused: 20 });
});
