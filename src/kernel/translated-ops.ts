import { constants } from 'node:os';
import type { IpFamily } from '../base/ip.ts';
import type { ProxyMode } from '../base/proxy-mode.ts';
import type { IpSet } from '../state/ip-set.ts';
import { type EntryOp, type Op, type ServerOp, familyOfOp, virtualServerOf } from '../state/op.ts';
import { type OpFailure, failureOf } from '../state/outcome.ts';
import {
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
  virtualServerId,
} from '../state/virtual-server.ts';

/** The operations of a mode that translates addresses. */
export interface TranslatedOps {
  readonly services: readonly ServerOp[];
  readonly entries: readonly EntryOp[];
  /** Operations that the mode does not have. */
  readonly failures: readonly OpFailure[];
}

/** Sorts the operations of one family. `sets`: those of the mode, by name; they always exist, and have no limit. */
export function sortOps(
  ops: Iterable<Op>,
  {
    mode,
    family,
    sets,
  }: { readonly mode: ProxyMode; readonly family: IpFamily; readonly sets: ReadonlyMap<string, IpSet> },
): TranslatedOps {
  const services: ServerOp[] = [];
  const entries: EntryOp[] = [];
  const failures: OpFailure[] = [];
  const isKnown = ({ name, type }: IpSet): boolean => sets.get(name)?.type === type;
  const refusal = { errno: constants.errno.EOPNOTSUPP, code: 'EOPNOTSUPP', text: `${mode} mode has no such object` };
  for (const op of ops) {
    if (familyOfOp(op) !== family) continue;
    if ('virtualServer' in op || 'id' in op) services.push(op);
    else if ('entry' in op && isKnown(op.set)) entries.push(op);
    else if (op.kind !== 'create-set' || !isKnown(op.set)) failures.push(failureOf(op, refusal));
  }
  return { services, entries, failures };
}

export interface ServerOps {
  readonly id: VirtualServerId;
  readonly ops: readonly ServerOp[];
}

/** Divides operations by the virtual server that they change. */
export function byVirtualServer(all: Iterable<ServerOp>): readonly ServerOps[] {
  const found = new Map<VirtualServerKey, { readonly id: VirtualServerId; readonly ops: ServerOp[] }>();
  let last: VirtualServerId | undefined;
  let ops: ServerOp[] = [];
  for (const op of all) {
    // Operations on the real servers of a virtual server usually share its object.
    if (virtualServerOf(op) !== last) {
      last = virtualServerOf(op);
      const key = virtualServerKey(last);
      const known = found.get(key) ?? { id: virtualServerId(last), ops: [] };
      found.set(key, known);
      ({ ops } = known);
    }
    ops.push(op);
  }
  return [...found.values()];
}
