import { type IpAddress, familyLabel, familyOf, formatHostPort, formatIp } from '../../base/ip.ts';
import type { NamespacedName } from '../../base/service/names.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import type { PlanConfig } from '../../plan/plan-config.ts';
import { virtualServerKey } from '../../state/virtual-server.ts';
import type { AskedAddress } from '../address-reply.ts';
import type { AskedPacket } from './packet-reply.ts';

type Plan = Pick<NodePlan, 'virtualServer' | 'ownerOf' | 'service'>;

/** A sentence for the person who asked. */
export interface Problem {
  readonly problem: string;
}

/** Returns the packet from a client to an address, or to the only port of a Service's cluster IP. */
export function packetTarget(
  from: IpAddress,
  target: AskedAddress | NamespacedName,
  plan: Plan,
  { families }: Pick<PlanConfig, 'families'>,
): AskedPacket | Problem {
  const family = familyOf(from);
  if (!families.includes(family)) return { problem: `this node does not serve ${familyLabel(family)}` };
  if (typeof target === 'string') return clusterIpOf(from, target, plan);
  const { address, port, protocols } = target;
  if (port === undefined) return { problem: 'name the port, too: IP:PORT' };
  if (familyOf(address) !== family) {
    return { problem: `${formatIp(from)} and ${formatIp(address)} are not of the same IP family` };
  }
  const served = protocols.find((protocol) => plan.virtualServer(virtualServerKey({ address, port, protocol })));
  return { from, address, port, protocol: served ?? protocols[0] ?? 'TCP' };
}

function clusterIpOf(from: IpAddress, name: NamespacedName, plan: Plan): AskedPacket | Problem {
  const family = familyOf(from);
  const all = plan.service(name)?.virtualServers;
  if (all === undefined) return { problem: `${name} is not served on this node: see explain ${name}` };
  const ports = all
    .filter(({ traits, virtualServer }) => traits.kind === 'cluster' && familyOf(virtualServer.address) === family)
    .map(({ virtualServer: { address, port, protocol } }) => ({ from, address, port, protocol }));
  const [only] = ports;
  if (only === undefined) return { problem: `${name} has no ${familyLabel(family)} cluster IP that this node serves` };
  if (ports.length === 1) return only;
  const choices = ports.map(({ address, port, protocol }) => `${formatHostPort(address, port)}/${protocol}`);
  return { problem: `${name} has several ports: ask for one of ${choices.join(', ')}` };
}
