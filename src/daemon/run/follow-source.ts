import type { Source, SourceEvent } from '../../kube/objects/source.ts';
import type { Cluster } from '../../model/cluster.ts';
import { EventFeed } from './event-feed.ts';

/** Applies the events of a source to the cluster, until `started` is disposed. @param programmed see Source */
export function followSource(
  source: Source,
  cluster: Cluster,
  onApplied: (event: SourceEvent) => void,
  programmed: Promise<void>,
  started: AsyncDisposableStack,
): void {
  const feed = new EventFeed(cluster, onApplied);
  started.defer(() => feed.stop());
  source.start((event) => feed.take(event), programmed);
  started.defer(() => source.stop());
}
