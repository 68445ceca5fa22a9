import type { IpAddress } from '../../../base/ip.ts';
import { masqueradeRules, hexMark } from '../../../state/rules/masquerade-rules.ts';
import type { RuleJump } from '../../../state/rules/rule-set.ts';
import type { RuleSettings } from '../../../state/rules/rule-settings.ts';
import { ruleText } from '../../iptables/iptables-rule.ts';
import { comment, hostText } from './rule-text.ts';
import {
  type OwnChain,
  EXTERNAL_SERVICES,
  FIREWALL,
  MARK_CHAIN,
  NODE_PORTS,
  SERVICES,
  type SharedRule,
  type Table,
} from './service-port.ts';

const POSTROUTING = 'KUBE-POSTROUTING';
const FORWARD = 'KUBE-FORWARD';
const CANARY = 'KUBE-PROXY-CANARY';

/** The chains whose rules belong to several service ports. */
export const SHARED_CHAINS: readonly Pick<OwnChain, 'table' | 'name'>[] = [
  { table: 'filter', name: SERVICES },
  { table: 'filter', name: EXTERNAL_SERVICES },
  { table: 'filter', name: NODE_PORTS },
  { table: 'filter', name: FIREWALL },
  { table: 'nat', name: SERVICES },
  { table: 'nat', name: NODE_PORTS },
];

const OF_SERVICES = ['-m', 'comment', '--comment', 'kubernetes service traffic requiring SNAT'];

/** Returns the chains that do not depend on Services. */
export function baseChains(settings: RuleSettings): readonly OwnChain[] {
  const mark = hexMark(settings.masqueradeMark);
  return [
    { table: 'filter', name: CANARY, rules: [] },
    {
      table: 'filter',
      name: FORWARD,
      rules: [
        // Connection tracking does not translate these: the client would see the address of an endpoint, and reset the connection.
        ...(settings.forwardsInvalid === true ? [] : ['-m conntrack --ctstate INVALID -j DROP']),
        `${comment('kubernetes forwarding rules')} -m mark --mark ${mark}/${mark} -j ACCEPT`,
        `${comment('kubernetes forwarding conntrack rule')} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
      ],
    },
    { table: 'nat', name: CANARY, rules: [] },
    { table: 'nat', name: MARK_CHAIN, rules: [`-j MARK --set-xmark ${mark}/${mark}`] },
    {
      table: 'nat',
      name: POSTROUTING,
      rules: [
        `-m mark ! --mark ${mark}/${mark} -j RETURN`,
        `-j MARK --set-xmark ${mark}/0x0`,
        ...masqueradeRules(settings, OF_SERVICES).map(ruleText),
      ],
    },
  ];
}

const NODE_PORTS_LAST = 'kubernetes service nodeports; NOTE: this must be the last rule in this chain';

/**
 * Returns the rule that jumps to the node ports from an address of the node. Such rules are the last ones of their
 * chain.
 */
export function nodePortAddressRule(address: IpAddress): SharedRule {
  return {
    table: 'nat',
    chain: SERVICES,
    rule: `-d ${hostText(address)} ${comment(NODE_PORTS_LAST)} -j ${NODE_PORTS}`,
  };
}

export function isNodePortAddressRule({ chain, rule }: SharedRule): boolean {
  return chain === SERVICES && rule.endsWith(` -j ${NODE_PORTS}`);
}

/**
 * Drops what other hosts send to loopback addresses, which route_localnet lets in (CVE-2020-8558), except to node ports. The
 * kubelet has the same rule in a chain of its own.
 */
export const LOCALNET_RULE: SharedRule = {
  table: 'filter',
  chain: NODE_PORTS,
  rule: `! -s 127.0.0.0/8 -d 127.0.0.0/8 ${comment('block incoming localnet connections')} -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP`,
};

export function healthCheckRule(port: number): SharedRule {
  const rule = `-p tcp ${comment('service health check')} -m tcp --dport ${port} -j ACCEPT`;
  return { table: 'filter', chain: NODE_PORTS, rule };
}

function jumps(
  table: Table,
  froms: readonly string[],
  to: string,
  text: string,
  onlyNew: boolean = false,
): readonly RuleJump[] {
  return froms.map((from) => ({ table, from, to, comment: text, onlyNew }));
}

/** Each is inserted at the head of its chain, so the last one comes first: dropping, rejecting, accepting. */
export const JUMPS: readonly RuleJump[] = [
  ...jumps('nat', ['POSTROUTING'], POSTROUTING, 'kubernetes postrouting rules'),
  ...jumps('nat', ['PREROUTING', 'OUTPUT'], SERVICES, 'kubernetes service portals'),
  ...jumps(
    'filter',
    ['INPUT', 'FORWARD', 'OUTPUT'],
    EXTERNAL_SERVICES,
    'kubernetes externally-visible service portals',
    true,
  ),
  ...jumps('filter', ['INPUT'], NODE_PORTS, 'kubernetes health check service ports'),
  ...jumps('filter', ['FORWARD', 'OUTPUT'], SERVICES, 'kubernetes service portals', true),
  ...jumps('filter', ['FORWARD'], FORWARD, 'kubernetes forwarding rules'),
  ...jumps('filter', ['INPUT', 'FORWARD', 'OUTPUT'], FIREWALL, 'kubernetes load balancer firewall', true),
];

/** The chains of a table to which built-in chains lead. */
export function jumpTargets(table: Table): ReadonlySet<string> {
  return new Set(JUMPS.filter((jump) => jump.table === table).map(({ to }) => to));
}
