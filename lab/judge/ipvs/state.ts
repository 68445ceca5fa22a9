import type { CaseFlow } from '../case/case.ts';
import type { Facts } from '../compare.ts';

/** The kernel, and the health check ports, after a step: as upstream/ipvs.go writes it. */
export interface IpvsState {
  /** By "TCP 10.96.0.1:80". Flags are those of linux/ip_vs.h, without IP_VS_SVC_F_HASHED. */
  readonly virtualServers: Readonly<Record<string, VirtualServerState>>;
  readonly sets: Readonly<Record<string, readonly string[]>>;
  /** Those of kube-ipvs0. */
  readonly addresses: readonly string[];
  /** By "IPv4 default/name". */
  readonly healthChecks: Readonly<Record<string, { readonly port: number; readonly count: number }>>;
  /** The flows that the sync deleted. */
  readonly deletedFlows: readonly CaseFlow[] | null;
}

export interface VirtualServerState {
  readonly scheduler: string;
  readonly flags: number;
  /** Seconds; 0 without persistence. */
  readonly timeout: number;
  /** Weights by "10.244.0.1:8080". */
  readonly realServers: Readonly<Record<string, number>>;
}

/** A state as single facts, so that each can be compared alone. */
export function factsOf(state: IpvsState): Facts {
  const facts = new Map<string, string>();
  for (const [at, { scheduler, flags, timeout, realServers }] of Object.entries(state.virtualServers)) {
    const servers = Object.entries(realServers).map(([server, weight]) => `${server} weight=${weight}`);
    const settings = `${scheduler} flags=${flags} timeout=${timeout}`;
    facts.set(`virtual server ${at}`, `${settings} -> ${servers.toSorted().join(', ')}`);
  }
  for (const [set, entries] of Object.entries(state.sets)) {
    // The kernel has no prefix length of a single address.
    for (const entry of entries) facts.set(`entry ${set} ${withoutHostPrefix(entry)}`, 'present');
  }
  for (const address of state.addresses) facts.set(`address ${address}`, 'bound');
  for (const [name, { port, count }] of Object.entries(state.healthChecks)) {
    facts.set(`health check ${name}`, `port ${port}: ${count}`);
  }
  for (const flow of state.deletedFlows ?? []) facts.set(`flow ${flowText(flow)}`, 'deleted');
  return facts;
}

function flowText(flow: CaseFlow): string {
  const { source, sourcePort, destination, destinationPort, replySource, replySourcePort } = flow;
  return `${source}:${sourcePort} -> [${destination}]:${destinationPort} by [${replySource}]:${replySourcePort}`;
}

function withoutHostPrefix(entry: string): string {
  return entry.replace(/(,[0-9.]+)\/32$|(,[0-9a-f:.]+)\/128$/, '$1$2');
}
