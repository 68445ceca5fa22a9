import type { Cidr } from '../../base/cidr.ts';
import { compareIp } from '../../base/ip.ts';
import { NFT_VERDICT } from '../../netlink/family/nf-tables/data.ts';
import type { VirtualServerId } from '../../state/virtual-server.ts';
import { serviceKey } from './keys.ts';
import { type ServiceObjects, serviceText } from './service-objects.ts';
import { FIREWALL_IPS } from './sets.ts';
import { DROP, RETURN, rule, sourceIn } from './steps.ts';

/** Returns what drops packets to a port of a load balancer IP from outside of these source ranges. */
export function firewallObjects(id: VirtualServerId, ranges: readonly Cidr[]): ServiceObjects {
  const name = `firewall-${serviceText(id)}`;
  // The elements of a set have no order; that of the rules must not differ for the same ranges.
  const ordered = ranges.toSorted((a, b) => compareIp(a.address, b.address) || a.prefix - b.prefix);
  return {
    elements: [{ set: FIREWALL_IPS, key: serviceKey(id), data: { verdict: { code: NFT_VERDICT.goto, chain: name } } }],
    chains: [{ name, rules: [...ordered.map((range) => rule(sourceIn(range), RETURN)), DROP] }],
    sets: [],
  };
}
