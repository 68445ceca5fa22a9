import { counted } from '../base/text/counted.ts';
import { type IpFamily, familyOf, formatIp } from '../base/ip.ts';
import { settingsText } from './address-use.ts';
import type { IpSetEntry } from '../state/ip-set.ts';
import { nftSetName } from '../state/nft-set-name.ts';
import { nftTable } from '../state/nft-table.ts';
import type { Op } from '../state/op.ts';
import type { RealServer } from '../state/real-server.ts';
import type { VirtualServerId } from '../state/virtual-server.ts';
import { toolCommand } from '../state/commands/tool-command.ts';

/**
 * Returns what this change does to a table of nf_tables: a command of nft if it is one element, else words. The map and the
 * index of an endpoint are known only when it is written, and the chain to which a service port leads depends on their number.
 */
export function nftCommand(op: Op): string {
  switch (op.kind) {
    case 'add-entry':
    case 'delete-entry': {
      const verb = op.kind === 'add-entry' ? 'add' : 'delete';
      return `nft ${verb} element ${nftSetText(op.set.name, op.set.family)} { ${nftElement(op.entry)} }`;
    }
    case 'create-set':
      return `nft: add set ${nftSetText(op.set.name, op.set.family)}`;
    case 'grow-set':
      return `nft: add ${counted(op.entries.length, 'element')} to ${nftSetText(op.set.name, op.set.family)}`;
    case 'destroy-set':
      return `nft: delete set ${nftSetText(op.set.name, op.set.family)}`;
    case 'add-virtual-server':
      return `nft: add service port ${servicePort(op.virtualServer)} to ${tableOf(op.virtualServer)}`;
    case 'edit-virtual-server': {
      const { virtualServer } = op;
      const { list } = virtualServer;
      const text = `nft: change service port ${servicePort(virtualServer)} of ${tableOf(virtualServer)} to ${settingsText(virtualServer)}`;
      return list === undefined ? text : `${text}, and its endpoints to those of ${servicePort(list)}`;
    }
    case 'delete-virtual-server':
      return `nft: delete service port ${servicePort(op.id)} from ${tableOf(op.id)}`;
    case 'add-real-server':
    case 'edit-real-server':
    case 'delete-real-server': {
      const { id, realServer } = op;
      const verb = op.kind === 'delete-real-server' || realServer.weight === 0 ? 'delete' : 'add';
      const preposition = verb === 'add' ? 'to' : 'from';
      return `nft: ${verb} ${servicePort(id)} -> ${endpoint(realServer)} ${preposition} ${tableOf(id)}`;
    }
    // Never planned in nftables mode.
    case 'bind-address':
    case 'unbind-address':
    case 'add-route':
    case 'delete-route':
      return toolCommand(op);
  }
}

/** Returns the set that the plan knows as an ipset, as `nft list set` takes it. */
export function nftSetText(ipset: string, family: IpFamily): string {
  return `${nftTable(family)} ${nftSetName(ipset)}`;
}

/** Returns the entry as nft lists it. */
export function nftElement(entry: IpSetEntry): string {
  switch (entry.type) {
    case 'bitmap:port':
      return String(entry.port);
    case 'hash:ip':
      return formatIp(entry.address);
    case 'hash:ip,port':
      return servicePort(entry);
    case 'hash:ip,port,ip':
      return `${servicePort(entry)} . ${formatIp(entry.address2)}`;
    case 'hash:ip,port,net': {
      const { address, prefix } = entry.network;
      return `${servicePort(entry)} . ${formatIp(address)} . 0x${prefix.toString(16).padStart(8, '0')}`;
    }
  }
}

function servicePort({ address, protocol, port }: VirtualServerId): string {
  return `${formatIp(address)} . ${protocol.toLowerCase()} . ${port}`;
}

function endpoint({ address, port }: RealServer): string {
  return `${formatIp(address)} . ${port}`;
}

function tableOf({ address }: VirtualServerId): string {
  return nftTable(familyOf(address));
}
