import { firstFew } from '../base/text/first-few.ts';
import type { IpFamily } from '../base/ip.ts';
import type { ProxyMode } from '../base/proxy-mode.ts';
import { type IpSet, type IpSetEntry, formatIpSetEntry } from '../state/ip-set.ts';
import { type Op, formatOp } from '../state/op.ts';
import { nftElement, nftSetText } from './nft-text.ts';
import { nftTable } from '../state/nft-table.ts';
import { toolCommand } from '../state/commands/tool-command.ts';

/** The words for a mode's kernel objects: those of the mode's own tools. */
export interface Words {
  /** The command that makes this change or, where one depends on the rest of a table, the operation as the log has it. */
  readonly command: (op: Op) => string;
  readonly set: (set: Pick<IpSet, 'name' | 'family'>) => string;
  readonly entry: (entry: IpSetEntry) => string;
  /** Texts for an address and port that nobody has, that the kernel lacks, and that no Service needs. */
  readonly address: { readonly nobodys: string; readonly missing: string; readonly leftover: string };
  /** The nouns for an address, protocol and port that is served, and for a server of it. */
  readonly served: string;
  readonly serving: string;
  /** Whether the kernel counts the connections of each endpoint, and endpoints have weights. */
  readonly countsConnections: boolean;
  /** The command that creates kube-ipvs0 or a table again. */
  readonly deviceMade: string;
  /** The command that restores these chains. */
  readonly rulesRestored: (family: IpFamily, chains: readonly string[]) => string;
}

const IPVS: Words = {
  command: toolCommand,
  set: ({ name }) => name,
  entry: formatIpSetEntry,
  address: {
    nobodys: "is nobody's: no Service and no virtual server of this node has it",
    missing: 'but the kernel has no virtual server there',
    leftover: 'is a virtual server that no Service needs: the next full check deletes it',
  },
  served: 'virtual server',
  serving: 'real server',
  countsConnections: true,
  deviceMade: 'ip link add kube-ipvs0 type dummy',
  rulesRestored: (family, chains) =>
    `${family === 4 ? 'iptables-restore' : 'ip6tables-restore'}: ${firstFew(chains).join(', ')}`,
};

const NFTABLES: Words = {
  command: (op) =>
    'entry' in op ? `${op.kind} ${nftSetText(op.set.name, op.set.family)} ${nftElement(op.entry)}` : formatOp(op),
  set: ({ name, family }) => nftSetText(name, family),
  entry: nftElement,
  address: {
    nobodys: "is nobody's: no Service and no service port of this node has it",
    missing: 'but the kernel has no service port there',
    leftover: 'is a service port that no Service needs: the next full check deletes it',
  },
  served: 'service port',
  serving: 'endpoint',
  countsConnections: false,
  deviceMade: 'nft: add a table kube-proxy that was deleted',
  rulesRestored: (family, chains) => `nft: restore chains of ${nftTable(family)}: ${firstFew(chains).join(', ')}`,
};

const IPTABLES: Words = {
  ...IPVS,
  command: formatOp,
  address: NFTABLES.address,
  served: NFTABLES.served,
  serving: NFTABLES.serving,
  countsConnections: false,
};

const MODES: Readonly<Record<ProxyMode, Words>> = {
  ipvs: IPVS,
  nftables: NFTABLES,
  iptables: IPTABLES,
  userspace: NFTABLES,
};

export function wordsOf(mode: ProxyMode): Words {
  return MODES[mode];
}
