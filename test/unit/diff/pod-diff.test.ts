import { describe, expect, test } from '@jest/globals';
import { namespacedName } from '../../../src/base/service/names.ts';
import { diffPod, podAddresses, preparedAddresses } from '../../../src/diff/pod-diff.ts';
import type { Port } from '../../../src/base/port.ts';
import type { Encapsulation } from '../../../src/base/service/service-requests.ts';
import { type DirectPod, type GuePort, type PodDevice, formatPodOp } from '../../../src/state/pod-network.ts';
import { ip } from '../plan/build.ts';

const POD = '10.244.0.2';
const POD6 = 'fd00::2';
const VIP = '198.51.100.1';
const VIP6 = '2001:db8::1';

function device(name: string, addresses: readonly string[], fields: Partial<PodDevice> = {}): PodDevice {
  const found = { name, kind: undefined, local: undefined, up: true, rpFilter: 0, arpAnnounce: 2 };
  return { ...found, addresses: addresses.map(ip), ...fields };
}

const ETH0 = device('eth0', [POD, POD6, 'fe80::1'], { kind: 'veth' });
const TUNNEL4 = device('kube-ipvs-tun4', [VIP], { kind: 'ipip', local: ip(POD), rpFilter: 2 });
const TUNNEL6 = device('kube-ipvs-tun6', [VIP6, 'fe80::2'], { kind: 'ip6tnl', local: ip(POD6) });

function wanted(address: string, method: DirectPod['method'] = 'tunnel', encapsulation?: Encapsulation): DirectPod {
  const pod = ip(address.includes(':') ? POD6 : POD);
  const service = namespacedName('default', 'web');
  return { service, pod, address: ip(address), method, ...(encapsulation === undefined ? {} : { encapsulation }) };
}

const GUE: Encapsulation = { type: 'gue', port: 6080 as Port };
const at = (local: string, port = 6080): GuePort => ({ local: ip(local), port: port as Port });

function ops(
  all: readonly DirectPod[],
  devices: readonly PodDevice[],
  connected: readonly string[] = [],
  guePorts: readonly GuePort[] = [],
): string[] {
  return diffPod(all, { devices, guePorts, connected: new Set(connected.map(ip)) }).map(formatPodOp);
}

describe('a Pod that answers clients itself', () => {
  test('gets a device for each method and family', () => {
    const eth0 = { ...ETH0, arpAnnounce: 0 };
    expect(ops([wanted(VIP), wanted(VIP6), wanted('198.51.100.2', 'route')], [eth0])).toEqual([
      'add-device kube-ipvs-tun4',
      'set-rp-filter=2 on kube-ipvs-tun4',
      'set-up kube-ipvs-tun4',
      `add-address ${VIP} on kube-ipvs-tun4`,
      'add-device kube-ipvs-tun6',
      'set-up kube-ipvs-tun6',
      `add-address ${VIP6} on kube-ipvs-tun6`,
      'add-device kube-ipvs-dsr',
      'set-up kube-ipvs-dsr',
      'add-address 198.51.100.2 on kube-ipvs-dsr',
      'set-arp-announce=2 on eth0',
    ]);
  });

  test('stays as it is if nothing is missing', () => {
    expect(ops([wanted(VIP), wanted(VIP6)], [ETH0, TUNNEL4, TUNNEL6])).toEqual([]);
  });

  test.each([
    ['of another kind', { kind: 'dummy' }],
    ['of another Pod IP', { local: ip('10.244.0.3') }],
  ])('gets a new device in the place of one %s', (_what, fields) => {
    expect(ops([wanted(VIP)], [ETH0, { ...TUNNEL4, ...fields }])).toEqual([
      'delete-device kube-ipvs-tun4',
      'add-device kube-ipvs-tun4',
      'set-rp-filter=2 on kube-ipvs-tun4',
      'set-up kube-ipvs-tun4',
      `add-address ${VIP} on kube-ipvs-tun4`,
    ]);
  });

  test.each([
    ['rp_filter', { rpFilter: 1 }, 'set-rp-filter=2 on kube-ipvs-tun4'],
    ['a device that is down', { up: false }, 'set-up kube-ipvs-tun4'],
    ['a missing address', { addresses: [] }, `add-address ${VIP} on kube-ipvs-tun4`],
  ])('is repaired: %s', (_what, fields, op) => {
    expect(ops([wanted(VIP)], [ETH0, { ...TUNNEL4, ...fields }])).toEqual([op]);
  });
});

describe('what no Service asks for', () => {
  const both = { ...TUNNEL4, addresses: [VIP, '198.51.100.2'].map(ip) };

  test('is taken away', () => {
    expect(ops([wanted(VIP)], [ETH0, both])).toEqual(['delete-address 198.51.100.2 on kube-ipvs-tun4']);
    expect(ops([], [ETH0, both, TUNNEL6])).toEqual(['delete-device kube-ipvs-tun4', 'delete-device kube-ipvs-tun6']);
  });

  test('stays while a connection uses it', () => {
    expect(ops([wanted(VIP)], [ETH0, both], ['198.51.100.2'])).toEqual([]);
    expect(ops([], [ETH0, both], [VIP])).toEqual(['delete-address 198.51.100.2 on kube-ipvs-tun4']);
  });
});

describe('GUE and GRE', () => {
  test('GUE has a port of each family beside the tunnel, once', () => {
    const found = ops(
      [wanted(VIP, 'tunnel', GUE), wanted('198.51.100.2', 'tunnel', GUE), wanted(VIP6, 'tunnel', GUE)],
      [ETH0],
    );
    expect(found.slice(0, 3)).toEqual([
      `add-gue-port ${POD}:6080`,
      `add-gue-port [${POD6}]:6080`,
      'add-device kube-ipvs-tun4',
    ]);
    expect(found.filter((op) => op.includes('gue'))).toHaveLength(2);
  });

  test('GRE has devices of its own', () => {
    const gre = { type: 'gre' } as const;
    expect(ops([wanted(VIP, 'tunnel', gre), wanted(VIP6, 'tunnel', gre)], [ETH0])).toEqual([
      'add-device kube-ipvs-gre4',
      'set-rp-filter=2 on kube-ipvs-gre4',
      'set-up kube-ipvs-gre4',
      `add-address ${VIP} on kube-ipvs-gre4`,
      'add-device kube-ipvs-gre6',
      'set-up kube-ipvs-gre6',
      `add-address ${VIP6} on kube-ipvs-gre6`,
    ]);
  });

  test.each([
    ['bound to the Pod', at(POD)],
    ['that the Pod opened for any address', at('0.0.0.0')],
  ])('a port %s is enough', (_what, port) => {
    expect(ops([wanted(VIP, 'tunnel', GUE)], [ETH0, TUNNEL4], [], [port])).toEqual([]);
  });

  test('a port of the other family, or of another number, is not', () => {
    const found = [at('::'), at(POD6), at(POD, 6081)];
    expect(ops([wanted(VIP, 'tunnel', GUE)], [ETH0, TUNNEL4], [], found)).toEqual([
      `add-gue-port ${POD}:6080`,
      `delete-gue-port [${POD6}]:6080`,
      `delete-gue-port ${POD}:6081`,
    ]);
  });

  test('a port that no Service asks for is taken away from a Pod of ours, unless a connection may use it', () => {
    expect(ops([wanted(VIP)], [ETH0, TUNNEL4], [], [at(POD)])).toEqual([`delete-gue-port ${POD}:6080`]);
    expect(ops([], [ETH0, TUNNEL4], [VIP], [at(POD)])).toEqual([]);
    expect(ops([], [ETH0, TUNNEL4], [], [at(POD)])).toEqual([
      `delete-gue-port ${POD}:6080`,
      'delete-device kube-ipvs-tun4',
    ]);
  });

  test('ports of other programs stay', () => {
    expect(ops([], [ETH0], [], [at(POD)])).toEqual([]);
    expect(ops([wanted(VIP)], [ETH0, TUNNEL4], [], [at('0.0.0.0'), at('10.0.0.9')])).toEqual([]);
  });
});

test('a Pod is known by the addresses of its own devices', () => {
  const devices = [device('lo', ['127.0.0.1', '::1']), ETH0, TUNNEL4, TUNNEL6];
  expect(podAddresses(devices)).toEqual([POD, POD6].map(ip));
  expect(preparedAddresses(devices)).toEqual([VIP, VIP6].map(ip));
});
