import { constants } from 'node:os';
import { loadAddon } from './addon.ts';
import { errnoName } from '../error.ts';
import { type NetlinkMessage, messages } from '../netlink-message.ts';
import { type Trace, traceMessages } from '../trace/trace.ts';

export interface MulticastOptions {
  /** Netlink protocol, such as NETLINK_ROUTE (linux/netlink.h). */
  readonly protocol: number;
  /** Group numbers, such as RTNLGRP_LINK (linux/rtnetlink.h). */
  readonly groups: readonly number[];
  /** Path of a network namespace; default: that of this process. */
  readonly netns?: string;
  /** Size of the kernel's receive queue in bytes. */
  readonly receiveBuffer: number;
  /** Called with the messages of the groups, in order. Must not throw. */
  readonly onReports: (reports: readonly NetlinkMessage[]) => void;
  /** Called when messages were lost. If `final`, no more messages will follow. */
  readonly onLost: (reason: string, final: boolean) => void;
  readonly trace?: Trace | undefined;
}

export interface Multicast {
  /** Closes the socket. No callback is called afterwards. */
  close(): void;
}

/** Listens to multicast groups on a separate socket. Throws if the socket cannot be opened. */
export function listen(options: MulticastOptions): Multicast {
  const { NetlinkSocket } = loadAddon();
  const { protocol, netns, groups, receiveBuffer, onReports, onLost, trace } = options;
  const socket = new NetlinkSocket({ protocol, rcvbuf: receiveBuffer, ...(netns === undefined ? {} : { netns }) });
  let closed = false;
  const take = (bytes: Uint8Array | undefined, errno: number): void => {
    if (closed) return;
    if (errno !== 0) {
      onLost(errnoName(errno), errno !== constants.errno.ENOBUFS);
      return;
    }
    if (bytes !== undefined && trace?.enabled() === true) traceMessages(trace, 'received', protocol, bytes);
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
