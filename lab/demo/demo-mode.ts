import type { Namespace } from '../../test/bed/namespace.ts';
import { TEST_MODE } from '../../test/support/mode.ts';

/** What the demo shows otherwise in each mode: how the kernel is looked at, and what clean-up must not leave. */
export interface DemoMode {
  readonly flags: readonly string[];
  /** The commands that list what is programmed. */
  readonly listing: readonly (readonly string[])[];
  /** How an endpoint is noticed. Each run of nft takes a while. */
  readonly noticed: string;
  /** What the listing must contain, in words and as text. */
  readonly served: { readonly claim: string; readonly text: string };
  /** Whether the traffic of endpoints is counted. */
  readonly hasCounters: boolean;
  /** How the daemon ends before it is started again: killed, connections of the userspace engine would be refused. */
  readonly ends: 'SIGKILL' | 'SIGTERM';
  /** What has to be empty after clean-up, and the lines of it that count. */
  readonly leftovers: Readonly<Record<string, { readonly argv: readonly string[]; readonly ours: RegExp }>>;
}

const OF_RULES = /KUBE-|kube-ipvs0/;

const IPVS: DemoMode = {
  flags: ['--ipvs-scheduler=lc'],
  listing: [['ipvsadm', '-Ln']],
  noticed: 'in the kernel',
  served: {
    claim: 'virtual servers with scheduler lc for ClusterIP, external IP and NodePort',
    text: '10.202.0.10:80 lc',
  },
  hasCounters: true,
  ends: 'SIGKILL',
  leftovers: {
    'virtual servers': { argv: ['ipvsadm', '-Sn'], ours: /./ },
    ipsets: { argv: ['ipset', 'save'], ours: /./ },
    'iptables rules': { argv: ['iptables-save'], ours: OF_RULES },
    'ip6tables rules': { argv: ['ip6tables-save'], ours: OF_RULES },
    devices: { argv: ['ip', '-o', 'link'], ours: OF_RULES },
  },
};

const NFTABLES: DemoMode = {
  flags: ['--proxy-mode=nftables'],
  listing: ['service-ips', 'service-endpoints'].map((map) => ['nft', 'list', 'map', 'ip', 'kube-proxy', map]),
  noticed: 'listed by nft',
  served: {
    claim: 'the ClusterIP leads to the choice of one of two endpoints',
    text: '10.202.0.10 . tcp . 80 : goto choose-2',
  },
  hasCounters: false,
  ends: 'SIGKILL',
  leftovers: { 'tables of nf_tables': { argv: ['nft', 'list', 'tables'], ours: /kube-proxy/ } },
};

const IPTABLES: DemoMode = {
  flags: ['--proxy-mode=iptables'],
  listing: [['iptables', '-t', 'nat', '-S', 'KUBE-SERVICES']],
  noticed: 'in the chains',
  served: {
    claim: 'the ClusterIP leads to a chain of its Service, which has the name that kube-proxy gives it',
    text: '-d 10.202.0.10/32 -p tcp -m comment --comment "default/web',
  },
  hasCounters: false,
  ends: 'SIGKILL',
  leftovers: {
    'iptables rules': { argv: ['iptables-save'], ours: OF_RULES },
    'ip6tables rules': { argv: ['ip6tables-save'], ours: OF_RULES },
  },
};

const USERSPACE: DemoMode = {
  ...NFTABLES,
  flags: ['--proxy-mode=userspace'],
  noticed: 'known to the engine',
  served: {
    claim: 'the ClusterIP leads to the port of the engine',
    text: '10.202.0.10 . tcp . 80 : goto choose-1',
  },
  hasCounters: true,
  ends: 'SIGTERM',
};

export const DEMO_MODE = { ipvs: IPVS, nftables: NFTABLES, iptables: IPTABLES, userspace: USERSPACE }[TEST_MODE];

/** Returns what the commands print that list what is programmed. */
export async function listKernel(node: Namespace): Promise<string> {
  const results = await Promise.all(DEMO_MODE.listing.map((argv) => node.exec(argv)));
  return results.map(({ stdout }) => stdout).join('');
}
