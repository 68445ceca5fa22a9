import type { Port } from '../port.ts';

export interface SchedulerFlags {
  /** The scheduler that the flags are for; undefined: no flags, whatever the scheduler. */
  readonly scheduler?: 'sh' | 'mh';
  readonly fallback: boolean;
  readonly port: boolean;
}

/** The weight of the real servers in a zone, or on this node or not. */
export type WeightRule = { readonly weight: number } & (
  { readonly zone: string; readonly local?: undefined } | { readonly local: boolean; readonly zone?: undefined }
);

/** Connections from this node to an endpoint: at `upper` it gets no new ones, below `lower` it gets new ones again. */
export interface ConnectionLimit {
  readonly upper: number;
  /** 0 means three quarters of `upper`. */
  readonly lower: number;
}

/** The header of tunnelled packets other than IPIP. */
export type Encapsulation = { readonly type: 'gue'; readonly port: Port } | { readonly type: 'gre' };

/** Returns "gue:6080", "gre", or "ipip" if there is no other header. */
export function formatEncapsulation(encapsulation: Encapsulation | undefined): string {
  if (encapsulation === undefined) return 'ipip';
  return encapsulation.type === 'gue' ? `gue:${encapsulation.port}` : encapsulation.type;
}

/** Forwarding methods whose answers do not pass the node that chose the endpoint (direct server return). */
export type DirectForwarding = 'tunnel' | 'route';

/** The settings that the annotations of a Service ask for; each is valid and permitted. */
export interface ServiceRequests {
  readonly scheduler?: string;
  readonly schedulerFlags?: SchedulerFlags;
  /** The first rule that fits a real server applies; without one, its weight is 1. */
  readonly weights?: readonly WeightRule[];
  readonly connectionLimit?: ConnectionLimit;
  /** In ms; 0: no deadline. */
  readonly drainTimeout?: number;
  /** The prefix length of the client networks that session affinity is for, by IP family. */
  readonly affinityPrefix?: { readonly 4?: number; readonly 6?: number };
  readonly onePacket?: true;
  /** Whether silent endpoints are looked for (--ipvs-endpoint-check). */
  readonly endpointCheck?: true;
  /** At external and load balancer IPs; absent for NAT. */
  readonly forwarding?: DirectForwarding;
  /** With forwarding `tunnel`; absent for IPIP. */
  readonly encapsulation?: Encapsulation;
}
