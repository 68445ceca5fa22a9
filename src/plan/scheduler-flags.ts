import { VS_SCHED_FALLBACK, VS_SCHED_PORT } from '../state/virtual-server.ts';

/**
 * Both hashing schedulers leave a server that drains (weight 0) its share of the table and would drop new connections that hash to
 * it, so they fall back to another one (linux: net/netfilter/ipvs/ip_vs_mh.c, ip_vs_sh.c). Maglev also takes the client's
 * port into account, or all connections of a client would go one way; source hashing is asked for to get just that.
 */
export function schedulerFlags(scheduler: string): number {
  switch (scheduler) {
    case 'mh':
      return VS_SCHED_PORT | VS_SCHED_FALLBACK;
    case 'sh':
      return VS_SCHED_FALLBACK;
    default:
      return 0;
  }
}
