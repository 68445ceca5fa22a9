import type { KnownDifference } from '../rules/known-difference.ts';
import type { Op } from '../op.ts';
import type { RuleDifference } from '../rules/rule-set.ts';
import { toolCommand } from './tool-command.ts';

/** The commands of a change: run by a shell in this order, they make it. */
export interface Preview {
  readonly rules: readonly RuleDifference[];
  /** The commands of each part of the change. */
  readonly parts: readonly (readonly PreviewCommand[])[];
}

export interface PreviewCommand {
  readonly command: string;
  /** Absent if the command makes more than one operation. */
  readonly op?: Op;
  /** The difference from kube-proxy that explains a command without an operation; absent if none does. */
  readonly known?: KnownDifference;
}

export function withInput(program: string, lines: string): string {
  return `${program} <<'END'\n${lines}${lines.endsWith('\n') ? '' : '\n'}END`;
}

/** Returns the commands of ipvs mode: one for each operation. */
export function toolCommands(ops: readonly Op[]): readonly PreviewCommand[] {
  return ops.map((op) => ({ command: toolCommand(op), op }));
}
