import { type Socket, connect } from 'node:net';
import { readFileSync } from 'node:fs';
import { formatIp, type IpAddress } from '../../base/ip.ts';
import { errorCode } from '../../base/text/error-text.ts';
import { setTimer } from '../../base/timer.ts';
import type { ConnectResult } from '../../endpoint-check/endpoint-state.ts';
import type { Endpoint } from '../../state/real-server.ts';
import type { KernelReader } from '../../kernel/kernel.ts';

/** When a second connect begins, beside the first: its SYN or the answer may have been lost. */
const SECOND_MS = 300;

/** Errors of a connect that say something of the endpoint. With all others, this node has not sent it. */
const RESULTS: Readonly<Record<string, ConnectResult>> = {
  ECONNREFUSED: 'refused',
  ECONNRESET: 'answered',
  EHOSTUNREACH: 'unanswered',
  ETIMEDOUT: 'unanswered',
};

/** Opens a TCP connection to an endpoint, and a second one if that is not answered; closes both. Never rejects. */
export async function askEndpoint({ address, port }: Endpoint, timeoutMs: number): Promise<ConnectResult> {
  const { promise, resolve } = Promise.withResolvers<ConnectResult>();
  const sockets: Socket[] = [];
  const open = (): void => {
    const socket = connect({ host: formatIp(address), port });
    socket.once('connect', () => resolve('answered'));
    socket.on('error', (error) => resolve(RESULTS[errorCode(error) ?? ''] ?? 'not-sent'));
    sockets.push(socket);
  };
  open();
  const timers = [setTimer(open, SECOND_MS), setTimer(() => resolve('unanswered'), timeoutMs)];
  try {
    return await promise;
  } finally {
    for (const cancel of timers) cancel();
    for (const socket of sockets) socket.destroy();
  }
}

/** Whether this node has a route to the address, over an interface that is up. Without one, all there are silent. */
export async function hasLinkTo(address: IpAddress, kernel: Pick<KernelReader, 'findRoutes'>): Promise<boolean> {
  const route = (await kernel.findRoutes([address])).get(address);
  return route !== undefined && (route.local || hasCarrier(route.interfaceName));
}

/** Reading the file fails with EINVAL while the interface is set down. */
function hasCarrier(interfaceName: string): boolean {
  try {
    return readFileSync(`/sys/class/net/${interfaceName}/carrier`, 'latin1').trim() === '1';
  } catch {
    return false;
  }
}
