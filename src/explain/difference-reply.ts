import { counted } from '../base/counted.ts';
import type { Op } from '../state/op.ts';
import type { OwnerOf } from './op-owner.ts';
import { API_VERSION, type DifferenceReply, type PlannedOperation } from './replies.ts';
import { toolCommand } from './tool-command.ts';

/** What was read about the kernel (see readDifference in src/reconcile). */
export interface FoundDifference {
  readonly ops: readonly Op[];
  readonly more: number;
  readonly rules: readonly string[];
  readonly settings: readonly string[];
}

export function differenceReply(
  node: string,
  found: FoundDifference,
  ownerOf: OwnerOf,
  syncing: boolean,
): DifferenceReply {
  const operations = [
    ...found.settings.map((command): PlannedOperation => ({ do: 'write-setting', command })),
    ...found.rules.map((command): PlannedOperation => ({ do: 'write-rule', command })),
    ...found.ops.map((op) => plannedOperation(op, ownerOf)),
  ];
  const count = operations.length + found.more;
  return {
    apiVersion: API_VERSION,
    kind: 'Difference',
    node,
    ok: count === 0,
    verdict: verdictOf(count, syncing),
    syncing,
    operations,
    more: found.more,
  };
}

function verdictOf(count: number, syncing: boolean): string {
  if (count === 0) return 'the kernel is as planned';
  const differs = `the kernel differs from the plan in ${counted(count, 'object')}`;
  return syncing ? `${differs}; a sync is writing, so ask again` : `${differs}; the next full check repairs it`;
}

/** Returns the operation as replies have it, with the Service that needs it. */
export function plannedOperation(op: Op, ownerOf: OwnerOf): PlannedOperation {
  const service = ownerOf(op);
  return { do: op.kind, command: toolCommand(op), ...(service === undefined ? {} : { service }) };
}
