import { differenceFacts, mergeDifference } from '../../fleet/facts/merge-difference.ts';
import { wrapped } from '../output.ts';
import type { Command } from '../command.ts';
import { groupedLines, silentLines } from './fleet-lines.ts';
import { FLEET_OPTIONS, Fleet } from './fleet-options.ts';

export const FLEET_DIFF: Command = {
  usage: '[options]',
  summary: 'on which nodes the kernel differs from the plan, and the first of the commands that would make it so',
  options: FLEET_OPTIONS,
  run: async (given) => {
    using fleet = await Fleet.find(given);
    const { answers, silent } = await fleet.ask({ args: () => ['diff'], kinds: ['Difference'], read: differenceFacts });
    const reply = mergeDifference(answers, silent);
    return { reply, lines: [...wrapped(reply.verdict), ...groupedLines(reply), ...silentLines(reply.silent)] };
  },
};
