import type { EndpointModel, ServiceDefinition } from '../model/service-model.ts';
import type { RealServer } from '../state/real-server.ts';
import { only } from './only.ts';
import { anyUsable, isReady, readyElseDraining } from './readiness.ts';
import { nearest } from './topology.ts';

/** Who serves one port of one family. */
export interface Destinations {
  /** Behind the cluster IP. */
  readonly internal: readonly RealServer[];
  /** Behind external IPs, load balancer IPs and node ports. */
  readonly external: readonly RealServer[];
  /** A Local policy applies, endpoints exist, and none of them is usable here. */
  readonly noLocal: boolean;
}

type Policies = Pick<ServiceDefinition, 'internalLocal' | 'externalLocal'>;

/** What is known of the node that the choice depends on. */
export interface Place {
  readonly nodeName: string;
  readonly zone: string;
}

const NONE: readonly RealServer[] = Object.freeze([]);

/**
 * Cluster: the ready endpoints nearest to us, else everyone who drains. Local: those of this node. A Local policy without a usable
 * endpoint here falls back to the cluster's, as ipvs mode always did, so that pods of this node still reach the address;
 * but a service that is Local inside and not reachable from outside keeps to its word and has no destination.
 */
export function chooseDestinations(
  policies: Policies,
  endpoints: readonly EndpointModel[],
  externallyAccessible: boolean,
  { nodeName, zone }: Place,
): Destinations {
  const internalLocal = policies.internalLocal;
  const externalLocal = policies.externalLocal && externallyAccessible;
  const cluster = internalLocal && !externallyAccessible ? NONE : clusterServers(endpoints, nodeName, zone);
  if (!internalLocal && !externalLocal) return { internal: cluster, external: cluster, noLocal: false };
  const local = realServers(readyElseDraining(only(endpoints, isLocal)));
  const here = local.length > 0 ? local : cluster;
  return {
    internal: internalLocal ? here : cluster,
    external: externalLocal ? here : cluster,
    noLocal: local.length === 0 && anyUsable(endpoints),
  };
}

function isLocal({ local }: EndpointModel): boolean {
  return local;
}

function clusterServers(endpoints: readonly EndpointModel[], nodeName: string, zone: string): readonly RealServer[] {
  const ready = only(endpoints, isReady);
  return realServers(ready.length > 0 ? nearest(ready, nodeName, zone) : readyElseDraining(endpoints));
}

function realServers(endpoints: readonly EndpointModel[]): readonly RealServer[] {
  return endpoints.length === 0 ? NONE : endpoints.map(({ address, port }) => ({ address, port, weight: 1 }));
}
