import { type DualStack, clusterAddress, externalAddress, nodeAddress, podAddress } from '../bed/address-plan.ts';
import { type EndpointShape, type Protocol, SERVICE_PORT, type ServiceShape } from './cluster-objects.ts';

/**
 * Who reaches what, and as whom it is seen there. Two nodes, each with an endpoint of the services (A on node-0, B on node-1) and
 * both with the proxy; the outside client's routes to service addresses lead to node-0.
 *
 * A cell says who answers, over several connections, and which source the endpoint sees: `kept` is the client's own address,
 * `node-0` an address of that node (of a node's own connections no other can be seen), `asked` the one that the client asked.
 */
export const SOURCES = ['pod-0-1', 'pod-0-0', 'pod-1-1', 'node-0', 'node-1', 'client-0'] as const;
export type Source = (typeof SOURCES)[number];

export const DESTINATIONS = ['ClusterIP', 'NodePort node-0', 'NodePort node-1', 'external IP', 'LB VIP'] as const;
export type Destination = (typeof DESTINATIONS)[number];

export const PROTOCOLS: readonly Protocol[] = ['TCP', 'UDP', 'SCTP'];
export const FAMILIES = ['v4', 'v6'] as const;
export type Family = (typeof FAMILIES)[number];

/** By policies, and by where the endpoints are: on both nodes, on node-1 only (`remote`), nowhere. */
export type ServiceName =
  | 'cluster'
  | 'external-local'
  | 'external-local-remote'
  | 'internal-local'
  | 'internal-local-remote'
  | 'both-local-remote'
  | 'no-endpoint';

export interface MatrixCase {
  readonly title: string;
  readonly service: ServiceShape & { readonly name: ServiceName };
  /** One line a source, one column a destination that the service has. */
  readonly table: string;
  /** What the table cannot say of itself. */
  readonly notes: readonly string[];
}

/** Endpoints A and B; pod-0-0 is a source too: the pod that meets itself. */
const A: EndpointShape = { addresses: podAddress(0, 0), node: 0 };
const B: EndpointShape = { addresses: podAddress(1, 0), node: 1 };
export const ENDPOINT_NAMES: Readonly<Record<string, string>> = { 'pod-0-0': 'A', 'pod-1-0': 'B' };

function service(
  name: ServiceName,
  index: number,
  change: Omit<Partial<ServiceShape>, 'name'> & Pick<ServiceShape, 'endpoints'>,
): MatrixCase['service'] {
  return { name, clusterIp: clusterAddress(index), protocols: PROTOCOLS, ...change };
}

/** With everything that a service can be reached by from outside. */
function reachable(
  name: ServiceName,
  index: number,
  change: Omit<Partial<ServiceShape>, 'name'> & Pick<ServiceShape, 'endpoints'>,
): MatrixCase['service'] {
  return service(name, index, {
    nodePort: 30_000 + index,
    externalIp: externalAddress(index),
    loadBalancerIp: externalAddress(100 + index),
    ...change,
  });
}

const ONLY_CLUSTER_IP = 'The Service is not reachable from outside: it has only a ClusterIP.';
const WRONG_WAY =
  'No answer: node-0 has no endpoint. Its virtual server falls back to the endpoints of the cluster, without masquerading, ' +
  "so that its own pods are served. For other clients, the endpoint's reply does not return through node-0. It arrives from an " +
  'address that the client did not connect to, so the client drops it. (kube-proxy: the same in ipvs mode; in ' +
  'the other modes, it drops the request of a client outside of the cluster.)';

export const CASES: readonly MatrixCase[] = [
  {
    title: 'both policies Cluster, endpoints on both nodes',
    service: reachable('cluster', 1, { endpoints: [A, B] }),
    table: `
               ClusterIP        | NodePort node-0 | NodePort node-1 | external IP      | LB VIP
      pod-0-1  A+B kept         | A+B node-0      | A+B node-1      | A+B node-0       | A+B node-0
      pod-0-0  A node-0, B kept | A+B node-0      | A+B node-1      | A+B node-0       | A+B node-0
      pod-1-1  A+B kept         | A+B node-0      | A+B node-1      | A+B node-1       | A+B node-1
      node-0   A+B node-0       | A+B node-0      | A+B node-1      | A+B node-0       | A+B node-0
      node-1   A+B node-1       | A+B node-0      | A+B node-1      | A+B node-1       | A+B node-1
      client-0 A+B node-0       | A+B node-0      | A+B node-1      | A+B node-0       | A+B node-0`,
    notes: [],
  },
  {
    title: 'externalTrafficPolicy Local, endpoints on both nodes',
    service: reachable('external-local', 2, { external: 'Local', endpoints: [A, B] }),
    table: `
               ClusterIP        | NodePort node-0 | NodePort node-1 | external IP      | LB VIP
      pod-0-1  A+B kept         | A kept          | B kept          | A kept           | A kept
      pod-0-0  A node-0, B kept | A node-0        | B kept          | A node-0         | A node-0
      pod-1-1  A+B kept         | A kept          | B kept          | B kept           | B kept
      node-0   A+B node-0       | A node-0        | B node-0        | A node-0         | A node-0
      node-1   A+B node-1       | A node-1        | B node-1        | B node-1         | B node-1
      client-0 A+B node-0       | A kept          | B kept          | A kept           | A kept`,
    notes: [
      'Every client, also a pod, gets the endpoints of the node that receives the connection: one virtual server cannot distinguish clients.',
    ],
  },
  {
    title: 'externalTrafficPolicy Local, endpoint on node-1 only',
    service: reachable('external-local-remote', 3, { external: 'Local', endpoints: [B] }),
    table: `
               ClusterIP        | NodePort node-0 | NodePort node-1 | external IP      | LB VIP
      pod-0-1  B kept           | B kept          | B kept          | B kept           | B kept
      pod-0-0  B kept           | B kept          | B kept          | B kept           | B kept
      pod-1-1  B kept           | no answer       | B kept          | B kept           | B kept
      node-0   B node-0         | B node-0        | B node-0        | B node-0         | B node-0
      node-1   B node-1         | no answer       | B node-1        | B node-1         | B node-1
      client-0 B node-0         | no answer       | B kept          | no answer        | no answer`,
    notes: [WRONG_WAY],
  },
  {
    title: 'internalTrafficPolicy Local, endpoints on both nodes',
    service: service('internal-local', 4, { internal: 'Local', endpoints: [A, B] }),
    table: `
               ClusterIP
      pod-0-1  A kept
      pod-0-0  A node-0
      pod-1-1  B kept
      node-0   A node-0
      node-1   B node-1
      client-0 A node-0`,
    notes: [ONLY_CLUSTER_IP],
  },
  {
    title: 'internalTrafficPolicy Local, endpoint on node-1 only',
    service: service('internal-local-remote', 5, { internal: 'Local', endpoints: [B] }),
    table: `
               ClusterIP
      pod-0-1  refused
      pod-0-0  refused
      pod-1-1  B kept
      node-0   refused
      node-1   B node-1
      client-0 refused`,
    notes: [ONLY_CLUSTER_IP],
  },
  {
    title: 'both policies Local, reachable from outside, endpoint on node-1 only',
    service: reachable('both-local-remote', 6, { internal: 'Local', external: 'Local', endpoints: [B] }),
    table: `
               ClusterIP        | NodePort node-0 | NodePort node-1 | external IP      | LB VIP
      pod-0-1  B kept           | B kept          | B kept          | B kept           | B kept
      pod-0-0  B kept           | B kept          | B kept          | B kept           | B kept
      pod-1-1  B kept           | no answer       | B kept          | B kept           | B kept
      node-0   B node-0         | B node-0        | B node-0        | B node-0         | B node-0
      node-1   B node-1         | no answer       | B node-1        | B node-1         | B node-1
      client-0 B node-0         | no answer       | B kept          | no answer        | no answer`,
    notes: [
      'The Service is reachable from outside, so its virtual servers fall back to the endpoints of the cluster, the one of its ClusterIP too.',
      WRONG_WAY,
    ],
  },
  {
    title: 'both policies Cluster, no endpoint at all',
    service: reachable('no-endpoint', 7, { endpoints: [] }),
    table: `
               ClusterIP        | NodePort node-0 | NodePort node-1 | external IP      | LB VIP
      pod-0-1  refused          | refused         | refused         | refused          | refused
      pod-0-0  refused          | refused         | refused         | refused          | refused
      pod-1-1  refused          | refused         | refused         | refused          | refused
      node-0   refused          | refused         | refused         | refused          | refused
      node-1   refused          | refused         | refused         | refused          | refused
      client-0 refused          | refused         | refused         | refused          | refused`,
    notes: [],
  },
];

/** One way to one service: what is probed with each protocol and family. */
export interface Cell {
  readonly case: MatrixCase;
  readonly source: Source;
  readonly destination: Destination;
  readonly expected: string;
}

/** The cells of a case, read from its table; throws when the table is not of the shape that it should have. */
export function cellsOf(matrixCase: MatrixCase): readonly Cell[] {
  const [header = '', ...lines] = matrixCase.table.trim().split('\n');
  const destinations = header.split('|').map((text) => oneOf(DESTINATIONS, text.trim()));
  const cells = lines.flatMap((line) => {
    const [name = '', ...rest] = line.trim().split(/ +/);
    const source = oneOf(SOURCES, name);
    const texts = rest.join(' ').split('|');
    if (texts.length !== destinations.length) throw new Error(`${matrixCase.title}: ${line}`);
    return texts.map((text, column): Cell => {
      const destination = destinations[column] ?? 'ClusterIP';
      return { case: matrixCase, source, destination, expected: text.trim() };
    });
  });
  if (lines.length !== SOURCES.length) throw new Error(`${matrixCase.title}: not every source has a line`);
  return cells;
}

/** Where a destination of a service is. */
export function targetOf(
  shape: ServiceShape,
  destination: Destination,
  family: Family,
): { address: string; port: number } {
  const at = (address: DualStack | undefined, port: number | undefined): { address: string; port: number } => {
    if (address === undefined || port === undefined) throw new Error(`${shape.name} has no ${destination}`);
    return { address: address[family], port };
  };
  switch (destination) {
    case 'ClusterIP':
      return at(shape.clusterIp, SERVICE_PORT);
    case 'NodePort node-0':
      return at(nodeAddress(0), shape.nodePort);
    case 'NodePort node-1':
      return at(nodeAddress(1), shape.nodePort);
    case 'external IP':
      return at(shape.externalIp, SERVICE_PORT);
    case 'LB VIP':
      return at(shape.loadBalancerIp, SERVICE_PORT);
  }
}

function oneOf<T extends string>(all: readonly T[], text: string): T {
  const found = all.find((one) => one === text);
  if (found === undefined) throw new Error(`${text} is none of ${all.join(', ')}`);
  return found;
}
