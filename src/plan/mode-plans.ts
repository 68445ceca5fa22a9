import type { ProxyMode } from '../base/proxy-mode.ts';
import type { PlanConfig } from './plan-config.ts';

const TRANSLATES = { scheduler: 'random', bindAddresses: false } as const;

/** How the plan of each mode differs from that of ipvs mode. */
export const MODE_PLANS = {
  ipvs: {},
  nftables: { ...TRANSLATES, roles: ['LOOP-BACK', 'IPVS-IPS'], sharesEndpoints: true, joinsSourceRanges: true },
  // The rules of each endpoint masquerade what comes from the endpoint, and no rule closes other ports.
  iptables: { ...TRANSLATES, roles: ['NODE-PORT-IP', 'HEALTH-CHECK-NODE-PORT'], namesServicePorts: true },
  userspace: {
    ...TRANSLATES,
    scheduler: 'rr',
    // The engine is an endpoint's client, so no endpoint is its own; but while no daemon runs, it may be.
    roles: ['LOOP-BACK', 'IPVS-IPS'],
    protocols: ['TCP', 'UDP'],
    joinsSourceRanges: true,
    namesServicePorts: true,
  },
} as const satisfies Record<ProxyMode, Partial<PlanConfig>>;
