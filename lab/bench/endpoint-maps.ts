import { createHash } from 'node:crypto';
import type { BenchNode } from './bench-node.ts';
import type { EndpointView } from './endpoint-view.ts';
import { growthIp, podIps } from './large-cluster.ts';

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
/** Of the digest in the name of a chain: eight characters. */
const DIGEST_BYTES = 5;

/** The chains of kube-proxy 1.37 in nftables mode: that of a Service has a rule with a map of its endpoints. */
export function endpointMapView(node: BenchNode): EndpointView {
  return {
    haveAll: async (services, endpoints) => {
      const text = await node.run(['nft', 'list', 'table', 'ip', 'kube-proxy']);
      const chains = new Map(
        Array.from(text.matchAll(/^\tchain (\S+) \{\n([^]*?)^\t\}/gm), ([, name = '', rules = '']) => [name, rules]),
      );
      return services.every((service) => {
        const found = endpointsIn(chains.get(chainName(service)) ?? '');
        return podIps(service, endpoints, 4).every((ip) => found.has(ip));
      });
    },
    hasGrown: async (service) => {
      const text = await node.run(['nft', 'list', 'chain', 'ip', 'kube-proxy', chainName(service)]);
      return endpointsIn(text).has(growthIp(service, 4));
    },
  };
}

function endpointsIn(rules: string): ReadonlySet<string> {
  return new Set(Array.from(rules.matchAll(/ : (\S+) \. 8080/g), ([, ip = '']) => ip));
}

/** "service-4KNXK45N-team-1/service-1/tcp/web" */
function chainName(service: number): string {
  const name = `team-${service % 100}/service-${service}/tcp/web`;
  const digest = createHash('sha256').update(name).digest();
  const digits = digest.readUIntBE(0, DIGEST_BYTES).toString(32).padStart(8, '0');
  const text = Array.from(digits, (digit) => BASE32[parseInt(digit, 32)]).join('');
  return `service-${text}-${name}`;
}
