import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { FakeKubectl } from '../../support/fake-kubectl.ts';

const CONFIG = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: "ipvs"
`;
const FACTS = 'folder yes\nsysctl net/bridge/bridge-nf-call-iptables 1\n';
const FELIX = 'felixconfigurations.crd.projectcalico.org';

let kubectl: FakeKubectl;

beforeEach(async () => {
  kubectl = await FakeKubectl.make(CONFIG);
  await kubectl.put('facts', FACTS);
});

afterEach(async () => {
  await kubectl.dispose();
});

/** What a cluster has that shows the neighbour: files of the fake kubectl. */
type Shown = Readonly<Record<string, string>>;

/** The first cell of its row in docs/neighbours.md, how the cluster shows it, and the finding. */
const NEIGHBOURS: readonly (readonly [neighbour: string, shown: Shown, finding: string])[] = [
  [
    'kube-network-policies, also as a part of kindnet, the default network of kind',
    workload('DaemonSet kube-system/kindnet docker.io/kindest/kindnetd:v1 /bin/kindnetd'),
    'no    kube-network-policies',
  ],
  [
    'kube-network-policies, also as a part of kindnet, the default network of kind',
    workload('DaemonSet kube-system/kube-network-policies registry.example/kube-network-policies:v1'),
    'no    kube-network-policies',
  ],
  ['Azure network policy', workload('DaemonSet kube-system/azure-npm npm:1'), 'no    Azure network policy'],
  [
    'AWS VPC CNI with security groups for Pods',
    workload('DaemonSet kube-system/aws-node cni:1 ENABLE_POD_ENI=true'),
    'no    AWS security groups',
  ],
  [
    'Calico in eBPF mode',
    { ...crd(FELIX), felix: 'config calico bpfEnabled=true nftablesMode=<no value>\n' },
    'no    the eBPF mode of Calico',
  ],
  [
    'Calico in eBPF mode',
    { ...crd('installations.operator.tigera.io'), installation: 'config calico linuxDataplane=BPF\n' },
    'no    the eBPF mode of Calico',
  ],
  [
    'Calico in nftables mode',
    { ...crd(FELIX), felix: 'config calico bpfEnabled=false nftablesMode=Enabled\n' },
    'no    the nftables mode of Calico',
  ],
  [
    'Calico in nftables mode',
    { ...crd('installations.operator.tigera.io'), installation: 'config calico linuxDataplane=Nftables\n' },
    'no    the nftables mode of Calico',
  ],
  ['Cilium with kube-proxy replacement', cilium('true'), 'no    Cilium serves the Services'],
  ['Cilium with kube-proxy replacement', cilium('strict'), 'no    Cilium serves the Services'],
  ['Cilium without kube-proxy replacement', cilium('false'), 'no    Cilium without kube-proxy replacement'],
  ['Cilium without kube-proxy replacement', cilium(''), 'no    Cilium without kube-proxy replacement'],
  ['Submariner', workload('DaemonSet submariner-operator/submariner-routeagent image:1'), 'no    Submariner'],
  [
    'kube-router with `--run-service-proxy`',
    workload('DaemonSet kube-system/kube-router r:1 --run-service-proxy=true'),
    'no    kube-router runs as',
  ],
  ['OpenShift', crd('clusteroperators.config.openshift.io'), 'no    OpenShift'],
  [
    'kube-proxy on the same node',
    { 'configmap/kube-proxy/config.conf': CONFIG.replace('ipvs', 'nftables') },
    'warn  kube-proxy runs in mode nftables',
  ],
  ['Calico with iptables (Felix)', workload('DaemonSet calico-system/calico-node c:1'), 'note  Calico restarts Felix'],
  [
    'kube-router for policies',
    workload('DaemonSet kube-system/kube-router r:1 --run-firewall'),
    'warn  the network policies of kube-router',
  ],
  ['Kube-OVN', workload('DaemonSet kube-system/kube-ovn-cni k:1'), 'note  Kube-OVN'],
  [
    'Flannel, Weave and other bridges',
    { facts: FACTS.replace('iptables 1', 'iptables 0') },
    'warn  net.bridge.bridge-nf-call-iptables is 0',
  ],
  [
    'NodeLocal DNSCache',
    workload('DaemonSet kube-system/node-local-dns d:1 -localip 169.254.20.10,10.96.0.10 -conf x'),
    'no    NodeLocal DNSCache listens on the ClusterIP 10.96.0.10',
  ],
  [
    'NodeLocal DNSCache',
    workload('DaemonSet kube-system/nodelocaldns d:1 -localip 169.254.20.10 -conf x'),
    'ok    NodeLocal DNSCache listens on no ClusterIP',
  ],
  ...[
    'metallb-system/speaker quay.io/metallb/speaker:v1',
    'purelb/purelb p/purelb:1',
    'x/openelb-speaker o/openelb:1',
  ].map(
    (name) =>
      [
        'MetalLB, OpenELB, PureLB in layer 2 mode',
        workload(`DaemonSet ${name}`),
        'warn  MetalLB, PureLB or OpenELB',
      ] as const,
  ),
  ['kube-vip', { pods: 'Pod kube-system/kube-vip-node-1\n' }, 'warn  kube-vip'],
  ['kube-vip', workload('DaemonSet kube-system/kube-vip-ds k:1'), 'warn  kube-vip'],
  ['keepalived, sealos', workload('DaemonSet x/keepalived-vip k:1'), 'warn  keepalived'],
  ['keepalived, sealos', { pods: 'Pod kube-system/kube-sealos-lvscare-node-2\n' }, 'warn  keepalived'],
  [
    'load balancers of clouds',
    { 'configmap/kube-proxy/config.conf': `${CONFIG}healthzBindAddress: 127.0.0.1:10256\n` },
    'warn  healthzBindAddress is a loopback address',
  ],
  [
    'kube-prometheus-stack',
    {
      ...crd('prometheusrules.monitoring.coreos.com'),
      rules: 'PrometheusRule monitoring/stack-kubernetes-system-kube-proxy\n',
    },
    'warn  kube-prometheus-stack',
  ],
  ['Datadog', workload('DaemonSet datadog/datadog-agent d:1'), 'note  the kube_proxy check of Datadog'],
  ['guest tools of vSphere', { providers: 'node vsphere://4232e3c7\n' }, 'note  the guest tools of vSphere'],
  ['Pod Security Admission', { enforce: 'restricted' }, 'no    Pod Security Admission'],
  ['Pod Security Admission', { enforce: 'baseline' }, 'no    Pod Security Admission'],
  ['Kyverno, Gatekeeper', crd('clusterpolicies.kyverno.io'), 'note  Gatekeeper or Kyverno'],
  ['Kyverno, Gatekeeper', crd('constrainttemplates.templates.gatekeeper.sh'), 'note  Gatekeeper or Kyverno'],
];

function workload(line: string): Shown {
  return { workloads: `${line}\n` };
}

function crd(name: string): Shown {
  return { crds: `customresourcedefinition.apiextensions.k8s.io/${name}\n` };
}

function cilium(replacement: string): Shown {
  return { 'configmap/cilium-config/kube-proxy-replacement': replacement };
}

async function show(shown: Shown): Promise<void> {
  for (const [name, text] of Object.entries(shown)) await kubectl.put(name, text);
}

describe('the neighbours that migrate check sees', () => {
  test.each(NEIGHBOURS.map(([neighbour, shown, finding]) => ({ neighbour, shown, finding })))(
    '$neighbour: $finding',
    async ({ shown, finding }) => {
      await show(shown);
      const { status, stdout, stderr } = await kubectl.run('scripts/migrate', 'check');
      expect(stderr).toBe('');
      expect(stdout).toContain(`\n  ${finding}`);
      expect(status).toBe(finding.startsWith('no ') ? 1 : 0);
    },
  );

  test('a reason in the cluster is one against every node', async () => {
    await show(cilium('true'));
    const { stdout } = await kubectl.run('scripts/migrate', 'check');
    expect(stdout).toContain('node node-1\n  ok    kernel modules: all there\n  => would not work: see cluster\n');
  });

  test('Calico with iptables is no reason against it', async () => {
    await show({ ...crd(FELIX), felix: 'config calico bpfEnabled=<no value> nftablesMode=Disabled\n' });
    expect(await kubectl.run('scripts/migrate', 'check')).toMatchObject({
      status: 0,
      stdout: expect.not.stringContaining('Calico'),
    });
  });

  test('they are those that docs/neighbours.md marks', () => {
    const rows = readFileSync('docs/neighbours.md', 'utf8').matchAll(/^\| (.+?) \|.*\| yes \|$/gm);
    const marked = Array.from(rows, ([, neighbour]) => neighbour);
    expect([...new Set(NEIGHBOURS.map(([neighbour]) => neighbour))]).toEqual(marked);
  });
});
