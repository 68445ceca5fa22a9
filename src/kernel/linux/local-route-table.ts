import { constants } from 'node:os';
import type { MessageWriter } from '../../netlink/codec/message-writer.ts';
import {
  type LocalTableRoute,
  RTPROT_KERNEL,
  addHostRoute,
  decodeLocalTable,
  deleteHostRoute,
  dumpRoutes,
} from '../../netlink/family/route/host-route.ts';
import { IP_FAMILIES, type IpAddress } from '../../base/ip.ts';
import { hostPrefix } from '../../state/bound-address.ts';
import type { LocalRoute } from '../../state/local-route.ts';
import type { Op } from '../../state/op.ts';
import { type BatchConnection, askAll } from './batch.ts';

export type RouteOp = Extract<Op, { kind: 'add-route' | 'delete-route' }>;

/** The protocol number that marks our routes; linux/rtnetlink.h and iproute2's rt_protos leave it free. */
export const OUR_PROTOCOL = 120;

/**
 * The interface index of lo in every network namespace (LOOPBACK_IFINDEX in the kernel's net/flow.h). Our routes are
 * not on kube-ipvs0, which may have no address at all in light mode: the kernel removes an interface's IPv4 routes with
 * its last IPv4 address.
 */
const LOOPBACK = 1;

/** Of routes with a source. The kernel prefers those without one, and so deletes them first. */
const METRIC_WITH_SOURCE = 2_048;

const { EEXIST, ENOENT, ESRCH } = constants.errno;

/** Returns local routes of the loopback interface, except those that the kernel creates for its addresses. */
export async function readLocalRoutes(connection: BatchConnection): Promise<LocalRoute[]> {
  return await readHostRoutes(connection, (route) => {
    if (!route.isLocal || route.index !== LOOPBACK || route.protocol === RTPROT_KERNEL) return undefined;
    const { cidr, protocol, source } = route;
    return { cidr, ours: protocol === OUR_PROTOCOL, ...(source === undefined ? {} : { source }) };
  });
}

/** Returns the addresses with a route of their own in table local. The value is whether the first of them, which decides, is local. */
export async function readRoutedAddresses(connection: BatchConnection): Promise<Map<IpAddress, boolean>> {
  const routed = new Map<IpAddress, boolean>();
  await readHostRoutes(connection, ({ cidr: { address, prefix }, isLocal }) => {
    if (prefix === hostPrefix(address) && !routed.has(address)) routed.set(address, isLocal);
    return undefined;
  });
  return routed;
}

/** Returns what `read` makes of each route of table local of both families; undefined is left out. */
async function readHostRoutes<T>(
  connection: BatchConnection,
  read: (route: LocalTableRoute) => T | undefined,
): Promise<T[]> {
  return await askAll(connection, IP_FAMILIES, {
    operation: 'RTM_GETROUTE',
    write: dumpRoutes,
    read: ({ payload }) => {
      const route = decodeLocalTable(payload);
      return route === undefined ? undefined : read(route);
    },
    absent: new Set([ENOENT]),
  });
}

export function writeRoute(writer: MessageWriter, { kind, cidr, source }: RouteOp): void {
  const metric = source === undefined ? undefined : METRIC_WITH_SOURCE;
  const route = { cidr, index: LOOPBACK, protocol: OUR_PROTOCOL, source, metric };
  if (kind === 'add-route') addHostRoute(writer, route);
  else deleteHostRoute(writer, route);
}

/** Returns whether the refused operation is already in effect. */
export function isRouteDone({ kind }: RouteOp, errno: number): boolean {
  return errno === (kind === 'add-route' ? EEXIST : ESRCH);
}
