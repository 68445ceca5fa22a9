import type { ServiceDefinition } from '../model/service-model.ts';
import { VS_PERSISTENT, type VirtualServer } from '../state/virtual-server.ts';

/** ClientIP affinity is IPVS persistence for single clients. */
export function persistence({
  affinitySeconds,
}: Pick<ServiceDefinition, 'affinitySeconds'>): Pick<VirtualServer, 'flags' | 'timeout'> {
  return affinitySeconds > 0 ? { flags: VS_PERSISTENT, timeout: affinitySeconds } : { flags: 0, timeout: 0 };
}
