import type { EndpointModel, EndpointTraits } from '../model/service-model.ts';
import type { FamilyView, PortView } from '../plan/family-view.ts';
import { isReady, readyElseDraining } from '../plan/endpoint/readiness.ts';
import { hintedFor } from '../plan/endpoint/topology.ts';
import type { NodeLocation } from '../plan/endpoint/traffic-policy.ts';
import { type RealServer, type RealServerKey, realServerKey } from '../state/real-server.ts';

type Direction = 'internal' | 'external';

/**
 * Which clients reach an endpoint: those of all addresses, only those of the cluster IP (internal) or of the other
 * addresses (external), or none.
 */
export interface EndpointReach {
  readonly use: 'all' | Direction | 'none';
  /** The reason, as a clause; absent if the endpoint is used by all. */
  readonly why?: string;
}

export interface Note {
  readonly text: string;
  /** Whether it follows from the Service and its slices alone, so that all nodes find the same. */
  readonly onAllNodes: boolean;
}

/** The beginning of a note that hints are ignored. */
export const HINTS_IGNORED = 'hints ignored: ';

/** The note on a port none of whose endpoints on other nodes can answer a client outside of the cluster. */
export const NOT_FROM_OUTSIDE =
  'clients from outside get no answer: externalTrafficPolicy is Local, and no endpoint is on this node; ' +
  'its own Pods reach those of other nodes';

/** How the endpoints of one port and family were chosen. The plan made the choice; this gives its reasons. */
export interface Choice {
  readonly notes: readonly Note[];
  readonly decide: (key: RealServerKey, traits: EndpointTraits) => EndpointReach;
}

export function choiceNotes({ notes }: Choice): readonly Note[] {
  return notes;
}

export function choiceOf(view: FamilyView, port: PortView, place: NodeLocation): Choice {
  const { endpoints, destinations } = port;
  const facts = factsOf(view, port, place);
  const weights = { internal: weightsOf(destinations.internal), external: weightsOf(destinations.external) };
  const directions: readonly Direction[] = facts.accessible ? ['internal', 'external'] : ['internal'];
  return {
    notes: endpoints.length === 0 ? [] : notesOf(facts, directions, place),
    decide: (key, traits) => {
      const missing = directions.filter((direction) => (weights[direction].get(key) ?? 0) === 0);
      if (missing.length === 0) return { use: 'all' };
      const reasons = new Set(
        missing.map((direction) => (weights[direction].has(key) ? WITHOUT_WEIGHT : whyNot(facts, direction, traits))),
      );
      const why = [...reasons].join('; ');
      if (missing.length === directions.length) return { use: 'none', why };
      return { use: missing[0] === 'internal' ? 'external' : 'internal', why };
    },
  };
}

const WITHOUT_WEIGHT = 'weight 0 (weights of the Service)';

function weightsOf(servers: readonly RealServer[]): ReadonlyMap<RealServerKey, number> {
  return new Map(servers.map((server) => [realServerKey(server), server.weight]));
}

interface Facts {
  readonly accessible: boolean;
  readonly ready: readonly EndpointModel[];
  readonly isServed: boolean;
  /** Whether an endpoint on this node can be used. */
  readonly hasLocal: boolean;
  readonly hasLocalReady: boolean;
  readonly policyLocal: Readonly<Record<Direction, boolean>>;
  /** Whether endpoints on other nodes answer clients without this node. */
  readonly withoutNat: boolean;
  /** The kind of hints that selects among the ready endpoints. */
  readonly hints: 'node' | 'zone' | 'none';
}

function factsOf(
  view: FamilyView,
  { endpoints, accessible, destinations }: PortView,
  { nodeName, zone }: NodeLocation,
): Facts {
  const ready = endpoints.filter(isReady);
  const local = readyElseDraining(endpoints.filter(({ traits }) => traits.local));
  const byNode = hintedFor(ready, 'nodes', nodeName) !== undefined;
  const byZone = zone !== '' && hintedFor(ready, 'zones', zone) !== undefined;
  return {
    accessible,
    ready,
    isServed: [...destinations.internal, ...destinations.external].some(({ weight }) => weight > 0),
    hasLocal: local.length > 0,
    hasLocalReady: local.some(isReady),
    policyLocal: { internal: view.service.internalLocal, external: view.service.externalLocal },
    withoutNat: view.service.requests?.forwarding !== undefined,
    hints: byNode ? 'node' : byZone ? 'zone' : 'none',
  };
}

/** Whether only endpoints on this node may be used; policy Local falls back to all if there are none. */
function isLocalOnly({ policyLocal, hasLocal, accessible }: Facts, direction: Direction): boolean {
  return policyLocal[direction] && (hasLocal || (direction === 'internal' && !accessible));
}

function whyNot(facts: Facts, direction: Direction, traits: EndpointTraits): string {
  const localOnly = isLocalOnly(facts, direction);
  if (localOnly && !traits.local) return `not on this node (${direction}TrafficPolicy: Local)`;
  if (!traits.ready) {
    const rivals = localOnly ? facts.hasLocalReady : facts.ready.length > 0;
    return traits.terminating && rivals ? 'terminating, and ready ones exist' : 'not ready';
  }
  return facts.hints === 'node'
    ? `for other nodes by its hints (${traits.nodes.join(', ')})`
    : `for another zone by its hints (${traits.zones.join(', ')})`;
}

function notesOf(facts: Facts, directions: readonly Direction[], place: NodeLocation): Note[] {
  const notes: Note[] = [];
  const [cluster] = directions.filter((direction) => !isLocalOnly(facts, direction));
  if (cluster === undefined) return notes;
  for (const direction of directions) {
    if (!facts.policyLocal[direction] || facts.hasLocal) continue;
    const fallsBack = `no endpoint is on this node: in spite of ${direction}TrafficPolicy: Local, those of other nodes are used`;
    const text = direction === 'external' && facts.isServed && !facts.withoutNat ? NOT_FROM_OUTSIDE : fallsBack;
    notes.push({ text, onAllNodes: false });
  }
  if (facts.ready.length === 0 && facts.isServed)
    notes.push({ text: 'no endpoint is ready: those that terminate and still serve are used', onAllNodes: true });
  const ignored = hintsIgnored(facts, place);
  if (ignored !== undefined) notes.push(ignored);
  return notes;
}

/** Says why hints do not select; undefined if they do, or if there are none. */
function hintsIgnored({ ready, hints }: Facts, { zone }: NodeLocation): Note | undefined {
  const zoned = ready.filter(({ traits }) => traits.zones.length > 0);
  if (hints !== 'none' || zoned.length === 0) return undefined;
  if (zoned.length < ready.length) {
    const without = ready.length - zoned.length;
    return { text: `${HINTS_IGNORED}${without} of ${ready.length} ready endpoints have none`, onAllNodes: true };
  }
  const reason = zone === '' ? 'our Node has no zone label' : `no endpoint is for our zone ${zone}`;
  return { text: `${HINTS_IGNORED}${reason}`, onAllNodes: false };
}
