import { PLANS, each, nodeIndexes, nodeName, primary } from './addresses.ts';
import type { Family, Settings } from './settings.ts';

/** Modules that kubelet, containerd and the CNI plugins need, and those that Pods expect to be there. */
const MODULES = `
  ipv6 overlay veth bridge br_netfilter nf_conntrack nf_conntrack_netlink sctp
  ip_tables iptable_filter iptable_nat iptable_mangle ipt_REJECT
  ip6_tables ip6table_filter ip6table_nat ip6table_mangle ip6t_REJECT
  xt_comment xt_mark xt_MASQUERADE xt_addrtype xt_conntrack xt_nat xt_tcpudp xt_multiport xt_statistic xt_recent
`
  .trim()
  .split(/\s+/);

const SYSCTLS = [
  'net.ipv4.ip_forward=1',
  'net.ipv6.conf.all.forwarding=1',
  'net.bridge.bridge-nf-call-iptables=1',
  'net.bridge.bridge-nf-call-ip6tables=1',
];

/** What a node is configured with: names and texts of the files in its folder. `index` counts from 1. */
export function nodeFiles(settings: Settings, index: number): Readonly<Record<string, string>> {
  const { families } = settings;
  return {
    hostname: nodeName(index),
    // Specs of topology need three zones, some with two nodes in each.
    labels: `topology.kubernetes.io/zone=zone-${((index - 1) % 3) + 1}`,
    addresses: each(families, (plan) => plan.node(index)),
    modules: lines(MODULES),
    'sysctl.conf': lines(SYSCTLS),
    network: lines(networkCommands(settings, index)),
    iptables: masquerade(families, 'ipv4', index),
    ip6tables: masquerade(families, 'ipv6', index),
    // No server answers there: names outside the cluster do not exist.
    'resolv.conf': `nameserver ${primary(families).bridge}\n`,
    'cni.conflist': json(podNetwork(families, index)),
    'containerd.toml': CONTAINERD,
    'kubelet.json': json(kubelet(families)),
  };
}

function lines(all: readonly string[]): string {
  return `${all.join('\n')}\n`;
}

function json(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

/** Lines for `ip -batch` on the node. */
function networkCommands({ families, nodes }: Settings, index: number): readonly string[] {
  const others = nodeIndexes(nodes).filter((other) => other !== index);
  // A network card keeps its address when its node is restarted.
  const commands = ['link set lo up', `link set vec0 address 02:00:00:00:00:0${index}`, 'link set vec0 up'];
  for (const family of families) {
    const plan = PLANS[family];
    const noDetection = family === 'ipv6' ? ' nodad' : '';
    commands.push(
      `addr add ${plan.node(index)}/${plan.prefix} dev vec0${noDetection}`,
      `route add default via ${plan.bridge}`,
      ...others.map((other) => `route add ${plan.podsOf(other)} via ${plan.node(other)}`),
    );
  }
  return commands;
}

/** Rules for iptables-restore: what leaves the cluster is masqueraded, as a network plugin does. */
function masquerade(families: readonly Family[], family: Family, index: number): string {
  const plan = PLANS[family];
  const rule = `-A POSTROUTING -s ${plan.podsOf(index)} ! -d ${plan.pods} -o vec0 -j MASQUERADE`;
  return lines(['*nat', ...(families.includes(family) ? [rule] : []), 'COMMIT']);
}

function podNetwork(families: readonly Family[], index: number): unknown {
  const ranges = families.map((family) => [{ subnet: PLANS[family].podsOf(index) }]);
  const routes = families.map((family) => ({ dst: PLANS[family].anywhere }));
  return {
    cniVersion: '0.4.0',
    name: 'pods',
    plugins: [
      {
        type: 'bridge',
        bridge: 'cni0',
        isGateway: true,
        hairpinMode: true,
        ipam: { type: 'host-local', ranges, routes },
      },
      { type: 'portmap', capabilities: { portMappings: true }, snat: true },
    ],
  };
}

const CONTAINERD = `version = 3
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "registry.k8s.io/pause:3.10"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/cluster/packages/usr/lib/cni"]
  conf_dir = "/etc/cni/net.d"
`;

function kubelet(families: readonly Family[]): unknown {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: '/cluster/node/ca.crt' },
    },
    authorization: { mode: 'Webhook' },
    cgroupDriver: 'cgroupfs',
    clusterDNS: [primary(families).dns],
    clusterDomain: 'cluster.local',
    containerRuntimeEndpoint: 'unix:///run/containerd/containerd.sock',
    failSwapOn: false,
    resolvConf: '/run/resolv.conf',
    // The node's disk is its memory: sizes of file systems say nothing.
    evictionHard: { 'memory.available': '20Mi', 'nodefs.available': '0%', 'imagefs.available': '0%' },
    imageGCHighThresholdPercent: 100,
  };
}
