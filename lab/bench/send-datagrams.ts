// Sends one UDP datagram from each of many ports: node lab/bench/send-datagrams.ts COUNT ADDRESS PORT SOURCE...
// The ports are those from 1,024 up, of one source address after the other. A source needs no route back.
import { createSocket } from 'node:dgram';
import { once } from 'node:events';

const FIRST_PORT = 1_024;
const PORTS = 64_000;
/** Sockets that are open at once. */
const TOGETHER = 100;

const [count, address, port, ...sources] = process.argv.slice(2);
if (address === undefined || sources.length === 0) throw new Error('usage: COUNT ADDRESS PORT SOURCE...');
const indices = Array.from({ length: Number(count) }, (_, index) => index).values();
await Promise.all(Array.from({ length: TOGETHER }, sendSome));

/** Of an iterator that several share. */
async function sendSome(): Promise<void> {
  for (const index of indices) {
    const socket = createSocket('udp4');
    const source = sources[Math.trunc(index / PORTS)];
    if (source === undefined) throw new Error('too few source addresses');
    socket.bind({ port: FIRST_PORT + (index % PORTS), address: source, exclusive: true });
    await once(socket, 'listening');
    await new Promise<void>((resolve, reject) => {
      socket.send('x', Number(port), address, (error) => (error === null ? resolve() : reject(error)));
    });
    socket.close();
  }
}
