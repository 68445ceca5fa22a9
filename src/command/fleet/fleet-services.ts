import { counted } from '../../base/text/counted.ts';
import type { ServicesReply } from '../../explain/node/node-replies.ts';
import { ServicesTally } from '../../fleet/facts/services-tally.ts';
import type { FleetServiceRow, FleetServicesReply } from '../../fleet/fleet-replies.ts';
import type { Older } from '../../fleet/older.ts';
import { aligned, wrapped } from '../output.ts';
import { SERVICES, SERVICE_HEADS, serviceCells } from '../services.ts';
import type { Command } from '../command.ts';
import { silentLines } from './fleet-lines.ts';
import { FLEET_OPTIONS, Fleet } from './fleet-options.ts';

export const FLEET_SERVICES: Command = {
  usage: '[options]',
  summary: 'the Services of all nodes: endpoints that most nodes use, connections of all, and problems, these first',
  options: { ...SERVICES.options, ...FLEET_OPTIONS },
  run: async (given) => {
    const { namespace } = given.values;
    using fleet = await Fleet.find(given);
    const tally = new ServicesTally();
    const { silent } = await fleet.ask({
      args: () => ['services', ...(namespace === undefined ? [] : ['-n', namespace])],
      kinds: ['Services'],
      read: (_node, reply: Older<ServicesReply>) => tally.add(reply),
    });
    const reply = tally.reply(silent);
    return { reply, lines: fleetServicesLines(reply) };
  },
};

function fleetServicesLines({ verdict, rows, more, silent }: FleetServicesReply): string[] {
  return [
    ...wrapped(verdict),
    '',
    ...aligned([[...SERVICE_HEADS, 'otherwise on', 'problems'], ...rows.map(cellsOf)]),
    ...(more === 0 ? [] : ['', `and ${more} more of one node, without a problem`]),
    ...silentLines(silent),
  ];
}

function cellsOf({ otherwise, problems, ...row }: FleetServiceRow): string[] {
  const texts = problems.map(({ problem, nodes }) => `${problem} (${counted(nodes, 'node')})`);
  return [...serviceCells(row), otherwise === 0 ? '-' : counted(otherwise, 'node'), texts.join('; ')];
}
