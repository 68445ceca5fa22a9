import type { IpvsTimeouts } from '../../src/kernel/kernel.ts';
import { formatHostPort, formatIp } from '../../src/base/ip.ts';
import type { PlanConfig } from '../../src/plan/plan-config.ts';
import { SET_ROLES, plannedSet, setName } from '../../src/state/set-roles.ts';
import type { BoundAddress } from '../../src/state/bound-address.ts';
import { formatIpSetEntry } from '../../src/state/ip-set.ts';
import type { IpSet } from '../../src/state/ip-set.ts';
import { type RealServer, formatRealServer } from '../../src/state/real-server.ts';
import { VS_PERSISTENT, type VirtualServer, type VirtualServerId } from '../../src/state/virtual-server.ts';
import { NODE_SETTINGS } from './configs.ts';
import type { Wanted } from './winners.ts';

/** Returns the wanted state as lines in the format of ipvsadm -Sn, ipset save and ip, to compare two states. */
export function wantedLines({ virtualServers, addresses, entries }: Wanted, config: PlanConfig): string[] {
  const sets = config.families.flatMap((family) => SET_ROLES.map((role) => plannedSet(role, family, 0)));
  return [
    ...virtualServers.flatMap(({ virtualServer, realServers }) => [
      virtualServerLine(virtualServer),
      ...realServers.map((server) => realServerLine(virtualServer, server)),
    ]),
    ...sets.map(setLine),
    ...entries.map(({ role, family, entry }) => `add ${setName(role, family)} ${formatIpSetEntry(entry)}`),
    ...addresses.map((address) => `address ${formatIp(address)}`),
  ];
}

export function virtualServerLine(server: VirtualServer): string {
  const { scheduler, flags, timeout } = server;
  const persistent = (flags & VS_PERSISTENT) === 0 ? '' : ` -p ${timeout}`;
  return `-A ${target(server)} -s ${scheduler}${persistent}`;
}

export function realServerLine(id: VirtualServerId, server: Pick<RealServer, 'address' | 'port' | 'weight'>): string {
  return `-a ${target(id)} -r ${formatRealServer(server)} -m -w ${server.weight}`;
}

export function setLine({ name, type }: Pick<IpSet, 'name' | 'type'>): string {
  return `create ${name} ${type}`;
}

const OPTIONS = { TCP: '-t', UDP: '-u', SCTP: '--sctp-service' } as const;

function target({ protocol, address, port }: VirtualServerId): string {
  return `${OPTIONS[protocol]} ${formatHostPort(address, port)}`;
}

export function addressLine({ address, conforms }: BoundAddress): string {
  return `${conforms ? '' : 'preferred '}address ${formatIp(address)}`;
}

export function timeoutLine({ tcp, tcpFin, udp }: IpvsTimeouts): string {
  return `timeouts ${tcp} ${tcpFin} ${udp}`;
}

/** The node settings that every daemon of the histories maintains. */
export const SETTING_LINES: readonly string[] = [
  ...NODE_SETTINGS.sysctls.map(([key, value]) => `sysctl ${key} ${value}`),
  timeoutLine(NODE_SETTINGS.timeouts),
];

/** Returns the lines that only one of them has, sorted; empty if both are equal. */
export function difference(wanted: readonly string[], found: readonly string[]): string[] {
  const [inWanted, inFound] = [new Set(wanted), new Set(found)];
  return [
    ...wanted.filter((line) => !inFound.has(line)).map((line) => `missing  ${line}`),
    ...found.filter((line) => !inWanted.has(line)).map((line) => `surplus  ${line}`),
  ].toSorted();
}
