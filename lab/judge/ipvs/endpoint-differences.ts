import { type EndpointObject, type ServiceObject, objectsAt, servicesOf } from '../case/case.ts';
import type { IntendedDifference, Mismatch } from '../compare.ts';
import { endpointsAt, selectedSlices, servesFamily } from '../case/served.ts';
import { familyOfFact } from './place.ts';

const LOOP_BACK = /^entry KUBE-(?:6-)?LOOP-BACK ([^,]+),(\w+):(\d+),/;

/** The endpoints that an entry of KUBE-LOOP-BACK may come from. */
function loopBackEndpoints({ given, step, fact }: Mismatch): EndpointObject[] {
  const [, address = '', protocol = '', number] = LOOP_BACK.exec(fact) ?? [];
  const objects = objectsAt(given, step);
  const services = servicesOf(objects).filter((service) => servesFamily(service, familyOfFact(fact)));
  return services.flatMap((service) => {
    const ports = service.spec.ports.filter((port) => port.protocol === protocol.toUpperCase());
    return ports.flatMap((port) => endpointsAt(objects, service, port, { address, number: Number(number) }));
  });
}

function isUsed({ conditions: { ready = true, serving = true, terminating = false } }: EndpointObject): boolean {
  return ready || (serving && terminating);
}

export const unusedLoopBack: IntendedDifference = {
  name: 'KUBE-LOOP-BACK entry of an endpoint without traffic',
  section: 'KUBE-LOOP-BACK and endpoints that are not ready',
  undo: (mismatch) => {
    if (!LOOP_BACK.test(mismatch.fact) || mismatch.ours !== undefined) return undefined;
    const here = loopBackEndpoints(mismatch).filter(({ nodeName }) => nodeName === mismatch.given.node.metadata.name);
    return here.length > 0 && !here.some(isUsed) ? { value: 'present' } : undefined;
  },
};

/** Upstream counts the endpoints of every port in the slices, also of those that the Service does not have. */
export const strangePorts: IntendedDifference = {
  name: 'health check count of endpoints at other ports',
  section: 'what a healthCheckNodePort counts',
  undo: (mismatch) => {
    const surplus = mismatch.theirs.find((value) => {
      const more = countOf(value) - countOf(mismatch.ours);
      return more > 0 && more <= strangeAddresses(mismatch);
    });
    return surplus === undefined ? undefined : { value: surplus };
  },
};

function countOf(value: string | undefined): number {
  return Number(/: (\d+)$/.exec(value ?? '')?.[1] ?? Number.NaN);
}

/** How many addresses the slices of a health check's Service have at ports that the Service does not have. */
function strangeAddresses({ given, step, fact }: Mismatch): number {
  const [, family, name] = /^health check (\S+) (\S+)$/.exec(fact) ?? [];
  const objects = objectsAt(given, step);
  const service = servicesOf(objects).find(({ metadata }) => `${metadata.namespace}/${metadata.name}` === name);
  if (service === undefined) return 0;
  const strange = selectedSlices(objects, service).filter(
    ({ addressType, ports }) => addressType === family && ports.some((port) => !isPortOf(service, port)),
  );
  return new Set(strange.flatMap(({ endpoints }) => endpoints.map(({ addresses }) => addresses[0]))).size;
}

function isPortOf(
  { spec }: ServiceObject,
  { name, protocol }: { readonly name: string; readonly protocol: string },
): boolean {
  return spec.ports.some((port) => port.name === name && port.protocol === protocol);
}
