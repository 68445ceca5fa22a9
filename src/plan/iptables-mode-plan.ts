import type { PlanConfig } from './plan-config.ts';

/** What is planned in another way for iptables mode: its chains are named after Services. It binds no addresses. */
export const IPTABLES_MODE_PLAN = {
  scheduler: 'random',
  bindAddresses: false,
  rulesPerService: true,
} as const satisfies Partial<PlanConfig>;
