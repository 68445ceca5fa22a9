import {
  type CaseFlow,
  type Objects,
  type ServiceObject,
  type ServicePortObject,
  servicesOf,
  slicesOf,
} from './case.ts';
import { NODE_IPS } from './make-node.ts';
import type { Random } from './random.ts';

const HEADLESS_LABEL = 'service.kubernetes.io/headless';
const PROXY_LABEL = 'service.kubernetes.io/service-proxy-name';

interface Place {
  readonly address: string;
  readonly port: number;
}

/**
 * UDP flows to Services and past them. `served` flows are as the cluster made them: answered by an endpoint of now, or by
 * nobody if there is none. Flows that were `left` may also be answered by others.
 */
export function makeFlows(objects: Objects, kind: 'served' | 'left', random: Random): CaseFlow[] {
  const flows: CaseFlow[] = [];
  const add = (to: Place, by: Place): void => {
    const isIp6 = to.address.includes(':');
    flows.push({
      source: isIp6 ? 'fd00:244:0:1::99' : '10.244.1.99',
      sourcePort: 40_000 + flows.length,
      destination: to.address,
      destinationPort: to.port,
      replySource: by.address,
      replySourcePort: by.port,
    });
  };
  for (const service of servicesOf(objects).filter((each) => kind === 'left' || isServed(each))) {
    for (const port of service.spec.ports.filter(({ protocol }) => protocol === 'UDP')) {
      for (const to of random.some(frontends(service, port), 60)) {
        const answering = servingAt(objects, service, port, to.address.includes(':'));
        const certain = answering.filter(({ address }) => isUnique(objects, service, address));
        if (kind === 'left' && random.percent(40)) add(to, strangerOf(to, random));
        else if (answering.length === 0) add(to, to);
        else if (certain.length > 0) add(to, random.pick(certain));
        // Another node's port of the same number: not ours to delete.
        const away = { address: '192.0.2.77', port: port.nodePort ?? 0 };
        if (away.port > 0 && random.percent(20)) add(away, away);
      }
    }
  }
  if (random.percent(20)) add({ address: '198.51.100.53', port: 53 }, { address: '198.51.100.53', port: 53 });
  return flows;
}

function frontends({ spec, status }: ServiceObject, { port, nodePort = 0 }: ServicePortObject): Place[] {
  const ingress = (status?.loadBalancer.ingress ?? []).flatMap(({ ip }) => ip ?? []);
  const own = (spec.clusterIPs ?? []).filter((ip) => ip !== 'None');
  const addresses = new Set([...own, ...(spec.externalIPs ?? []), ...ingress]);
  const at = Array.from(addresses, (address) => ({ address, port }));
  return [...at, ...(nodePort === 0 ? [] : NODE_IPS.map((address) => ({ address, port: nodePort })))];
}

function strangerOf(to: Place, random: Random): Place {
  if (random.percent(50)) return to;
  return { address: to.address.includes(':') ? 'fd00:244:0:1::5' : '10.244.2.5', port: random.pick([8080, 9090]) };
}

function isServed({ metadata, spec }: ServiceObject): boolean {
  return !(PROXY_LABEL in (metadata.labels ?? {})) && spec.type !== 'ExternalName' && spec.clusterIP !== 'None';
}

/** Whether one entry only has an address; of several, it may be undefined which one counts. */
function isUnique(objects: Objects, { metadata }: ServiceObject, address: string): boolean {
  const entries = slicesOf(objects, metadata).flatMap(({ endpoints }) => endpoints);
  return entries.filter(({ addresses }) => addresses[0] === address).length === 1;
}

/** Entries that serve, unless another one of the same address counts. */
function servingAt(objects: Objects, { metadata }: ServiceObject, port: ServicePortObject, ip6: boolean): Place[] {
  return slicesOf(objects, metadata).flatMap(({ metadata: { labels = {} }, addressType, ports, endpoints }) => {
    if ((addressType === 'IPv6') !== ip6 || HEADLESS_LABEL in labels) return [];
    const number = ports.find(({ name, protocol }) => name === port.name && protocol === port.protocol)?.port;
    if (number === undefined) return [];
    const serving = endpoints.filter(({ conditions: { serving = true } }) => serving);
    return serving.map(({ addresses: [address = ''] }) => ({ address, port: number }));
  });
}
