import { type IpAddress, compareIp, familyOf, isIp4, isLinkLocal6, isLoopback } from '../base/ip.ts';
import { sortedUnique } from '../base/sorted-unique.ts';
import {
  type DirectPod,
  type GuePort,
  RP_FILTER_LOOSE,
  ARP_ANNOUNCE_OWN,
  POD_DEVICES,
  type PodDevice,
  type PodDeviceName,
  type PodOp,
  deliveryOf,
} from '../state/pod-network.ts';

const NAMES = Object.keys(POD_DEVICES) as PodDeviceName[];

export function isOurs(name: string): name is PodDeviceName {
  return Object.hasOwn(POD_DEVICES, name);
}

/** Returns the addresses by which a Pod is known: not those of loopback and of our devices. */
export function podAddresses(devices: readonly PodDevice[]): readonly IpAddress[] {
  return devices
    .filter(({ name }) => !isOurs(name))
    .flatMap(({ addresses }) => addresses)
    .filter((address) => !isLoopback(address) && !isLinkLocal6(address));
}

export function preparedAddresses(devices: readonly PodDevice[]): readonly IpAddress[] {
  return devices.filter(({ name }) => isOurs(name)).flatMap(({ addresses }) => addresses.filter(isService));
}

/** Not link-local: the kernel gives such an address to each IPv6 device that is up. */
function isService(address: IpAddress): boolean {
  return !isLinkLocal6(address);
}

export interface FoundPod {
  readonly devices: readonly PodDevice[];
  readonly guePorts: readonly GuePort[];
  /** Addresses with open TCP connections. They are not taken away: the connections would break. */
  readonly connected: ReadonlySet<IpAddress>;
}

/**
 * Returns the changes that a Pod's namespace needs, in order.
 *
 * @param wanted what the Pod must have; empty: nothing of ours
 */
export function diffPod(wanted: readonly DirectPod[], found: FoundPod): readonly PodOp[] {
  const { devices, connected } = found;
  return [
    ...diffGuePorts(wanted, found),
    ...NAMES.flatMap((name) => diffDevice(name, wanted, devices, connected)),
    ...announceOps(wanted, devices),
  ];
}

/**
 * A port that the Pod has opened itself, for any address, serves as well, and is left alone. Those bound to the Pod's own
 * address are ours if the namespace has a tunnel of ours; they stay while a connection may use them.
 */
function diffGuePorts(wanted: readonly DirectPod[], { devices, guePorts, connected }: FoundPod): readonly PodOp[] {
  const needed = wanted.flatMap(({ pod, encapsulation }) =>
    encapsulation?.type === 'gue' ? [{ port: encapsulation.port, local: pod }] : [],
  );
  const missing = needed.filter(
    (port, at) =>
      needed.findIndex((each) => isSamePort(each, port)) === at && !guePorts.some((each) => covers(each, port)),
  );
  const own = podAddresses(devices);
  const tunnels = devices.filter(({ name }) => isOurs(name) && POD_DEVICES[name].delivery === 'ipip');
  const isUsed = ({ local }: GuePort): boolean =>
    tunnels.some(({ addresses }) =>
      addresses.some(
        (address) => familyOf(address) === familyOf(local) && isService(address) && connected.has(address),
      ),
    );
  const surplus = tunnels.length === 0 ? [] : guePorts.filter(({ local }) => own.includes(local));
  return [
    ...missing.map((port) => ({ kind: 'add-gue-port', ...port }) as const),
    ...surplus
      .filter((port) => !needed.some((each) => isSamePort(each, port)) && !isUsed(port))
      .map((port) => ({ kind: 'delete-gue-port', ...port }) as const),
  ];
}

function isSamePort(a: GuePort, b: GuePort): boolean {
  return a.port === b.port && a.local === b.local;
}

function covers(found: GuePort, needed: GuePort): boolean {
  const isAny = found.local === (isIp4(needed.local) ? 0 : 0n);
  return found.port === needed.port && (isAny || found.local === needed.local);
}

function diffDevice(
  device: PodDeviceName,
  all: readonly DirectPod[],
  devices: readonly PodDevice[],
  connected: ReadonlySet<IpAddress>,
): readonly PodOp[] {
  const { kind, delivery, family } = POD_DEVICES[device];
  const wanted = all.filter(
    (each) => deliveryOf(each) === delivery && (family === undefined || family === familyOf(each.address)),
  );
  const addresses = sortedUnique(
    wanted.map(({ address }) => address),
    compareIp,
  );
  const local = family === undefined ? undefined : wanted[0]?.pod;
  const present = devices.find(({ name }) => name === device);
  const kept = present?.addresses.filter((address) => isService(address) && connected.has(address)) ?? [];
  if (addresses.length === 0 && kept.length === 0)
    return present === undefined ? [] : [{ kind: 'delete-device', device }];
  const fits = present?.kind === kind && (local === undefined || present.local === local);
  const found = fits ? present : undefined;
  const rpFilter = family === 4 && found?.rpFilter !== RP_FILTER_LOOSE;
  return [
    ...(present === undefined || fits ? [] : [{ kind: 'delete-device', device } as const]),
    ...(fits ? [] : [{ kind: 'add-device', device, local } as const]),
    ...(rpFilter ? [{ kind: 'set-rp-filter', device, value: RP_FILTER_LOOSE } as const] : []),
    ...(found?.up === true ? [] : [{ kind: 'set-up', device } as const]),
    ...diffAddresses(device, addresses, found?.addresses.filter(isService) ?? [], connected),
  ];
}

function diffAddresses(
  device: PodDeviceName,
  wanted: readonly IpAddress[],
  found: readonly IpAddress[],
  connected: ReadonlySet<IpAddress>,
): readonly PodOp[] {
  return [
    ...wanted
      .filter((address) => !found.includes(address))
      .map((address) => ({ kind: 'add-address', device, address }) as const),
    ...found
      .filter((address) => !wanted.includes(address) && !connected.has(address))
      .map((address) => ({ kind: 'delete-address', device, address }) as const),
  ];
}

/** The answers have the service address as source, by which the Pod must not ask for the MAC address of its gateway. */
function announceOps(wanted: readonly DirectPod[], devices: readonly PodDevice[]): readonly PodOp[] {
  const pods = new Set(wanted.map(({ pod }) => pod));
  return devices
    .filter(({ name, addresses, arpAnnounce }) => {
      const ownsPod = addresses.some((address) => isIp4(address) && pods.has(address));
      return !isOurs(name) && ownsPod && arpAnnounce !== ARP_ANNOUNCE_OWN;
    })
    .map(({ name }) => ({ kind: 'set-arp-announce', device: name, value: ARP_ANNOUNCE_OWN }));
}
