import type { PlanConfig } from '../../src/plan/plan-config.ts';
import type { NodeSettings } from '../../src/reconcile/node/node-settings.ts';
import { PLAN_CONFIG } from '../support/reconciling.ts';

/** The node settings that a full check maintains. */
export const NODE_SETTINGS: NodeSettings = {
  sysctls: [
    ['net/ipv4/vs/conntrack', '1'],
    ['net/ipv4/vs/expire_nodest_conn', '1'],
    ['net/ipv4/ip_forward', '1'],
  ],
  timeouts: { tcp: 905, tcpFin: 125, udp: 305 },
};

/** Configurations of the daemons in the histories. Each produces different rules. */
export const CONFIGS: readonly PlanConfig[] = [PLAN_CONFIG, { ...PLAN_CONFIG, scheduler: 'rr', masqueradeAll: true }];
