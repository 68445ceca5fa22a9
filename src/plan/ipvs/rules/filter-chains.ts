import { hexMark } from '../../../state/rules/masquerade-rules.ts';
import { type Cidr, cidrFamily, formatCidr } from '../../../base/cidr.ts';
import type { IpFamily } from '../../../base/ip.ts';
import type { PlanConfig } from '../../plan-config.ts';
import { type SetRole, setName } from '../../../state/set-roles.ts';
import { toNodePorts } from './marking-chains.ts';
import { type Rule, comment, inSet, rule, target } from './planned-rule.ts';

const ACCEPT = target('ACCEPT');
const RETURN = target('RETURN');

/** Sets of addresses and ports of services. */
const SERVICE_ROLES: readonly SetRole[] = ['LOAD-BALANCER', 'CLUSTER-IP', 'EXTERNAL-IP', 'EXTERNAL-IP-LOCAL'];

/** filter KUBE-FORWARD: accepts marked service traffic and replies, even if the policy of FORWARD is DROP. */
export function forwardChain(masqueradeMark: number): readonly Rule[] {
  const mark = hexMark(masqueradeMark);
  return [
    rule(comment('kubernetes forwarding rules'), ['-m', 'mark', '--mark', `${mark}/${mark}`], ACCEPT),
    rule(comment('answers to forwarded connections'), ['-m', 'conntrack', '--ctstate', 'RELATED,ESTABLISHED'], ACCEPT),
  ];
}

/** filter KUBE-NODE-PORT: accepts health checks of load balancers. */
export function healthCheckChain(family: IpFamily): readonly Rule[] {
  return [
    rule(['-p', 'tcp'], comment('service health checks'), inSet('HEALTH-CHECK-NODE-PORT', family, 'dst'), ACCEPT),
  ];
}

/** KUBE-PROXY-FIREWALL: checks traffic to load balancer IPs with source ranges in KUBE-SOURCE-RANGES-FIREWALL. */
export function firewallChain(family: IpFamily): readonly Rule[] {
  return [
    rule(
      comment('load balancer IPs with source ranges'),
      inSet('LOAD-BALANCER-FW', family, 'dst,dst'),
      target('KUBE-SOURCE-RANGES-FIREWALL'),
    ),
  ];
}

/** KUBE-SOURCE-RANGES-FIREWALL: drops clients outside the source ranges. */
export function sourceRangesChain(family: IpFamily): readonly Rule[] {
  return [
    rule(inSet('LOAD-BALANCER-SOURCE-CIDR', family, 'dst,dst,src'), RETURN),
    rule(inSet('LOAD-BALANCER-SOURCE-IP', family, 'dst,dst,src'), RETURN),
    target('DROP'),
  ];
}

/**
 * filter KUBE-IPVS-FILTER: service addresses are local, so programs listening on all addresses of this node would be
 * reachable there. Rejects new connections to ports without a service. Pings pass, and ICMP errors (RELATED) do.
 */
export function accessFilterChain(config: PlanConfig, family: IpFamily): readonly Rule[] {
  const echo =
    family === 4
      ? ['-p', 'icmp', '-m', 'icmp', '--icmp-type', '8']
      : ['-p', 'ipv6-icmp', '-m', 'icmp6', '--icmpv6-type', '128'];
  return [
    ...SERVICE_ROLES.map((role) => rule(inSet(role, family, 'dst,dst'), RETURN)),
    rule(inSet('HEALTH-CHECK-NODE-PORT', family, 'dst'), RETURN),
    ...unassignedAddresses(config, family),
    rule(comment('service addresses answer pings'), echo, RETURN),
    rule(['-m', 'conntrack', '--ctstate', 'NEW'], inSet('IPVS-IPS', family, 'dst'), target('REJECT')),
  ];
}

/**
 * A local route covers a whole CIDR, so addresses without a service are local too. Refuses new connections and pings to
 * them, except in --ipvs-unbound-cidrs.
 */
function unassignedAddresses({ localRouteCidrs, unboundCidrs }: PlanConfig, family: IpFamily): readonly Rule[] {
  const ofFamily = (cidrs: readonly Cidr[] = []): string[] =>
    cidrs.filter((cidr) => cidrFamily(cidr) === family).map(formatCidr);
  const routed = ofFamily(localRouteCidrs);
  if (routed.length === 0) return [];
  const unassigned = ['-m', 'set', '!', '--match-set', setName('IPVS-IPS', family), 'dst'];
  return [
    ...ofFamily(unboundCidrs).map((cidr) => rule(['-d', cidr], RETURN)),
    ...routed.map((cidr) => rule(['-d', cidr], unassigned, ['-m', 'conntrack', '--ctstate', 'NEW'], target('REJECT'))),
  ];
}

/**
 * filter KUBE-IPVS-ACCEPT: the last chain of INPUT, which service traffic passes before IPVS handles it. Accepts
 * service traffic that no other rule (network policy, host firewall) decided on: INPUT's policy may be DROP.
 */
export function acceptChain(family: IpFamily): readonly Rule[] {
  return [
    ...SERVICE_ROLES.map((role) => rule(inSet(role, family, 'dst,dst'), ACCEPT)),
    ...toNodePorts(family).map((matches) => rule(matches, ACCEPT)),
  ];
}
