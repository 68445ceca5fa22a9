import { cidrContains } from '../../base/cidr.ts';
import type { LocalDetector } from '../../state/rules/rule-settings.ts';
import type { Route } from '../../state/route.ts';
import type { IpAddress } from '../../base/ip.ts';

/** Where a client is, as far as this node can tell. */
export type Origin = 'this node' | 'Pod of this node' | 'Pod of another node' | 'outside';

export interface OriginFacts {
  readonly from: IpAddress;
  /** The route back to the client; undefined if there is none. */
  readonly route: Route | undefined;
  /** How the configuration recognizes Pods of this node, or with a CIDR, Pods. */
  readonly detector: LocalDetector | undefined;
  /** The interface that has the node's own IP. */
  readonly nodeInterface: string | undefined;
}

/**
 * Decides by the configured detector and by the route. A CIDR may be that of the whole cluster: of its addresses, those
 * on the node's other interfaces without a gateway are Pods of this node.
 */
export function originOf({ from, route, detector, nodeInterface }: OriginFacts): Origin {
  if (route?.local === true) return 'this node';
  const isDirect = route !== undefined && !route.gateway && route.interfaceName !== nodeInterface;
  switch (detector?.kind) {
    case 'bridge':
      return route?.interfaceName === detector.interfaceName ? 'Pod of this node' : 'outside';
    case 'interface-prefix':
      return route?.interfaceName.startsWith(detector.prefix) === true ? 'Pod of this node' : 'outside';
    case 'cidr':
      if (!cidrContains(detector.cidr, from)) return 'outside';
      return isDirect ? 'Pod of this node' : 'Pod of another node';
    case undefined:
      return isDirect ? 'Pod of this node' : 'outside';
  }
}
