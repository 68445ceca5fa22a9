import type { ClusterState } from '../state-file.ts';
import type { Target } from './client/lines.ts';

/** The Deployment that answers. */
export interface Servers {
  readonly replicas: number;
  /** Seconds that a server goes on serving after its deletion; 0: it ends at once. */
  readonly preStopSeconds: number;
}

export const USUAL_SERVERS: Servers = { replicas: 4, preStopSeconds: 15 };

export const DEPLOYMENT = 'deployment/servers';
export const SERVER_SELECTOR = 'app=servers';
const LABELS = { app: 'servers' };
const PORT = 8080;

/** Names of the two Services, which differ in their externalTrafficPolicy. */
export const SERVICES = { cluster: 'web', local: 'web-local' } as const;

/** agnhost behind two Services, evenly spread over the nodes. */
export function serverObjects(
  namespace: string,
  image: string,
  families: number,
  servers: Servers,
): readonly unknown[] {
  const policies = { [SERVICES.cluster]: 'Cluster', [SERVICES.local]: 'Local' };
  return [
    deployment(namespace, image, servers),
    ...Object.entries(policies).map(([name, externalTrafficPolicy]) => ({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, namespace },
      spec: {
        type: 'NodePort',
        externalTrafficPolicy,
        ipFamilyPolicy: families > 1 ? 'RequireDualStack' : 'SingleStack',
        selector: LABELS,
        ports: [{ port: 80, targetPort: PORT }],
      },
    })),
  ];
}

function deployment(namespace: string, image: string, { replicas, preStopSeconds }: Servers): unknown {
  const spread = { maxSkew: 1, topologyKey: 'kubernetes.io/hostname', whenUnsatisfiable: 'ScheduleAnyway' };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'servers', namespace },
    spec: {
      replicas,
      selector: { matchLabels: LABELS },
      template: {
        metadata: { labels: LABELS },
        spec: {
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          terminationGracePeriodSeconds: preStopSeconds + 30,
          topologySpreadConstraints: [{ ...spread, labelSelector: { matchLabels: LABELS } }],
          containers: [
            {
              name: 'netexec',
              image,
              imagePullPolicy: 'IfNotPresent',
              // It would log every request, which costs the node more than the request itself.
              command: ['sh', '-c', `exec /agnhost netexec --http-port=${PORT} 2>/dev/null`],
              // Without a request, a Pod gets almost no processor time while others of the node want some.
              resources: { requests: { cpu: '20m' } },
              readinessProbe: { httpGet: { path: '/healthz', port: PORT }, periodSeconds: 2, timeoutSeconds: 5 },
              ...(preStopSeconds > 0 ? { lifecycle: { preStop: { sleep: { seconds: preStopSeconds } } } } : {}),
            },
          ],
        },
      },
    },
  };
}

/** The fields of a Service that targets follow from. */
export interface ServedService {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly clusterIPs: readonly string[];
    readonly ports: readonly { readonly port: number; readonly nodePort: number }[];
  };
}

/** The addresses of the Services: each ClusterIP, and each node's two node ports. */
export function targetsOf(
  services: readonly ServedService[],
  { nodes }: Pick<ClusterState, 'nodes'>,
): readonly Target[] {
  const targets: Target[] = [];
  for (const { metadata, spec } of services) {
    const [{ port, nodePort } = { port: 0, nodePort: 0 }] = spec.ports;
    const local = metadata.name === SERVICES.local;
    if (!local) {
      for (const address of spec.clusterIPs) targets.push({ name: titled('ClusterIP', address), address, port });
    }
    for (const { name, addresses } of nodes) {
      for (const address of addresses) {
        targets.push({ name: titled(`${local ? 'Local ' : ''}NodePort of ${name}`, address), address, port: nodePort });
      }
    }
  }
  return targets;
}

function titled(name: string, address: string): string {
  return address.includes(':') ? `${name} (IPv6)` : name;
}

/**
 * Without the node ports of other nodes. A connection to them leaves with the address of the Pod's node. If it has the same
 * port as a connection that the Pod's node masquerades, to the same server, the other node's IPVS takes the replies of the
 * second for those of the first (test/hard-cases.md). No service proxy can prevent this.
 */
export function targetsOfPod(
  targets: readonly Target[],
  podNode: string,
  { nodes }: Pick<ClusterState, 'nodes'>,
): readonly Target[] {
  const others = new Set(nodes.filter(({ name }) => name !== podNode).flatMap(({ addresses }) => addresses));
  return targets.filter(({ address }) => !others.has(address));
}
