import { isDeepStrictEqual } from 'node:util';
import type { Endpoint, EndpointSlice } from '../kube/objects/objects.ts';
import { EMPTY, trimCapacity } from '../base/trim-capacity.ts';
import { compareIp, familyLabel, familyOf } from '../base/ip.ts';
import { type NamespacedName, namespacedName } from '../base/service/names.ts';
import { type Port, toPort } from '../base/port.ts';
import { type Protocol, isProtocol } from '../base/protocol.ts';
import { LABEL, isOfHeadlessService } from '../base/well-known-labels.ts';
import { usableAddress } from './addresses.ts';
import { sortedUnique } from '../base/sorted-unique.ts';
import type { EndpointModel, EndpointTraits } from './service-model.ts';
import { type ModelWarning, Warnings, quoted } from './warnings.ts';

export type SliceEndpoint = Omit<EndpointModel, 'port'>;

export interface SlicePort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: Port;
}

/**
 * An endpoint that no proxy may use. It is kept for explanations, and to tell whether the address of a terminating endpoint
 * is in use again. Its changes cause no sync unless that changes.
 */
export interface UnusableEndpoint {
  readonly address: string;
  readonly why:
    | 'not ready'
    | 'terminating, and no longer serving'
    | 'its address is not valid'
    | 'not of the address type of its slice';
}

/** A validated EndpointSlice. */
export interface SliceModel {
  readonly name: string;
  /** The service to which the slice belongs. */
  readonly owner: NamespacedName;
  readonly ports: readonly SlicePort[];
  /** Sorted by address, without duplicates. */
  readonly endpoints: readonly SliceEndpoint[];
  /** Replaced in place while the rest of the slice stays the same. */
  unusable: readonly UnusableEndpoint[];
  readonly warnings: readonly ModelWarning[];
}

/** Returns undefined if the slice belongs to no Service or to a headless one, or has address type FQDN. */
export function defineSlice(slice: EndpointSlice, nodeName: string): SliceModel | undefined {
  const { namespace, name, labels } = slice.meta;
  const service = labels[LABEL.serviceName];
  if (service === undefined || service === '' || name === '' || namespace === '') return undefined;
  if (isOfHeadlessService(labels) || slice.addressType === 'FQDN') return undefined;
  const warnings = new Warnings();
  return {
    name,
    owner: namespacedName(namespace, service),
    ports: slicePorts(slice, warnings),
    ...sliceEndpoints(slice, nodeName, warnings),
    warnings: warnings.list(),
  };
}

function slicePorts(slice: EndpointSlice, warnings: Warnings): readonly SlicePort[] {
  const ports = slice.ports.flatMap(({ name, protocol, port: number }) => {
    const port = toPort(number);
    if (isProtocol(protocol) && port !== undefined) return [{ name, protocol, port }];
    const shown = `${quoted(name)} ${number ?? '(no number)'} ${quoted(protocol)}`;
    warnings.add(
      'invalid-endpoint-port',
      `port ${shown} of endpoint slice ${quoted(slice.meta.name)} cannot be served: ignored`,
    );
    return [];
  });
  return trimCapacity(ports);
}

/** Maximum length of an address that is kept although it is not valid. */
const SHOWN_LENGTH = 45;

function sliceEndpoints(
  slice: EndpointSlice,
  nodeName: string,
  warnings: Warnings,
): Pick<SliceModel, 'endpoints' | 'unusable'> {
  const hinted = new Map<string, EndpointTraits>();
  const endpoints: SliceEndpoint[] = [];
  const unusable: UnusableEndpoint[] = [];
  for (const endpoint of slice.endpoints) {
    const { address: text, ready, serving, terminating } = endpoint;
    if (text === '') continue;
    const leave = (why: UnusableEndpoint['why']): number =>
      unusable.push({ address: text.slice(0, SHOWN_LENGTH), why });
    // Such an endpoint is never used, so its changes must not cause a sync.
    if (!ready && !serving) {
      leave(terminating ? 'terminating, and no longer serving' : 'not ready');
      continue;
    }
    const address = usableAddress(text, 'endpoint', warnings);
    if (address === undefined) {
      leave('its address is not valid');
      continue;
    }
    if (familyLabel(familyOf(address)) !== slice.addressType) {
      warnings.add('wrong-family', `endpoint ${quoted(text)} is not of its slice's address type: ignored`);
      leave('not of the address type of its slice');
      continue;
    }
    endpoints.push({ address, traits: traitsOf(endpoint, nodeName, hinted) });
  }
  return {
    endpoints: trimCapacity(sortedUnique(endpoints, compareAddress, rankAmongEqual)),
    unusable: trimCapacity(unusable),
  };
}

/**
 * Of several endpoints with the same address, the one with the highest rank is used. The network may give the address of a
 * Pod that still terminates to another Pod, so the one that does not terminate comes first. Then one on this node does,
 * because a slice may not say on which node its endpoint is.
 */
export function rankAmongEqual({ traits }: Pick<EndpointModel, 'traits'>): number {
  return (traits.terminating ? 0 : 2) + (traits.local ? 1 : 0);
}

function compareAddress(a: SliceEndpoint, b: SliceEndpoint): number {
  return compareIp(a.address, b.address);
}

/** Whether both slices lead to the same plans. */
export function sameSlice(a: SliceModel | undefined, b: SliceModel | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  const { endpoints, unusable: _unusable, ...rest } = a;
  const { endpoints: others, unusable: _othersUnusable, ...restOfOther } = b;
  return (
    endpoints.length === others.length &&
    endpoints.every(
      ({ address, traits }, at) => address === others[at]?.address && isDeepStrictEqual(traits, others[at]?.traits),
    ) &&
    isDeepStrictEqual(rest, restOfOther)
  );
}

function localPodOf(localPod: boolean): Pick<EndpointTraits, 'localPod'> {
  return localPod ? { localPod } : {};
}

function unplacedOf(unplaced: boolean): Pick<EndpointTraits, 'unplaced'> {
  return unplaced ? { unplaced } : {};
}

/** Shared traits of endpoints without zone and hints. The index is the bit mask that traitsOf() computes. */
const PLAIN_TRAITS: readonly EndpointTraits[] = Array.from({ length: 64 }, (_, bits) => ({
  local: (bits & 1) !== 0,
  ready: (bits & 2) !== 0,
  serving: (bits & 4) !== 0,
  terminating: (bits & 8) !== 0,
  ...localPodOf((bits & 16) !== 0),
  ...unplacedOf((bits & 32) !== 0),
  zones: EMPTY,
  nodes: EMPTY,
}));

/** @param hinted the traits with a zone or hints that other endpoints of the slice already have, to be shared */
function traitsOf(endpoint: Endpoint, nodeName: string, hinted: Map<string, EndpointTraits>): EndpointTraits {
  const { ready, serving, terminating, ownPod, zone, hintZones, hintNodes } = endpoint;
  const local = nodeName !== '' && endpoint.nodeName === nodeName;
  const localPod = local && ownPod;
  const unplaced = endpoint.nodeName === '';
  const conditions = Number(local) | (Number(ready) << 1) | (Number(serving) << 2) | (Number(terminating) << 3);
  const bits = conditions | (Number(localPod) << 4) | (Number(unplaced) << 5);
  const plain = PLAIN_TRAITS[bits];
  const unhinted = hintZones.length === 0 && hintNodes.length === 0;
  if (plain !== undefined && unhinted && zone === '') return plain;
  const zones = trimCapacity(hintZones.toSorted());
  const nodes = trimCapacity(hintNodes.toSorted());
  const key = unhinted ? `${bits} ${zone}` : JSON.stringify([bits, zone, zones, nodes]);
  let traits = hinted.get(key);
  if (traits === undefined) {
    const ownZone = zone === '' ? {} : { zone };
    const place = { ...localPodOf(localPod), ...unplacedOf(unplaced), ...ownZone };
    traits = { local, ready, serving, terminating, ...place, zones, nodes };
    hinted.set(key, traits);
  }
  return traits;
}
