import { type Say, clusterDown, clusterUp } from './cluster.ts';
import { clusterFolder } from './folders.ts';
import { runs } from './keeper.ts';
import type { Settings } from './settings.ts';
import { type ClusterState, readState } from './state-file.ts';

async function runningCluster(cluster: string): Promise<ClusterState | undefined> {
  const state = await readState(clusterFolder(cluster).state);
  return state !== undefined && (await runs(state.keeper)) ? state : undefined;
}

/** Uses the cluster of these settings if it runs. Otherwise, it starts the cluster, and ends it after the use. */
export async function useCluster<T>(
  settings: Settings,
  say: Say,
  use: (state: ClusterState) => Promise<T>,
): Promise<T> {
  const before = await runningCluster(settings.cluster);
  if (before === undefined) await clusterUp(settings, say);
  try {
    const state = before ?? (await runningCluster(settings.cluster));
    if (state === undefined) throw new Error(`the cluster ${settings.cluster} has ended`);
    return await use(state);
  } finally {
    if (before === undefined) await clusterDown(settings.cluster);
  }
}
