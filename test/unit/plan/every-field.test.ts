import { describe, expect, test } from '@jest/globals';
import { parseCidr } from '../../../src/base/cidr.ts';
import { addingOrder } from '../../../src/diff/adding-order.ts';
import { READ_ONLY_LEDGER } from '../../../src/diff/drain.ts';
import { type WantedVirtualServer, diffVirtualServer } from '../../../src/diff/virtual-server-diff.ts';
import type { Op } from '../../../src/state/op.ts';
import type { EndpointTraits } from '../../../src/model/service-model.ts';
import { type SliceModel, sameSlice } from '../../../src/model/slice-model.ts';
import { namespacedName } from '../../../src/base/service/names.ts';
import { type AddressTraits, type AdmittedSources, addressTraits } from '../../../src/state/address-traits.ts';
import { compareEntry } from '../../../src/plan/entry-order.ts';
import type {
  PlannedEntry,
  PlannedHairpin,
  PlannedUdp,
  PlannedVirtualServer,
  ServicePlan,
} from '../../../src/plan/service-plan.ts';
import { sharePlan } from '../../../src/plan/share-plan.ts';
import { type IpSetEntry, ipSetEntryKey } from '../../../src/state/ip-set.ts';
import { FORWARDING, type RealServer, TUNNEL_TYPE } from '../../../src/state/real-server.ts';
import type { VirtualServer } from '../../../src/state/virtual-server.ts';
import { address, observed, portOf, real, virtualServer, vsId } from '../../support/state.ts';

/** Another value for every field of T: a field that is added to T does not compile until it is added here, and is compared. */
type OtherValues<T> = { readonly [K in keyof T]-?: T[K] };

function variants<T extends object>(base: T, others: OtherValues<T>): readonly (readonly [string, T])[] {
  return Object.entries(others).map(([field, value]) => [field, { ...base, [field]: value }] as const);
}

const VS = virtualServer('10.96.0.1', 80);
const SERVER: RealServer = { ...real('10.244.0.1', 1), forwarding: FORWARDING.tunnel };
const OTHER_VS: OtherValues<VirtualServer> = {
  address: address('10.96.0.2'),
  port: portOf(81),
  protocol: 'UDP',
  scheduler: 'mh',
  flags: 1,
  timeout: 9,
  prefix: 24,
  servicePort: 'default/web',
  drainTimeout: 30_000,
  list: vsId('10.96.0.2', 80),
  traits: addressTraits('cluster', true),
};
const OTHER_SERVER: OtherValues<RealServer> = {
  address: address('10.244.0.2'),
  port: portOf(81),
  weight: 0,
  upperThreshold: 9,
  lowerThreshold: 5,
  forwarding: FORWARDING.route,
  tunnelType: TUNNEL_TYPE.gue,
  tunnelPort: 6080,
  tunnelFlags: 1,
};
const ADMITTED: AdmittedSources = { ranges: [parseCidr('10.0.0.0/8')!], itself: true };
const OTHER_ADMITTED: OtherValues<AdmittedSources> = { ranges: [parseCidr('10.0.0.0/9')!], itself: false };
const RESTRICTED: AddressTraits = { kind: 'loadBalancer', keepsSource: false, admitted: ADMITTED };
const OTHER_TRAITS: OtherValues<AddressTraits> = {
  kind: 'external',
  keepsSource: true,
  admitted: { ranges: [], itself: true },
};
const PLANNED: PlannedVirtualServer = {
  virtualServer: VS,
  realServers: [SERVER],
  traits: RESTRICTED,
  portName: '',
};
const OTHER_PLANNED: OtherValues<PlannedVirtualServer> = {
  virtualServer: { ...VS, flags: 1 },
  realServers: [],
  traits: addressTraits('external', true),
  portName: 'web',
  drainTimeout: 9,
  direct: { method: 'tunnel', pods: [address('10.244.0.1')] },
};
const ENTRIES: { readonly [T in IpSetEntry['type']]: Extract<IpSetEntry, { type: T }> } = {
  'hash:ip': { type: 'hash:ip', address: VS.address },
  'hash:ip,port': { type: 'hash:ip,port', address: VS.address, protocol: 'TCP', port: VS.port },
  'hash:ip,port,ip': {
    type: 'hash:ip,port,ip',
    address: VS.address,
    protocol: 'TCP',
    port: VS.port,
    address2: VS.address,
  },
  'hash:ip,port,net': {
    type: 'hash:ip,port,net',
    address: VS.address,
    protocol: 'TCP',
    port: VS.port,
    network: parseCidr('10.0.0.0/8')!,
  },
  'bitmap:port': { type: 'bitmap:port', port: VS.port },
};
const OTHER_ENTRIES: {
  readonly [T in IpSetEntry['type']]: OtherValues<Omit<Extract<IpSetEntry, { type: T }>, 'type'>>;
} = {
  'hash:ip': { address: SERVER.address },
  'hash:ip,port': { address: SERVER.address, protocol: 'UDP', port: portOf(81) },
  'hash:ip,port,ip': { address: SERVER.address, protocol: 'UDP', port: portOf(81), address2: SERVER.address },
  'hash:ip,port,net': { address: SERVER.address, protocol: 'UDP', port: portOf(81), network: parseCidr('10.0.0.0/9')! },
  'bitmap:port': { port: portOf(81) },
};

function plan(parts: Partial<ServicePlan>): ServicePlan {
  return {
    service: namespacedName('default', 'web'),
    virtualServers: [],
    addresses: [],
    closed: [],
    hairpins: [],
    entries: [],
    udp: [],
    noLocalEndpoints: { internal: [], external: [] },
    warnings: [],
    ...parts,
  };
}

/** Whether the first part is shared with the plan before it. */
function shares(part: Partial<ServicePlan>, before: Partial<ServicePlan>): boolean {
  const [name] = Object.keys(part) as (keyof ServicePlan)[];
  const old = plan(before);
  return name !== undefined && sharePlan(plan(part), old)[name] === old[name];
}

describe('a plan does not reuse a virtual server, real server, entry or UDP port that differs in', () => {
  test.each([
    ...variants(PLANNED, OTHER_PLANNED).map(([field, other]) => [`planned ${field}`, other] as const),
    ...variants(VS, OTHER_VS).map(
      ([field, other]) => [`virtual server ${field}`, { ...PLANNED, virtualServer: other }] as const,
    ),
    ...variants(RESTRICTED, OTHER_TRAITS).map(
      ([field, other]) => [`address ${field}`, { ...PLANNED, traits: other }] as const,
    ),
    ...variants(ADMITTED, OTHER_ADMITTED).map(
      ([field, other]) => [`admitted ${field}`, { ...PLANNED, traits: { ...RESTRICTED, admitted: other } }] as const,
    ),
    ...variants(SERVER, OTHER_SERVER).map(
      ([field, other]) => [`real server ${field}`, { ...PLANNED, realServers: [other] }] as const,
    ),
  ])('%s', (_field, other) => {
    expect(shares({ virtualServers: [structuredClone(PLANNED)] }, { virtualServers: [PLANNED] })).toBe(true);
    expect(shares({ virtualServers: [other] }, { virtualServers: [PLANNED] })).toBe(false);
  });

  const udp: PlannedUdp = { id: vsId('10.96.0.1', 53, 'UDP'), answering: [SERVER] };
  test.each(variants(udp, { id: vsId('10.96.0.2', 53, 'UDP'), answering: [] }))('UDP %s', (_field, other) => {
    expect(shares({ udp: [structuredClone(udp)] }, { udp: [udp] })).toBe(true);
    expect(shares({ udp: [other] }, { udp: [udp] })).toBe(false);
  });
});

describe('a plan does not reuse hairpin endpoints that differ in', () => {
  const hairpin: PlannedHairpin = {
    portName: '',
    protocol: 'TCP',
    endpoints: [{ address: SERVER.address, port: SERVER.port }],
  };
  test.each(variants(hairpin, { portName: 'web', protocol: 'UDP', endpoints: [] }))('%s', (_field, other) => {
    expect(shares({ hairpins: [structuredClone(hairpin)] }, { hairpins: [hairpin] })).toBe(true);
    expect(shares({ hairpins: [other] }, { hairpins: [hairpin] })).toBe(false);
  });
});

describe('set entries differ in', () => {
  const types = Object.keys(ENTRIES) as IpSetEntry['type'][];
  const planned: PlannedEntry = { role: 'CLUSTER-IP', family: 4, entry: ENTRIES['hash:ip,port'] };
  const others = {
    role: 'EXTERNAL-IP',
    family: 6,
    entry: { ...ENTRIES['hash:ip,port'], port: portOf(81) },
  } as const;

  test.each(variants(planned, others))('planned %s', (_field, other) => {
    expect(compareEntry(planned, structuredClone(planned))).toBe(0);
    expect(compareEntry(planned, other)).not.toBe(0);
  });

  test.each(
    types.flatMap((type) => {
      const entry: IpSetEntry = ENTRIES[type];
      return Object.entries(OTHER_ENTRIES[type]).map(([field, value]) => {
        const other = { ...entry, [field]: value as unknown } as IpSetEntry;
        return [type, field, entry, other] as const;
      });
    }),
  )('%s: %s', (_type, _field, entry, other) => {
    expect(compareEntry({ ...planned, entry }, { ...planned, entry: structuredClone(entry) })).toBe(0);
    expect(compareEntry({ ...planned, entry }, { ...planned, entry: other })).not.toBe(0);
    expect(ipSetEntryKey(entry)).not.toBe(ipSetEntryKey(other));
  });
});

describe('slices differ in', () => {
  const traits = { local: false, ready: true, serving: true, terminating: false, zones: [], nodes: [] };
  const slice: SliceModel = {
    name: 'web-1',
    owner: namespacedName('default', 'web'),
    ports: [],
    endpoints: [{ address: SERVER.address, traits }],
    unusable: [],
    warnings: [],
  };
  const otherTraits: OtherValues<EndpointTraits> = {
    local: true,
    ready: false,
    serving: false,
    terminating: true,
    localPod: true,
    unplaced: true,
    zone: 'c',
    zones: ['a'],
    nodes: ['b'],
  };
  const withEndpoint = (endpoint: Partial<SliceModel['endpoints'][number]>): SliceModel => ({
    ...slice,
    endpoints: [{ address: SERVER.address, traits, ...endpoint }],
  });

  test('unusable endpoints do not matter: their changes cause no sync', () => {
    expect(sameSlice(slice, { ...slice, unusable: [{ address: '10.244.0.9', why: 'not ready' }] })).toBe(true);
  });

  const { unusable: _unusable, ...fields } = slice;
  const whole = (other: Omit<SliceModel, 'unusable'>): SliceModel => ({ ...other, unusable: [] });
  test.each([
    ...variants(fields, {
      name: 'web-2',
      owner: namespacedName('default', 'b'),
      ports: [{ name: '', protocol: 'TCP', port: VS.port }],
      endpoints: [],
      warnings: [{ reason: 'x', message: 'x' }],
    }),
    ['address', withEndpoint({ address: VS.address })] as const,
    ...variants<EndpointTraits>(traits, otherTraits).map(
      ([field, other]) => [`endpoint ${field}`, withEndpoint({ traits: other })] as const,
    ),
  ])('%s', (_field, other) => {
    expect(sameSlice(slice, withEndpoint({ traits: { ...traits } }))).toBe(true);
    expect(sameSlice(slice, whole(other))).toBe(false);
  });
});

describe('a virtual server is not in force if it differs in', () => {
  const { address: _address, port: _port, protocol: _protocol, ...settings } = OTHER_VS;
  const wanted = { virtualServer: VS, realServers: [SERVER] };
  const have = { virtualServer: VS, realServers: [observed('10.244.0.1', 1, { forwarding: FORWARDING.tunnel })] };

  test.each([
    ...Object.entries(settings).map(
      ([field, value]) => [field, { ...wanted, virtualServer: { ...VS, [field]: value } }] as const,
    ),
    ...variants(SERVER, OTHER_SERVER).map(
      ([field, other]) => [`real server ${field}`, { ...wanted, realServers: [other] }] as const,
    ),
  ])('%s', (_field, other) => {
    const opsFor = (each: WantedVirtualServer): readonly Op[] => {
      const ops: Op[] = [];
      diffVirtualServer(
        VS,
        each,
        have,
        { order: addingOrder({ nodeName: '' }), ledger: READ_ONLY_LEDGER, now: 0 },
        ops,
      );
      return ops;
    };
    expect(opsFor(wanted)).toEqual([]);
    expect(opsFor(other)).not.toEqual([]);
  });
});
