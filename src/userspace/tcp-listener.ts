import { createServer } from 'node:net';
import { formatIp, familyOf } from '../base/ip.ts';
import type { Listener } from './engine-update.ts';
import type { OpenListener } from './open-listener.ts';
import { RelaySocket, TCP_OPTIONS } from './relay-socket.ts';

/** When it is full, the kernel drops the SYN, which a client retransmits only after a second. */
const BACKLOG = 4_096;

/** Listens; rejects with the system's error. `onConnection` gets a socket that does not read yet. */
export async function listenTcp(
  { address, port, reusePort = false }: Listener,
  onConnection: (client: RelaySocket) => void,
): Promise<OpenListener> {
  const server = createServer({ ...TCP_OPTIONS, pauseOnConnect: true }, (accepted) =>
    onConnection(new RelaySocket(accepted)),
  );
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  const ipv6Only = familyOf(address) === 6;
  server.listen({ host: formatIp(address), port, backlog: BACKLOG, ipv6Only, reusePort }, resolve);
  await promise;
  server.off('error', reject);
  // A failed accept (EMFILE) affects one client only.
  server.on('error', () => undefined);
  return {
    // Connections that are accepted remain.
    close: () => void server.close(),
  };
}
