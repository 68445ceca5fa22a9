import { formatCidr } from '../../net/cidr.ts';
import type { IpFamily } from '../../net/ip.ts';
import type { LocalDetector, PlanConfig } from '../plan-config.ts';
import type { SetRole } from '../set-names.ts';
import { FROM_ELSEWHERE, type Rule, TO_LOCAL, comment, inSet, rule, target } from './rule.ts';

const MARK = target('KUBE-MARK-MASQ');

/**
 * nat KUBE-SERVICES: decides whose source is masqueraded (see KUBE-MARK-MASQ), and ends the walk through the table for
 * service traffic: a CNI's hostPort rules come later and would translate it, service addresses being local ones.
 */
export function servicesChain(config: PlanConfig, family: IpFamily): readonly Rule[] {
  return [
    rule(['-s', family === 4 ? '127.0.0.0/8' : '::1/128'], target('RETURN')),
    // The node's own connection to a bound address has that address as its source: the answer would never come back here.
    rule(
      comment('connections of this node from a service address'),
      inSet('IPVS-IPS', family, 'src'),
      inSet('IPVS-IPS', family, 'dst'),
      MARK,
    ),
    rule(comment('load balancer IPs'), inSet('LOAD-BALANCER', family, 'dst,dst'), target('KUBE-LOAD-BALANCER')),
    rule(comment('cluster IPs: who needs masquerading'), fromOutside(config, family), MARK),
    rule(comment('external IPs'), inSet('EXTERNAL-IP', family, 'dst,dst'), MARK),
    ...acceptExternal('EXTERNAL-IP', family),
    ...acceptExternal('EXTERNAL-IP-LOCAL', family),
    rule(TO_LOCAL, target('KUBE-NODE-PORT')),
    rule(inSet('CLUSTER-IP', family, 'dst,dst'), target('ACCEPT')),
    rule(inSet('LOAD-BALANCER', family, 'dst,dst'), target('ACCEPT')),
  ];
}

/** Traffic to cluster IPs whose answers would else take another way back. */
function fromOutside(config: PlanConfig, family: IpFamily): Rule {
  const toClusterIp = inSet('CLUSTER-IP', family, 'dst,dst');
  if (config.masqueradeAll) return toClusterIp;
  const detector = config.localDetectors[family];
  // Nothing tells pods of this node from the rest: only what has a cluster IP as its source for certain does not come from one.
  if (detector === undefined) return inSet('CLUSTER-IP', family, 'src,dst');
  return rule(toClusterIp, notLocal(detector));
}

function notLocal(detector: LocalDetector): Rule {
  switch (detector.kind) {
    case 'cidr':
      return ['!', '-s', formatCidr(detector.cidr)];
    case 'bridge':
      return ['!', '-i', detector.interfaceName];
    case 'interface-prefix':
      return ['!', '-i', `${detector.prefix}+`];
  }
}

/** What arrives from outside (not through a bridge port, not from this node), and what is meant for this node. */
function acceptExternal(role: SetRole, family: IpFamily): readonly Rule[] {
  const toExternalIp = inSet(role, family, 'dst,dst');
  return [
    rule(toExternalIp, ['-m', 'physdev', '!', '--physdev-is-in'], FROM_ELSEWHERE, target('ACCEPT')),
    rule(toExternalIp, TO_LOCAL, target('ACCEPT')),
  ];
}
