import { describe, expect, test } from '@jest/globals';
import { decodeConfig, getConfig, setConfig } from '../../src/netlink/family/ipvs/config.ts';
import {
  addDestination,
  decodeDestination,
  deleteDestination,
  dumpDestinations,
  editDestination,
} from '../../src/netlink/family/ipvs/destination.ts';
import {
  type IpvsService,
  addService,
  decodeService,
  deleteService,
  dumpServices,
  editService,
  getService,
} from '../../src/netlink/family/ipvs/service.ts';
import { decodeStats } from '../../src/netlink/family/ipvs/stats.ts';
import { NLMSG_ERROR, answerOf } from '../../src/netlink/netlink-message.ts';
import { exchange } from './capture.ts';
import { allMessages, decoded, firstPayload, ip, payloads, sentBytes, written } from './netlink.ts';
import { NETLINK_GENERIC } from '../../src/netlink/netlink-protocol.ts';

/** The id of the family IPVS in the captured kernel. */
const IPVS = 0x1c;

const web: IpvsService = {
  address: ip('10.0.0.1'),
  port: 80,
  protocol: 'TCP',
  scheduler: 'rr',
  flags: 0,
  timeout: 0,
  prefix: 32,
};
const web6: IpvsService = { ...web, address: ip('fd00::1'), port: 443, scheduler: 'lc', prefix: 128 };

const SERVICES: readonly (readonly [string, IpvsService])[] = [
  ['add-service', web],
  [
    'add-service-persistent',
    {
      ...web,
      address: ip('10.0.0.2'),
      port: 53,
      protocol: 'UDP',
      scheduler: 'wrr',
      flags: 1,
      timeout: 300,
      prefix: 24,
    },
  ],
  ['add-service-6', web6],
  [
    'add-service-6-persistent',
    { ...web6, address: ip('fd00::2'), scheduler: 'sh', flags: 0x19, timeout: 10_800, prefix: 64 },
  ],
  ['add-service-ops', { ...web, address: ip('10.0.0.3'), port: 53, protocol: 'UDP', flags: 4 }],
  ['add-service-sctp', { ...web, address: ip('10.0.0.4'), port: 99, protocol: 'SCTP' }],
];

/** The id and length of each attribute at one level, as text: enough to see what differs in a nest. */
function attributes(payload: Uint8Array, start: number, end: number): Map<number, string> {
  const found = new Map<number, string>();
  for (let at = start; at < end;) {
    const length = payload[at]! | (payload[at + 1]! << 8);
    const id = (payload[at + 2]! | (payload[at + 3]! << 8)) & 0x3fff;
    found.set(id, Buffer.from(payload.subarray(at + 4, at + length)).toString('hex'));
    at += (length + 3) & ~3;
  }
  return found;
}

/** The attributes of the nests of an IPVS request, by the id of the nest. */
function nests(message: Uint8Array): Map<number, Map<number, string>> {
  const found = new Map<number, Map<number, string>>();
  for (let at = 20; at < message.length;) {
    const length = message[at]! | (message[at + 1]! << 8);
    found.set(message[at + 2]! & 0x7f, attributes(message, at + 4, at + length));
    at += (length + 3) & ~3;
  }
  return found;
}

describe('what we write is what ipvsadm writes, byte for byte', () => {
  test.each(SERVICES)('%s', (name, service) => {
    expect(
      decoded(
        NETLINK_GENERIC,
        written((w) => addService(w, IPVS, service)),
      ),
    ).toBe(decoded(NETLINK_GENERIC, sentBytes(exchange('ipvsadm', name).sent[0])));
  });

  test('edit-service', () => {
    const want = { ...web, scheduler: 'wlc' };
    expect(
      decoded(
        NETLINK_GENERIC,
        written((w) => editService(w, IPVS, want)),
      ),
    ).toBe(decoded(NETLINK_GENERIC, sentBytes(exchange('ipvsadm', 'edit-service').sent[0])));
  });

  test('list, timeouts', () => {
    const { sent } = exchange('ipvsadm', 'list');
    expect(
      decoded(
        NETLINK_GENERIC,
        written((w) => dumpServices(w, IPVS)),
      ),
    ).toBe(decoded(NETLINK_GENERIC, sentBytes(sent[0])));
    expect(
      decoded(
        NETLINK_GENERIC,
        written((w) => dumpDestinations(w, IPVS, web)),
      ),
    ).toBe(decoded(NETLINK_GENERIC, sentBytes(sent[1])));
    expect(
      decoded(
        NETLINK_GENERIC,
        written((w) => setConfig(w, IPVS, { tcp: 900, tcpFin: 120, udp: 300 })),
      ),
    ).toBe(decoded(NETLINK_GENERIC, sentBytes(exchange('ipvsadm', 'set-timeouts').sent[0])));
    expect(
      decoded(
        NETLINK_GENERIC,
        written((w) => getConfig(w, IPVS)),
      ),
    ).toBe(decoded(NETLINK_GENERIC, sentBytes(exchange('ipvsadm', 'list-timeouts').sent[0])));
  });
});

// ipvsadm names a service by all its properties, and a destination to delete too; the kernel looks at the first four of
// the one, and at address and port of the other. What we write has the same values.
describe('what we write is contained in what ipvsadm writes', () => {
  test.each([
    ['add-dest', addDestination, web, { address: ip('10.1.0.1'), port: 8080, weight: 1 }],
    ['add-dest-g', addDestination, web, { address: ip('10.1.0.3'), port: 80, weight: 2, forwarding: 3 }],
    ['add-dest-6', addDestination, web6, { address: ip('fd00:1::5'), port: 8443, weight: 1 }],
    ['add-dest-tun6', addDestination, web, { address: ip('fd00:2::9'), port: 80, weight: 3, forwarding: 2 }],
    ['edit-dest', editDestination, web, { address: ip('10.1.0.2'), port: 8080, weight: 0 }],
    ['delete-dest', deleteDestination, web, { address: ip('10.1.0.1'), port: 8080, weight: 1 }],
  ] as const)('%s', (name, command, service, want) => {
    const sent = Buffer.from(sentBytes(exchange('ipvsadm', name).sent[0]), 'hex');
    const ours = Buffer.from(
      written((w) => command(w, IPVS, service, want)),
      'hex',
    );
    expect(ours.subarray(4, 8)).toEqual(sent.subarray(4, 8));
    expect(ours.subarray(16, 20)).toEqual(sent.subarray(16, 20));
    const theirs = nests(sent);
    for (const [nest, values] of nests(ours)) {
      expect([...theirs.get(nest)!].filter(([id]) => values.has(id))).toEqual([...values]);
    }
    const left = [...theirs.get(2)!.keys()].filter((id) => !nests(ours).get(2)!.has(id));
    expect(left).toEqual(name === 'delete-dest' ? [3, 4, 13, 14, 15, 5, 6] : []);
  });

  test.each([
    ['gue', { address: ip('10.244.0.2'), tunnelType: 1, tunnelPort: 6080 }],
    ['gre', { address: ip('10.244.0.3'), tunnelType: 2 }],
  ])('a destination behind a tunnel: %s', (name, want) => {
    const service = { ...web, address: ip('10.203.0.1') };
    const destination = { ...want, port: 80, weight: 1, forwarding: 2 };
    const ours = written((w) => addDestination(w, IPVS, service, destination));
    const theirs = nests(exchange('ipvsadm-tunnel', name).sent[0]!).get(2)!;
    expect(nests(Buffer.from(ours, 'hex')).get(2)).toEqual(theirs);
  });

  test.each([
    ['delete-service', deleteService, 0],
    ['list-one', getService, 0],
  ] as const)('%s', (name, command, index) => {
    const theirs = nests(exchange('ipvsadm', name).sent[index]!).get(1)!;
    const ours = nests(
      Buffer.from(
        written((w) => command(w, IPVS, web)),
        'hex',
      ),
    ).get(1)!;
    expect([...ours.keys()]).toEqual([1, 2, 3, 4]);
    for (const [id, value] of ours) expect(theirs.get(id)).toBe(value);
  });
});

describe('what the kernel said to ipvsadm', () => {
  test('services, the one by firewall mark left out', () => {
    const replies = payloads(exchange('ipvsadm', 'list').received, IPVS);
    const services = replies.filter((payload) => payload[0] === 1);
    const read = services.map(decodeService);
    expect(read.filter((service) => service === undefined)).toHaveLength(1);
    const byKey = (a: IpvsService, b: IpvsService): number => (`${a.address}` < `${b.address}` ? -1 : 1);
    // The kernel marks every service as hashed (2).
    const want = SERVICES.map(([, service]) => ({ ...service, flags: service.flags | 2 }));
    want[0]!.scheduler = 'wlc';
    expect(read.filter((service) => service !== undefined).sort(byKey)).toEqual(want.sort(byKey));
  });

  test('destinations behind tunnels', () => {
    const replies = payloads(exchange('ipvsadm-tunnel', 'list').received, IPVS);
    expect(replies.map((payload) => decodeDestination(payload, 4))).toMatchObject([
      { address: ip('10.244.0.3'), forwarding: 2, tunnelType: 2, tunnelPort: 0, tunnelFlags: 0 },
      { address: ip('10.244.0.2'), forwarding: 2, tunnelType: 1, tunnelPort: 6080, tunnelFlags: 0 },
    ]);
  });

  test('destinations, among them one of another family than its service', () => {
    const replies = payloads(exchange('ipvsadm', 'list').received, IPVS);
    const destinations = replies.filter((payload) => payload[0] === 5).map((payload) => decodeDestination(payload, 4));
    const counters = { activeConnections: 0, inactiveConnections: 0, persistentConnections: 0 };
    const tunnel = { tunnelType: 0, tunnelPort: 0, tunnelFlags: 0 };
    const plain = { ...counters, ...tunnel, forwarding: 0, upperThreshold: 0, lowerThreshold: 0 };
    expect(destinations).toEqual([
      { ...plain, address: ip('fd00:2::9'), port: 80, weight: 3, forwarding: 2 },
      { ...plain, address: ip('10.1.0.3'), port: 80, weight: 2, forwarding: 3 },
      { ...plain, address: ip('10.1.0.2'), port: 8080, weight: 0 },
      { ...plain, address: ip('10.1.0.1'), port: 8080, weight: 1 },
      { ...plain, address: ip('fd00:1::5'), port: 8443, weight: 1 },
    ]);
  });

  test('a destination without a family (kernels before 3.18) has that of its service', () => {
    const reply = payloads(exchange('ipvsadm', 'list').received, IPVS).filter((payload) => payload[0] === 5)[3]!;
    const nest = reply.subarray(8);
    const family = [...nest.keys()].find(
      (at) => Buffer.from(nest.subarray(at, at + 4)).toString('hex') === '06000b00',
    )!;
    // An attribute number that nobody knows in its place.
    const old = Uint8Array.from(reply);
    old[8 + family + 2] = 0x3e;
    expect(decodeDestination(old, 4)).toEqual(decodeDestination(reply, 6));
    expect(decodeDestination(old, 6).address).not.toBe(ip('10.1.0.1'));
  });

  test('counters: the 64-bit ones, and the 32-bit ones of older kernels', () => {
    const reply = payloads(exchange('ipvsadm', 'list').received, IPVS)[0]!;
    const stats = decodeStats(reply);
    expect(Object.values(stats!)).toEqual([0, 0, 0, 0, 0]);
    const hex = Buffer.from(reply).toString('hex').replace('a0000c00', 'a0003e00');
    expect(decodeStats(Buffer.from(hex, 'hex'))).toEqual(stats);
    expect(decodeStats(Buffer.from(hex.replace('60000a00', '60003e00'), 'hex'))).toBeUndefined();
  });

  test('counters of a destination: the 64-bit ones, and the 32-bit ones of older kernels', () => {
    const reply = payloads(exchange('ipvsadm', 'list').received, IPVS).find((payload) => payload[0] === 5)!;
    const hex = Buffer.from(reply).toString('hex');
    // The value behind the headers of the nest and of its first row, the connections.
    const counted = (text: string, nest: string, row: string) => text.replace(`${nest}${row}00`, `${nest}${row}07`);
    const wide = counted(hex, 'a0000c00', '0c000100');
    expect(decodeStats(reply)).toMatchObject({ connections: 0, incomingBytes: 0 });
    expect(decodeStats(Buffer.from(wide, 'hex'))).toMatchObject({ connections: 7, incomingPackets: 0 });
    const old = counted(hex.replace('a0000c00', 'a0003e00'), '64000a00', '08000100');
    expect(decodeStats(Buffer.from(old, 'hex'))).toMatchObject({ connections: 7, incomingPackets: 0 });
  });

  test('timeouts', () => {
    const config = firstPayload(exchange('ipvsadm', 'list-timeouts').received, IPVS);
    expect(decodeConfig(config)).toEqual({ tcp: 900, tcpFin: 120, udp: 300 });
  });

  test.each([
    ['add-exists', 17],
    ['add-unknown-scheduler', 2],
  ])('%s is errno %d', (name, errno) => {
    const [message] = allMessages(exchange('ipvsadm', name).received);
    expect(message?.type).toBe(NLMSG_ERROR);
    expect(answerOf(message!)?.errno).toBe(errno);
  });
});
