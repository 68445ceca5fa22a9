import { type Cidr, cidrContains, cidrFamily, cidrOf, formatCidr, isHost } from '../../base/cidr.ts';
import { IP_FAMILIES, type IpAddress, type IpFamily, familyOf, isLinkLocal6, parseIp } from '../../base/ip.ts';
import { deletionOf } from '../../diff/route-diff.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { hostPrefix } from '../../state/bound-address.ts';
import { type Op, deletionOfServer } from '../../state/op.ts';
import { Transaction } from '../../state/transaction.ts';
import { type VirtualServer, virtualServerKey } from '../../state/virtual-server.ts';
import { ownedVirtualServers } from './remove-own.ts';

type OldKernel = Pick<
  Kernel,
  'apply' | 'getRealServers' | 'getLocalRoutes' | 'getFlowSources' | 'findRoutes' | 'getNodeAddresses'
> &
  Parameters<typeof ownedVirtualServers>[0];

/** The number of objects that ipvs mode left and that connections still need. */
export interface InUse {
  readonly virtualServers: number;
  /** Service addresses or networks that this node's own connections have as their source, and those of the virtual servers. */
  readonly addresses: number;
}

/** Addresses for documentation (RFC 5737, RFC 3849): the kernel answers with the source of its default route. */
const ELSEWHERE: readonly IpAddress[] = ['192.0.2.1', '2001:db8::1'].flatMap((text) => parseIp(text) ?? []);

/**
 * Removes our virtual servers that have no connections, and the service addresses that no connection needs. Returns
 * the number of those that stay.
 *
 * This node's own connections to a service address have that address as source, even if another mode translates them,
 * and would break if it were unbound. So a local route replaces each bound address: it gives new connections an
 * address of the node as source, and is removed when the last connection from the service address has ended.
 */
export async function removeIdle(
  kernel: OldKernel,
  excluded: Parameters<typeof ownedVirtualServers>[1],
): Promise<InUse> {
  await replaceAddresses(kernel);
  const servers = await ownedVirtualServers(kernel, excluded);
  const busy = await busyServers(kernel, servers);
  const idle = servers.filter((server) => !busy.has(server));
  const routes = (await kernel.getLocalRoutes()).filter(({ ours }) => ours);
  const bound = (await kernel.getBoundAddresses()).map(({ address }) => address);
  const networks = [...routes.map(({ cidr }) => cidr), ...bound.map(hostCidr)];
  const needed = await neededNetworks(kernel, networks, new Set(Array.from(busy, ({ address }) => address)));
  const isNeeded = (cidr: Cidr): boolean => needed.has(formatCidr(cidr));
  const ops: Op[] = [
    ...bound.filter((address) => !isNeeded(hostCidr(address))).map(unbinding),
    ...routes.filter(({ cidr }) => !isNeeded(cidr)).map(deletionOf),
    ...idle.map(deletionOfServer),
  ];
  await kernel.apply(new Transaction(ops));
  return { virtualServers: busy.size, addresses: needed.size };
}

/** Replaces bound addresses, and the local routes of light mode, by local routes with a source. */
async function replaceAddresses(kernel: OldKernel): Promise<void> {
  const bound = (await kernel.getBoundAddresses()).map(({ address }) => address);
  const plain = (await kernel.getLocalRoutes()).filter(({ ours, source }) => ours && source === undefined);
  if (bound.length + plain.length === 0) return;
  const sources = await sourcesOf(kernel);
  const replaced: (readonly [Op, Op])[] = [
    ...bound.map((address) => [hostCidr(address), unbinding(address)] as const),
    ...plain.map((route) => [route.cidr, deletionOf(route)] as const),
  ].flatMap(([cidr, removal]) => {
    const source = sources.get(cidrFamily(cidr));
    return source === undefined ? [] : [[{ kind: 'add-route', cidr, source }, removal]];
  });
  const { failures } = await kernel.apply(new Transaction(replaced.map(([addition]) => addition)));
  const failed = new Set(failures.map(({ op }) => op));
  const done = replaced.filter(([addition]) => !failed.has(addition));
  await kernel.apply(new Transaction(done.map(([, removal]) => removal)));
}

/** Returns the source that this node's connections to others have, for each family that has one. */
async function sourcesOf(kernel: OldKernel): Promise<ReadonlyMap<IpFamily, IpAddress>> {
  const routes = await kernel.findRoutes(ELSEWHERE);
  const addresses = (await kernel.getNodeAddresses()).filter(
    ({ address, interfaceName, tentative }) => interfaceName !== 'lo' && !tentative && !isLinkLocal6(address),
  );
  return new Map(
    IP_FAMILIES.flatMap((family) => {
      const [, route] = [...routes].find(([destination]) => familyOf(destination) === family) ?? [];
      const source = route?.local === true ? undefined : route?.source;
      const chosen = source ?? addresses.find(({ address }) => familyOf(address) === family)?.address;
      return chosen === undefined ? [] : [[family, chosen] as const];
    }),
  );
}

async function busyServers(kernel: OldKernel, servers: readonly VirtualServer[]): Promise<ReadonlySet<VirtualServer>> {
  const realServers = await kernel.getRealServers(servers);
  const isBusy = (id: VirtualServer): boolean =>
    realServers
      .get(virtualServerKey(id))
      ?.some(({ activeConnections, inactiveConnections }) => activeConnections + inactiveConnections > 0) === true;
  return new Set(servers.filter(isBusy));
}

/** Returns those of the networks, as text, that a virtual server with connections or the source of a flow is in. */
async function neededNetworks(
  kernel: OldKernel,
  networks: readonly Cidr[],
  ofServers: ReadonlySet<IpAddress>,
): Promise<ReadonlySet<string>> {
  const needed = new Set<string>();
  for (const [family, ofFamily] of Map.groupBy(networks, cidrFamily)) {
    const used = new Set([...(await kernel.getFlowSources(family, ofFamily)), ...ofServers]);
    const isUsed = (cidr: Cidr): boolean =>
      isHost(cidr) ? used.has(cidr.address) : [...used].some((address) => cidrContains(cidr, address));
    for (const cidr of ofFamily.filter(isUsed)) needed.add(formatCidr(cidr));
  }
  return needed;
}

function hostCidr(address: IpAddress): Cidr {
  return cidrOf(address, hostPrefix(address));
}

function unbinding(address: IpAddress): Op {
  return { kind: 'unbind-address', address };
}
