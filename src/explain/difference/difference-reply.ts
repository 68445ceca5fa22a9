import { counted } from '../../base/text/counted.ts';
import type { NamespacedName } from '../../base/service/names.ts';
import type { KnownDifference } from '../../state/rules/known-difference.ts';
import type { Op } from '../../state/op.ts';
import type { PreviewCommand } from '../../state/commands/write-preview.ts';
import type { RuleDifference } from '../../state/rules/rule-set.ts';
import { shadowText, shadowWords } from './difference-tally.ts';
import { REPLY_API_VERSION, type DifferenceReply, type PlannedOperation } from '../replies.ts';

/** The commands for one Service or, if it is undefined, for the node itself. */
export interface OwnedCommands {
  readonly service: NamespacedName | undefined;
  readonly commands: readonly PreviewCommand[];
}

/** What was read about the kernel (see readDifference in src/reconcile). */
export interface FoundDifference extends FoundOperations {
  /** The number of operations beyond those of `parts`. */
  readonly more: number;
  /** Settings that stop packets of Services but are never changed, in sentences. */
  readonly notes: readonly string[];
}

export interface FoundOperations {
  /** The commands that make the operations, by owner. */
  readonly parts: readonly OwnedCommands[];
  readonly rules: readonly RuleDifference[];
  /** The commands by which sysctls and IPVS timeouts differ. */
  readonly settings: readonly string[];
  /** With --dry-run: the difference from kube-proxy that explains an operation. */
  readonly knownOf?: (op: Op) => KnownDifference | undefined;
}

export function differenceReply(node: string, found: FoundDifference, syncing: boolean): DifferenceReply {
  const operations = differingOperations(found);
  const withoutCommands = found.parts.filter(({ commands }) => commands.length === 0);
  const count = operations.length + found.more + withoutCommands.length;
  const { more } = found;
  const notes = [...found.notes, ...withoutCommands.map(noCommandNote)];
  const reply = { apiVersion: REPLY_API_VERSION, kind: 'Difference', node, syncing, operations, more, notes } as const;
  if (found.knownOf === undefined) return { ...reply, ok: count === 0, verdict: verdictOf(count, syncing) };
  const shadow = shadowText(operations, found.more);
  const verdict = `the kernel against the plan of this dry run: ${shadowWords(shadow)}`;
  return { ...reply, ok: shadow.unexpected === 0, verdict, shadow };
}

/** Returns everything that differs, as replies have it. */
export function differingOperations(found: FoundOperations): PlannedOperation[] {
  const { parts, rules, settings, knownOf } = found;
  return [
    ...settings.map((command): PlannedOperation => ({ do: 'write-setting', command })),
    ...rules.map(({ command, known }): PlannedOperation => {
      return { do: 'write-rule', command, ...explained(knownOf && known) };
    }),
    ...plannedOperations(parts, knownOf),
  ];
}

function explained(known: KnownDifference | undefined): Pick<PlannedOperation, 'known'> {
  return known === undefined ? {} : { known };
}

function noCommandNote({ service }: OwnedCommands): string {
  return `${service ?? 'this node'} differs in something for which no command is known; the next full check repairs it, or its log says why not`;
}

function verdictOf(count: number, syncing: boolean): string {
  if (count === 0) return 'the kernel is as planned';
  const differs = `the kernel differs from the plan in ${counted(count, 'object')}`;
  return syncing ? `${differs}; a sync is writing, so ask again` : `${differs}; the next full check repairs it`;
}

/** Returns the operations as replies have them. */
function plannedOperations(parts: readonly OwnedCommands[], knownOf: FoundOperations['knownOf']): PlannedOperation[] {
  return parts.flatMap(({ service, commands }) =>
    commands.map(({ command, op, known }): PlannedOperation => ({
      do: op?.kind ?? (service === undefined ? 'write-node' : 'write-service'),
      command,
      ...(service === undefined ? {} : { service }),
      ...explained(op === undefined ? knownOf && known : knownOf?.(op)),
    })),
  );
}
