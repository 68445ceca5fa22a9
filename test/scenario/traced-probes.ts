import { type IpAddress, type IpFamily, familyOf, formatIp, isLoopback } from '../../src/base/ip.ts';
import type { Port } from '../../src/base/port.ts';
import type { Protocol } from '../../src/base/protocol.ts';
import type { RulesPlane } from '../fake-kernel/planes.ts';
import { type DualStack, clientAddress, nodeAddress, podAddress } from '../bed/address-plan.ts';
import { POD_BRIDGE, UPLINK } from '../bed/bed.ts';
import { address } from '../support/state.ts';
import { addressAndPort } from '../trace/address-text.ts';
import type { Packet, TracedNode } from '../trace/ruleset.ts';
import { throughEngine } from '../trace/through-engine.ts';
import { type End, type Fate, trace } from '../trace/trace.ts';
import { type Outcome, type Probe, judge } from './probe.ts';
import { NODE_ADDRESSES } from './scenario-state.ts';

const PODS = ['pod-0-0', 'pod-0-1', 'pod-1-0', 'pod-1-1'];
/** The ports on which each pod responds. */
const SERVED: readonly number[] = [8080, 8081];

/**
 * Traces the first packet of each probe through the rules of node-0. Returns what is wrong.
 *
 * @param further addresses on the uplink of node-0
 */
export async function traceProbes(
  { rulesetOf, forwarded = () => undefined }: Pick<RulesPlane, 'rulesetOf' | 'forwarded'>,
  probes: readonly Probe[],
  further: readonly string[],
): Promise<string[]> {
  const own = new Set([...NODE_ADDRESSES[4], ...NODE_ADDRESSES[6], ...further].map(address));
  const node: TracedNode = { isLocal: (each) => own.has(each) || isLoopback(each) };
  const rulesets = { 4: await rulesetOf(4), 6: await rulesetOf(6) };
  return probes.flatMap((probe) => {
    const packet = packetOf(probe, own);
    const traced = trace(rulesets[familyOf(packet.destination)], packet, node);
    const fate = throughEngine(
      traced,
      forwarded({ address: packet.destination, port: packet.port as Port, protocol: packet.protocol }),
    );
    const wrong = attemptsOf(fate, probe, packet).map((outcomes) => judge(probe, outcomes, addressesOf));
    return wrong.filter((text) => text !== undefined);
  });
}

function packetOf({ from, protocol, address: to, port }: Probe, own: ReadonlySet<IpAddress>): Packet {
  const destination = address(to);
  const isFromNode = from.startsWith('node-');
  return {
    source: isFromNode && own.has(destination) ? destination : ofFamily(hostAddress(from), familyOf(destination)),
    destination,
    protocol: protocol.toUpperCase() as Protocol,
    port,
    through: isFromNode ? undefined : from.startsWith('pod-0-') ? POD_BRIDGE : UPLINK,
  };
}

/** The outcomes of several attempts of a client, for each endpoint that session affinity, or one flow of UDP, may keep it at. */
function attemptsOf(fate: Fate, { from, sourcePort }: Probe, packet: Packet): readonly (readonly Outcome[])[] {
  const outcomes = fate.map(({ value }) => outcomeOf(value, from, packet));
  const isKept = sourcePort !== undefined || fate.every(({ value }) => value.affinity > 0);
  return isKept ? outcomes.map((outcome) => [outcome]) : [outcomes];
}

function outcomeOf({ verdict, endpoint, isMasqueraded }: End, from: string, packet: Packet): Outcome {
  switch (verdict) {
    case 'translated':
    case 'forwarded': {
      const to = endpoint === undefined ? { address: packet.destination, port: packet.port } : addressAndPort(endpoint);
      const pod = PODS.find((name) => addressesOf(name).includes(formatIp(to.address)));
      if (pod === undefined) return { ok: false, code: 'TIMEOUT' };
      // A Pod elsewhere answers a client that it sees directly, past node-0, and the client drops the answer.
      const isPastNode = endpoint !== undefined && pod.startsWith('pod-1-') && from.startsWith('client-');
      if (isPastNode && !isMasqueraded) return { ok: false, code: 'TIMEOUT' };
      if (!SERVED.includes(to.port)) return { ok: false, code: 'ECONNREFUSED' };
      const seen = isMasqueraded ? ofFamily(hostAddress('node-0'), familyOf(to.address)) : packet.source;
      return { ok: true, answeredBy: pod, sourceSeen: formatIp(seen) };
    }
    case 'here':
    case 'rejected':
      return { ok: false, code: 'ECONNREFUSED' };
    case 'dropped':
      return { ok: false, code: 'TIMEOUT' };
  }
}

function hostAddress(name: string): DualStack {
  const [kind, first, second] = name.split('-');
  if (kind === 'client') return clientAddress(Number(first));
  return kind === 'node' ? nodeAddress(Number(first)) : podAddress(Number(first), Number(second));
}

function addressesOf(name: string): string[] {
  const { v4, v6 } = hostAddress(name);
  return [v4, formatIp(address(v6))];
}

function ofFamily({ v4, v6 }: DualStack, family: IpFamily): IpAddress {
  return address(family === 4 ? v4 : v6);
}
