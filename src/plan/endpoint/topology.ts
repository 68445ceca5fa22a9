import type { EndpointModel } from '../../model/service-model.ts';

/**
 * Returns the ready endpoints with a hint for this node, else those with a hint for its zone, else all. A kind of hint
 * is used only if every endpoint has one and at least one matches; otherwise some node could be left without endpoints.
 */
export function nearestEndpoints(
  ready: readonly EndpointModel[],
  nodeName: string,
  zone: string,
): readonly EndpointModel[] {
  return hintedFor(ready, 'nodes', nodeName) ?? (zone === '' ? undefined : hintedFor(ready, 'zones', zone)) ?? ready;
}

/** Returns the endpoints with a hint for us; undefined if hints of this kind are not used. */
export function hintedFor(
  ready: readonly EndpointModel[],
  kind: 'nodes' | 'zones',
  us: string,
): readonly EndpointModel[] | undefined {
  if (!ready.every(({ traits }) => traits[kind].length > 0)) return undefined;
  const ours = ready.filter(({ traits }) => traits[kind].includes(us));
  return ours.length > 0 ? ours : undefined;
}
