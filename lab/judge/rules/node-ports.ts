import { type Cidr, cidrContains, cidrOf, parseCidr } from '../../../src/base/cidr.ts';
import {
  type IpAddress,
  familyOf,
  isIp4,
  isLinkLocal6,
  isLoopback,
  isUnspecified,
  parseIp,
} from '../../../src/base/ip.ts';
import type { Case } from '../case/case.ts';
import { isSamePort } from './claims.ts';
import { always, isAlways, isFromNode } from './ends.ts';
import type { IntendedChange } from './intended.ts';
import type { Probe } from './probes.ts';
import type { Target } from './targets.ts';

function isNodePort({ claims }: Target): boolean {
  return claims.some(({ kind }) => kind === 'node port');
}

/** The user-space engine serves them. The trace of a packet through the rules ends at the node. */
export const loopback: IntendedChange = {
  name: 'node ports at loopback and link-local addresses',
  section: 'NodePorts on loopback',
  change: (theirs, { probe: { target } }) =>
    isNodePort(target) && isOnNodeOnly(target.address) ? always('here') : theirs,
};

/** In iptables mode, rules serve node ports at 127.0.0.1. */
export const loopback6: IntendedChange = {
  ...loopback,
  change: (theirs, situation) => (isIp4(situation.probe.target.address) ? theirs : loopback.change(theirs, situation)),
};

function isOnNodeOnly(address: IpAddress): boolean {
  return isLoopback(address) || isLinkLocal6(address);
}

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

export const primaryWithoutAddress: IntendedChange = {
  name: 'node ports at the primary address of a Node that has none',
  section: '`nodePortAddresses: [primary]` while the Node has no address of an IP family',
  change: (theirs, { given, probe: { target } }) => {
    if (!isNodePort(target) || !given.config.nodePortAddresses.includes('primary')) return theirs;
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

export const allNodeAddresses: IntendedChange = {
  name: 'node ports at all addresses',
  section: 'node ports, if `nodePortAddresses` is empty',
  change: (theirs, { given, probe, ours, theirsOf }) => {
    const { target, sender, packet } = probe;
    const primary = primaries(given);
    if (given.config.nodePortAddresses.length > 0 || !isNodePort(target) || primary.has(target.address)) return theirs;
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

/** kube-proxy rejects connections to node ports without endpoints at all addresses of the node. */
export const unservedAddresses: IntendedChange = {
  name: 'node ports without endpoints at addresses that do not serve node ports',
  section: 'node ports without endpoints, in iptables mode',
  change: (theirs, { given, probe: { target } }) => {
    const selected = given.config.nodePortAddresses;
    const isStopped = isAlways(theirs, 'rejected') || isAlways(theirs, 'dropped');
    return isNodePort(target) && isStopped && selected.length > 0 && !isServing(target.address, given)
      ? always('here')
      : theirs;
  },
};

function isServing(address: IpAddress, given: Case): boolean {
  const networks = networksOfFamily(address, given);
  return networks.length === 0 || networks.some((network) => cidrContains(network, address));
}
