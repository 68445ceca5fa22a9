import type { IpFamily } from '../../base/ip.ts';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { Cluster } from '../../model/cluster.ts';
import type { Log } from '../../observe/log/log.ts';
import type { PlanConfig } from '../../plan/plan-config.ts';
import { SYSTEM_CLOCK as clock } from '../../reconcile/timing/clock.ts';
import { checkAgainstNode } from '../startup/cross-checks.ts';
import { planConfigOf } from '../startup/node-identity.ts';
import { waitForNode } from '../startup/node-wait.ts';
import type { NodeChanges } from './node-changes.ts';

export interface OwnNodeParts {
  readonly config: ProxyConfig;
  readonly nodeName: string;
  readonly families: readonly IpFamily[];
  readonly cluster: Cluster;
  readonly nodeChanges: NodeChanges;
  readonly log: Log;
}

/**
 * Waits for our Node and checks the configuration against it. Returns the configuration of the planner; undefined if
 * the daemon is stopped meanwhile.
 *
 * @throws StartupError if the configuration contradicts the Node
 */
export async function awaitOwnNode(
  { config, nodeName, families, cluster, nodeChanges, log }: OwnNodeParts,
  signal: AbortSignal,
): Promise<PlanConfig | undefined> {
  await waitForNode({ cluster, config, nodeName, clock, signal, log });
  if (signal.aborted) return undefined;
  // From here on without waiting, so that no change of our Node is missed.
  checkAgainstNode(config, families, cluster.node(), log);
  nodeChanges.begin(families, cluster.node());
  return planConfigOf(config, nodeName, families, cluster);
}
