import type { Endpoint, EndpointSlice } from '../kube/objects.ts';
import { exact } from '../net/exact.ts';
import { type IpAddress, compareIp, familyLabel, familyOf } from '../net/ip.ts';
import { type NamespacedName, namespacedName } from '../net/names.ts';
import { type Port, toPort } from '../net/port.ts';
import type { Protocol } from '../net/protocol.ts';
import { usableAddress } from './addresses.ts';
import { eachOnce } from '../net/each-once.ts';
import { toProtocol } from './protocols.ts';
import { same } from './same.ts';
import type { EndpointTraits } from './service-model.ts';
import { type ModelWarning, Warnings, quoted } from './warnings.ts';

const SERVICE_NAME_LABEL = 'kubernetes.io/service-name';
const HEADLESS_LABEL = 'service.kubernetes.io/headless';

export interface SliceEndpoint {
  readonly address: IpAddress;
  readonly traits: EndpointTraits;
}

export interface SlicePort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: Port;
}

/** An EndpointSlice, checked; kept for as long as the slice lives, so it is small. */
export interface SliceModel {
  readonly name: string;
  /** The service that it belongs to. */
  readonly owner: NamespacedName;
  readonly ports: readonly SlicePort[];
  /** Sorted by address, no two alike. */
  readonly endpoints: readonly SliceEndpoint[];
  readonly warnings: readonly ModelWarning[];
}

/** undefined for a slice that no service of ours can use. */
export function defineSlice(slice: EndpointSlice, nodeName: string): SliceModel | undefined {
  const { namespace, name, labels } = slice.meta;
  const service = labels[SERVICE_NAME_LABEL];
  if (service === undefined || service === '' || name === '' || namespace === '') return undefined;
  if (Object.hasOwn(labels, HEADLESS_LABEL) || slice.addressType === 'FQDN') return undefined;
  const warnings = new Warnings();
  return {
    name,
    owner: namespacedName(namespace, service),
    ports: slicePorts(slice, warnings),
    endpoints: sliceEndpoints(slice, nodeName, warnings),
    warnings: warnings.list(),
  };
}

function slicePorts(slice: EndpointSlice, warnings: Warnings): readonly SlicePort[] {
  const ports = slice.ports.flatMap(({ name, protocol: word, port: number }) => {
    const protocol = toProtocol(word);
    const port = toPort(number);
    if (name !== undefined && protocol !== undefined && port !== undefined) return [{ name, protocol, port }];
    const shown = `${quoted(name ?? '(no name)')} ${number ?? '(no number)'} ${quoted(word)}`;
    warnings.add(
      'invalid-endpoint-port',
      `port ${shown} of endpoint slice ${quoted(slice.meta.name)} cannot be served: it is left out`,
    );
    return [];
  });
  return exact(ports);
}

function sliceEndpoints(slice: EndpointSlice, nodeName: string, warnings: Warnings): readonly SliceEndpoint[] {
  const hinted = new Map<string, EndpointTraits>();
  const endpoints: SliceEndpoint[] = [];
  for (const endpoint of slice.endpoints) {
    const { address: text, ready, serving } = endpoint;
    // One that is neither is never used: its comings and goings need not wake anybody.
    if (text === '' || (!ready && !serving)) continue;
    const address = usableAddress(text, 'endpoint', warnings);
    if (address === undefined) continue;
    if (familyLabel(familyOf(address)) !== slice.addressType) {
      warnings.add('wrong-family', `endpoint ${quoted(text)} is not of its slice's address type: it is left out`);
      continue;
    }
    endpoints.push({ address, traits: traitsOf(endpoint, nodeName, hinted) });
  }
  return exact(eachOnce(endpoints, compareAddress, isLocal));
}

function compareAddress(a: SliceEndpoint, b: SliceEndpoint): number {
  return compareIp(a.address, b.address);
}

function isLocal({ traits }: SliceEndpoint): boolean {
  return traits.local;
}

export function sameSlice(a: SliceModel | undefined, b: SliceModel | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a === b) return true;
  const known = a.name === b.name && a.owner === b.owner && sameEndpoints(a, b);
  return known && same(a.ports, b.ports) && same(a.warnings, b.warnings);
}

export function sameEndpoints({ endpoints: a }: SliceModel, { endpoints: b }: SliceModel): boolean {
  return (
    a.length === b.length &&
    a.every(({ address, traits }, at) => address === b[at]?.address && same(traits, b[at]?.traits))
  );
}

const NO_NAMES: readonly string[] = Object.freeze([]);

/** Of endpoints without hints, which are nearly all: by local, ready, serving and terminating, a bit each. */
const PLAIN_TRAITS: readonly EndpointTraits[] = Array.from({ length: 16 }, (_, bits) => ({
  local: (bits & 1) !== 0,
  ready: (bits & 2) !== 0,
  serving: (bits & 4) !== 0,
  terminating: (bits & 8) !== 0,
  zones: NO_NAMES,
  nodes: NO_NAMES,
}));

/** `hinted`: those of the slice's other endpoints with hints. */
function traitsOf(endpoint: Endpoint, nodeName: string, hinted: Map<string, EndpointTraits>): EndpointTraits {
  const { ready, serving, terminating, hintZones, hintNodes } = endpoint;
  const local = nodeName !== '' && endpoint.nodeName === nodeName;
  const bits = Number(local) | (Number(ready) << 1) | (Number(serving) << 2) | (Number(terminating) << 3);
  const plain = PLAIN_TRAITS[bits];
  if (plain !== undefined && hintZones.length === 0 && hintNodes.length === 0) return plain;
  const zones = exact(hintZones.toSorted());
  const nodes = exact(hintNodes.toSorted());
  const key = JSON.stringify([bits, zones, nodes]);
  let traits = hinted.get(key);
  if (traits === undefined) hinted.set(key, (traits = { local, ready, serving, terminating, zones, nodes }));
  return traits;
}
