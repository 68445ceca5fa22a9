import type { IpFamily } from '../../../base/ip.ts';
import { PROTOCOL_NUMBER, type Protocol } from '../../../base/protocol.ts';
import type { NftHook } from '../../../netlink/family/nf-tables/chain.ts';
import type { RuleSettings } from '../../../state/rules/rule-settings.ts';
import type { NftMessage, RulePart } from '../port/nft-message.ts';
import { FIREWALL_IPS, NO_ENDPOINT_SERVICES, SERVICE_IPS, constantSets } from './sets.ts';
import {
  NEW_CONNECTION,
  RETURN,
  TO_THIS_NODE,
  echoRequest,
  goto,
  inSet,
  invertMark,
  jump,
  masquerade,
  notFromInterface,
  ofProtocol,
  reject,
  rule,
  serviceVerdict,
  setMark,
  sourceIn,
  unmarked,
} from './steps.ts';

/** A chain with its rules, in order. */
export interface ChainPlan {
  readonly name: string;
  readonly base?: NftHook;
  readonly rules: readonly RulePart[];
}

export function newChain({ name, base }: ChainPlan): NftMessage {
  return { kind: 'new-chain', chain: base === undefined ? { name } : { name, base } };
}

export function rulesOf({ name, rules }: ChainPlan): readonly NftMessage[] {
  return rules.map((rule) => ({ kind: 'new-rule', chain: name, ...rule }));
}

/** Returns what a new table gets, whatever the Services are. */
export function contents(chains: readonly ChainPlan[], family: IpFamily): readonly NftMessage[] {
  return [
    ...constantSets(family).map((set): NftMessage => ({ kind: 'new-set', set })),
    ...chains.map(newChain),
    ...chains.flatMap(rulesOf),
  ];
}

/** linux/netfilter_ipv4.h: NF_IP_PRI_NAT_DST, NF_IP_PRI_NAT_SRC. Filter chains surround the translation of addresses. */
const BEFORE_DNAT = -110;
const DNAT = -100;
const AFTER_DNAT = -90;
const SNAT = 100;

const MARK = 'mark-for-masquerade';
export const REJECT = 'reject-chain';

/**
 * Returns the chains that do not depend on Services: all that does is in sets and maps. Only the first packet of a
 * connection passes a nat chain.
 *
 * The names of base chains are those of kube-proxy wherever it has such a chain: when it starts on a node with this table,
 * it deletes the base chains of its own names, with the rules in them, and no others. Only filter-prerouting is left then.
 *
 * Service addresses are not bound to an interface. So what no chain here handles is forwarded or not like any packet;
 * new connections to a cluster IP at a port without a service are rejected, and pings to it are answered by the interface
 * that receives them; the kernel drops those that an interface without addresses receives. External and load balancer IPs
 * may be addresses of other hosts, so only the ports of services are ours there.
 */
export function baseChains(settings: RuleSettings, family: IpFamily): readonly ChainPlan[] {
  return [
    { name: REJECT, rules: [reject(family)] },
    { name: MARK, rules: [setMark(settings.masqueradeMark)] },
    {
      name: 'firewall-check',
      rules: [
        // A node that owns a load balancer IP connects to it from that address, which is in no source range.
        rule(inSet('firewall-nodes', 'service-and-source', family), RETURN),
        serviceVerdict(FIREWALL_IPS, family),
      ],
    },
    { name: 'service-endpoints-check', rules: [serviceVerdict(NO_ENDPOINT_SERVICES, family)] },
    { name: 'cluster-ips-check', rules: [rule(inSet('cluster-ips', 'destination', family), goto(REJECT))] },
    { name: 'masquerade-check', rules: masqueradeCheck(settings, family) },
    { name: 'masquerading', rules: masquerading(settings, family) },
    {
      name: 'services',
      rules: [
        jump('masquerade-check'),
        serviceVerdict(SERVICE_IPS, family),
        rule(echoRequest(family), inSet('cluster-ips', 'destination', family), TO_THIS_NODE),
      ],
    },
    ...(['prerouting', 'output'] as const).flatMap((hook) => [
      base(`filter-${hook}-pre-dnat`, 'filter', hook, BEFORE_DNAT, [
        rule(NEW_CONNECTION, jump('firewall-check')),
        rule(NEW_CONNECTION, jump('service-endpoints-check')),
      ]),
      base(`nat-${hook}`, 'nat', hook, DNAT, [
        ...(hook === 'output' ? fromServiceAddress(family) : []),
        jump('services'),
      ]),
      base(`filter-${hook}`, 'filter', hook, AFTER_DNAT, [rule(NEW_CONNECTION, jump('cluster-ips-check'))]),
    ]),
    base('nat-postrouting', 'nat', 'postrouting', SNAT, [jump('masquerading')]),
  ];
}

function base(
  name: string,
  type: NftHook['type'],
  hook: NftHook['hook'],
  priority: number,
  rules: readonly RulePart[],
): ChainPlan {
  return { name, base: { type, hook, priority }, rules };
}

/**
 * Marks this node's own connections to a service address that the node has: they have it as source, so their replies would
 * not return here from another node. kube-ipvs0 has such addresses for a while after ipvs mode, and other programs may bind
 * them. Connections to external addresses with policy Cluster are marked anyway. The source may also be another service address
 * of the node than the destination: such a connection is masqueraded, too, which does no harm.
 */
function fromServiceAddress(family: IpFamily): readonly RulePart[] {
  return ['cluster-ip-ports', 'load-balancer-ports-local', 'external-ip-ports-local'].map((set) =>
    rule(inSet(set, 'service-by-source', family), inSet(set, 'service', family), jump(MARK)),
  );
}

/** Marks connections whose replies would otherwise bypass this node, as the chain KUBE-SERVICES of ipvs mode does. */
function masqueradeCheck(settings: RuleSettings, family: IpFamily): readonly RulePart[] {
  const service = (set: string): RulePart => inSet(set, 'service', family);
  return [
    rule(service('load-balancer-ports-local'), RETURN),
    rule(service('load-balancer-ports'), goto(MARK)),
    ...clusterIpsFromOutside(settings, family),
    rule(service('cluster-ip-ports'), RETURN),
    rule(service('external-ip-ports'), goto(MARK)),
    rule(service('external-ip-ports-local'), RETURN),
    rule(service('nodeports-local'), RETURN),
    rule(service('nodeports'), goto(MARK)),
  ];
}

function clusterIpsFromOutside({ masqueradeAll, localDetector }: RuleSettings, family: IpFamily): readonly RulePart[] {
  const toClusterIp = inSet('cluster-ip-ports', 'service', family);
  if (masqueradeAll) return [rule(toClusterIp, jump(MARK))];
  switch (localDetector?.kind) {
    // Pods of this node cannot be recognized, and the source of no other connection is a service address.
    case undefined:
      return [];
    case 'cidr':
      return [rule(toClusterIp, sourceIn(localDetector.cidr, true), jump(MARK))];
    case 'bridge':
      return [rule(toClusterIp, notFromInterface(localDetector.interfaceName), jump(MARK))];
    case 'interface-prefix':
      return [rule(toClusterIp, notFromInterface(`${localDetector.prefix}+`), jump(MARK))];
  }
}

/** Masquerades hairpin connections and marked packets, and clears the mark. */
function masquerading(settings: RuleSettings, family: IpFamily): readonly RulePart[] {
  const { masqueradeMark: mark } = settings;
  return [
    ...masqueraded(settings, inSet('hairpin-endpoints', 'service-and-source', family)),
    rule(unmarked(mark), RETURN),
    invertMark(mark),
    ...masqueraded(settings),
  ];
}

/** A port range requires a protocol with ports, so each protocol has a rule. */
function masqueraded(
  { randomFully, masqueradePorts }: RuleSettings,
  ...matches: readonly RulePart[]
): readonly RulePart[] {
  const plain = rule(...matches, masquerade(randomFully, undefined));
  if (masqueradePorts === undefined) return [plain];
  const limited = (Object.keys(PROTOCOL_NUMBER) as Protocol[]).map((protocol) =>
    rule(ofProtocol(protocol), ...matches, masquerade(randomFully, masqueradePorts)),
  );
  return [...limited, plain];
}
