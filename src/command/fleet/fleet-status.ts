import { mergeStatus } from '../../fleet/facts/merge-status.ts';
import { statusFacts } from '../../fleet/facts/status-facts.ts';
import type { FleetStatusReply } from '../../fleet/fleet-replies.ts';
import { wrapped } from '../output.ts';
import type { Command } from '../command.ts';
import { differingLines, propertyLines, section, silentLines } from './fleet-lines.ts';
import { FLEET_OPTIONS, Fleet } from './fleet-options.ts';

export const FLEET_STATUS: Command = {
  usage: '[options]',
  summary: 'which nodes differ from the others, are not as wanted or do not answer, and how many are alike',
  options: FLEET_OPTIONS,
  run: async (given) => {
    using fleet = await Fleet.find(given);
    const { answers, silent } = await fleet.ask({
      args: () => ['status'],
      kinds: ['Status', 'KernelStatus'],
      read: statusFacts,
    });
    const reply = mergeStatus(answers, silent, fleet.withoutPod);
    return { reply, lines: fleetStatusLines(reply) };
  },
};

export function fleetStatusLines(reply: FleetStatusReply): string[] {
  return [
    ...wrapped(reply.verdict),
    ...differingLines(reply),
    ...silentLines(reply.silent),
    ...section(
      `nodes without a Pod of kube-ipvs-proxy (${reply.withoutPod.length})`,
      reply.withoutPod.length === 0 ? [] : wrapped(`  ${reply.withoutPod.join(' ')}`),
    ),
    ...propertyLines(reply.properties),
  ];
}
