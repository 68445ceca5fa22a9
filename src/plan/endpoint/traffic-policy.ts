import type { EndpointModel, EndpointTraits, ServiceDefinition } from '../../model/service-model.ts';
import type { ServiceRequests, WeightRule } from '../../base/service/service-requests.ts';
import type { RealServer } from '../../state/real-server.ts';
import { filterUnchanged } from './filter-unchanged.ts';
import { anyUsable, isReady, readyElseDraining } from './readiness.ts';
import { nearestEndpoints } from './topology.ts';

export interface Destinations {
  /** The real servers of the cluster IP. */
  readonly internal: readonly RealServer[];
  /** The real servers of external IPs, load balancer IPs and node ports. */
  readonly external: readonly RealServer[];
  /** Whether `external` are the endpoints on this node only, by policy Local. */
  readonly isExternalHere: boolean;
  /** Whether a Local policy applies, and usable endpoints exist, but none of them on this node. */
  readonly noLocalEndpoints: boolean;
}

type Policies = Pick<ServiceDefinition, 'internalLocal' | 'externalLocal' | 'requests'>;

/** Where endpoints are near: on this node, or in its zone. */
export interface NodeLocation {
  readonly nodeName: string;
  readonly zone: string;
}

const NO_RULES: readonly WeightRule[] = Object.freeze([]);
const NONE: readonly RealServer[] = Object.freeze([]);

/**
 * Policy Cluster selects the nearest ready endpoints or, if none is ready, terminating endpoints that still serve.
 * Policy Local selects in the same way among the endpoints on this node. If it finds none, it falls back to policy
 * Cluster, as in kube-proxy's ipvs mode, so that pods of this node still reach the address. Exception: a service with
 * internal policy Local that is not externally accessible then has no real servers.
 */
export function chooseDestinations(
  policies: Policies,
  endpoints: readonly EndpointModel[],
  externallyAccessible: boolean,
  { nodeName, zone }: NodeLocation,
): Destinations {
  const { internalLocal, requests } = policies;
  const externalLocal = policies.externalLocal && externallyAccessible;
  const cluster = internalLocal && !externallyAccessible ? NONE : clusterServers(endpoints, nodeName, zone, requests);
  if (!internalLocal && !externalLocal) {
    return { internal: cluster, external: cluster, isExternalHere: false, noLocalEndpoints: false };
  }
  const local = realServers(readyElseDraining(filterUnchanged(endpoints, isLocal)), requests);
  const here = local.length > 0 ? local : cluster;
  return {
    internal: internalLocal ? here : cluster,
    external: externalLocal ? here : cluster,
    isExternalHere: externalLocal && local.length > 0,
    noLocalEndpoints: local.length === 0 && anyUsable(endpoints),
  };
}

function isLocal({ traits }: EndpointModel): boolean {
  return traits.local;
}

function clusterServers(
  endpoints: readonly EndpointModel[],
  nodeName: string,
  zone: string,
  requests: ServiceRequests | undefined,
): readonly RealServer[] {
  const ready = filterUnchanged(endpoints, isReady);
  return realServers(
    ready.length > 0 ? nearestEndpoints(ready, nodeName, zone) : readyElseDraining(endpoints),
    requests,
  );
}

/** Returns the real servers of these endpoints, each with weight 1 and no limit unless the Service asks for others. */
export function realServers(endpoints: readonly EndpointModel[], requests?: ServiceRequests): readonly RealServer[] {
  if (endpoints.length === 0) return NONE;
  const { weights = NO_RULES, connectionLimit: limit } = requests ?? {};
  const thresholds = limit === undefined ? {} : { upperThreshold: limit.upper, lowerThreshold: limit.lower };
  return endpoints.map(({ address, port, traits }) => ({
    address,
    port,
    weight: weightOf(traits, weights),
    ...thresholds,
  }));
}

function weightOf({ local, zone }: EndpointTraits, rules: readonly WeightRule[]): number {
  const rule = rules.find((each) => (each.zone === undefined ? each.local === local : each.zone === zone));
  return rule?.weight ?? 1;
}
