import type { IpsetEntry } from '../../netlink/family/ipset/entry.ts';
import { isIp4 } from '../../base/ip.ts';
import { toPort } from '../../base/port.ts';
import { PROTOCOL_NUMBER, protocolFromNumber } from '../../base/protocol.ts';
import type { IpSetEntry, IpSetType } from '../../state/ip-set.ts';

/** Returns the entry in the form of its netlink message. */
export function encodableEntry(entry: IpSetEntry): IpsetEntry {
  if (!('protocol' in entry)) return entry;
  const protocol = PROTOCOL_NUMBER[entry.protocol];
  if (!('network' in entry)) return { ...entry, protocol };
  const { address, port, network } = entry;
  return { address, port, protocol, address2: network.address, prefix2: network.prefix };
}

/** Returns undefined for entries of other programs that no Service can request, such as port 0 or another protocol. */
export function observedEntry(type: IpSetType, entry: IpsetEntry): IpSetEntry | undefined {
  const { address, address2, prefix2 } = entry;
  const port = toPort(entry.port);
  if (type === 'bitmap:port') return port === undefined ? undefined : { type, port };
  if (address === undefined) return undefined;
  if (type === 'hash:ip') return { type, address };
  const protocol = protocolFromNumber(entry.protocol ?? 0);
  if (port === undefined || protocol === undefined) return undefined;
  if (type === 'hash:ip,port') return { type, address, protocol, port };
  if (address2 === undefined) return undefined;
  if (type === 'hash:ip,port,ip') return { type, address, protocol, port, address2 };
  const network = { address: address2, prefix: prefix2 ?? (isIp4(address2) ? 32 : 128) };
  return { type, address, protocol, port, network };
}
