import { PLANS, primary } from './addresses.ts';
import { COREDNS_VERSION } from './programs.ts';
import type { Family } from './settings.ts';

const COREFILE = `.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
    }
    cache 30
    loop
    reload
}
`;

const NAME = { name: 'coredns', namespace: 'kube-system' };

/** CoreDNS as a cluster add-on: the objects that kubectl applies. Names outside the cluster are not resolved. */
export function coredns(families: readonly Family[]): readonly unknown[] {
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: NAME },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name: 'system:coredns' },
      rules: [
        { apiGroups: [''], resources: ['services', 'pods', 'namespaces'], verbs: ['list', 'watch'] },
        { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['list', 'watch'] },
      ],
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'system:coredns' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:coredns' },
      subjects: [{ kind: 'ServiceAccount', ...NAME }],
    },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: NAME, data: { Corefile: COREFILE } },
    deployment(),
    service(families),
  ];
}

function deployment(): unknown {
  const labels = { 'k8s-app': 'kube-dns' };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { ...NAME, labels },
    spec: {
      replicas: 2,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          serviceAccountName: 'coredns',
          // The resolver of the node: its own would be itself.
          dnsPolicy: 'Default',
          containers: [
            {
              name: 'coredns',
              image: `registry.k8s.io/coredns/coredns:v${COREDNS_VERSION}`,
              imagePullPolicy: 'IfNotPresent',
              args: ['-conf', '/etc/coredns/Corefile'],
              volumeMounts: [{ name: 'config', mountPath: '/etc/coredns' }],
              readinessProbe: { httpGet: { path: '/ready', port: 8181 }, periodSeconds: 2 },
            },
          ],
          volumes: [{ name: 'config', configMap: { name: 'coredns' } }],
        },
      },
    },
  };
}

function service(families: readonly Family[]): unknown {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: 'kube-dns',
      namespace: 'kube-system',
      labels: { 'k8s-app': 'kube-dns', 'kubernetes.io/name': 'CoreDNS' },
    },
    spec: {
      clusterIP: primary(families).dns,
      clusterIPs: families.map((family) => PLANS[family].dns),
      ipFamilyPolicy: families.length > 1 ? 'RequireDualStack' : 'SingleStack',
      selector: { 'k8s-app': 'kube-dns' },
      ports: [
        { name: 'dns', port: 53, protocol: 'UDP' },
        { name: 'dns-tcp', port: 53, protocol: 'TCP' },
        { name: 'metrics', port: 9153, protocol: 'TCP' },
      ],
    },
  };
}
