import type { ServiceDefinition } from '../model/service-model.ts';
import { VS_PERSISTENT, type VirtualServer } from '../state/virtual-server.ts';

/** Implements ClientIP session affinity as IPVS persistence for single client addresses. */
export function persistence({
  affinitySeconds,
}: Pick<ServiceDefinition, 'affinitySeconds'>): Pick<VirtualServer, 'flags' | 'timeout'> {
  return affinitySeconds > 0 ? { flags: VS_PERSISTENT, timeout: affinitySeconds } : { flags: 0, timeout: 0 };
}
