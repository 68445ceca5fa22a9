import { formatCidr } from '../../base/cidr.ts';
import { type IpAddress, formatIp, isIp4 } from '../../base/ip.ts';
import type { Protocol } from '../../base/protocol.ts';
import { hostPrefix } from '../bound-address.ts';
import { type IpSet, formatIpSetEntry, twinName } from '../ip-set.ts';
import type { LocalRoute } from '../local-route.ts';
import type { Op } from '../op.ts';
import {
  FORWARDING,
  type RealServer,
  TUNNEL_CHECKSUM,
  TUNNEL_TYPE,
  formatRealServer,
  forwardingOf,
  tunnelTypeName,
} from '../real-server.ts';
import {
  VS_ONE_PACKET,
  VS_PERSISTENT,
  VS_SCHED_FALLBACK,
  VS_SCHED_PORT,
  type VirtualServer,
  type VirtualServerId,
  formatVirtualServer,
} from '../virtual-server.ts';

const SERVICE_OPTION: Readonly<Record<Protocol, string>> = { TCP: '-t', UDP: '-u', SCTP: '--sctp-service' };

const METHOD_OPTION: ReadonlyMap<number, string> = new Map([
  [FORWARDING.nat, '-m'],
  [FORWARDING.tunnel, '-i'],
  [FORWARDING.route, '-g'],
]);

/** Returns the command of ipvsadm, ipset or ip that makes this change. */
export function toolCommand(op: Op): string {
  switch (op.kind) {
    case 'create-set':
      return createSet(op.set, op.set.name);
    case 'grow-set': {
      const twin = twinName(op.set.name);
      return `${createSet(op.set, twin)}; add its ${op.entries.length} entries; ipset swap ${twin} ${op.set.name}`;
    }
    case 'destroy-set':
      return `ipset destroy ${op.set.name}`;
    case 'add-entry':
      return `ipset add ${op.set.name} ${formatIpSetEntry(op.entry)}`;
    case 'delete-entry':
      return `ipset del ${op.set.name} ${formatIpSetEntry(op.entry)}`;
    case 'add-virtual-server':
      return `ipvsadm -A ${serviceText(op.virtualServer)} ${settingsText(op.virtualServer)}`;
    case 'edit-virtual-server':
      return `ipvsadm -E ${serviceText(op.virtualServer)} ${settingsText(op.virtualServer)}`;
    case 'delete-virtual-server':
      return `ipvsadm -D ${serviceText(op.id)}`;
    case 'add-real-server':
      return `ipvsadm -a ${serviceText(op.id)} ${destinationText(op.realServer)}`;
    case 'edit-real-server':
      return `ipvsadm -e ${serviceText(op.id)} ${destinationText(op.realServer)}`;
    case 'delete-real-server':
      return `ipvsadm -d ${serviceText(op.id)} -r ${formatRealServer(op.realServer)}`;
    case 'bind-address':
      return op.again === true ? bindAgain(op.address) : `ip addr add ${deviceAddress(op)}`;
    case 'unbind-address':
      return `ip addr del ${deviceAddress(op)}`;
    case 'add-route':
      return `ip route add ${routeText(op)}`;
    case 'delete-route':
      return `ip route del ${routeText(op)}`;
  }
}

/** The kernel adds the route of an address with the address only. Another program may have put another route in its place. */
function bindAgain(address: IpAddress): string {
  const at = deviceAddress({ address });
  const flush = `ip -${isIp4(address) ? 4 : 6} route flush table local exact ${formatIp(address)}`;
  return `ip addr del ${at}; ${flush}; ip addr add ${at} # it has no local route`;
}

function deviceAddress({ address, prefix }: { readonly address: IpAddress; readonly prefix?: number }): string {
  return `${formatIp(address)}/${prefix ?? hostPrefix(address)} dev kube-ipvs0`;
}

function routeText({ cidr, source }: Pick<LocalRoute, 'cidr' | 'source'>): string {
  const from = source === undefined ? '' : ` src ${formatIp(source)} metric 2048`;
  return `local ${formatCidr(cidr)} dev lo table local proto 120${from}`;
}

function createSet({ type, family, maxEntries }: IpSet, name: string): string {
  if (type === 'bitmap:port') return `ipset create ${name} bitmap:port range 0-65535`;
  return `ipset create ${name} ${type} family ${family === 4 ? 'inet' : 'inet6'} maxelem ${maxEntries}`;
}

function serviceText(id: VirtualServerId): string {
  const [, at = ''] = formatVirtualServer(id).split(' ');
  return `${SERVICE_OPTION[id.protocol]} ${at}`;
}

function destinationText(server: RealServer): string {
  const { weight, upperThreshold = 0, lowerThreshold = 0 } = server;
  const limit = upperThreshold === 0 ? '' : ` -x ${upperThreshold} -y ${lowerThreshold}`;
  const method = METHOD_OPTION.get(forwardingOf(server)) ?? '-m';
  return `-r ${formatRealServer(server)} ${method}${tunnelOptions(server)} -w ${weight}${limit}`;
}

function tunnelOptions({ tunnelType = 0, tunnelPort = 0, tunnelFlags = 0 }: RealServer): string {
  if (tunnelType === TUNNEL_TYPE.ipip) return '';
  const port = tunnelPort === 0 ? '' : ` --tun-port ${tunnelPort}`;
  return ` --tun-type ${tunnelTypeName(tunnelType)}${port}${(tunnelFlags & TUNNEL_CHECKSUM) === 0 ? '' : ' --tun-csum'}`;
}

/** Returns the netmask as ipvsadm wants it; undefined for single clients. */
function netmaskText({ address, prefix }: VirtualServer): string | undefined {
  if (!isIp4(address)) return prefix === 128 ? undefined : String(prefix);
  const mask = prefix === 0 ? 0 : (0xffff_ffff << (32 - prefix)) >>> 0;
  return prefix === 32 ? undefined : [24, 16, 8, 0].map((shift) => (mask >>> shift) & 0xff).join('.');
}

function settingsText(virtualServer: VirtualServer): string {
  const { scheduler, flags, timeout } = virtualServer;
  const netmask = netmaskText(virtualServer);
  const ofScheduler = schedulerFlags(virtualServer);
  return [
    `-s ${scheduler}`,
    ...((flags & VS_PERSISTENT) === 0 ? [] : [`-p ${timeout}`]),
    ...(netmask === undefined ? [] : [`-M ${netmask}`]),
    ...((flags & VS_ONE_PACKET) === 0 ? [] : ['-o']),
    ...(ofScheduler.length === 0 ? [] : [`-b ${ofScheduler.join(',')}`]),
  ].join(' ');
}

/** Returns the flags of the scheduler as ipvsadm names them. */
export function schedulerFlags({ scheduler, flags }: Pick<VirtualServer, 'scheduler' | 'flags'>): string[] {
  return [
    ...((flags & VS_SCHED_FALLBACK) === 0 ? [] : [`${scheduler}-fallback`]),
    ...((flags & VS_SCHED_PORT) === 0 ? [] : [`${scheduler}-port`]),
  ];
}
