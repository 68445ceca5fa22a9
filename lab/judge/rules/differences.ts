import { type ServiceObject, objectsAt, servicesOf } from '../case/case.ts';
import { isAdmitted, isExternal } from './claims.ts';
import { always, forSender, isAlways, isFromNode, isHairpin } from './ends.ts';
import type { IntendedChange } from './intended.ts';
import { internalLocal, keptSource, policyLocal } from './local-policy.ts';
import { nodeAddresses } from './targets.ts';
import { allNodeAddresses, loopback, loopback6, primaryWithoutAddress, unservedAddresses } from './node-ports.ts';

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
  section: "the node's own connections to a service address that it has on an interface, in nftables and iptables mode",
  change: (theirs, situation) =>
    situation.probe.sender === 'the node, which has the address' && isAlways(theirs, 'translated')
      ? forSender(theirs, true, situation)
      : theirs,
};

/** The fake of nf_tables keeps the timeout of a set that exists, as older kernels do. */
const changedAffinity: IntendedChange = {
  name: 'another timeout of session affinity',
  section: 'session affinity in nftables mode',
  change: (theirs, { given, probe }) => {
    const timeouts = probe.target.claims.map(({ service }) => timeoutOf(service));
    const earlier = given.steps
      .flatMap((_, step) => servicesOf(objectsAt(given, step)))
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

/** Two Services want an address and port: upstream's result is by chance. It comes last, as its result is ours as a whole. */
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

/** Chain KUBE-EXTERNAL-SERVICES of upstream does not see what the node sends. */
const ownRejected: IntendedChange = {
  name: 'connections of the node to external addresses without endpoints',
  section: 'iptables mode',
  change: (theirs, { probe }) => {
    const isConcerned = isFromNode(probe) && probe.target.claims.some(isExternal);
    return isConcerned && isAlways(theirs, 'forwarded') ? always('rejected') : theirs;
  },
};

const COMMON: readonly IntendedChange[] = [internalLocal, ownConnections, claimedInTwoWays];

export const NFTABLES_DIFFERENCES: readonly IntendedChange[] = [
  allNodeAddresses,
  unplacedHairpin,
  policyLocal,
  keptSource,
  primaryWithoutAddress,
  loopback,
  ...COMMON,
  changedAffinity,
  claimedTwice,
];

export const IPTABLES_DIFFERENCES: readonly IntendedChange[] = [
  unservedAddresses,
  policyLocal,
  ownRejected,
  restrictedWithoutEndpoints,
  primaryWithoutAddress,
  loopback6,
  ...COMMON,
  claimedTwice,
];

/** The engine connects to the endpoints, and keeps session affinity itself. */
const throughNode: IntendedChange = {
  name: 'endpoints see the node',
  section: 'userspace mode',
  change: (theirs) =>
    theirs.map(({ value, probability }) => ({
      value: value.verdict === 'translated' ? { ...value, isMasqueraded: true } : value,
      probability,
    })),
};

/** Node.js has no sockets of SCTP: a port of it is as one that no Service has. */
const noSctp: IntendedChange = {
  name: 'SCTP',
  section: 'userspace mode',
  change: (theirs, { probe: { target, node }, given }) => {
    if (target.protocol !== 'SCTP' || target.claims.length === 0) return theirs;
    if (target.claims.some(({ kind }) => kind === 'cluster IP')) return always('rejected');
    return always(node.isLocal(target.address) || nodeAddresses(given).has(target.address) ? 'here' : 'forwarded');
  },
};

export const USERSPACE_DIFFERENCES: readonly IntendedChange[] = [
  ...NFTABLES_DIFFERENCES.filter((each) => each !== claimedTwice),
  throughNode,
  noSctp,
  claimedTwice,
];
