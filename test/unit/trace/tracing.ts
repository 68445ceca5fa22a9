import type { Protocol } from '../../../src/base/protocol.ts';
import type { Packet, Ruleset, TracedNode } from '../../trace/ruleset.ts';
import { endText, trace } from '../../trace/trace.ts';
import { address } from '../../support/state.ts';

const LOCAL = new Set(['192.168.9.1', '127.0.0.1', 'fd00:9::1'].map(address));

export const NODE: TracedNode = { isLocal: (each) => LOCAL.has(each) };

/** A packet from `source` to `destination` ("10.96.0.1:80"); `through` undefined: the node sends it. */
export function packet(
  source: string,
  destination: string,
  { through = 'eth0', protocol = 'TCP' }: { through?: string | undefined; protocol?: Protocol } = {},
): Packet {
  const at = destination.lastIndexOf(':');
  return {
    source: address(source),
    destination: address(destination.slice(0, at).replace(/[[\]]/g, '')),
    port: Number(destination.slice(at + 1)),
    protocol,
    through: through === '' ? undefined : through,
  };
}

/** The ends of a packet with the probability of each. */
export function ends(ruleset: Ruleset, of: Packet): Readonly<Record<string, number>> {
  return Object.fromEntries(
    trace(ruleset, of, NODE).map(({ value, probability }) => [endText(value), Math.round(probability * 1_000) / 1_000]),
  );
}
