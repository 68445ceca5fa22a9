import type { Namespace } from '../bed/namespace.ts';

/**
 * What kube-proxy in ipvs mode leaves on node-0 of a bed for the services of `SERVICES`, as input of the system's own tools. Written
 * down from the names and rules that kube-proxy is known by, and on purpose from nothing of ours.
 */

type Family = 4 | 6;
const FAMILIES: readonly Family[] = [4, 6];

/** The longest name that the kernel takes for a set. */
const MAX_SET_NAME = 31;

const SET_TYPES: readonly (readonly [base: string, type: string])[] = [
  ['LOOP-BACK', 'hash:ip,port,ip'],
  ['CLUSTER-IP', 'hash:ip,port'],
  ['EXTERNAL-IP', 'hash:ip,port'],
  ['EXTERNAL-IP-LOCAL', 'hash:ip,port'],
  ['LOAD-BALANCER', 'hash:ip,port'],
  ['LOAD-BALANCER-FW', 'hash:ip,port'],
  ['LOAD-BALANCER-LOCAL', 'hash:ip,port'],
  ['LOAD-BALANCER-SOURCE-IP', 'hash:ip,port,ip'],
  ['LOAD-BALANCER-SOURCE-CIDR', 'hash:ip,port,net'],
  ['NODE-PORT-TCP', 'bitmap:port'],
  ['NODE-PORT-LOCAL-TCP', 'bitmap:port'],
  ['NODE-PORT-UDP', 'bitmap:port'],
  ['NODE-PORT-LOCAL-UDP', 'bitmap:port'],
  ['NODE-PORT-SCTP-HASH', 'hash:ip,port'],
  ['NODE-PORT-LOCAL-SCTP-HASH', 'hash:ip,port'],
  ['HEALTH-CHECK-NODE-PORT', 'bitmap:port'],
  ['IPVS-IPS', 'hash:ip'],
];

function nameOf(base: string, family: Family): string {
  return `${family === 4 ? 'KUBE-' : 'KUBE-6-'}${base}`.slice(0, MAX_SET_NAME);
}

/** The arguments of `ipset create` behind the set's name, as kube-proxy gives them but for the size of the hash. */
function typeOf(type: string, family: Family, hashSize: number): string {
  return type === 'bitmap:port'
    ? `${type} range 0-65535`
    : `${type} family ${family === 4 ? 'inet' : 'inet6'} hashsize ${hashSize} maxelem 65536`;
}

/** `create` of every set of both families. */
export function setCreations(hashSize: number): readonly string[] {
  return FAMILIES.flatMap((family) =>
    SET_TYPES.map(([base, type]) => `create ${nameOf(base, family)} ${typeOf(type, family, hashSize)}`),
  );
}

/** Of the services that there are: 10.202.0.10 and its kin are web's, .53 echo's, .20 dns's. */
export const SET_ENTRIES: readonly string[] = [
  'KUBE-LOOP-BACK 10.201.0.10,tcp:8080,10.201.0.10',
  'KUBE-LOOP-BACK 10.201.0.11,tcp:8080,10.201.0.11',
  'KUBE-LOOP-BACK 10.201.0.10,udp:8080,10.201.0.10',
  'KUBE-LOOP-BACK 10.201.0.11,udp:8080,10.201.0.11',
  'KUBE-CLUSTER-IP 10.202.0.10,tcp:80',
  'KUBE-CLUSTER-IP 10.202.0.20,udp:53',
  'KUBE-CLUSTER-IP 10.202.0.53,udp:53',
  'KUBE-EXTERNAL-IP 10.203.0.10,tcp:80',
  'KUBE-NODE-PORT-TCP 30080',
  'KUBE-IPVS-IPS 10.202.0.10',
  'KUBE-IPVS-IPS 10.202.0.20',
  'KUBE-IPVS-IPS 10.202.0.53',
  'KUBE-IPVS-IPS 10.203.0.10',
  'KUBE-6-LOOP-BACK fd00:201::10,tcp:8080,fd00:201::10',
  'KUBE-6-LOOP-BACK fd00:201::11,tcp:8080,fd00:201::11',
  'KUBE-6-CLUSTER-IP fd00:202::a,tcp:80',
  'KUBE-6-NODE-PORT-TCP 30080',
  'KUBE-6-IPVS-IPS fd00:202::a',
];

/** Of services that are gone. */
export const STALE_ENTRIES: readonly string[] = [
  'KUBE-LOOP-BACK 10.201.0.77,tcp:8080,10.201.0.77',
  'KUBE-CLUSTER-IP 10.202.0.99,tcp:80',
  'KUBE-LOAD-BALANCER 10.203.0.99,tcp:80',
  'KUBE-NODE-PORT-TCP 30099',
  'KUBE-IPVS-IPS 10.202.0.99',
  'KUBE-IPVS-IPS 10.203.0.99',
  'KUBE-6-CLUSTER-IP fd00:202::99,tcp:80',
  'KUBE-6-IPVS-IPS fd00:202::99',
];

function virtualServer(head: string, servers: readonly string[]): readonly string[] {
  const [address = ''] = head.split(' -s ');
  return [`-A ${head}`, ...servers.map((server) => `-a ${address} -r ${server} -m -w 1`)];
}

const PODS4 = ['10.201.0.10:8080', '10.201.0.11:8080'];
const PODS6 = ['[fd00:201::10]:8080', '[fd00:201::11]:8080'];

/**
 * As ipvsadm saves and restores them. A node port is served at each address of the node, the pods' gateway included.
 */
export const VIRTUAL_SERVERS: readonly string[] = [
  ...virtualServer('-t 10.202.0.10:80 -s rr', PODS4),
  ...virtualServer('-t 10.203.0.10:80 -s rr', PODS4),
  ...virtualServer('-t 10.200.0.10:30080 -s rr', PODS4),
  ...virtualServer('-t 10.201.0.1:30080 -s rr', PODS4),
  ...virtualServer('-u 10.202.0.20:53 -s rr', PODS4),
  ...virtualServer('-u 10.202.0.53:53 -s rr -p 10800', PODS4),
  ...virtualServer('-t [fd00:202::a]:80 -s rr', PODS6),
  ...virtualServer('-t [fd00:200::10]:30080 -s rr', PODS6),
  ...virtualServer('-t [fd00:201::1]:30080 -s rr', PODS6),
];

/** A service that is gone, its node port, and a pod that drained when kube-proxy ended. */
export const STALE_VIRTUAL_SERVERS: readonly string[] = [
  ...virtualServer('-t 10.202.0.99:80 -s rr', ['10.201.0.77:8080']),
  ...virtualServer('-t 10.203.0.99:80 -s rr', []),
  ...virtualServer('-t 10.200.0.10:30099 -s rr', ['10.201.0.77:8080']),
  ...virtualServer('-t [fd00:202::99]:80 -s rr', []),
  '-a -t 10.202.0.10:80 -r 10.201.0.12:8080 -m -w 0',
];

/** Virtual servers of keepalived: at a separate address, at an address of the node, and one by firewall mark. */
export const FOREIGN_VIRTUAL_SERVERS: readonly string[] = [
  '-A -t 10.200.0.77:443 -s wlc',
  '-a -t 10.200.0.77:443 -r 10.200.0.100:443 -g -w 5',
  '-A -t 10.200.0.10:8443 -s wrr -p 300',
  '-a -t 10.200.0.10:8443 -r 10.200.0.100:8443 -m -w 3',
  '-A -f 7 -s rr',
  '-a -f 7 -r 10.200.0.100:0 -g -w 1',
];

export const ADDRESSES: readonly string[] = [
  '10.202.0.10/32',
  '10.202.0.20/32',
  '10.202.0.53/32',
  '10.203.0.10/32',
  'fd00:202::a/128',
];
export const STALE_ADDRESSES: readonly string[] = ['10.202.0.99/32', '10.203.0.99/32', 'fd00:202::99/128'];

export const FOREIGN_SETS: readonly string[] = [
  'create blocklist hash:net family inet hashsize 1024 maxelem 65536',
  'add blocklist 192.0.2.0/24',
];

interface Jump {
  readonly table: string;
  readonly from: string;
  readonly to: string;
  readonly comment: string;
}

/** In the order in which kube-proxy inserts them, each first in its chain. */
export const JUMPS: readonly Jump[] = [
  { table: 'nat', from: 'OUTPUT', to: 'KUBE-SERVICES', comment: 'kubernetes service portals' },
  { table: 'nat', from: 'PREROUTING', to: 'KUBE-SERVICES', comment: 'kubernetes service portals' },
  { table: 'nat', from: 'POSTROUTING', to: 'KUBE-POSTROUTING', comment: 'kubernetes postrouting rules' },
  { table: 'filter', from: 'FORWARD', to: 'KUBE-FORWARD', comment: 'kubernetes forwarding rules' },
  { table: 'filter', from: 'INPUT', to: 'KUBE-NODE-PORT', comment: 'kubernetes health check rules' },
  { table: 'filter', from: 'INPUT', to: 'KUBE-PROXY-FIREWALL', comment: 'kube-proxy firewall rules' },
  { table: 'filter', from: 'FORWARD', to: 'KUBE-PROXY-FIREWALL', comment: 'kube-proxy firewall rules' },
  { table: 'filter', from: 'INPUT', to: 'KUBE-IPVS-FILTER', comment: 'kubernetes ipvs access filter' },
  { table: 'filter', from: 'OUTPUT', to: 'KUBE-IPVS-OUT-FILTER', comment: 'kubernetes ipvs access filter' },
];

const CHAINS: Readonly<Record<string, readonly string[]>> = {
  nat: ['KUBE-SERVICES', 'KUBE-POSTROUTING', 'KUBE-NODE-PORT', 'KUBE-LOAD-BALANCER', 'KUBE-MARK-MASQ'],
  filter: [
    'KUBE-FORWARD',
    'KUBE-NODE-PORT',
    'KUBE-PROXY-FIREWALL',
    'KUBE-SOURCE-RANGES-FIREWALL',
    'KUBE-IPVS-FILTER',
    'KUBE-IPVS-OUT-FILTER',
  ],
};

function natRules(family: Family): readonly string[] {
  const set = (base: string, directions: string): string => `-m set --match-set ${nameOf(base, family)} ${directions}`;
  const clusterIp = set('CLUSTER-IP', 'dst,dst');
  const externalIp = set('EXTERNAL-IP', 'dst,dst');
  const random = '-j MASQUERADE --random-fully';
  return [
    `-A KUBE-SERVICES -s ${family === 4 ? '127.0.0.0/8' : '::1/128'} -j RETURN`,
    `-A KUBE-SERVICES -m comment --comment "Kubernetes service cluster ip + port for masquerade purpose" ${clusterIp} ! -s ${family === 4 ? '10.201.0.0/16' : 'fd00:201::/48'} -j KUBE-MARK-MASQ`,
    // A rule on a set is there only while the set has entries.
    ...(family === 4
      ? [
          `-A KUBE-SERVICES -m comment --comment "Kubernetes service external ip + port for masquerade and filter purpose" ${externalIp} -j KUBE-MARK-MASQ`,
          `-A KUBE-SERVICES -m comment --comment "Kubernetes service external ip + port for masquerade and filter purpose" ${externalIp} -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT`,
          `-A KUBE-SERVICES -m comment --comment "Kubernetes service external ip + port for masquerade and filter purpose" ${externalIp} -m addrtype --dst-type LOCAL -j ACCEPT`,
        ]
      : []),
    '-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT',
    `-A KUBE-SERVICES ${clusterIp} -j ACCEPT`,
    `-A KUBE-NODE-PORT -p tcp -m comment --comment "Kubernetes nodeport TCP port for masquerade purpose" ${set('NODE-PORT-TCP', 'dst')} -j KUBE-MARK-MASQ`,
    '-A KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ',
    '-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000',
    `-A KUBE-POSTROUTING -m comment --comment "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose" ${set('LOOP-BACK', 'dst,dst,src')} -j MASQUERADE`,
    '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
    '-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000',
    `-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" ${random}`,
  ];
}

function filterRules(family: Family): readonly string[] {
  const toSet = (base: string, directions: string, target: string): string =>
    `-m set --match-set ${nameOf(base, family)} ${directions} -j ${target}`;
  return [
    '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT',
    '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    `-A KUBE-NODE-PORT -m comment --comment "Kubernetes health check node port" ${toSet('HEALTH-CHECK-NODE-PORT', 'dst', 'ACCEPT')}`,
    '-A KUBE-SOURCE-RANGES-FIREWALL -j DROP',
    ...['LOAD-BALANCER', 'CLUSTER-IP', 'EXTERNAL-IP', 'EXTERNAL-IP-LOCAL'].map(
      (base) => `-A KUBE-IPVS-FILTER ${toSet(base, 'dst,dst', 'RETURN')}`,
    ),
    `-A KUBE-IPVS-FILTER ${toSet('HEALTH-CHECK-NODE-PORT', 'dst', 'RETURN')}`,
    `-A KUBE-IPVS-FILTER -m conntrack --ctstate NEW ${toSet('IPVS-IPS', 'dst', 'REJECT')}`,
  ];
}

/** What kube-proxy feeds to iptables-restore --noflush at each sync: its chains, emptied and filled again in one go. */
function ruleScript(family: Family, more: (table: string) => readonly string[] = () => []): string {
  const rules: Readonly<Record<string, readonly string[]>> = { nat: natRules(family), filter: filterRules(family) };
  return Object.entries(CHAINS)
    .map(([table, chains]) => {
      const lines = [...chains.map((chain) => `:${chain} - [0:0]`), ...(rules[table] ?? []), ...more(table)];
      return `*${table}\n${lines.join('\n')}\nCOMMIT\n`;
    })
    .join('');
}

/** Rules of a kubelet, of a CNI plugin and of the administrator. */
export const FOREIGN_RULES: readonly (readonly [table: string, rule: string])[] = [
  ['filter', '-A INPUT -s 192.0.2.1/32 -m comment --comment "of the administrator" -j DROP'],
  ['filter', '-A INPUT -j KUBE-FIREWALL'],
  ['filter', '-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP'],
  ['filter', '-A FORWARD -m set --match-set blocklist src -j DROP'],
  ['nat', '-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT'],
  ['nat', '-A CNI-HOSTPORT-DNAT -p tcp -m tcp --dport 9090 -j DNAT --to-destination 10.201.0.10:9090'],
];
const FOREIGN_CHAINS: Readonly<Record<string, string>> = { filter: 'KUBE-FIREWALL', nat: 'CNI-HOSTPORT-DNAT' };

function restoreProgram(family: Family): readonly string[] {
  return [family === 4 ? 'iptables-restore' : 'ip6tables-restore', '--noflush'];
}

/**
 * Of releases up to 1.25: who refuses clients outside the source ranges, with a mark that the kubelet's chain makes.
 */
const OLDER_RULES: readonly string[] = [
  '-A KUBE-LOAD-BALANCER -m set --match-set KUBE-LOAD-BALANCER-FW dst,dst -j KUBE-FIREWALL',
  '-A KUBE-FIREWALL -m set --match-set KUBE-LOAD-BALANCER-SOURCE-CIDR dst,dst,src -j RETURN',
  '-A KUBE-FIREWALL -m set --match-set KUBE-LOAD-BALANCER-SOURCE-IP dst,dst,src -j RETURN',
  '-A KUBE-FIREWALL -j KUBE-MARK-DROP',
];
export const KUBELET_RULE = '-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000';

/** What a kube-proxy has programmed, with foreign objects of others beside it. */
export async function leaveKubeProxyState(node: Namespace, hashSize: number): Promise<void> {
  const entries = SET_ENTRIES.map((entry) => `add ${entry}`);
  await run(node, ['ipset', 'restore'], [...setCreations(hashSize), ...entries, ...FOREIGN_SETS]);
  // kube-proxy never sets the device up: the addresses of one that is down are local all the same.
  await node.ip([
    'link add kube-ipvs0 type dummy',
    ...ADDRESSES.map((address) => `addr add ${address} dev kube-ipvs0`),
  ]);
  await run(node, ['ipvsadm', '-R'], [...VIRTUAL_SERVERS, ...FOREIGN_VIRTUAL_SERVERS]);
  const ofIpvs = ['conntrack', 'expire_nodest_conn', 'expire_quiescent_template'];
  await node.sysctl({
    ...Object.fromEntries(ofIpvs.map((name) => [`net.ipv4.vs.${name}`, 1])),
    'net.netfilter.nf_conntrack_tcp_timeout_established': 86_400,
    'net.netfilter.nf_conntrack_tcp_timeout_close_wait': 3_600,
  });
  for (const table of ['filter', 'nat']) {
    const foreign = FOREIGN_RULES.filter(([of]) => of === table).map(([, rule]) => rule);
    const lines = [`*${table}`, `:${FOREIGN_CHAINS[table] ?? ''} - [0:0]`, ...foreign, 'COMMIT'];
    await run(node, restoreProgram(4), lines);
  }
  const jumps = (table: string): readonly string[] =>
    JUMPS.filter((jump) => jump.table === table).map(
      ({ from, to, comment }) => `-I ${from} -m comment --comment "${comment}" -j ${to}`,
    );
  for (const family of FAMILIES) await node.exec(restoreProgram(family), { input: ruleScript(family, jumps) });
  const older = [':KUBE-FIREWALL - [0:0]', ':KUBE-MARK-DROP - [0:0]', ...OLDER_RULES, KUBELET_RULE];
  await run(node, restoreProgram(4), ['*nat', ...older, 'COMMIT']);
}

/** What a kube-proxy that has ended leaves of Services that have gone since. */
export async function leaveStaleState(node: Namespace): Promise<void> {
  await run(
    node,
    ['ipset', 'restore'],
    STALE_ENTRIES.map((entry) => `add ${entry}`),
  );
  await node.ip(STALE_ADDRESSES.map((address) => `addr add ${address} dev kube-ipvs0`));
  await run(node, ['ipvsadm', '-R'], STALE_VIRTUAL_SERVERS);
}

/**
 * What `kube-proxy --cleanup` does, step by step; what it could not do, for which it ends with 1. What is not there
 * is fine.
 */
export async function cleanUpAsKubeProxy(node: Namespace): Promise<readonly string[]> {
  const attempt = (exists: string, command: string): string =>
    `if ${exists} >/dev/null 2>&1; then ${command} 2>/dev/null || echo '${command}'; fi`;
  const steps = ['ipvsadm -C', attempt('ip link show kube-ipvs0', 'ip link del kube-ipvs0')];
  // KUBE-MARK-MASQ is left to whoever marks with it, too.
  const chains = Object.entries(CHAINS).flatMap(([table, names]) =>
    names.filter((name) => name !== 'KUBE-MARK-MASQ').map((name) => ({ table, name })),
  );
  for (const program of ['iptables', 'ip6tables']) {
    for (const { table, from, to, comment } of JUMPS) {
      const rule = `${from} -m comment --comment "${comment}" -j ${to}`;
      steps.push(attempt(`${program} -t ${table} -C ${rule}`, `${program} -t ${table} -D ${rule}`));
    }
    for (const verb of ['-F', '-X']) {
      for (const { table, name } of chains) {
        steps.push(attempt(`${program} -t ${table} -S ${name}`, `${program} -t ${table} ${verb} ${name}`));
      }
    }
  }
  for (const family of FAMILIES) {
    for (const [base] of SET_TYPES) {
      const name = nameOf(base, family);
      steps.push(attempt(`ipset list -n ${name}`, `ipset destroy ${name}`));
    }
  }
  const { stdout } = await node.exec(['sh'], { input: `${steps.join('\n')}\n`, timeoutMs: 60_000 });
  return stdout.split('\n').filter((line) => line !== '');
}

/** A sync of kube-proxy on a node that has its sets: demands of each what it demands, then rewrites its rules. */
export async function syncAsKubeProxy(node: Namespace): Promise<void> {
  // With -exist the kernel refuses when a set of that name is of another kind.
  await run(node, ['ipset', 'restore', '-exist'], setCreations(1024));
  for (const family of FAMILIES) {
    for (const { table, from, to, comment } of JUMPS) {
      const program = family === 4 ? 'iptables' : 'ip6tables';
      await node.exec([program, '-t', table, '-C', from, '-m', 'comment', '--comment', comment, '-j', to]);
    }
    await node.exec([...restoreProgram(family), '--counters'], { input: ruleScript(family) });
  }
}

async function run(node: Namespace, argv: readonly string[], lines: readonly string[]): Promise<void> {
  await node.exec(argv, { input: `${lines.join('\n')}\n` });
}
