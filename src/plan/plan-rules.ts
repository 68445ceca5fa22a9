import type { IpFamily } from '../net/ip.ts';
import type { RuleJump, RuleSet, RuleTable } from '../state/rule-set.ts';
import type { PlanConfig } from './plan-config.ts';
import {
  acceptChain,
  accessFilterChain,
  firewallChain,
  forwardChain,
  healthCheckChain,
  sourceRangesChain,
} from './rules/filter-chains.ts';
import { loadBalancerChain, markChain, nodePortChain } from './rules/marking-chains.ts';
import { postroutingChain } from './rules/postrouting-chain.ts';
import { servicesChain } from './rules/services-chain.ts';

const SERVICE_PORTALS = 'kubernetes service portals';
const ACCESS_FILTER = 'kubernetes ipvs access filter';
const FIREWALL = 'kube-proxy firewall rules';

/**
 * Each inserted first in turn, so in INPUT and FORWARD the refusals (KUBE-IPVS-FILTER, KUBE-PROXY-FIREWALL) stand before
 * what accepts.
 */
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

/**
 * All rules of one family. They never change while we run: whatever depends on a service is in a set, and every set is always
 * there.
 *
 * The node's own connections to load balancer IPs are held to the source ranges in table mangle: in OUTPUT of filter IPVS has
 * already put the endpoint in the place of the service's address, which only one rule for each service could tell again.
 * KUBE-IPVS-OUT-FILTER, where kube-proxy has those, is kept empty.
 */
export function planRules(config: PlanConfig, family: IpFamily): RuleSet {
  return {
    family,
    chains: [
      { table: 'mangle', name: 'KUBE-PROXY-FIREWALL', rules: firewallChain(family) },
      { table: 'mangle', name: 'KUBE-SOURCE-RANGES-FIREWALL', rules: sourceRangesChain(family) },
      { table: 'nat', name: 'KUBE-SERVICES', rules: servicesChain(config, family) },
      { table: 'nat', name: 'KUBE-LOAD-BALANCER', rules: loadBalancerChain(family) },
      { table: 'nat', name: 'KUBE-NODE-PORT', rules: nodePortChain(family) },
      { table: 'nat', name: 'KUBE-MARK-MASQ', rules: markChain(config.masqueradeMark) },
      { table: 'nat', name: 'KUBE-POSTROUTING', rules: postroutingChain(config, family) },
      { table: 'filter', name: 'KUBE-FORWARD', rules: forwardChain(config.masqueradeMark) },
      { table: 'filter', name: 'KUBE-NODE-PORT', rules: healthCheckChain(family) },
      { table: 'filter', name: 'KUBE-PROXY-FIREWALL', rules: firewallChain(family) },
      { table: 'filter', name: 'KUBE-SOURCE-RANGES-FIREWALL', rules: sourceRangesChain(family) },
      { table: 'filter', name: 'KUBE-IPVS-FILTER', rules: accessFilterChain(config, family) },
      { table: 'filter', name: 'KUBE-IPVS-OUT-FILTER', rules: [] },
      { table: 'filter', name: 'KUBE-IPVS-ACCEPT', rules: acceptChain(family) },
    ],
    jumps: JUMPS,
  };
}
