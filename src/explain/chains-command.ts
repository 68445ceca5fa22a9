import { type IpFamily, familyOf, formatHostPort } from '../base/ip.ts';
import { formatIpSetEntry } from '../state/ip-set.ts';
import type { Op } from '../state/op.ts';
import { toolCommand } from '../state/commands/tool-command.ts';
import type { VirtualServerId } from '../state/virtual-server.ts';
import { settingsText } from './address-use.ts';

/**
 * Returns in words what this change does to the chains of iptables mode. Which rules it writes depends on the other addresses and
 * endpoints of the Service.
 */
export function chainsCommand(op: Op): string {
  switch (op.kind) {
    case 'add-entry':
    case 'delete-entry': {
      const verb = op.kind === 'add-entry' ? 'add' : 'delete';
      return `${restore(op.set.family)}: ${verb} the rules of ${op.set.name} ${formatIpSetEntry(op.entry)}`;
    }
    case 'add-virtual-server':
      return `${programOf(op.virtualServer)}: add ${servicePort(op.virtualServer)}`;
    case 'edit-virtual-server': {
      const { virtualServer } = op;
      return `${programOf(virtualServer)}: change ${servicePort(virtualServer)} to ${settingsText(virtualServer)}`;
    }
    case 'delete-virtual-server':
      return `${programOf(op.id)}: delete ${servicePort(op.id)}`;
    case 'add-real-server':
    case 'edit-real-server':
    case 'delete-real-server': {
      const { id, realServer } = op;
      const verb = op.kind === 'delete-real-server' || realServer.weight === 0 ? 'delete' : 'add';
      return `${programOf(id)}: ${verb} ${servicePort(id)} -> ${formatHostPort(realServer.address, realServer.port)}`;
    }
    // Never planned in iptables mode.
    case 'create-set':
    case 'grow-set':
    case 'destroy-set':
    case 'bind-address':
    case 'unbind-address':
    case 'add-route':
    case 'delete-route':
      return toolCommand(op);
  }
}

function restore(family: IpFamily): string {
  return family === 4 ? 'iptables-restore' : 'ip6tables-restore';
}

function programOf({ address }: VirtualServerId): string {
  return restore(familyOf(address));
}

function servicePort({ address, protocol, port }: VirtualServerId): string {
  return `${protocol.toLowerCase()} ${formatHostPort(address, port)}`;
}
