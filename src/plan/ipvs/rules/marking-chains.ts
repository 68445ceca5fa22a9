import { hexMark, masqueradeRules } from '../../../state/rules/masquerade-rules.ts';
import type { IpFamily } from '../../../base/ip.ts';
import type { Protocol } from '../../../base/protocol.ts';
import type { SetRole } from '../../../state/set-roles.ts';
import { type Rule, type SetDirections, comment, inSet, rule, target } from './planned-rule.ts';
import type { PlanConfig } from '../../plan-config.ts';

const MARK = target('KUBE-MARK-MASQ');
const RETURN = target('RETURN');

/** nat KUBE-LOAD-BALANCER: keeps the client's address with policy Local, and marks other traffic for masquerading. */
export function loadBalancerChain(family: IpFamily): readonly Rule[] {
  return [
    rule(comment('externalTrafficPolicy Local: source kept'), inSet('LOAD-BALANCER-LOCAL', family, 'dst,dst'), RETURN),
    MARK,
  ];
}

const NODE_PORTS: readonly {
  readonly protocol: Protocol;
  readonly directions: SetDirections;
  readonly local: SetRole;
  readonly all: SetRole;
}[] = [
  { protocol: 'TCP', directions: 'dst', local: 'NODE-PORT-LOCAL-TCP', all: 'NODE-PORT-TCP' },
  { protocol: 'UDP', directions: 'dst', local: 'NODE-PORT-LOCAL-UDP', all: 'NODE-PORT-UDP' },
  { protocol: 'SCTP', directions: 'dst,dst', local: 'NODE-PORT-LOCAL-SCTP-HASH', all: 'NODE-PORT-SCTP-HASH' },
];

/** nat KUBE-NODE-PORT: does for node ports what KUBE-LOAD-BALANCER does for load balancer IPs. */
export function nodePortChain(family: IpFamily): readonly Rule[] {
  return NODE_PORTS.flatMap(({ protocol, directions, local, all }) => {
    const ofProtocol = ['-p', protocol.toLowerCase()];
    return [
      rule(
        ofProtocol,
        comment(`${protocol} node ports, externalTrafficPolicy Local: source kept`),
        inSet(local, family, directions),
        RETURN,
      ),
      rule(ofProtocol, comment(`${protocol} node ports`), inSet(all, family, directions), MARK),
    ];
  });
}

/** Matches traffic to node ports at the addresses that serve them. */
export function toNodePorts(family: IpFamily): readonly Rule[] {
  return NODE_PORTS.map(({ protocol, directions, all }) =>
    rule(['-p', protocol.toLowerCase()], inSet('NODE-PORT-IP', family, 'dst'), inSet(all, family, directions)),
  );
}

/** nat KUBE-MARK-MASQ: sets one bit only; other programs use the rest of the mark. */
export function markChain(masqueradeMark: number): readonly Rule[] {
  return [['-j', 'MARK', '--or-mark', hexMark(masqueradeMark)]];
}

type MasqueradeConfig = Pick<PlanConfig, 'masqueradeMark' | 'masqueradePorts' | 'randomFully'>;

/**
 * nat KUBE-POSTROUTING: masquerades hairpin connections and marked packets, and clears the mark. Without a port range, the kernel may
 * choose a node port as source port, and IPVS would treat the replies as new requests.
 */
export function postroutingChain(config: MasqueradeConfig, family: IpFamily): readonly Rule[] {
  const mark = hexMark(config.masqueradeMark);
  return [
    ...masqueradeRules(
      config,
      rule(comment('a pod that is its own endpoint'), inSet('LOOP-BACK', family, 'dst,dst,src')),
    ),
    rule(['-m', 'mark', '!', '--mark', `${mark}/${mark}`], target('RETURN')),
    ['-j', 'MARK', '--xor-mark', mark],
    ...masqueradeRules(config, comment('kubernetes service traffic requiring SNAT')),
  ];
}
