import { constants } from 'node:os';
import type { MessageWriter } from '../netlink/codec/message-writer.ts';
import {
  type HostRoute,
  RTPROT_KERNEL,
  addHostRoute,
  decodeHostRoute,
  deleteHostRoute,
  dumpRoutes,
} from '../netlink/family/route/local-route.ts';
import { IP_FAMILIES } from '../net/ip.ts';
import type { LocalRoute } from '../state/local-route.ts';
import type { Op } from '../state/op.ts';
import { type BatchConnection, askAll } from './batch.ts';

export type RouteOp = Extract<Op, { kind: 'add-route' | 'delete-route' }>;

/** The protocol number that marks our routes; linux/rtnetlink.h and iproute2's rt_protos leave it free. */
export const OUR_PROTOCOL = 120;

/**
 * net/flow.h of the kernel: LOOPBACK_IFINDEX, in every network namespace. Not kube-ipvs0: an interface that loses its last IPv4 address loses
 * its IPv4 routes too, and in light mode there may be no address on it at all.
 */
const LOOPBACK = 1;

const { EEXIST, ESRCH } = constants.errno;

/** Local routes of the loopback interface, but for those that the kernel makes for each of its addresses. */
export async function readLocalRoutes(connection: BatchConnection): Promise<LocalRoute[]> {
  const found: HostRoute[] = [];
  await askAll(connection, IP_FAMILIES, {
    operation: 'RTM_GETROUTE',
    write: dumpRoutes,
    read: ({ payload }) => {
      const route = decodeHostRoute(payload);
      if (route !== undefined && route.index === LOOPBACK && route.protocol !== RTPROT_KERNEL) found.push(route);
    },
  });
  return found.map(({ cidr, protocol }) => ({ cidr, ours: protocol === OUR_PROTOCOL }));
}

export function writeRoute(writer: MessageWriter, { kind, cidr }: RouteOp): void {
  const route = { cidr, index: LOOPBACK, protocol: OUR_PROTOCOL };
  if (kind === 'add-route') addHostRoute(writer, route);
  else deleteHostRoute(writer, route);
}

/** What was refused is as it should be already. */
export function isRouteDone({ kind }: RouteOp, errno: number): boolean {
  return errno === (kind === 'add-route' ? EEXIST : ESRCH);
}
