import { runCommand } from '../../test/bed/command.ts';
import { PLANS, nodeIndexes } from './addresses.ts';
import { inside } from './keeper.ts';
import type { Settings } from './settings.ts';
import type { ProcessMark } from './state-file.ts';

export const BRIDGE = 'nodes';

/** The name of the tap device that the node is connected by. */
export function tap(index: number): string {
  return `node-${index}`;
}

/** Lines for `ip -batch`: a bridge, a tap device for each node on it, and a route to each node's Pods. */
export function networkCommands({ families, nodes }: Pick<Settings, 'families' | 'nodes'>): readonly string[] {
  const lines = ['link set lo up', `link add ${BRIDGE} type bridge`];
  for (const family of families) {
    const { bridge, prefix } = PLANS[family];
    lines.push(`addr add ${bridge}/${prefix} dev ${BRIDGE}${family === 'ipv6' ? ' nodad' : ''}`);
  }
  lines.push(`link set ${BRIDGE} up`);
  for (const index of nodeIndexes(nodes)) {
    lines.push(`tuntap add ${tap(index)} mode tap`, `link set ${tap(index)} master ${BRIDGE} up`);
    for (const family of families) {
      const plan = PLANS[family];
      lines.push(`route add ${plan.podsOf(index)} via ${plan.node(index)}`);
    }
  }
  return lines;
}

export async function createNetwork(keeper: ProcessMark, settings: Settings): Promise<void> {
  const input = `${networkCommands(settings).join('\n')}\n`;
  await runCommand(inside(keeper, ['ip', '-batch', '-']), { input });
  // Nodes reach each other's Pods directly; this is for what has the bridge as its gateway.
  await runCommand(inside(keeper, ['sysctl', '-qw', 'net.ipv4.ip_forward=1']));
  // Connections to the address of a load balancer reach all nodes that it is routed to, also from one client.
  const hashPorts = ['net.ipv4.fib_multipath_hash_policy=1', 'net.ipv6.fib_multipath_hash_policy=1'];
  await runCommand(inside(keeper, ['sysctl', '-qw', ...hashPorts]));
}
