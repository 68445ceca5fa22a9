import type { IpFamily } from '../../base/ip.ts';
import type { RuleChain, RuleJump, RuleSet, RuleTable } from '../../state/rules/rule-set.ts';
import type { PlanConfig } from '../plan-config.ts';
import {
  acceptChain,
  accessFilterChain,
  firewallChain,
  forwardChain,
  healthCheckChain,
  sourceRangesChain,
} from './rules/filter-chains.ts';
import { loadBalancerChain, markChain, nodePortChain, postroutingChain } from './rules/marking-chains.ts';
import type { Rule } from './rules/planned-rule.ts';
import { servicesChain } from './rules/services-chain.ts';

const SERVICE_PORTALS = 'kubernetes service portals';
const ACCESS_FILTER = 'kubernetes ipvs access filter';
const FIREWALL = 'kube-proxy firewall rules';

/** Each is inserted at the head of its chain, so the last one comes first: dropping chains precede accepting ones. */
const JUMPS: readonly RuleJump[] = [
  jump('mangle', 'OUTPUT', 'KUBE-PROXY-FIREWALL', FIREWALL),
  jump('nat', 'OUTPUT', 'KUBE-SERVICES', SERVICE_PORTALS),
  jump('nat', 'PREROUTING', 'KUBE-SERVICES', SERVICE_PORTALS),
  jump('nat', 'POSTROUTING', 'KUBE-POSTROUTING', 'kubernetes postrouting rules'),
  jump('filter', 'FORWARD', 'KUBE-FORWARD', 'kubernetes forwarding rules'),
  jump('filter', 'INPUT', 'KUBE-NODE-PORT', 'kubernetes health check rules'),
  jump('filter', 'INPUT', 'KUBE-PROXY-FIREWALL', FIREWALL),
  jump('filter', 'FORWARD', 'KUBE-PROXY-FIREWALL', FIREWALL),
  jump('filter', 'INPUT', 'KUBE-IPVS-FILTER', ACCESS_FILTER),
  jump('filter', 'OUTPUT', 'KUBE-IPVS-OUT-FILTER', ACCESS_FILTER),
  { ...jump('filter', 'INPUT', 'KUBE-IPVS-ACCEPT', 'kubernetes ipvs service traffic'), position: 'last' },
];

function jump(table: RuleTable, from: string, to: string, comment: string): RuleJump {
  return { table, from, to, comment };
}

interface ChainPlan extends Pick<RuleChain, 'table' | 'name'> {
  readonly rules: (config: PlanConfig, family: IpFamily) => readonly Rule[];
}

const CHAINS: readonly ChainPlan[] = [
  { table: 'mangle', name: 'KUBE-PROXY-FIREWALL', rules: (_config, family) => firewallChain(family) },
  { table: 'mangle', name: 'KUBE-SOURCE-RANGES-FIREWALL', rules: (_config, family) => sourceRangesChain(family) },
  { table: 'nat', name: 'KUBE-SERVICES', rules: servicesChain },
  { table: 'nat', name: 'KUBE-LOAD-BALANCER', rules: (_config, family) => loadBalancerChain(family) },
  { table: 'nat', name: 'KUBE-NODE-PORT', rules: (_config, family) => nodePortChain(family) },
  { table: 'nat', name: 'KUBE-MARK-MASQ', rules: ({ masqueradeMark }) => markChain(masqueradeMark) },
  { table: 'nat', name: 'KUBE-POSTROUTING', rules: postroutingChain },
  { table: 'filter', name: 'KUBE-FORWARD', rules: ({ masqueradeMark }) => forwardChain(masqueradeMark) },
  { table: 'filter', name: 'KUBE-NODE-PORT', rules: (_config, family) => healthCheckChain(family) },
  { table: 'filter', name: 'KUBE-PROXY-FIREWALL', rules: (_config, family) => firewallChain(family) },
  { table: 'filter', name: 'KUBE-SOURCE-RANGES-FIREWALL', rules: (_config, family) => sourceRangesChain(family) },
  { table: 'filter', name: 'KUBE-IPVS-FILTER', rules: accessFilterChain },
  { table: 'filter', name: 'KUBE-IPVS-OUT-FILTER', rules: () => [] },
  { table: 'filter', name: 'KUBE-IPVS-ACCEPT', rules: (_config, family) => acceptChain(family) },
];

/**
 * Returns all rules of one IP family. They do not change while the program runs, because everything that depends on a
 * Service is in an ipset, and all ipsets always exist.
 *
 * The node's own connections to load balancer IPs are checked against the source ranges in OUTPUT of table mangle,
 * because in OUTPUT of table filter IPVS has already replaced the service address with an endpoint address. kube-proxy
 * checks them in table filter, with one rule for each service in KUBE-IPVS-OUT-FILTER; that chain is kept, but empty.
 */
export function planRules(config: PlanConfig, family: IpFamily): RuleSet {
  const { masqueradeAll, masqueradeMark, localDetectors, masqueradePorts, randomFully, forwardsInvalid } = config;
  return {
    family,
    settings: {
      masqueradeAll,
      masqueradeMark,
      localDetector: localDetectors[family],
      masqueradePorts,
      randomFully,
      ...(forwardsInvalid === undefined ? {} : { forwardsInvalid }),
    },
    chains: CHAINS.map(({ table, name, rules }) => ({ table, name, rules: rules(config, family) })),
    jumps: JUMPS,
    optionalTables: {
      mangle: "source ranges do not apply to this node's own connections to load balancer IPs",
    },
  };
}

/**
 * Returns the chains (without rules) and jumps that clean-up removes: ours, and KUBE-FIREWALL of table nat, where
 * kube-proxy up to 1.25 drops clients outside the source ranges. KUBE-FIREWALL of table filter and KUBE-MARK-DROP
 * belong to the kubelet.
 */
export function rulesToRemove(family: IpFamily): RuleSet {
  const chains = CHAINS.map(({ table, name }): RuleChain => ({ table, name, rules: [] }));
  return { family, chains: [...chains, { table: 'nat', name: 'KUBE-FIREWALL', rules: [] }], jumps: JUMPS };
}

/**
 * Chains that stay as long as service addresses are local. Two accept packets of open connections of IPVS where the host's own
 * rules drop what they do not know. The third closes the other ports of the addresses.
 */
const OF_LOCAL_ADDRESSES: ReadonlySet<string> = new Set([
  'filter KUBE-FORWARD',
  'filter KUBE-IPVS-ACCEPT',
  'filter KUBE-IPVS-FILTER',
]);

/** Leaves out the chains and jumps that stay as long as service addresses are local. */
export function withoutLocalAddressRules(rules: RuleSet): RuleSet {
  return withoutChains(rules, OF_LOCAL_ADDRESSES);
}

/** Chains of ipvs mode that iptables mode has, too, with other rules. */
const ALSO_OF_IPTABLES_MODE: ReadonlySet<string> = new Set([
  'nat KUBE-SERVICES',
  'nat KUBE-MARK-MASQ',
  'nat KUBE-POSTROUTING',
  'filter KUBE-FORWARD',
  'filter KUBE-PROXY-FIREWALL',
]);

/** Returns the chains and jumps of ipvs mode that iptables mode does not have. */
export function rulesOfIpvsOnly(family: IpFamily): RuleSet {
  return withoutChains(rulesToRemove(family), ALSO_OF_IPTABLES_MODE);
}

/**
 * Leaves out the chain that marks packets for masquerading: other programs may jump to it, and nftables mode masquerades what
 * has the mark.
 */
export function rulesWithoutMark(family: IpFamily): RuleSet {
  return withoutChains(rulesToRemove(family), MARKING);
}

const MARKING: ReadonlySet<string> = new Set(['nat KUBE-MARK-MASQ']);

/** @param left each as "table chain" */
function withoutChains({ family, chains, jumps }: RuleSet, left: ReadonlySet<string>): RuleSet {
  return {
    family,
    chains: chains.filter(({ table, name }) => !left.has(`${table} ${name}`)),
    jumps: jumps.filter(({ table, to }) => !left.has(`${table} ${to}`)),
  };
}
