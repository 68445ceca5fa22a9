import { constants } from 'node:os';
import type { ServerOp } from '../state/op.ts';
import { type OpFailure, failureOf } from '../state/outcome.ts';
import type { RealServer } from '../state/real-server.ts';
import type { VirtualServer } from '../state/virtual-server.ts';

/** Why an operation on a virtual server is not possible: an errno, and what it means here. */
export interface RefusedOp {
  readonly code: 'ESRCH' | 'ENOENT' | 'EOPNOTSUPP' | 'EPROTONOSUPPORT';
  readonly text: string;
}

const NO_VIRTUAL_SERVER: RefusedOp = { code: 'ESRCH', text: 'the virtual server does not exist' };
const NO_REAL_SERVER: RefusedOp = { code: 'ENOENT', text: 'it does not exist' };

/** A virtual server that operations change, in a mode without IPVS. */
export interface ServerDraft {
  readonly exists: boolean;
  /** Sets the settings. Creates the virtual server if it does not exist. Returns why the mode cannot do it. */
  set(server: VirtualServer): RefusedOp | undefined;
  remove(): void;
  has(server: RealServer): boolean;
  /** Adds or changes a real server. Returns why the mode cannot do it. */
  put(server: RealServer): RefusedOp | undefined;
  drop(server: RealServer): void;
}

/** Applies operations in order, and refuses what the kernel would refuse. A failed operation does not stop the others. */
export function applyOps(draft: ServerDraft, ops: Iterable<ServerOp>): readonly OpFailure[] {
  const failures: OpFailure[] = [];
  for (const op of ops) {
    const refused = applyOp(draft, op);
    if (refused !== undefined) failures.push(failureOf(op, { errno: constants.errno[refused.code], ...refused }));
  }
  return failures;
}

function applyOp(draft: ServerDraft, op: ServerOp): RefusedOp | undefined {
  switch (op.kind) {
    case 'add-virtual-server':
      return draft.set(op.virtualServer);
    case 'edit-virtual-server':
      return draft.exists ? draft.set(op.virtualServer) : NO_VIRTUAL_SERVER;
    case 'delete-virtual-server':
      draft.remove();
      return undefined;
    case 'add-real-server':
      return draft.exists ? draft.put(op.realServer) : NO_VIRTUAL_SERVER;
    case 'edit-real-server':
      if (!draft.exists) return NO_VIRTUAL_SERVER;
      return draft.has(op.realServer) ? draft.put(op.realServer) : NO_REAL_SERVER;
    case 'delete-real-server':
      draft.drop(op.realServer);
      return undefined;
  }
}
