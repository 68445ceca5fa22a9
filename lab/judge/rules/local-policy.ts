import { type IpAddress, parseIp } from '../../../src/base/ip.ts';
import { type EndpointObject, type ServiceObject, slicesOf } from '../case/case.ts';
import { OUR_NODE } from '../case/make-node.ts';
import type { Frontend } from '../case/served.ts';
import { addressAndPort } from '../../../test/trace/address-text.ts';
import { isAdmitted, isLocal, isSamePort, localClaim } from './claims.ts';
import { type Ends, always, forSender, isAlways, isFromNode } from './ends.ts';
import type { IntendedChange, Situation } from './intended.ts';
import type { Probe, Sender } from './probes.ts';

/** The endpoints to which external addresses of the port lead a sender; those of the same address if it is one of them. */
function endpointsFor(situation: Situation, isSender: (probe: Probe) => boolean): Ends | undefined {
  const { probe, theirsOf } = situation;
  const found = theirsOf((other) => isSender(other) && isSamePort(probe, other)).filter(({ fate }) =>
    isAlways(fate, 'translated'),
  );
  const isHere = (other: Probe): boolean => other.target.address === probe.target.address;
  return (found.find((each) => isHere(each.probe)) ?? found[0])?.fate;
}

const SECTION = 'policy Local in nftables and iptables mode';

export const policyLocal: IntendedChange = {
  name: 'policy Local leads every client to the endpoints here, and to all if there are none',
  section: SECTION,
  change: (theirs, situation) => {
    const { probe } = situation;
    const claim = localClaim(probe);
    if (claim === undefined) return theirs;
    const local = endpointsFor(situation, ({ sender }) => sender === 'a client outside');
    const all = allEndpoints(situation);
    if (isAlways(theirs, 'translated')) {
      const isHidden = local === undefined && !admits(situation, 'a client outside');
      if (isHidden && areEndpoints(situation.ours, situation, ({ nodeName }) => nodeName === OUR_NODE)) {
        return situation.ours;
      }
      return forSender(local ?? theirs, isFromNode(probe), situation);
    }
    const isWithoutEndpoint = isAlways(theirs, 'dropped') && local === undefined && isAdmitted(claim, probe);
    return isWithoutEndpoint && all !== undefined ? forSender(all, false, situation) : theirs;
  },
};

/** The endpoints that the node reaches. If no packet shows them, those that we have, if the Service has them. */
function allEndpoints(situation: Situation): Ends | undefined {
  const all = endpointsFor(situation, ({ sender }) => sender === 'the node');
  if (all !== undefined) return all;
  const isExposed = situation.probe.target.claims.some(({ service }) => isExternallyAccessible(service));
  return isExposed && areEndpoints(situation.ours, situation, () => true) ? situation.ours : undefined;
}

function isExternallyAccessible({ spec: { ports, externalIPs = [] }, status }: ServiceObject): boolean {
  const ingress = status?.loadBalancer.ingress ?? [];
  return (
    externalIPs.length > 0 ||
    ingress.some(({ ip }) => ip !== undefined) ||
    ports.some(({ nodePort }) => nodePort !== undefined)
  );
}

/** Whether source ranges admit such a sender at any external address of the port: otherwise upstream's endpoints are hidden. */
function admits({ probe, theirsOf }: Situation, sender: Sender): boolean {
  const others = theirsOf((other) => other.sender === sender && isSamePort(probe, other));
  return others.some(
    ({ probe: other, fate }) =>
      !isAlways(fate, 'here') && other.target.claims.every((claim) => isAdmitted(claim, other)),
  );
}

/** Whether all ends are such endpoints of the Service. */
function areEndpoints(
  ends: Ends,
  { objects, probe }: Situation,
  isWanted: (endpoint: EndpointObject) => boolean,
): boolean {
  const wanted = probe.target.claims
    .flatMap(({ service }) => slicesOf(objects, service.metadata))
    .flatMap(({ endpoints }) => endpoints.filter(isWanted))
    .flatMap(({ addresses }) => addresses.map((text) => parseIp(text)));
  return ends.every(
    ({ value: { endpoint } }) => endpoint !== undefined && wanted.includes(addressAndPort(endpoint).address),
  );
}

export const internalLocal: IntendedChange = {
  name: 'internal policy Local without an endpoint here',
  section: SECTION,
  change: (theirs, situation) => {
    const { probe, ours } = situation;
    const claim = probe.target.claims.find(({ kind }) => kind === 'cluster IP');
    if (claim?.service.spec.internalTrafficPolicy !== 'Local' || !isAlways(theirs, 'dropped')) return theirs;
    const all = allEndpoints(situation);
    if (all === undefined) return always('rejected');
    return forSender(
      all,
      ours.every(({ value }) => value.isMasqueraded),
      situation,
    );
  },
};

export const keptSource: IntendedChange = {
  name: "policy Local keeps the source of the node's own connections",
  section: "the node's own connections with policy Local, in nftables mode",
  change: (theirs, situation) => {
    const { probe, ours } = situation;
    const claim = localClaim(probe);
    if (claim === undefined || !isFromNode(probe) || !isAlways(theirs, 'translated')) return theirs;
    // What comes from a service address with the same port is another difference.
    const isFromService = claim.kind !== 'node port' && isLocalPort(probe.packet.source, claim.kind, situation);
    return forSender(theirs, isFromService ?? ours.every(({ value }) => value.isMasqueraded), situation);
  },
};

/**
 * Whether an address is of this kind for a Service with policy Local, at the port that the packet is for; undefined if
 * several Services want it there.
 */
function isLocalPort(
  address: IpAddress,
  kind: Frontend['kind'] | undefined,
  { probe: { target }, theirsOf }: Situation,
): boolean | undefined {
  const [found] = theirsOf(
    ({ target: other }) =>
      other.address === address && other.port === target.port && other.protocol === target.protocol,
  );
  const claims = found?.probe.target.claims ?? [];
  if (claims.length > 1) return undefined;
  return claims.some((each) => each.kind === kind && isLocal(each));
}
