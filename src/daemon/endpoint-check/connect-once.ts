import { connect } from 'node:net';
import { formatIp } from '../../base/ip.ts';
import { errorCode } from '../../base/text/error-text.ts';
import { setTimer } from '../../base/timer.ts';
import type { ConnectResult } from '../../endpoint-check/endpoint-state.ts';
import type { Endpoint } from '../../state/real-server.ts';

/** Errors of a connect that say something of the endpoint. With all others, this node has not sent it. */
const RESULTS: Readonly<Record<string, ConnectResult>> = {
  ECONNREFUSED: 'refused',
  ECONNRESET: 'answered',
  EHOSTUNREACH: 'unanswered',
  ETIMEDOUT: 'unanswered',
};

/** Opens a TCP connection to an endpoint, and closes it at once. Never rejects. */
export async function connectOnce({ address, port }: Endpoint, timeoutMs: number): Promise<ConnectResult> {
  const { promise, resolve } = Promise.withResolvers<ConnectResult>();
  const cancel = setTimer(() => resolve('unanswered'), timeoutMs);
  const socket = connect({ host: formatIp(address), port });
  socket.once('connect', () => resolve('answered'));
  socket.on('error', (error) => resolve(RESULTS[errorCode(error) ?? ''] ?? 'not-sent'));
  try {
    return await promise;
  } finally {
    cancel();
    socket.destroy();
  }
}
