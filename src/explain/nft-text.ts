import { type IpFamily, formatIp } from '../base/ip.ts';
import type { IpSetEntry } from '../state/ip-set.ts';
import { nftSetName } from '../state/nft-set-name.ts';
import { nftTable } from '../state/nft-table.ts';
import type { VirtualServerId } from '../state/virtual-server.ts';

/** Returns the set that the plan knows as an ipset, as `nft list set` takes it. */
export function nftSetText(ipset: string, family: IpFamily): string {
  return `${nftTable(family)} ${nftSetName(ipset)}`;
}

export function nftElement(entry: IpSetEntry): string {
  switch (entry.type) {
    case 'bitmap:port':
      return String(entry.port);
    case 'hash:ip':
      return formatIp(entry.address);
    case 'hash:ip,port':
      return nftServicePort(entry);
    case 'hash:ip,port,ip':
      return `${nftServicePort(entry)} . ${formatIp(entry.address2)}`;
    case 'hash:ip,port,net': {
      const { address, prefix } = entry.network;
      return `${nftServicePort(entry)} . ${formatIp(address)} . 0x${prefix.toString(16).padStart(8, '0')}`;
    }
  }
}

/** Returns a virtual server as nft lists it in the key of an element. */
export function nftServicePort({ address, protocol, port }: VirtualServerId): string {
  return `${formatIp(address)} . ${protocol.toLowerCase()} . ${port}`;
}
