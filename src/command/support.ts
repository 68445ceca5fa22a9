import type { SupportReply } from '../explain/node/node-replies.ts';
import { askDaemon } from './ask.ts';
import { wrapped } from './output.ts';
import type { Command } from './command.ts';

export const SUPPORT: Command = {
  usage: '[options]',
  summary:
    'what a support archive has of this node: configuration, flags, metrics, virtual servers and sets; with -o json, all of it',
  options: {},
  run: async ({ querySocket }) => {
    const reply = await askDaemon<SupportReply>('support', querySocket, '/v1/support');
    const { virtualServers, sets, addresses } = reply;
    const counts = `${virtualServers.count} virtual servers, ${sets.length} sets, ${addresses.length} bound addresses`;
    return { reply, lines: wrapped(`${reply.verdict}: ${counts}; -o json or -o yaml prints them`) };
  },
};
