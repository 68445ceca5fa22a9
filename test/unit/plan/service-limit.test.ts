import { describe, expect, test } from '@jest/globals';
import type { PlanConfig } from '../../../src/plan/plan-config.ts';
import { MOST_SERVERS } from '../../../src/plan/service-limit.ts';
import { planOf, service, slice } from './build.ts';

const PORTS = Array.from({ length: 100 }, (_, n) => ({
  name: `p${n}`,
  protocol: 'TCP',
  port: 1_000 + n,
  nodePort: 0,
}));
const SLICE = {
  ...slice(Array.from({ length: 100 }, (_, n) => `10.244.1.${n + 1}`)),
  ports: PORTS.map(({ name, port }) => ({ name, protocol: 'TCP' as const, port })),
};

function planWith(externalIPs: number, config: Partial<PlanConfig> = {}) {
  const ips = Array.from({ length: externalIPs }, (_, n) => `203.0.113.${n + 1}`);
  return planOf({ service: service({ ports: PORTS, externalIPs: ips }), slices: [SLICE], config });
}

describe('the limit of one Service', () => {
  test('is far beyond 100 ports with 100 endpoints at 20 addresses', () => {
    const plan = planWith(19);
    expect(plan.virtualServers).toHaveLength(2_000);
    expect(plan.warnings).toEqual([]);
  });

  test('leaves out what exceeds it, with its set entries, and says so', () => {
    const plan = planWith(100);
    const servers = plan.virtualServers.reduce((sum, { realServers }) => sum + 1 + realServers.length, 0);
    expect(servers).toBeLessThanOrEqual(MOST_SERVERS);
    expect(plan.virtualServers).toHaveLength(2_475);
    expect(plan.entries.filter(({ role }) => role === 'EXTERNAL-IP')).toHaveLength(2_375);
    expect(plan.warnings).toEqual([
      {
        reason: 'too-many-servers',
        message:
          '7625 addresses and ports are not served, because the Service would have more than 250000 virtual servers and ' +
          'real servers (addresses x ports x endpoints) on each node: divide it into several Services',
      },
    ]);
    // The ClusterIP comes first.
    expect(plan.entries.filter(({ role }) => role === 'CLUSTER-IP')).toHaveLength(100);
  });

  test('counts endpoints that the addresses of a port share once', () => {
    expect(planWith(100, { sharesEndpoints: true })).toMatchObject({ warnings: [] });
    const plan = planWith(200, { sharesEndpoints: true });
    expect(plan.warnings).toEqual([]);
    expect(plan.virtualServers).toHaveLength(20_100);
  });
});
