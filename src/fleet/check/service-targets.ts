import { formatHostPort } from '../../base/ip.ts';
import { readIp } from '../../base/read-ip.ts';
import { counted } from '../../base/text/counted.ts';
import { MOST_TARGETS } from '../../explain/node/node-replies.ts';
import type { ProxyPod } from '../asking/pods.ts';
import type { Older } from '../older.ts';

/** The fields of a Service that are read. */
export interface ServiceObject {
  readonly spec: {
    readonly clusterIP: string;
    readonly clusterIPs: readonly string[];
    readonly externalIPs: readonly string[];
    readonly externalTrafficPolicy: string;
    readonly internalTrafficPolicy: string;
    readonly ports: readonly { readonly protocol: string; readonly port: number; readonly nodePort: number }[];
  };
  readonly status: {
    readonly loadBalancer: { readonly ingress: readonly { readonly ip: string; readonly ipMode: string }[] };
  };
}

/** A path to a Service. */
export interface Target {
  readonly path: 'ClusterIP' | 'external' | 'NodePort';
  /** IP:PORT */
  readonly to: string;
}

export interface ServiceTargets {
  /** The same for all nodes. */
  readonly shared: readonly Target[];
  readonly nodePorts: readonly number[];
  /** What is not checked, and why. */
  readonly notes: readonly string[];
}

/** Of the targets of a node; the rest is for node ports, of which each is tried at two nodes. */
const MOST_SHARED = 40;

/** Returns the paths to the TCP ports of a Service. Addresses that are not valid are left out. */
export function serviceTargets({ spec, status }: Older<ServiceObject>): ServiceTargets {
  const ports = spec?.ports?.filter(({ protocol = 'TCP' }) => protocol === 'TCP') ?? [];
  const isLocal = spec?.externalTrafficPolicy === 'Local';
  const paths = (path: Target['path'], addresses: readonly (string | undefined)[]): Target[] =>
    addresses.flatMap((text) => {
      const address = readIp(text ?? '');
      if (address === undefined) return [];
      return ports.flatMap(({ port }) => (port === undefined ? [] : [{ path, to: formatHostPort(address, port) }]));
    });
  const balanced = status?.loadBalancer?.ingress?.filter(({ ipMode }) => ipMode !== 'Proxy').map(({ ip }) => ip) ?? [];
  const external = isLocal ? [] : paths('external', [...(spec?.externalIPs ?? []), ...balanced]);
  const internal = paths('ClusterIP', spec?.clusterIPs ?? [spec?.clusterIP]);
  const isLocalInside = spec?.internalTrafficPolicy === 'Local' && internal.length > 0;
  const allShared = [...(isLocalInside ? [] : internal), ...external];
  const allNodePorts = ports.flatMap(({ nodePort = 0 }) => (nodePort > 0 ? [nodePort] : []));
  const shared = allShared.slice(0, MOST_SHARED);
  const nodePorts = isLocal ? [] : allNodePorts.slice(0, Math.floor((MOST_TARGETS - shared.length) / 2));
  return {
    shared,
    nodePorts,
    notes: [
      ...(isLocalInside
        ? [
            'cluster IPs are not checked: with internalTrafficPolicy Local, they do not answer on nodes without an endpoint',
          ]
        : []),
      ...(isLocal && allNodePorts.length > 0
        ? [
            'node ports and external addresses are not checked: with externalTrafficPolicy Local, nodes without an endpoint do not answer',
          ]
        : []),
      ...cutNote('address', 'addresses', allShared.length - shared.length),
      ...(isLocal ? [] : cutNote('node port', 'node ports', allNodePorts.length - nodePorts.length)),
      ...(ports.length < (spec?.ports?.length ?? 0) ? ['ports of other protocols than TCP are not checked'] : []),
    ],
  };
}

function cutNote(one: string, many: string, left: number): string[] {
  if (left === 0) return [];
  return [
    `${counted(left, one, many)} ${left === 1 ? 'is' : 'are'} not checked: a node tries ${MOST_TARGETS} targets at most`,
  ];
}

/**
 * Returns what each Pod tries, by node: the shared paths, and node ports at its own node and at the next one, so that each
 * node port is tried from inside and from outside of the node.
 */
export function targetsByNode(
  pods: readonly ProxyPod[],
  { shared, nodePorts }: ServiceTargets,
): ReadonlyMap<string, readonly Target[]> {
  return new Map(
    pods.map((pod, at) => {
      const places = new Set([pod.address, pods[(at + 1) % pods.length]?.address]);
      const own = Array.from(places).flatMap((text) => {
        const address = readIp(text ?? '');
        return address === undefined
          ? []
          : nodePorts.map((port): Target => ({ path: 'NodePort', to: formatHostPort(address, port) }));
      });
      return [pod.node, [...shared, ...own]];
    }),
  );
}
