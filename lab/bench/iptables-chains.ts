import { parseIp } from '../../src/base/ip.ts';
import { toPort } from '../../src/base/port.ts';
import { endpointChain } from '../../src/kernel/iptables-mode/render/chain-names.ts';
import type { BenchNode } from './bench-node.ts';
import type { EndpointView } from './endpoint-view.ts';
import { growthIp, podIps } from './large-cluster.ts';

/** The chains of endpoints in iptables mode, whose names are the same in ours and in kube-proxy's. */
export function iptablesChainView(node: BenchNode): EndpointView {
  return {
    haveAll: async (services, endpoints) => {
      const declared = new Set((await node.run(['iptables-save', '-t', 'nat'])).match(/^:KUBE-SEP-\w+/gm));
      const wanted = services.flatMap((service) => podIps(service, endpoints, 4).map((ip) => chainOf(service, ip)));
      return wanted.every((chain) => declared.has(`:${chain}`));
    },
    hasGrown: async (service) => {
      const chain = chainOf(service, growthIp(service, 4));
      return (await node.run(['sh', '-c', `iptables -w -t nat -S ${chain} 2>/dev/null || true`])) !== '';
    },
  };
}

function chainOf(service: number, ip: string): string {
  const address = parseIp(ip);
  const port = toPort(8080);
  if (address === undefined || port === undefined) throw new Error(`not an address: ${ip}`);
  return endpointChain({ name: `team-${service % 100}/service-${service}:web`, protocol: 'TCP' }, { address, port });
}
