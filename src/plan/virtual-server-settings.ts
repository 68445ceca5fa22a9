import type { IpFamily } from '../base/ip.ts';
import type { ServiceDefinition } from '../model/service-model.ts';
import type { SchedulerFlags } from '../base/service/service-requests.ts';
import { VS_PERSISTENT, VS_SCHED_FALLBACK, VS_SCHED_PORT, type VirtualServer } from '../state/virtual-server.ts';
import type { NodeView, PlanConfig } from './plan-config.ts';

/** The settings of all virtual servers of a service that belong to one IP family. */
export type VirtualServerSettings = Pick<VirtualServer, 'scheduler' | 'flags' | 'timeout' | 'prefix'>;

/** Implements ClientIP session affinity as IPVS persistence, by default for single client addresses. */
export function virtualServerSettings(
  { affinitySeconds, requests }: Pick<ServiceDefinition, 'affinitySeconds' | 'requests'>,
  family: IpFamily,
  scheduler: string,
): VirtualServerSettings {
  const persistent = affinitySeconds > 0 ? VS_PERSISTENT : 0;
  const flags = persistent | (askedFlags(requests?.schedulerFlags, scheduler) ?? SCHEDULER_FLAGS[scheduler] ?? 0);
  const asked = affinitySeconds > 0 ? requests?.affinityPrefix?.[family] : undefined;
  return { scheduler, flags, timeout: affinitySeconds, prefix: asked ?? (family === 4 ? 32 : 128) };
}

/** Returns undefined if no flags are asked for, or those of another scheduler. */
function askedFlags(asked: SchedulerFlags | undefined, scheduler: string): number | undefined {
  if (asked === undefined || (asked.scheduler !== undefined && asked.scheduler !== scheduler)) return undefined;
  return (asked.fallback ? VS_SCHED_FALLBACK : 0) | (asked.port ? VS_SCHED_PORT : 0);
}

/**
 * The hashing schedulers keep a draining real server (weight 0) in their table and drop new connections that hash to
 * it, unless the fallback flag is set (linux: net/netfilter/ipvs/ip_vs_mh.c, ip_vs_sh.c). Maglev also hashes the
 * client's port, to spread a client's connections; source hashing must send a client to one server.
 */
const SCHEDULER_FLAGS: Readonly<Record<string, number>> = {
  mh: VS_SCHED_PORT | VS_SCHED_FALLBACK,
  sh: VS_SCHED_FALLBACK,
};

/** Returns the scheduler that is in force for a Service: its own one, unless the kernel does not have it. */
export function schedulerOf(
  { requests }: Pick<ServiceDefinition, 'requests'>,
  { missingSchedulers }: Pick<NodeView, 'missingSchedulers'>,
  { scheduler }: Pick<PlanConfig, 'scheduler'>,
): string {
  const asked = requests?.scheduler;
  return asked === undefined || missingSchedulers?.has(asked) === true ? scheduler : asked;
}
