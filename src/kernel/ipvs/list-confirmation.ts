import { isIp4 } from '../../base/ip.ts';
import { toPort } from '../../base/port.ts';
import { countDestinations, haveDestinations } from './socket-servers.ts';
import { isNativeError } from '../../netlink/transport/addon.ts';
import { FORWARDING, forwardingOf } from '../../state/real-server.ts';
import { type VirtualServer, type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import type { ServerList } from '../kernel.ts';

/** Tells without a dump which virtual servers of IPv4 have exactly their real servers. */
export class ListConfirmation {
  readonly #netns: string | undefined;
  readonly #counts = new WeakMap<VirtualServer, number>();

  /** @param netns path of the network namespace; default: that of this process */
  constructor(netns: string | undefined) {
    this.#netns = netns;
  }

  /** Must be called with what was listed: how many real servers each has is read now. */
  note(listed: readonly VirtualServer[]): void {
    const counts = new Map<VirtualServerKey, number>();
    for (const { count, ...id } of orNone(() => countDestinations(this.#netns))) {
      const port = toPort(id.port);
      if (port !== undefined) counts.set(virtualServerKey({ ...id, port }), count);
    }
    for (const server of listed) {
      const count = counts.get(virtualServerKey(server));
      if (count !== undefined) this.#counts.set(server, count);
    }
  }

  confirm(lists: readonly ServerList[]): Set<VirtualServerKey> {
    const readable = lists.flatMap(({ virtualServer, realServers }) => {
      const { address, port, protocol } = virtualServer;
      if (!isIp4(address) || this.#counts.get(virtualServer) !== realServers.length) return [];
      if (realServers.some((server) => forwardingOf(server) === FORWARDING.tunnel)) return [];
      return [{ id: { address, port, protocol }, destinations: realServers }];
    });
    const have = orNone(() => haveDestinations(this.#netns, readable));
    return new Set(readable.flatMap(({ id }, index) => (have[index] === true ? [virtualServerKey(id)] : [])));
  }
}

/** Without a socket, nothing is known; the dumps that follow report why. */
function orNone<T>(read: () => T[]): T[] {
  try {
    return read();
  } catch (error) {
    if (isNativeError(error)) return [];
    throw error;
  }
}
