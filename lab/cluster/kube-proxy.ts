import { apiServer, each } from './addresses.ts';
import type { Family } from './settings.ts';

const NAME = { name: 'kube-proxy', namespace: 'kube-system' };
const LABELS = { 'k8s-app': 'kube-proxy' };

/** The objects of kube-proxy, as kubeadm has them: names, the two files of its ConfigMap, and where they are mounted. */
export function kubeProxy(kubernetes: string, families: readonly Family[], mode: string): readonly unknown[] {
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: NAME },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'kubeadm:node-proxier' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:node-proxier' },
      subjects: [{ kind: 'ServiceAccount', ...NAME }],
    },
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { ...NAME, labels: { app: 'kube-proxy' } },
      data: {
        'config.conf': configuration(families, mode),
        'kubeconfig.conf': serviceAccountKubeconfig(apiServer(families)),
      },
    },
    daemonSet(kubernetes),
  ];
}

/** A YAML text: docs/migrate.md edits it line by line. An empty mode means iptables, as in kubeadm's. */
function configuration(families: readonly Family[], mode: string): string {
  return `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
bindAddress: ${families[0] === 'ipv6' ? "'::'" : '0.0.0.0'}
bindAddressHardFail: false
clientConnection:
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
clusterCIDR: ${each(families, (plan) => plan.pods)}
conntrack:
  maxPerCore: 0
ipvs:
  scheduler: ""
metricsBindAddress: ""
mode: ${mode === 'iptables' ? '""' : mode}
`;
}

/** A kubeconfig for a Pod that must not depend on Services. */
export function serviceAccountKubeconfig(server: string): string {
  const folder = '/var/run/secrets/kubernetes.io/serviceaccount';
  return `apiVersion: v1
kind: Config
clusters:
  - name: default
    cluster:
      certificate-authority: ${folder}/ca.crt
      server: ${server}
users:
  - name: default
    user:
      tokenFile: ${folder}/token
contexts:
  - name: default
    context:
      cluster: default
      user: default
current-context: default
`;
}

function daemonSet(kubernetes: string): unknown {
  const mounts = {
    'kube-proxy': { mountPath: '/var/lib/kube-proxy' },
    'xtables-lock': { mountPath: '/run/xtables.lock' },
    'lib-modules': { mountPath: '/lib/modules', readOnly: true },
  };
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { ...NAME, labels: LABELS },
    spec: {
      selector: { matchLabels: LABELS },
      template: {
        metadata: { labels: LABELS },
        spec: {
          priorityClassName: 'system-node-critical',
          serviceAccountName: 'kube-proxy',
          hostNetwork: true,
          nodeSelector: { 'kubernetes.io/os': 'linux' },
          tolerations: [{ operator: 'Exists' }],
          containers: [
            {
              name: 'kube-proxy',
              image: `registry.k8s.io/kube-proxy:v${kubernetes}`,
              imagePullPolicy: 'IfNotPresent',
              command: [
                '/usr/local/bin/kube-proxy',
                '--config=/var/lib/kube-proxy/config.conf',
                '--hostname-override=$(NODE_NAME)',
              ],
              env: [{ name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } }],
              securityContext: { privileged: true },
              // As ours has. kubeadm's has none: on a busy node of one processor, it then gets almost no time.
              resources: { requests: { cpu: '50m' } },
              volumeMounts: Object.entries(mounts).map(([name, mount]) => ({ name, ...mount })),
            },
          ],
          volumes: [
            { name: 'kube-proxy', configMap: { name: 'kube-proxy' } },
            { name: 'xtables-lock', hostPath: { path: '/run/xtables.lock', type: 'FileOrCreate' } },
            { name: 'lib-modules', hostPath: { path: '/lib/modules' } },
          ],
        },
      },
    },
  };
}
