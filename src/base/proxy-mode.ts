/** How Services are programmed (docs/modes.md). */
export type ProxyMode = 'ipvs' | 'nftables' | 'iptables' | 'userspace';

/** What the rest of the program needs to know of a mode: it asks for a fact, and never which mode it is. */
export interface ModeFacts {
  /**
   * Whether IPVS forwards service traffic: it has schedulers, weights, timeouts and sysctls of its own, and counts
   * connections and traffic.
   */
  readonly hasIpvs: boolean;
  /** Whether service addresses are bound to kube-ipvs0. */
  readonly bindsAddresses: boolean;
  /** Whether every virtual server found belongs to this program. IPVS may also have some of other programs. */
  readonly ownsAll: boolean;
  /** Whether rules, set entries and virtual servers come into force together, so that none has to wait for another. */
  readonly appliesTogether: boolean;
  /** Whether sets are ipsets: each is created by itself, with a maximum of entries. */
  readonly hasIpsets: boolean;
  /** Whether packets to a cluster IP in its set are rejected as long as its virtual server is missing. */
  readonly rejectsUnserved: boolean;
  /** Whether the other ports of service addresses can be closed. */
  readonly closesOtherPorts: boolean;
  /** How endpoints are chosen, where no setting says it. */
  readonly chooses?: 'random' | 'rr';
  /** The annotations of Services that have an effect; absent: all. */
  readonly annotations?: readonly string[];
  /** Whether the daemon forwards connections itself: they end with it, and only it knows and counts them. Absent: no. */
  readonly forwards?: boolean;
  /** Whether rules serve node ports at 127.0.0.1 (net.ipv4.conf.all.route_localnet); absent: no. */
  readonly routesLocalnet?: boolean;
  /** Where rules are written. */
  readonly rules: 'iptables' | 'nf_tables';
  /** The section of a configuration file that has the settings of masquerading. */
  readonly section: 'iptables' | 'nftables';
  /** Virtual servers and real servers in one part of a large change. */
  readonly mostInPart: number;
  /** Whether each batch of a full check runs programs, which read and write whole tables. */
  readonly batchesRunPrograms: boolean;
}

const TRANSLATES = {
  hasIpvs: false,
  bindsAddresses: false,
  ownsAll: true,
  appliesTogether: true,
  hasIpsets: false,
  annotations: [],
};

export const MODES: Readonly<Record<ProxyMode, ModeFacts>> = {
  ipvs: {
    hasIpvs: true,
    bindsAddresses: true,
    ownsAll: false,
    appliesTogether: false,
    hasIpsets: true,
    rejectsUnserved: false,
    closesOtherPorts: true,
    rules: 'iptables',
    section: 'iptables',
    mostInPart: 4_096,
    batchesRunPrograms: false,
  },
  nftables: {
    ...TRANSLATES,
    rejectsUnserved: true,
    closesOtherPorts: true,
    chooses: 'random',
    rules: 'nf_tables',
    section: 'nftables',
    mostInPart: 4_096,
    batchesRunPrograms: false,
  },
  userspace: {
    ...TRANSLATES,
    rejectsUnserved: true,
    closesOtherPorts: true,
    chooses: 'rr',
    annotations: ['scheduler', 'weights', 'connection-limit', 'drain-timeout'],
    forwards: true,
    rules: 'nf_tables',
    section: 'nftables',
    mostInPart: 4_096,
    batchesRunPrograms: false,
  },
  iptables: {
    ...TRANSLATES,
    rejectsUnserved: false,
    closesOtherPorts: false,
    routesLocalnet: true,
    chooses: 'random',
    rules: 'iptables',
    section: 'iptables',
    mostInPart: 16_384,
    batchesRunPrograms: true,
  },
};

/** Returns the facts of the mode with this name; undefined if there is no such mode. */
export function factsOf(mode: string | undefined): ModeFacts | undefined {
  return mode !== undefined && isMode(mode) ? MODES[mode] : undefined;
}

export function isMode(name: string): name is ProxyMode {
  return Object.hasOwn(MODES, name);
}
