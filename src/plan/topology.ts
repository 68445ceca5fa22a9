import type { EndpointModel, EndpointTraits } from '../model/service-model.ts';

/**
 * Returns the ready endpoints with a hint for this node, else those with a hint for its zone, else all. A kind of hint
 * is used only if every endpoint has one and at least one matches; otherwise some node could be left without endpoints.
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
  hintsOf: (traits: EndpointTraits) => readonly string[],
  us: string,
): readonly EndpointModel[] | undefined {
  if (!ready.every(({ traits }) => hintsOf(traits).length > 0)) return undefined;
  const ours = ready.filter(({ traits }) => hintsOf(traits).includes(us));
  return ours.length > 0 ? ours : undefined;
}
