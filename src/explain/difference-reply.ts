import { counted } from '../base/counted.ts';
import type { KnownDifference } from '../state/known-difference.ts';
import type { Op } from '../state/op.ts';
import type { RuleDifference } from '../state/rule-set.ts';
import { shadowText, shadowWords } from './difference-tally.ts';
import type { OwnerOf } from './op-owner.ts';
import { REPLY_API_VERSION, type DifferenceReply, type PlannedOperation } from './replies.ts';
import { toolCommand } from './tool-command.ts';

/** What was read about the kernel (see readDifference in src/reconcile). */
export interface FoundDifference {
  readonly ops: readonly Op[];
  readonly more: number;
  readonly rules: readonly RuleDifference[];
  readonly settings: readonly string[];
  readonly notes: readonly string[];
  /** With --dry-run: the difference from kube-proxy that explains an operation. */
  readonly knownOf?: (op: Op) => KnownDifference | undefined;
}

export function differenceReply(
  node: string,
  found: FoundDifference,
  ownerOf: OwnerOf,
  syncing: boolean,
): DifferenceReply {
  const operations = differingOperations(found, ownerOf);
  const count = operations.length + found.more;
  const { more, notes } = found;
  const reply = { apiVersion: REPLY_API_VERSION, kind: 'Difference', node, syncing, operations, more, notes } as const;
  if (found.knownOf === undefined) return { ...reply, ok: count === 0, verdict: verdictOf(count, syncing) };
  const shadow = shadowText(operations, found.more);
  const verdict = `the kernel against the plan of this dry run: ${shadowWords(shadow)}`;
  return { ...reply, ok: shadow.unexpected === 0, verdict, shadow };
}

/** Returns everything that differs, as replies have it. */
export function differingOperations(found: FoundDifference, ownerOf: OwnerOf): PlannedOperation[] {
  const { ops, rules, settings, knownOf } = found;
  return [
    ...settings.map((command): PlannedOperation => ({ do: 'write-setting', command })),
    ...rules.map(({ command, known }): PlannedOperation => {
      return { do: 'write-rule', command, ...explained(knownOf === undefined ? undefined : known) };
    }),
    ...ops.map((op) => ({ ...plannedOperation(op, ownerOf), ...explained(knownOf?.(op)) })),
  ];
}

function explained(known: KnownDifference | undefined): Pick<PlannedOperation, 'known'> {
  return known === undefined ? {} : { known };
}

function verdictOf(count: number, syncing: boolean): string {
  if (count === 0) return 'the kernel is as planned';
  const differs = `the kernel differs from the plan in ${counted(count, 'object')}`;
  return syncing ? `${differs}; a sync is writing, so ask again` : `${differs}; the next full check repairs it`;
}

/** Returns the operation as replies have it, with the Service that needs it. */
export function plannedOperation(
  op: Op,
  ownerOf: OwnerOf,
  commandOf: (op: Op) => string = toolCommand,
): PlannedOperation {
  const service = ownerOf(op);
  return { do: op.kind, command: commandOf(op), ...(service === undefined ? {} : { service }) };
}
