import type { NodePlan } from '../../src/plan/node/node-plan.ts';

/** One line for each Service and IP family, such as "default/web 32000 IPv4: 1". */
export function healthCheckLines(plan: NodePlan): string[] {
  return Array.from(plan.healthChecks).flatMap(([name, { port, localEndpoints }]) =>
    Object.entries(localEndpoints).map(([family, count]) => `${name} ${port} IPv${family}: ${count}`),
  );
}
