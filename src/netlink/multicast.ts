import { constants } from 'node:os';
import { loadAddon } from './addon.ts';
import { errnoName } from './error.ts';
import { type NetlinkMessage, messages } from './message.ts';

export interface MulticastOptions {
  /** NETLINK_ROUTE, ... (linux/netlink.h). */
  readonly protocol: number;
  /** RTNLGRP_..., ... */
  readonly groups: readonly number[];
  /** Path of a network namespace; default: our own. */
  readonly netns?: string;
  /** Bytes of reports that the kernel keeps for us. */
  readonly receiveBuffer: number;
  /** What the kernel reported, in order; decode it or let it be. Must not throw. */
  readonly onReports: (reports: readonly NetlinkMessage[]) => void;
  /** Reports were lost. `final`: the socket is of no more use. */
  readonly onLost: (reason: string, final: boolean) => void;
}

export interface Multicast {
  /** Nothing is called any more. */
  close(): void;
}

/** Listens to multicast groups on a socket of its own. Throws what opening a socket throws; nothing stays open then. */
export function listen(options: MulticastOptions): Multicast {
  const { NetlinkSocket } = loadAddon();
  const { protocol, netns, groups, receiveBuffer, onReports, onLost } = options;
  const socket = new NetlinkSocket({ protocol, rcvbuf: receiveBuffer, ...(netns === undefined ? {} : { netns }) });
  let closed = false;
  const take = (bytes: Uint8Array | undefined, errno: number): void => {
    if (closed) return;
    if (errno !== 0) {
      onLost(errnoName(errno), errno !== constants.errno.ENOBUFS);
      return;
    }
    const read = readAll(bytes ?? new Uint8Array());
    if (read === undefined) onLost('EBADMSG', false);
    else onReports(read);
  };
  try {
    socket.listen(Uint32Array.from(groups), take);
  } catch (error) {
    socket.close();
    throw error;
  }
  return {
    close: () => {
      closed = true;
      socket.close();
    },
  };
}

function readAll(bytes: Uint8Array): NetlinkMessage[] | undefined {
  try {
    return [...messages(bytes)];
  } catch {
    return undefined;
  }
}
