import type { PlanConfig } from './plan-config.ts';
import type { SetRole } from './set-names.ts';

/**
 * What is planned in another way for iptables mode. Its chains are named after Services. It needs no set of hairpin connections,
 * because every endpoint's chain masquerades what comes from the endpoint itself; and as it binds no addresses, none needs
 * protection. Others may bind them: so it has the set of load balancer IPs from which the node reaches itself.
 */
export const IPTABLES_MODE_PLAN = {
  scheduler: 'random',
  bindAddresses: false,
  namesServicePorts: true,
  omittedRoles: new Set<SetRole>(['LOOP-BACK', 'IPVS-IPS']),
} as const satisfies Partial<PlanConfig>;
