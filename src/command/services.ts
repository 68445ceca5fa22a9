import type { ServiceRow, ServicesReply } from '../explain/node/node-replies.ts';
import { askDaemon } from './ask.ts';
import { aligned, wrapped } from './output.ts';
import type { Command } from './command.ts';

export const SERVICES: Command = {
  usage: '[options]',
  summary: 'the Services of this node: endpoints used, connections, and problems, those with problems first',
  options: { namespace: { short: 'n', hint: 'name', help: 'only Services of this namespace' } },
  run: async ({ querySocket, values: { namespace } }) => {
    const query = new URLSearchParams(namespace === undefined ? {} : { namespace });
    const reply = await askDaemon<ServicesReply>('services', querySocket, `/v1/services?${query.toString()}`);
    return { reply, lines: servicesLines(reply) };
  },
};

function servicesLines({ verdict, rows, more }: ServicesReply): string[] {
  const cells = rows.map(({ problems, ...row }) => [...serviceCells(row), problems.join('; ')]);
  return [
    ...wrapped(verdict),
    '',
    ...aligned([[...SERVICE_HEADS, 'problems'], ...cells]),
    ...(more === 0 ? [] : ['', `and ${more} more without a problem`]),
  ];
}

export const SERVICE_HEADS = ['service', 'endpoints', 'active', 'inactive'];

export function serviceCells(row: Omit<ServiceRow, 'problems'>): string[] {
  const { service, endpoints, activeConnections = '-', inactiveConnections = '-' } = row;
  return [service, String(endpoints), String(activeConnections), String(inactiveConnections)];
}
