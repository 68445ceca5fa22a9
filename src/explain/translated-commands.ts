import { type IpFamily, familyOf, formatHostPort, formatIp } from '../base/ip.ts';
import { toolCommand } from '../state/commands/tool-command.ts';
import { formatIpSetEntry } from '../state/ip-set.ts';
import { nftTable } from '../state/nft-table.ts';
import { type EntryOp, type Op, formatOp } from '../state/op.ts';
import type { Endpoint } from '../state/real-server.ts';
import type { VirtualServerId } from '../state/virtual-server.ts';
import { settingsText } from './address-use.ts';
import { nftElement, nftServicePort, nftSetText } from './nft-text.ts';

/** How a mode that translates addresses names what an operation changes. */
interface Names {
  readonly program: (family: IpFamily) => string;
  readonly entryCommand: (verb: 'add' | 'delete', op: EntryOp) => string;
  /** What virtual servers are called, if anything. */
  readonly noun: string;
  readonly server: (id: VirtualServerId) => string;
  readonly endpoint: (endpoint: Endpoint) => string;
  readonly place: (preposition: 'to' | 'of' | 'from', family: IpFamily) => string;
}

const OF_NFT: Names = {
  program: () => 'nft',
  entryCommand: (verb, { set, entry }) =>
    `nft ${verb} element ${nftSetText(set.name, set.family)} { ${nftElement(entry)} }`,
  noun: 'service port ',
  server: nftServicePort,
  endpoint: ({ address, port }) => `${formatIp(address)} . ${port}`,
  place: (preposition, family) => ` ${preposition} ${nftTable(family)}`,
};

const OF_CHAINS: Names = {
  program: (family) => (family === 4 ? 'iptables-restore' : 'ip6tables-restore'),
  entryCommand: (verb, { set, entry }) =>
    `${OF_CHAINS.program(set.family)}: ${verb} the rules of ${set.name} ${formatIpSetEntry(entry)}`,
  noun: '',
  server: ({ address, protocol, port }) => `${protocol.toLowerCase()} ${formatHostPort(address, port)}`,
  endpoint: ({ address, port }) => formatHostPort(address, port),
  place: () => '',
};

/**
 * Returns what this change does to a table of nf_tables: a command of nft if it is one element, else words. The map and the
 * index of an endpoint are known only when it is written, and the chain to which a service port leads depends on their number.
 */
export function nftCommand(op: Op): string {
  return commandOf(op, OF_NFT);
}

/**
 * Returns in words what this change does to the chains of iptables mode. Which rules it writes depends on the other addresses and
 * endpoints of the Service.
 */
export function chainsCommand(op: Op): string {
  return commandOf(op, OF_CHAINS);
}

function commandOf(op: Op, { program, entryCommand, noun, server, endpoint, place }: Names): string {
  if ('entry' in op) return entryCommand(op.kind === 'add-entry' ? 'add' : 'delete', op);
  // Never planned in these modes.
  if (!('virtualServer' in op || 'id' in op)) return toolCommand(op);
  const id = 'virtualServer' in op ? op.virtualServer : op.id;
  const family = familyOf(id.address);
  const start = `${program(family)}:`;
  switch (op.kind) {
    case 'add-virtual-server':
      return `${start} add ${noun}${server(id)}${place('to', family)}`;
    case 'edit-virtual-server': {
      const { list } = op.virtualServer;
      const text = `${start} change ${noun}${server(id)}${place('of', family)} to ${settingsText(op.virtualServer)}`;
      return list === undefined ? text : `${text}, and its endpoints to those of ${server(list)}`;
    }
    case 'delete-virtual-server':
      return `${start} delete ${noun}${server(id)}${place('from', family)}`;
    case 'add-real-server':
    case 'edit-real-server':
    case 'delete-real-server': {
      const isAdded = op.kind !== 'delete-real-server' && op.realServer.weight > 0;
      const [verb, preposition] = isAdded ? (['add', 'to'] as const) : (['delete', 'from'] as const);
      return `${start} ${verb} ${server(id)} -> ${endpoint(op.realServer)}${place(preposition, family)}`;
    }
  }
}

/** Returns what this change does in userspace mode: endpoints are known to the engine alone, all else is in a table. */
export function engineCommand(op: Op): string {
  return 'realServer' in op ? `engine: ${formatOp(op)}` : nftCommand(op);
}
