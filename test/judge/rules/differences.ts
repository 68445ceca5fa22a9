import { cidrContains, parseCidr } from '../../../src/base/cidr.ts';
import { formatIp, isLinkLocal6, isLoopback } from '../../../src/base/ip.ts';
import type { Case } from '../case/case.ts';
import { addressAndPort } from '../trace/address-text.ts';
import type { Alternative } from '../trace/explore.ts';
import type { End, Fate } from '../trace/trace.ts';
import type { IntendedChange, Situation } from './intended.ts';
import type { Claim, Probe } from './probes.ts';

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

/** Whether two packets are for the same port of the same Service, both to external addresses. */
function isSamePort(probe: Probe, other: Probe): boolean {
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
  return target.claims.find((claim) => isExternal(claim) && claim.service.spec.externalTrafficPolicy === 'Local');
}

function isAdmitted(claim: Claim, { packet }: Probe): boolean {
  const ranges = (claim.service.spec.loadBalancerSourceRanges ?? []).flatMap((text) => parseCidr(text.trim()) ?? []);
  if (claim.kind !== 'load balancer IP' || ranges.length === 0) return true;
  return ranges.some((range) => cidrContains(range, packet.source));
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
      const all = endpointsFor(situation, ({ sender }) => sender === 'the node');
      if (isAlways(theirs, 'translated') && local !== undefined) {
        return forSender(local, isFromNode(probe), situation);
      }
      const isWithoutEndpoint = isAlways(theirs, 'dropped') && local === undefined && isAdmitted(claim, probe);
      return isWithoutEndpoint && all !== undefined ? forSender(all, false, situation) : theirs;
    },
  };
}

const internalLocal: IntendedChange = {
  name: 'internal policy Local without an endpoint here',
  section: 'nftables mode',
  change: (theirs, situation) => {
    const { probe, ours } = situation;
    const claim = probe.target.claims.find(({ kind }) => kind === 'cluster IP');
    if (claim?.service.spec.internalTrafficPolicy !== 'Local' || !isAlways(theirs, 'dropped')) return theirs;
    const all = endpointsFor(situation, ({ sender }) => sender === 'the node');
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

/** The addresses at which kube-proxy serves node ports by default. */
function primaries({ node }: Case): ReadonlySet<string> {
  return new Set(node.status.addresses.map(({ address }) => address));
}

const allNodeAddresses: IntendedChange = {
  name: 'node ports at all addresses',
  section: 'node ports, if `nodePortAddresses` is empty',
  change: (theirs, { given, probe, theirsOf }) => {
    const { target, sender, packet } = probe;
    if (given.config.nodePortAddresses.length > 0 || !target.claims.some(({ kind }) => kind === 'node port'))
      return theirs;
    const primary = primaries(given);
    if (primary.has(formatIp(target.address))) return theirs;
    const same = theirsOf(
      (other) =>
        other.sender === sender &&
        (isFromNode(other) || other.packet.source === packet.source) &&
        other.target.port === target.port &&
        other.target.protocol === target.protocol &&
        primary.has(formatIp(other.target.address)) &&
        typeof other.target.address === typeof target.address,
    );
    return same[0]?.fate ?? theirs;
  },
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
  change: (theirs, situation) =>
    situation.probe.sender === 'the node' && localClaim(situation.probe) !== undefined && isAlways(theirs, 'translated')
      ? forSender(theirs, false, situation)
      : theirs,
};

const COMMON: readonly IntendedChange[] = [loopback, internalLocal, ownConnections];

export const NFTABLES_DIFFERENCES: readonly IntendedChange[] = [
  allNodeAddresses,
  policyLocal('nftables mode'),
  keptSource,
  ...COMMON,
];

export const IPTABLES_DIFFERENCES: readonly IntendedChange[] = [
  policyLocal('iptables mode'),
  restrictedWithoutEndpoints,
  ...COMMON,
];
