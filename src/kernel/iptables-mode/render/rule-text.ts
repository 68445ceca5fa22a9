import { formatCidr } from '../../../base/cidr.ts';
import type { Cidr } from '../../../base/cidr.ts';
import { type IpAddress, type IpFamily, formatIp, isIp4 } from '../../../base/ip.ts';
import type { Port } from '../../../base/port.ts';
import type { Protocol } from '../../../base/protocol.ts';
import type { VirtualServerId } from '../../../state/virtual-server.ts';

// The texts have the spelling and the order of iptables-save, so that what is written equals what is read back.

/** Returns a single address as a match: "10.0.0.1/32". */
export function hostText(address: IpAddress): string {
  return `${formatIp(address)}/${isIp4(address) ? 32 : 128}`;
}

/** @param text contains a space, a slash or a colon, so that iptables-save prints it in quotes */
export function comment(text: string): string {
  return `-m comment --comment "${text}"`;
}

/** Matches a destination port. `between` comes before the match of the protocol's extension. */
export function toPort(protocol: Protocol, port: Port, between: string): string {
  const name = protocol.toLowerCase();
  return `-p ${name} ${between} -m ${name} --dport ${port}`;
}

/** Matches packets to an address and port. */
export function toService({ address, protocol, port }: VirtualServerId, text: string): string {
  return `-d ${hostText(address)} ${toPort(protocol, port, comment(text))}`;
}

export function fromNetwork(network: Cidr): string {
  return `-s ${formatCidr(network)}`;
}

/** Refuses the packet with an ICMP error that says that the port is unreachable. */
export function reject(family: IpFamily): string {
  return `-j REJECT --reject-with ${family === 4 ? 'icmp-port-unreachable' : 'icmp6-port-unreachable'}`;
}

/** linux/netfilter/xt_statistic.h: a probability is a multiple of 2^-31. */
const PROBABILITY_BITS = 31;

/** Matches one in `count` packets, at random. `count` is 2 or more. */
export function oneIn(count: number): string {
  return `-m statistic --mode random --probability ${probabilityText(Math.round(2 ** PROBABILITY_BITS / count))}`;
}

/**
 * Returns a number of 2^-31ths with 11 decimals. What is halfway between two such decimals, as 1/4096 is, is rounded to the even
 * one: so does iptables-save. toFixed() rounds it up.
 */
function probabilityText(parts: number): string {
  const scaled = BigInt(parts) * 10n ** 11n;
  const down = scaled >> BigInt(PROBABILITY_BITS);
  const rest = scaled - (down << BigInt(PROBABILITY_BITS));
  const half = 1n << BigInt(PROBABILITY_BITS - 1);
  const isUp = rest > half || (rest === half && down % 2n === 1n);
  return `0.${String(isUp ? down + 1n : down).padStart(11, '0')}`;
}

/** Names a list of sources of the `recent` match, and that single addresses are remembered. */
function recentList(list: string, family: IpFamily): string {
  const mask = family === 4 ? '255.255.255.255' : 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff';
  return `--name ${list} --mask ${mask} --rsource`;
}

/** Matches sources that rememberSource() has seen within this number of seconds, and forgets older ones. */
export function isRemembered(list: string, seconds: number, family: IpFamily): string {
  return `-m recent --rcheck --seconds ${seconds} --reap ${recentList(list, family)}`;
}

export function rememberSource(list: string, family: IpFamily): string {
  return `-m recent --set ${recentList(list, family)}`;
}
