import type { IpFamily } from '../../../base/ip.ts';
import { notFromPods } from '../../../state/rules/masquerade-rules.ts';
import type { PlanConfig } from '../../plan-config.ts';
import type { SetRole } from '../../../state/set-roles.ts';
import { FROM_ELSEWHERE, type Rule, TO_LOCAL, comment, inSet, rule, target } from './planned-rule.ts';

const MARK = target('KUBE-MARK-MASQ');

/**
 * nat KUBE-SERVICES: marks traffic that must be masqueraded. Accepts service traffic, so that it does not reach a CNI's
 * later hostPort rules, which would translate it because service addresses are local.
 */
export function servicesChain(config: PlanConfig, family: IpFamily): readonly Rule[] {
  return [
    rule(['-s', family === 4 ? '127.0.0.0/8' : '::1/128'], target('RETURN')),
    // A connection of this node to a bound address has it as source: unmasqueraded, its replies would not return here.
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
    // These precede node ports, whose sets match any address: a service at a node address may use the same port.
    rule(inSet('CLUSTER-IP', family, 'dst,dst'), target('ACCEPT')),
    rule(inSet('LOAD-BALANCER', family, 'dst,dst'), target('ACCEPT')),
    rule(TO_LOCAL, inSet('NODE-PORT-IP', family, 'dst'), target('KUBE-NODE-PORT')),
  ];
}

/** Matches traffic to cluster IPs whose replies would otherwise bypass this node. */
function fromOutside(config: PlanConfig, family: IpFamily): Rule {
  const toClusterIp = inSet('CLUSTER-IP', family, 'dst,dst');
  if (config.masqueradeAll) return toClusterIp;
  const detector = config.localDetectors[family];
  // Pods of this node cannot be recognized. But no pod sends with a cluster IP as source, so masquerade such packets.
  if (detector === undefined) return inSet('CLUSTER-IP', family, 'src,dst');
  return rule(toClusterIp, notFromPods(detector));
}

/** Accepts traffic from outside (not through a bridge port, not from this node), and traffic to a local address. */
function acceptExternal(role: SetRole, family: IpFamily): readonly Rule[] {
  const toExternalIp = inSet(role, family, 'dst,dst');
  return [
    rule(toExternalIp, ['-m', 'physdev', '!', '--physdev-is-in'], FROM_ELSEWHERE, target('ACCEPT')),
    rule(toExternalIp, TO_LOCAL, target('ACCEPT')),
  ];
}
