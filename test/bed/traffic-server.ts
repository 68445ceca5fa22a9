import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:http';

import type { Answer } from './agent-protocol.ts';

/** Starts an HTTP server that answers every request with an `Answer`. Only the client closes connections. */
export async function serveTcp(address: string, port: number, name: string): Promise<() => void> {
  const server = createServer((request, response) => {
    const body = answer(name, request.socket.remoteAddress ?? '', request.socket.remotePort ?? 0);
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
    response.end(body);
  });
  server.keepAliveTimeout = 0;
  server.requestTimeout = 0;
  server.headersTimeout = 0;
  server.listen({ host: address, port });
  await once(server, 'listening');
  return () => {
    server.close();
    server.closeAllConnections();
  };
}

/** Starts a UDP server that answers every datagram with an `Answer`, of at least as many bytes as it asks for. */
export async function serveUdp(address: string, port: number, name: string): Promise<() => void> {
  const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
  socket.on('message', (request, peer) => {
    const [, bytes = '0'] = /^ask (\d{1,5})/.exec(request.toString('latin1')) ?? [];
    // Ignore errors: the peer may be gone.
    socket.send(answer(name, peer.address, peer.port).padEnd(Number(bytes)), peer.port, peer.address, () => {});
  });
  socket.bind({ address, port });
  await once(socket, 'listening');
  socket.on('error', () => {});
  return () => {
    socket.close();
  };
}

function answer(name: string, source: string, sourcePort: number): string {
  const value: Answer = { ok: true, answeredBy: name, sourceSeen: source.replace(/^::ffff:/, ''), sourcePort };
  return `${JSON.stringify(value)}\n`;
}
