import { mergeTop, topFacts } from '../../fleet/facts/merge-top.ts';
import type { Command } from '../command.ts';
import { TOP, topOptionsOf } from '../top/top.ts';
import { tableLines } from '../top/top-lines.ts';
import { rowOrder } from '../top/top-reply.ts';
import { silentLines } from './fleet-lines.ts';
import { FLEET_OPTIONS, Fleet } from './fleet-options.ts';

const { count: _count, ...OPTIONS } = TOP.options;

export const FLEET_TOP: Command = {
  usage: '[options]',
  summary: 'the traffic of each Service now, added up over all nodes',
  options: { ...OPTIONS, ...FLEET_OPTIONS },
  run: async (given) => {
    const { by, sort, intervalMs } = topOptionsOf(given);
    const { namespace } = given.values;
    const seconds = intervalMs / 1000;
    const args = ['top', `--by=${by}`, `--interval=${seconds}`, ...(namespace === undefined ? [] : ['-n', namespace])];
    using fleet = await Fleet.find(given);
    const { answers, silent } = await fleet.ask({ args: () => args, kinds: ['Top'], read: topFacts }, seconds);
    const reply = mergeTop(by, rowOrder(sort), answers, silent);
    return { reply, lines: [...tableLines(reply), ...silentLines(silent)] };
  },
};
