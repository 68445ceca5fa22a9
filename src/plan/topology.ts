import type { EndpointModel } from '../model/service-model.ts';

/**
 * Of the ready endpoints of one port, those that their hints give to this node, else to its zone, else all. A level of hints
 * counts only where every endpoint has one and at least one names us: else some node would be left without.
 */
export function nearest(ready: readonly EndpointModel[], nodeName: string, zone: string): readonly EndpointModel[] {
  return (
    hinted(ready, ({ nodes }) => nodes, nodeName) ??
    (zone === '' ? undefined : hinted(ready, ({ zones }) => zones, zone)) ??
    ready
  );
}

function hinted(
  ready: readonly EndpointModel[],
  hintsOf: (endpoint: EndpointModel) => readonly string[],
  us: string,
): readonly EndpointModel[] | undefined {
  if (!ready.every((endpoint) => hintsOf(endpoint).length > 0)) return undefined;
  const ours = ready.filter((endpoint) => hintsOf(endpoint).includes(us));
  return ours.length > 0 ? ours : undefined;
}
