import { VS_SCHED_FALLBACK, VS_SCHED_PORT } from '../state/virtual-server.ts';

/**
 * The hashing schedulers keep a draining real server (weight 0) in their table and drop new connections that hash to
 * it, unless the fallback flag is set (linux: net/netfilter/ipvs/ip_vs_mh.c, ip_vs_sh.c). Maglev also hashes the
 * client's port, to spread a client's connections; source hashing must send a client to one server.
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
