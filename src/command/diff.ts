import { compareText } from '../base/text/compare-text.ts';
import type { DifferenceReply, PlannedOperation } from '../explain/replies.ts';
import { askDaemon } from './ask.ts';
import { wrapped } from './output.ts';
import type { Command } from './command.ts';

export const DIFF: Command = {
  usage: '[options]',
  summary: 'the kernel against the plan, as the commands that would make it so; writes nothing',
  options: {},
  run: async ({ querySocket }) => {
    const reply = await askDaemon<DifferenceReply>('diff', querySocket, '/v1/diff');
    return { reply, lines: differenceLines(reply) };
  },
};

/** A dry run lists known differences after the others. */
export function differenceLines({ verdict, operations, more, notes }: DifferenceReply): string[] {
  const [unexpected, known] = [false, true].map((wanted) =>
    operations.filter((operation) => (operation.known !== undefined) === wanted),
  );
  return [
    ...wrapped(verdict),
    ...notes.flatMap((note) => wrapped(`note: ${note}`)),
    ...commandLines(unexpected ?? []),
    ...(more === 0 ? [] : ['', `and ${more} more`]),
    ...knownLines(known ?? []),
  ];
}

function knownLines(operations: readonly PlannedOperation[]): string[] {
  const groups = Map.groupBy(operations, ({ known = '' }) => known);
  return Array.from(groups)
    .toSorted(([a], [b]) => compareText(a, b))
    .flatMap(([name, group]) => ['', `# known: ${name}`, ...group.flatMap(linesOf)]);
}

/** Returns the commands below the name of the Service that needs them, those of the node itself first. */
export function commandLines(operations: readonly PlannedOperation[]): string[] {
  const groups = Map.groupBy(operations, ({ service }) => service ?? '');
  return Array.from(groups)
    .toSorted(([a], [b]) => compareText(a, b))
    .flatMap(([service, group]) => ['', `# ${service || 'the node'}`, ...group.flatMap(linesOf)]);
}

/** A command may have lines of input. */
function linesOf({ command }: PlannedOperation): string[] {
  return command.split('\n');
}
