import type { IntendedDifference } from '../compare.ts';
import { strangePorts, unusedLoopBack } from './endpoint-differences.ts';
import {
  localPolicy,
  noEndpointChange,
  nodePortWithoutEndpoints,
  otherNodePorts,
  removedFrontends,
  unanswered,
} from './flow-differences.ts';
import { familyOfFact, frontendsOf } from './place.ts';
import { hasFamily } from '../case/served.ts';

/** IP_VS_SVC_F_SCHED1: sh-fallback and mh-fallback. */
const FALLBACK = 0x0008;

const nodePortAddresses: IntendedDifference = {
  name: 'KUBE-NODE-PORT-IP',
  section: 'unwanted virtual servers',
  undo: ({ fact, ours }) =>
    /^entry KUBE-(6-)?NODE-PORT-IP /.test(fact) && ours !== undefined ? { value: undefined } : undefined,
};

const schedulerFlags: IntendedDifference = {
  name: 'fallback flags of mh and sh',
  section: 'schedulers mh and sh',
  undo: ({ ours }) => {
    const [, scheduler, flags, rest] = /^(mh|sh) flags=(\d+)( .*)$/.exec(ours ?? '') ?? [];
    if ((Number(flags) & FALLBACK) === 0) return undefined;
    return { value: `${scheduler} flags=${Number(flags) & ~FALLBACK}${rest}` };
  },
};

const twoServices: IntendedDifference = {
  name: 'virtual server of two Services',
  section: 'two Services that claim one virtual server',
  undo: (mismatch) => {
    const owners = new Set(
      frontendsOf(mismatch).map(({ service: { metadata } }) => `${metadata.namespace}/${metadata.name}`),
    );
    return owners.size > 1 ? { value: mismatch.theirs[0] } : undefined;
  },
};

const claimedTwice: IntendedDifference = {
  name: 'external IP that is also the load balancer IP',
  section: 'one Service that claims a virtual server twice (an external IP that is also its load balancer IP)',
  undo: (mismatch) => {
    if (!/^entry KUBE-(6-)?EXTERNAL-IP/.test(mismatch.fact) || mismatch.ours !== undefined) return undefined;
    const kinds = new Set(frontendsOf(mismatch).map(({ kind }) => kind));
    return kinds.has('external IP') && kinds.has('load balancer IP') ? { value: 'present' } : undefined;
  },
};

const healthCheckSet: IntendedDifference = {
  name: 'KUBE-HEALTH-CHECK-NODE-PORT where no address serves NodePorts',
  section: 'health check ports of a node without addresses for NodePorts',
  undo: ({ fact, ours, oursAll }) => {
    const [, set] = /^entry (KUBE-(?:6-)?)HEALTH-CHECK-NODE-PORT /.exec(fact) ?? [];
    if (set === undefined || ours === undefined) return undefined;
    const isServing = [...oursAll.keys()].some((each) => each.startsWith(`entry ${set}NODE-PORT-IP `));
    return isServing ? undefined : { value: undefined };
  },
};

/** Upstream opens node ports at all addresses of a family of which the Node has no address. */
const primaryWithoutAddress: IntendedDifference = {
  name: 'NodePorts at the primary address of a Node that has none',
  section: '`nodePortAddresses: [primary]` while the Node has no address of an IP family',
  undo: (mismatch) => {
    const { fact, ours, theirs, given } = mismatch;
    const isNodePort =
      /^entry \S+NODE-PORT-/.test(fact) || frontendsOf(mismatch).some(({ kind }) => kind === 'node port');
    if (!isNodePort || ours !== undefined || !given.config.nodePortAddresses.includes('primary')) return undefined;
    const { bindAddress } = given.config;
    const own = given.node.status.addresses.map(({ address }) => address);
    if (bindAddress !== '0.0.0.0') own.push(bindAddress);
    return own.some((address) => hasFamily(address, familyOfFact(fact))) ? undefined : { value: theirs[0] };
  },
};

/** What kube-proxy's ipvs mode does otherwise by intent. */
export const IPVS_DIFFERENCES: readonly IntendedDifference[] = [
  nodePortAddresses,
  schedulerFlags,
  unusedLoopBack,
  twoServices,
  claimedTwice,
  healthCheckSet,
  primaryWithoutAddress,
  otherNodePorts,
  removedFrontends,
  nodePortWithoutEndpoints,
  localPolicy,
  unanswered,
  noEndpointChange,
  strangePorts,
];
