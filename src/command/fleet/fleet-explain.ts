import { mergeService } from '../../fleet/facts/merge-service.ts';
import { serviceFacts } from '../../fleet/facts/service-facts.ts';
import type { FleetServiceReply } from '../../fleet/fleet-replies.ts';
import { isAddress, serviceOf } from '../explain.ts';
import { wrapped } from '../output.ts';
import { UsageError } from '../usage-error.ts';
import type { Command } from '../command.ts';
import { groupedLines, propertyLines, silentLines } from './fleet-lines.ts';
import { FLEET_OPTIONS, Fleet } from './fleet-options.ts';

export const FLEET_EXPLAIN: Command = {
  usage: 'SERVICE | NAMESPACE/SERVICE [options]',
  summary: 'what a Service is on most nodes, and on which it is otherwise, and in what',
  options: {
    namespace: { short: 'n', hint: 'name', help: 'namespace of the Service; default by default' },
    ...FLEET_OPTIONS,
  },
  takes: 'arguments',
  run: async (given) => {
    const [target, ...more] = given.positionals;
    if (target === undefined || more.length > 0 || isAddress(target)) {
      throw new UsageError('explain of all nodes needs one Service: see fleet explain --help');
    }
    const { namespace, name } = serviceOf(target, given);
    const service = `${namespace}/${name}`;
    using fleet = await Fleet.find(given);
    const { answers, silent } = await fleet.ask({
      args: () => ['explain', service],
      kinds: ['Service'],
      read: serviceFacts,
    });
    const reply = mergeService(service, answers, silent);
    return { reply, lines: fleetServiceLines(reply) };
  },
};

function fleetServiceLines(reply: FleetServiceReply): string[] {
  const { verdict, usual, answered, silent, properties } = reply;
  return [
    ...wrapped(verdict),
    ...(usual === undefined ? [] : ['', ...wrapped(`${usual.nodes} of ${answered} say: ${usual.verdict}`)]),
    ...groupedLines(reply),
    ...silentLines(silent),
    ...propertyLines(properties),
  ];
}
