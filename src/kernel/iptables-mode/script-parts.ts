import { boundedParts } from '../../base/bounded-parts.ts';
import { type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import type { ProxyState } from './proxy-state.ts';
import type { StateOp } from './state-change.ts';

/** What belongs together: the operations of a service port. */
export type Unit = readonly StateOp[];

/** The lines for a new endpoint: its chain, its two rules, and the rule that leads there. */
const LINES_OF_ENDPOINT = 4;

/**
 * Divides units into parts whose scripts have about `most` lines. No unit is divided. The addresses of a service port usually
 * share their chains, so the estimate counts the address with the most endpoints.
 */
export function* scriptParts(
  units: readonly Unit[],
  state: ProxyState,
  most: number,
): Generator<readonly StateOp[], void, undefined> {
  for (const part of boundedParts(units, (unit) => linesOf(unit, state), most)) yield part.flat();
}

function linesOf(unit: Unit, state: ProxyState): number {
  const ofServers = new Map<VirtualServerKey, number>();
  let others = 0;
  for (const op of unit) {
    const id = 'virtualServer' in op ? op.virtualServer : 'id' in op ? op.id : undefined;
    if (id === undefined) {
      others += 1;
      continue;
    }
    const key = virtualServerKey(id);
    const known = ofServers.get(key) ?? 1 + (state.server(id)?.state.endpoints.length ?? 0);
    ofServers.set(key, known + (op.kind === 'add-real-server' ? LINES_OF_ENDPOINT : 1));
  }
  let most = 0;
  for (const lines of ofServers.values()) most = Math.max(most, lines);
  return most + ofServers.size + others;
}
