import type { PlanConfig } from './plan-config.ts';
import type { SetRole } from './set-names.ts';

/**
 * What is planned in another way for iptables mode. Its chains are named after Services. It needs no set of hairpin connections,
 * because every endpoint's chain masquerades what comes from the endpoint itself; and as it binds no addresses, no connection of
 * this node has one as source, and none needs protection.
 */
export const IPTABLES_MODE_PLAN = {
  scheduler: 'random',
  bindAddresses: false,
  namesServicePorts: true,
  omittedRoles: new Set<SetRole>(['LOOP-BACK', 'LOAD-BALANCER-SOURCE-IP', 'IPVS-IPS']),
} as const satisfies Partial<PlanConfig>;
