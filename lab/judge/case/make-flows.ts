import { type CaseConfig, type CaseFlow, type Objects, type ServiceObject, slicesOf } from './case.ts';
import { NODE_IPS } from './make-node.ts';
import type { Random } from './random.ts';
import { type Frontend, frontendsOfServices, hasFamily, selectedSlices } from './served.ts';

interface Place {
  readonly address: string;
  readonly number: number;
}

/**
 * UDP flows to Services and past them. `served` flows are as the cluster made them: answered by an endpoint of now, or by
 * nobody if there is none. Flows that were `left` may also be answered by others.
 */
export function makeFlows(
  objects: Objects,
  kind: 'served' | 'left',
  config: Pick<CaseConfig, 'featureGates'>,
  random: Random,
): CaseFlow[] {
  const flows: CaseFlow[] = [];
  const add = (to: Place, by: Place): void => {
    flows.push({
      source: hasFamily(to.address, 'IPv6') ? 'fd00:244:0:1::99' : '10.244.1.99',
      sourcePort: 40_000 + flows.length,
      destination: to.address,
      destinationPort: to.number,
      replySource: by.address,
      replySourcePort: by.number,
    });
  };
  const frontends = frontendsOfServices(objects, config, NODE_IPS).filter(({ port }) => port.protocol === 'UDP');
  for (const to of random.some(frontends, 60)) {
    const answering = servingAt(objects, to);
    const certain = answering.filter(({ address }) => isUnique(objects, to.service, address));
    if (kind === 'left' && random.percent(40)) add(to, strangerOf(to, random));
    else if (answering.length === 0) add(to, to);
    else if (certain.length > 0) add(to, random.pick(certain));
    // Another node's port of the same number: not ours to delete.
    const away = { address: '192.0.2.77', number: to.number };
    if (to.kind === 'node port' && random.percent(10)) add(away, away);
  }
  const elsewhere = { address: '198.51.100.53', number: 53 };
  if (random.percent(20)) add(elsewhere, elsewhere);
  return flows;
}

function strangerOf(to: Place, random: Random): Place {
  if (random.percent(50)) return to;
  const address = hasFamily(to.address, 'IPv6') ? 'fd00:244:0:1::5' : '10.244.2.5';
  return { address, number: random.pick([8080, 9090]) };
}

/** Whether one entry only has an address; of several, it may be undefined which one counts. */
function isUnique(objects: Objects, { metadata }: ServiceObject, address: string): boolean {
  const entries = slicesOf(objects, metadata).flatMap(({ endpoints }) => endpoints);
  return entries.filter(({ addresses }) => addresses[0] === address).length === 1;
}

/** Entries that serve, unless another one of the same address counts. */
function servingAt(objects: Objects, { service, port, address: at }: Frontend): Place[] {
  return selectedSlices(objects, service).flatMap(({ addressType, ports, endpoints }) => {
    const number = ports.find(({ name, protocol }) => name === port.name && protocol === port.protocol)?.port;
    if (number === undefined || !hasFamily(at, addressType)) return [];
    const serving = endpoints.filter(({ conditions }) => conditions.serving !== false);
    return serving.map(({ addresses: [address = ''] }) => ({ address, number }));
  });
}
