import type { Mismatch } from '../compare.ts';
import { type Frontend, frontendsAt } from '../case/served.ts';

/** The protocol, address and port that a fact is about, such as `UDP 10.96.0.1 53`; undefined if it has none. */
function placeOf(fact: string): string | undefined {
  const server = /^virtual server (\S+) \[?([^\]]+?)\]?:(\d+)$/.exec(fact);
  if (server !== null) return server.slice(1).join(' ');
  const flow = /^flow \S+ -> \[([^\]]+)\]:(\d+) /.exec(fact);
  if (flow !== null) return `UDP ${flow[1]} ${flow[2]}`;
  const [, address, protocol, port] = /^entry (?!\S*LOOP-BACK)\S+ ([^,]+),(tcp|udp|sctp):(\d+)/.exec(fact) ?? [];
  return protocol === undefined ? undefined : `${protocol.toUpperCase()} ${address} ${port}`;
}

/** The Service ports at the address and port that a fact is about, after its step or another one. */
export function frontendsOf({ given, step, fact }: Mismatch, at: number = step): Frontend[] {
  const place = placeOf(fact);
  if (place === undefined) return [];
  return frontendsAt(given, at).filter(
    ({ port, address, number }) => `${port.protocol} ${address} ${number}` === place,
  );
}

/** The family of a fact, by its address or the name of its set. */
export function familyOfFact(fact: string): 'IPv4' | 'IPv6' {
  const place = placeOf(fact);
  const isIp6 = place === undefined ? /^entry KUBE-6-|IPv6/.test(fact) : place.includes(':');
  return isIp6 ? 'IPv6' : 'IPv4';
}
