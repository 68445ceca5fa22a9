import type { EndpointModel } from '../model/service-model.ts';
import type { RealServer } from '../state/real-server.ts';

/**
 * Who may still answer for a UDP port: every serving endpoint of any node, whatever the traffic policy says, so that a flow that
 * another node chose is not cut. Without any, flows stay as they are: there is nobody to send them to.
 */
export function answeringEndpoints(
  endpoints: readonly EndpointModel[],
): readonly Pick<RealServer, 'address' | 'port'>[] {
  return endpoints.filter(({ serving }) => serving).map(({ address, port }) => ({ address, port }));
}
