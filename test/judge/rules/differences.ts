import { type Cidr, cidrContains, cidrOf, parseCidr } from '../../../src/base/cidr.ts';
import { type IpAddress, familyOf, isLinkLocal6, isLoopback, isUnspecified, parseIp } from '../../../src/base/ip.ts';
import { type Case, type EndpointObject, type ServiceObject, servicesOf, slicesOf } from '../case/case.ts';
import { OUR_NODE } from '../case/make-node.ts';
import { addressAndPort } from '../trace/address-text.ts';
import type { Alternative } from '../trace/explore.ts';
import type { End, Fate } from '../trace/trace.ts';
import type { IntendedChange, Situation } from './intended.ts';
import { type Claim, type Probe, type Sender, objectsOf } from './probes.ts';

type Ends = readonly Alternative<End>[];

function isExternal({ kind }: Claim): boolean {
  return kind !== 'cluster IP';
}

function isFromNode({ sender }: Probe): boolean {
  return sender === 'the node' || sender === 'the node, which has the address';
}

function always(verdict: End['verdict']): Fate {
  return [{ value: { verdict, isMasqueraded: false, isAccepted: false, affinity: 0 }, probability: 1 }];
}

function isAlways(fate: Fate, verdict: End['verdict']): boolean {
  return fate.every(({ value }) => value.verdict === verdict);
}

/** Whether an endpoint is the sender itself, whose packets are masqueraded in each case. */
function isHairpin({ endpoint }: End, { packet }: Probe): boolean {
  return endpoint !== undefined && addressAndPort(endpoint).address === packet.source;
}

/** The same ends for another sender: masqueraded or not, beside those that lead back to it. */
function forSender(ends: Ends, isMasqueraded: boolean, { given, probe }: Situation): Fate {
  return ends.map(({ value, probability }) => {
    const masquerades = isMasqueraded || isHairpin(value, probe);
    const isAccepted = given.mode === 'iptables' && masquerades && !isFromNode(probe);
    return { value: { ...value, isMasqueraded: masquerades, isAccepted }, probability };
  });
}

/** Whether two packets of a family are for the same port of the same Service, both to external addresses. */
function isSamePort(probe: Probe, other: Probe): boolean {
  if (familyOf(probe.target.address) !== familyOf(other.target.address)) return false;
  return other.target.claims.some(
    (claim) =>
      isExternal(claim) &&
      probe.target.claims.some((own) => own.service === claim.service && own.portName === claim.portName),
  );
}

/** The endpoints to which external addresses of the port lead a sender; those of the same address if it is one of them. */
function endpointsFor(situation: Situation, isSender: (probe: Probe) => boolean): Ends | undefined {
  const { probe, theirsOf } = situation;
  const found = theirsOf((other) => isSender(other) && isSamePort(probe, other)).filter(({ fate }) =>
    isAlways(fate, 'translated'),
  );
  const isHere = (other: Probe): boolean => other.target.address === probe.target.address;
  return (found.find((each) => isHere(each.probe)) ?? found[0])?.fate;
}

/** The external claim with policy Local that decides about a packet. */
function localClaim({ target }: Probe): Claim | undefined {
  return target.claims.find(isLocal);
}

function isLocal(claim: Claim): boolean {
  return isExternal(claim) && claim.service.spec.externalTrafficPolicy === 'Local';
}

function isAdmitted(claim: Claim, { packet }: Probe): boolean {
  const ranges = (claim.service.spec.loadBalancerSourceRanges ?? []).flatMap((text) => parseCidr(text.trim()) ?? []);
  const ofFamily = ranges.filter(({ address }) => familyOf(address) === familyOf(packet.source));
  if (claim.kind !== 'load balancer IP' || ofFamily.length === 0) return true;
  return ofFamily.some((range) => cidrContains(range, packet.source));
}

function policyLocal(section: string): IntendedChange {
  return {
    name: `policy Local leads every client to the endpoints here, and to all if there are none`,
    section,
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
}

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

const internalLocal: IntendedChange = {
  name: 'internal policy Local without an endpoint here',
  section: 'nftables mode',
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

const loopback: IntendedChange = {
  name: 'node ports at loopback and link-local addresses',
  section: 'NodePorts on loopback',
  change: (theirs, { probe: { target } }) => {
    const isNodePort = target.claims.some(({ kind }) => kind === 'node port');
    const isConcerned = isLoopback(target.address) || isLinkLocal6(target.address);
    return isNodePort && isConcerned ? always('here') : theirs;
  },
};

/** The networks of an address's family that nodePortAddresses selects. */
function networksOfFamily(address: IpAddress, given: Case): readonly Cidr[] {
  const networks = given.config.nodePortAddresses.flatMap((text) => networksOf(text, given));
  return networks.filter((network) => familyOf(network.address) === familyOf(address));
}

function networksOf(text: string, given: Case): readonly Cidr[] {
  if (text === 'primary') return Array.from(primaries(given), (own) => cidrOf(own, familyOf(own) === 4 ? 32 : 128));
  const texts = { all: ['0.0.0.0/0', '::/0'], localhost: ['127.0.0.0/8', '::1/128'] }[text] ?? [text];
  return texts.flatMap((each) => parseCidr(each) ?? []);
}

const primaryWithoutAddress: IntendedChange = {
  name: 'node ports at the primary address of a Node that has none',
  section: '`nodePortAddresses: [primary]` while the Node has no address of an IP family',
  change: (theirs, { given, probe: { target } }) => {
    const isNodePort = target.claims.some(({ kind }) => kind === 'node port');
    if (!isNodePort || !given.config.nodePortAddresses.includes('primary')) return theirs;
    return networksOfFamily(target.address, given).length === 0 ? always('here') : theirs;
  },
};

/** The addresses at which kube-proxy serves node ports by default. `bindAddress` stands for that of its family. */
function primaries({ node, config: { bindAddress } }: Case): ReadonlySet<IpAddress> {
  const bound = parseIp(bindAddress);
  const own = node.status.addresses.flatMap(({ address }) => parseIp(address) ?? []);
  if (bound === undefined || isUnspecified(bound)) return new Set(own);
  return new Set([bound, ...own.filter((address) => familyOf(address) !== familyOf(bound))]);
}

const allNodeAddresses: IntendedChange = {
  name: 'node ports at all addresses',
  section: 'node ports, if `nodePortAddresses` is empty',
  change: (theirs, { given, probe, ours, theirsOf }) => {
    const { target, sender, packet } = probe;
    const isNodePort = target.claims.some(({ kind }) => kind === 'node port');
    const primary = primaries(given);
    if (given.config.nodePortAddresses.length > 0 || !isNodePort || primary.has(target.address)) return theirs;
    const isOwn = (other: Probe): boolean => primary.has(other.target.address) && isSamePort(probe, other);
    const atPrimary = theirsOf((other) => isOwn(other) && other.target.port === target.port);
    // An address that only `bindAddress` has is not one of the node: node ports are at none then.
    if (atPrimary.length === 0) return isAlways(theirs, 'here') ? ours : theirs;
    const same = atPrimary.find(
      ({ probe: other }) => other.sender === sender && (isFromNode(other) || other.packet.source === packet.source),
    );
    return same?.fate ?? theirs;
  },
};

/** kube-proxy masquerades what comes back to its sender only if the EndpointSlice names this node. */
const unplacedHairpin: IntendedChange = {
  name: 'a Pod that connects to itself, on a node that its EndpointSlice does not name',
  section: 'a Pod that connects to itself, whose EndpointSlice does not say on which node it is',
  change: (theirs, { probe }) =>
    theirs.map(({ value, probability }) => ({
      value: { ...value, isMasqueraded: value.isMasqueraded || isHairpin(value, probe) },
      probability,
    })),
};

const restrictedWithoutEndpoints: IntendedChange = {
  name: 'source ranges of a load balancer IP without endpoints',
  section: 'iptables mode',
  change: (theirs, { probe }) => {
    const claim = probe.target.claims.find(({ kind }) => kind === 'load balancer IP');
    const isConcerned = claim !== undefined && isAlways(theirs, 'rejected') && !isAdmitted(claim, probe);
    return isConcerned ? always('dropped') : theirs;
  },
};

const ownConnections: IntendedChange = {
  name: 'connections of the node from a service address',
  section: "the node's own connections to a service address that it has on an interface, in nftables mode",
  change: (theirs, situation) =>
    situation.probe.sender === 'the node, which has the address' && isAlways(theirs, 'translated')
      ? forSender(theirs, true, situation)
      : theirs,
};

const keptSource: IntendedChange = {
  name: "policy Local keeps the source of the node's own connections",
  section: 'nftables mode',
  change: (theirs, situation) => {
    const { probe, ours } = situation;
    const claim = localClaim(probe);
    if (claim === undefined || !isFromNode(probe) || !isAlways(theirs, 'translated')) return theirs;
    // What comes from a service address with the same port is another difference.
    const isFromService = claim.kind !== 'node port' && isLocalPort(probe.packet.source, claim.kind, situation);
    return forSender(theirs, isFromService ?? ours.every(({ value }) => value.isMasqueraded), situation);
  },
};

/** nf_tables keeps the timeout of a set that exists, and so does upstream's set of clients. */
const changedAffinity: IntendedChange = {
  name: 'another timeout of session affinity',
  section: 'session affinity in nftables mode',
  change: (theirs, { given, probe }) => {
    const timeouts = probe.target.claims.map(({ service }) => timeoutOf(service));
    const earlier = objectsOf(given)
      .flatMap(servicesOf)
      .filter(({ metadata: { namespace, name } }) =>
        probe.target.claims.some(
          ({ service: { metadata } }) => metadata.namespace === namespace && metadata.name === name,
        ),
      )
      .map(timeoutOf);
    return theirs.map(({ value, probability }) => {
      const isKept = value.affinity > 0 && earlier.includes(value.affinity);
      return { value: isKept ? { ...value, affinity: timeouts[0] ?? 0 } : value, probability };
    });
  },
};

function timeoutOf({ spec }: ServiceObject): number {
  return spec.sessionAffinity === 'ClientIP' ? (spec.sessionAffinityConfig?.clientIP.timeoutSeconds ?? 0) : 0;
}

/** Two Services, or one in two ways, want an address and port: upstream's result is by chance. */
const claimedTwice: IntendedChange = {
  name: 'an address and port of two Services',
  section: 'two Services that claim one virtual server',
  change: (theirs, { probe, ours }) => {
    const owners = new Set(probe.target.claims.map(({ service }) => service));
    return owners.size > 1 ? ours : theirs;
  },
};

const claimedInTwoWays: IntendedChange = {
  name: 'an external IP that is also the load balancer IP',
  section: 'one Service that claims a virtual server twice (an external IP that is also its load balancer IP)',
  change: (theirs, { probe, ours }) => {
    const kinds = new Set(probe.target.claims.map(({ kind }) => kind));
    return kinds.has('external IP') && kinds.has('load balancer IP') ? ours : theirs;
  },
};

/** kube-proxy rejects connections to node ports without endpoints at all addresses of the node. */
const unservedAddresses: IntendedChange = {
  name: 'node ports without endpoints at addresses that do not serve node ports',
  section: 'iptables mode',
  change: (theirs, { given, probe: { target } }) => {
    const selected = given.config.nodePortAddresses;
    const isNodePort = target.claims.some(({ kind }) => kind === 'node port');
    const isStopped = isAlways(theirs, 'rejected') || isAlways(theirs, 'dropped');
    return isNodePort && isStopped && selected.length > 0 && !isServing(target.address, given)
      ? always('here')
      : theirs;
  },
};

function isServing(address: IpAddress, given: Case): boolean {
  const networks = networksOfFamily(address, given);
  return networks.length === 0 || networks.some((network) => cidrContains(network, address));
}

/** Chain KUBE-EXTERNAL-SERVICES of upstream does not see what the node sends. */
const ownRejected: IntendedChange = {
  name: 'connections of the node to external addresses without endpoints',
  section: 'iptables mode',
  change: (theirs, { probe }) => {
    const isConcerned = isFromNode(probe) && probe.target.claims.some(isExternal);
    return isConcerned && isAlways(theirs, 'forwarded') ? always('rejected') : theirs;
  },
};

/**
 * Whether an address is of this kind for a Service with policy Local, at the port that the packet is for; undefined if
 * several Services want it there.
 */
function isLocalPort(
  address: IpAddress,
  kind: Claim['kind'] | undefined,
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

const COMMON: readonly IntendedChange[] = [
  primaryWithoutAddress,
  loopback,
  internalLocal,
  ownConnections,
  claimedTwice,
  claimedInTwoWays,
];

export const NFTABLES_DIFFERENCES: readonly IntendedChange[] = [
  allNodeAddresses,
  unplacedHairpin,
  policyLocal('nftables mode'),
  keptSource,
  changedAffinity,
  ...COMMON,
];

export const IPTABLES_DIFFERENCES: readonly IntendedChange[] = [
  unservedAddresses,
  policyLocal('iptables mode'),
  ownRejected,
  restrictedWithoutEndpoints,
  ...COMMON,
];
