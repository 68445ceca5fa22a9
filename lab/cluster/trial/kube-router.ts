import { PLANS } from '../addresses.ts';
import type { TrialContext } from './context.ts';
import { PROGRAM_MOUNT, PROGRAM_VOLUME, imageForPrograms } from './node-programs.ts';

export const KUBE_ROUTER_NAMESPACE = 'kube-system';

const NAME = 'kube-router';

/** kube-router for network policies alone. */
export async function kubeRouterObjects(context: TrialContext): Promise<readonly unknown[]> {
  const metadata = { name: NAME, namespace: KUBE_ROUTER_NAMESPACE };
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name: NAME },
      rules: [
        { apiGroups: [''], resources: ['namespaces', 'pods', 'services', 'nodes', 'endpoints'], verbs: READING },
        { apiGroups: ['networking.k8s.io'], resources: ['networkpolicies'], verbs: READING },
        { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: READING },
      ],
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: NAME },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: NAME },
      subjects: [{ kind: 'ServiceAccount', name: NAME, namespace: KUBE_ROUTER_NAMESPACE }],
    },
    daemonSet(await imageForPrograms(context)),
  ];
}

const READING = ['get', 'list', 'watch'];

function daemonSet(image: string): unknown {
  const labels = { app: NAME };
  const container = {
    name: NAME,
    image,
    imagePullPolicy: 'IfNotPresent',
    command: ['/programs/kube-router'],
    args: [
      '--run-firewall=true',
      '--run-router=false',
      '--run-service-proxy=false',
      '--run-loadbalancer=false',
      `--service-cluster-ip-range=${PLANS.ipv4.services}`,
    ],
    env: [
      { name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
      { name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
    ],
    readinessProbe: { httpGet: { path: '/healthz', port: 20_244 }, periodSeconds: 2, timeoutSeconds: 5 },
    securityContext: { privileged: true },
    volumeMounts: [PROGRAM_MOUNT, { name: 'xtables-lock', mountPath: '/run/xtables.lock' }],
  };
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: NAME, namespace: KUBE_ROUTER_NAMESPACE },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          serviceAccountName: NAME,
          hostNetwork: true,
          tolerations: [{ operator: 'Exists' }],
          containers: [container],
          volumes: [
            PROGRAM_VOLUME,
            { name: 'xtables-lock', hostPath: { path: '/run/xtables.lock', type: 'FileOrCreate' } },
          ],
        },
      },
    },
  };
}
