import { type OpFailure, reasonOf } from '../state/outcome.ts';
import type { RefusedReply } from './replies.ts';
import type { Words } from './words.ts';

/** An operation that the kernel refuses, and that is tried again. */
export interface RefusedOp {
  readonly failure: OpFailure;
  readonly attempts: number;
}

export function refusedReply({ failure, attempts }: RefusedOp, { command }: Words): RefusedReply {
  return { command: command(failure.op), why: reasonOf(failure), attempts };
}
