import type { SourceEvent } from '../../kube/objects/source.ts';
import type { Cluster } from '../../model/cluster.ts';
import type { ProxyHealth } from '../../observe/health.ts';
import type { ProxyMetrics } from '../../observe/proxy-metrics.ts';
import type { NodeChanges } from './node-changes.ts';

/** Returns whether the event just applied requires a sync. Frequent changes of status and metadata do not. */
export function needsSync({ event }: SourceEvent, cluster: Pick<Cluster, 'changed'>): boolean {
  // The first sync waits for the initial lists, even empty ones.
  return event.type === 'replaced' || cluster.changed();
}

/** Counts an event that was just applied, and updates health if it concerns our Node. */
export function noteEvent(
  { kind, event }: SourceEvent,
  cluster: Pick<Cluster, 'node' | 'pending'>,
  metrics: ProxyMetrics,
  health: ProxyHealth,
  nodeChanges: NodeChanges | undefined,
): void {
  const objects = event.type === 'replaced' ? event.objects.length : 1;
  switch (kind) {
    case 'service':
      metrics.serviceChanged(objects);
      break;
    case 'endpoint-slice':
      metrics.endpointChanged(objects);
      break;
    case 'node': {
      const object = event.type === 'applied' ? event.object : event.type === 'replaced' ? event.objects[0] : undefined;
      const node = cluster.node();
      if (event.type === 'deleted') nodeChanges?.deleted();
      if (object === undefined || node === undefined) return;
      const deleting = object.meta.deletionTimestamp !== undefined;
      health.nodeSeen({ deleting, taintKeys: object.taintKeys });
      nodeChanges?.seen(node);
      return;
    }
  }
  metrics.setPendingChanges(cluster.pending());
}
