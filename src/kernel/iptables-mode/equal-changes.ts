import type { ServerOp } from '../../state/op.ts';
import { type AppliedOps, type ServiceState, applyServiceOps } from '../service-ops.ts';
import { isSameServer } from '../../state/real-server.ts';
import { hasSameSettings } from '../../state/virtual-server.ts';
import { sortedEndpoints } from './proxy-state.ts';

interface Change {
  readonly before: ServiceState | undefined;
  readonly ops: readonly ServerOp[];
  readonly applied: AppliedOps;
}

/** Returns the object to use for a state: an equal one that exists already, or the state itself. */
type Share = (after: ServiceState) => ServiceState;

/**
 * Applies operations to virtual servers. Those with the same state and the same operations share the result: a Service may have
 * thousands of endpoints at a thousand addresses.
 */
export class EqualChanges {
  /** The last one of each service port, as operations on several ports may alternate. */
  readonly #last = new Map<string, Change>();

  /** The endpoints of the result are sorted. */
  apply(port: string, before: ServiceState | undefined, ops: readonly ServerOp[], share: Share): AppliedOps {
    const last = this.#last.get(port);
    if (last !== undefined && isEqual(last, before, ops)) return last.applied;
    const { after, ...rest } = applyServiceOps(before, ops);
    const shared = after === undefined ? undefined : share({ ...after, endpoints: sortedEndpoints(after.endpoints) });
    const applied = { after: shared, ...rest };
    this.#last.set(port, { before, ops, applied });
    return applied;
  }
}

/** Failures name the operations of one virtual server, so they are not shared. */
function isEqual(
  { before, ops, applied }: Change,
  state: ServiceState | undefined,
  others: readonly ServerOp[],
): boolean {
  if (before !== state || ops.length !== others.length || applied.failures.length > 0) return false;
  return ops.every((op, at) => doesSame(op, others[at] as ServerOp));
}

function doesSame(a: ServerOp, b: ServerOp): boolean {
  if (a.kind !== b.kind) return false;
  if ('virtualServer' in a || 'virtualServer' in b) {
    return 'virtualServer' in a && 'virtualServer' in b && hasSameSettings(a.virtualServer, b.virtualServer);
  }
  if (!('realServer' in a && 'realServer' in b)) return true;
  return isSameServer(a.realServer, b.realServer);
}
