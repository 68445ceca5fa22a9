import type { IpFamily } from '../../base/ip.ts';
import { nftTable } from '../../state/nft-table.ts';
import type { NftMessage } from './nft-message.ts';

/** Returns a change as an nft command, without its details. */
export function messageText(message: NftMessage, family: IpFamily): string {
  const table = nftTable(family);
  switch (message.kind) {
    case 'new-table':
      return `nft add table ${table}`;
    case 'delete-table':
      return `nft delete table ${table}`;
    case 'new-set':
      return `nft add set ${table} ${message.set.name}`;
    case 'delete-set':
      return `nft delete set ${table} ${message.name}`;
    case 'new-chain':
      return `nft add chain ${table} ${message.chain.name}`;
    case 'delete-chain':
      return `nft delete chain ${table} ${message.name}`;
    case 'flush-chain':
      return `nft flush chain ${table} ${message.name}`;
    case 'new-rule':
      return `nft add rule ${table} ${message.chain} (${message.expressions.map(({ name }) => name).join(' ')})`;
    case 'new-elements':
      return `nft add element ${table} ${message.set} (${message.elements.size})`;
    case 'delete-elements':
      return `nft delete element ${table} ${message.set} (${message.elements.size})`;
  }
}
