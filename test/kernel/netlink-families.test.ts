import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type IpAddress, parseIp } from '../../src/base/ip.ts';
import { MessageWriter } from '../../src/netlink/codec/message-writer.ts';
import { type SocketConnection, openConnection } from '../../src/netlink/transport/connection.ts';
import { ipvsFamily } from '../../src/kernel/linux/generic-family.ts';
import { decodeFlow, deleteFlow, dumpFlows } from '../../src/netlink/family/conntrack/flow.ts';
import type { IpsetEntry } from '../../src/netlink/family/ipset/entry.ts';
import { decodeFailedEntry, writeEntries } from '../../src/netlink/family/ipset/entry-message.ts';
import { ipsetErrorName } from '../../src/netlink/family/ipset/error-name.ts';
import { dumpSets } from '../../src/netlink/family/ipset/listing.ts';
import { swapSets } from '../../src/netlink/family/ipset/message.ts';
import {
  chooseProtocol,
  getProtocol,
  type IpsetDefinition,
  createSet,
  decodeRevision,
  destroySet,
  getType,
} from '../../src/netlink/family/ipset/set.ts';
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
import {
  IFA_F_NODAD,
  RTM_NEWADDR,
  decodeAddress,
  deleteAddress,
  dumpAddresses,
  setAddress,
} from '../../src/netlink/family/route/address.ts';
import { RTM_NEWLINK, createLink, decodeLink, deleteLinkByName, getLink } from '../../src/netlink/family/route/link.ts';
import { type NetlinkMessage, NLMSG_ERROR, answerOf, messages } from '../../src/netlink/netlink-message.ts';
import { runCommand } from '../bed/command.ts';
import { listedSets } from '../golden/netlink.ts';

const NETNS = 'netlink-families';
/** linux/netlink.h. */
const NETLINK_ROUTE = 0;
const NETLINK_NETFILTER = 12;
const NETLINK_GENERIC = 16;

function ip(text: string): IpAddress {
  const address = parseIp(text);
  if (address === undefined) throw new Error(`not an address: ${text}`);
  return address;
}

/** A tool's output from inside the namespace. */
async function tool(...argv: string[]): Promise<string> {
  return (await runCommand(['ip', 'netns', 'exec', NETNS, ...argv])).stdout;
}

/** Sends what `write` appends, and answers every message of the reply. */
async function ask(connection: SocketConnection, write: (writer: MessageWriter) => void): Promise<NetlinkMessage[]> {
  const writer = new MessageWriter();
  write(writer);
  const { bytes, segments } = writer.finish(connection.sequence(writer.messages));
  return [...messages(await connection.transact(bytes, segments))];
}

/** The errnos in the answer, in order. */
async function refused(connection: SocketConnection, write: (writer: MessageWriter) => void): Promise<number[]> {
  return (await ask(connection, write)).map((message) => answerOf(message)?.errno ?? 0).filter((errno) => errno !== 0);
}

async function payloads(
  connection: SocketConnection,
  type: number | undefined,
  write: (writer: MessageWriter) => void,
): Promise<Uint8Array[]> {
  const replies = await ask(connection, write);
  expect(replies.filter((message) => message.type === NLMSG_ERROR)).toEqual([]);
  return replies
    .filter((message) => (type === undefined ? message.type >= 16 : message.type === type))
    .map((message) => message.payload);
}

const connections: SocketConnection[] = [];

function connect(protocol: number): SocketConnection {
  const connection = openConnection({ protocol, netns: `/run/netns/${NETNS}` });
  connections.push(connection);
  return connection;
}

beforeAll(async () => {
  await runCommand(['ip', 'netns', 'add', NETNS]);
  await tool('ip', 'link', 'set', 'lo', 'up');
});

afterAll(async () => {
  for (const connection of connections) connection.close();
  await runCommand(['ip', 'netns', 'delete', NETNS]);
});

describe('ipvs', () => {
  const web: IpvsService = {
    address: ip('10.0.0.1'),
    port: 80,
    protocol: 'TCP',
    scheduler: 'rr',
    flags: 0,
    timeout: 0,
    prefix: 32,
  };
  const dns: IpvsService = { ...web, port: 53, protocol: 'UDP', scheduler: 'wlc', flags: 1, timeout: 300, prefix: 24 };
  const web6: IpvsService = { ...web, address: ip('fd00::1'), scheduler: 'sh', flags: 0x19, timeout: 60, prefix: 64 };
  let generic: SocketConnection;
  let family: number;

  beforeAll(async () => {
    generic = connect(NETLINK_GENERIC);
    family = await ipvsFamily(generic);
  });

  test('ipvsadm lists the virtual and real servers that we add', async () => {
    const errnos = await refused(generic, (w) => {
      addService(w, family, web);
      addDestination(w, family, web, { address: ip('10.1.0.1'), port: 8080, weight: 1 });
      addDestination(w, family, web, { address: ip('10.1.0.2'), port: 8080, weight: 3 });
      addService(w, family, dns);
      addService(w, family, web6);
      addDestination(w, family, web6, { address: ip('fd00:1::1'), port: 8443, weight: 2 });
    });
    expect(errnos).toEqual([]);
    expect((await tool('ipvsadm', '-Sn')).trim().split('\n').toSorted()).toEqual([
      '-A -t 10.0.0.1:80 -s rr',
      '-A -t [fd00::1]:80 -s sh -p 60 -M 64 -b sh-fallback,sh-port',
      '-A -u 10.0.0.1:53 -s wlc -p 300 -M 255.255.255.0',
      '-a -t 10.0.0.1:80 -r 10.1.0.1:8080 -m -w 1',
      '-a -t 10.0.0.1:80 -r 10.1.0.2:8080 -m -w 3',
      '-a -t [fd00::1]:80 -r [fd00:1::1]:8443 -m -w 2',
    ]);
  });

  test('our decoder reads back the virtual and real servers that we add', async () => {
    // The kernel marks every service as hashed (2).
    const hashed = (service: IpvsService) => ({ ...service, flags: service.flags | 2 });
    const services = (await payloads(generic, family, (w) => dumpServices(w, family))).map(decodeService);
    expect(services).toHaveLength(3);
    expect(services).toEqual(expect.arrayContaining([web, dns, web6].map(hashed)));
    const one = await payloads(generic, family, (w) => getService(w, family, dns));
    expect(one.map(decodeService)).toEqual([hashed(dns)]);
    const destinations = (await payloads(generic, family, (w) => dumpDestinations(w, family, web))).map((payload) =>
      decodeDestination(payload, 4),
    );
    const byWeight = destinations.toSorted((a, b) => a.weight - b.weight);
    expect(byWeight).toMatchObject([
      { address: ip('10.1.0.1'), port: 8080, weight: 1, forwarding: 0 },
      { address: ip('10.1.0.2'), port: 8080, weight: 3, forwarding: 0 },
    ]);
  });

  test('refused IPVS messages are matched by sequence number and do not stop the others', async () => {
    const missing = { ...web, port: 81 };
    const errnos = await refused(generic, (w) => {
      addService(w, family, web);
      editService(w, family, missing);
      addDestination(w, family, web, { address: ip('10.1.0.1'), port: 8080, weight: 1 });
      deleteDestination(w, family, web, { address: ip('10.9.0.1'), port: 8080 });
      addService(w, family, { ...missing, scheduler: 'nosuch' });
      deleteService(w, family, missing);
      editDestination(w, family, web, { address: ip('10.1.0.1'), port: 8080, weight: 0 });
      deleteDestination(w, family, web, { address: ip('10.1.0.2'), port: 8080 });
      editService(w, family, { ...dns, scheduler: 'lc', flags: 0, timeout: 0, prefix: 32 });
      getService(w, family, missing);
    });
    expect(errnos).toEqual([17, 3, 17, 2, 2, 3, 3]);
    const lines = (await tool('ipvsadm', '-Sn')).trim().split('\n').toSorted();
    expect(lines).toContain('-A -u 10.0.0.1:53 -s lc');
    expect(lines).toContain('-a -t 10.0.0.1:80 -r 10.1.0.1:8080 -m -w 0');
    expect(lines).toHaveLength(5);
  });

  // As the comment of dumpDestinations says, the caller cannot distinguish the two.
  test('reading the destinations of an unknown virtual server returns an empty list', async () => {
    expect(await payloads(generic, family, (w) => dumpDestinations(w, family, { ...web, port: 99 }))).toEqual([]);
  });

  test('timeouts', async () => {
    expect(await refused(generic, (w) => setConfig(w, family, { tcp: 901, tcpFin: 121, udp: 301 }))).toEqual([]);
    const [config] = await payloads(generic, family, (w) => getConfig(w, family));
    expect(decodeConfig(config!)).toEqual({ tcp: 901, tcpFin: 121, udp: 301 });
    expect(await tool('ipvsadm', '-Ln', '--timeout')).toContain('901 121 301');
  });
});

describe('ipset', () => {
  let netfilter: SocketConnection;
  let protocol: number;

  beforeAll(async () => {
    netfilter = connect(NETLINK_NETFILTER);
    const [answer] = await payloads(netfilter, undefined, getProtocol);
    protocol = chooseProtocol(answer!);
  });

  async function define(definition: Omit<IpsetDefinition, 'revision'>): Promise<IpsetDefinition> {
    const [answer] = await payloads(netfilter, undefined, (w) =>
      getType(w, protocol, definition.type, definition.family),
    );
    return { ...definition, revision: decodeRevision(answer!) };
  }

  /** The same set, but not equal to it. */
  function otherCapacity(set: IpsetDefinition): IpsetDefinition {
    return set.type === 'bitmap:port' ? { ...set, lastPort: 1000 } : { ...set, maxEntries: 4242 };
  }

  const SETS: readonly (readonly [Omit<IpsetDefinition, 'revision'>, IpsetEntry, string])[] = [
    [{ name: 'A', type: 'hash:ip', family: 4, maxEntries: 1000 }, { address: ip('10.0.0.1') }, '10.0.0.1'],
    [
      { name: 'B', type: 'hash:ip,port', family: 4 },
      { address: ip('10.0.0.1'), protocol: 17, port: 53 },
      '10.0.0.1,udp:53',
    ],
    [
      { name: 'C', type: 'hash:ip,port,ip', family: 6 },
      { address: ip('fd00::1'), protocol: 6, port: 80, address2: ip('fd00::2') },
      'fd00::1,tcp:80,fd00::2',
    ],
    [
      { name: 'D', type: 'hash:ip,port,net', family: 4 },
      { address: ip('10.0.0.1'), protocol: 132, port: 9, address2: ip('10.2.0.0'), prefix2: 16 },
      '10.0.0.1,sctp:9,10.2.0.0/16',
    ],
    [{ name: 'E', type: 'bitmap:port', family: undefined, firstPort: 0, lastPort: 65_535 }, { port: 30_080 }, '30080'],
  ];

  test.each(SETS)('%#: what we add, ipset lists, and we read back', async (definition, entry, text) => {
    const set = await define(definition);
    const { name } = set;
    const make = (w: MessageWriter): void => {
      createSet(w, protocol, set);
      writeEntries(w, protocol, 'add', name, [entry]);
    };
    // Twice: neither the set nor its entry need be new.
    expect(await refused(netfilter, make)).toEqual([]);
    expect(await refused(netfilter, make)).toEqual([]);
    expect(await refused(netfilter, (w) => createSet(w, protocol, otherCapacity(set)))).toEqual([17]);
    const saved = (await tool('ipset', 'save', name)).trim().split('\n');
    expect(saved[0]).toContain(`create ${name} ${set.type} `);
    expect(saved.slice(1)).toEqual([`add ${name} ${text}`]);
    const [listed] = listedSets(await payloads(netfilter, undefined, (w) => dumpSets(w, protocol, { name })));
    expect(listed).toMatchObject({ name, type: set.type, family: set.family, entries: [entry] });
    // Likewise it need not be there to be deleted.
    const remove = (w: MessageWriter): void => void writeEntries(w, protocol, 'delete', name, [entry]);
    expect(await refused(netfilter, remove)).toEqual([]);
    expect(await refused(netfilter, remove)).toEqual([]);
    expect(await tool('ipset', 'save', name)).not.toContain('add ');
  });

  // The connection asks for short errors (NETLINK_CAP_ACK); ipset's are whole nevertheless.
  test('a refused set entry is reported by index; earlier entries are added', async () => {
    const set = await define({ name: 'F', type: 'hash:ip,port', family: 4, maxEntries: 2 });
    const entries = [1, 2, 3, 4].map((last) => ({ address: ip(`10.0.0.${last}`), protocol: 6, port: 80 }));
    await refused(netfilter, (w) => createSet(w, protocol, set));
    const [error] = await ask(netfilter, (w) => writeEntries(w, protocol, 'add', 'F', entries));
    expect(ipsetErrorName(answerOf(error!)!.errno, set.type)).toBe('IPSET_ERR_HASH_FULL');
    expect(decodeFailedEntry(error!)).toBe(2);
    expect((await tool('ipset', 'save', 'F')).match(/^add /gm)).toHaveLength(2);
    const [missing] = await ask(netfilter, (w) => writeEntries(w, protocol, 'add', 'NOSUCH', entries));
    expect(answerOf(missing!)?.errno).toBe(2);
    expect(decodeFailedEntry(missing!)).toBeUndefined();
  });

  test('a set of many entries is swapped in atomically', async () => {
    const set = await define({ name: 'G', type: 'hash:ip', family: 4 });
    const entries = Array.from({ length: 3000 }, (_, i) => ({ address: ip(`10.1.${i >> 8}.${i & 255}`) }));
    const errnos = await refused(netfilter, (w) => {
      createSet(w, protocol, set);
      createSet(w, protocol, { ...set, name: 'G2' });
      for (const half of [entries.slice(0, 1500), entries.slice(1500)]) writeEntries(w, protocol, 'add', 'G2', half);
      swapSets(w, protocol, 'G', 'G2');
      destroySet(w, protocol, 'G2');
    });
    expect(errnos).toEqual([]);
    const [listed] = listedSets(await payloads(netfilter, undefined, (w) => dumpSets(w, protocol, { name: 'G' })));
    expect(new Set(listed?.entries.map((entry) => entry.address))).toEqual(new Set(entries.map((e) => e.address)));
    expect((await tool('ipset', 'list', '-name')).split('\n')).not.toContain('G2');
  });
});

describe('route', () => {
  let route: SocketConnection;

  beforeAll(() => {
    route = connect(NETLINK_ROUTE);
  });

  test('a dummy interface with addresses is created and read back', async () => {
    const name = 'families0';
    expect(await refused(route, (w) => createLink(w, name, 'dummy'))).toEqual([]);
    expect(await refused(route, (w) => createLink(w, name, 'dummy'))).toEqual([17]);
    const [reply] = await payloads(route, RTM_NEWLINK, (w) => getLink(w, name));
    const link = decodeLink(reply!);
    expect(link).toMatchObject({ name, kind: 'dummy' });
    const { index } = link;
    const v6 = { index, address: ip('fd00::1'), prefix: 128, flags: IFA_F_NODAD, preferredLifetime: 0 };
    const v4 = Array.from({ length: 600 }, (_, i) => ({ index, address: ip(`10.3.${i >> 8}.${i & 255}`), prefix: 32 }));
    const errnos = await refused(route, (w) => {
      for (const address of v4) setAddress(w, address);
      setAddress(w, v6);
      setAddress(w, v6);
      deleteAddress(w, { index, address: ip('10.4.0.1'), prefix: 32 });
      deleteAddress(w, v4[0]!);
    });
    expect(errnos).toEqual([99]);
    const shown = JSON.parse(await tool('ip', '-j', 'address', 'show', 'dev', name)) as {
      addr_info: { local: string; prefixlen: number; deprecated?: boolean; nodad?: boolean }[];
    }[];
    const infos = shown[0]!.addr_info;
    expect(infos.filter(({ local }) => local.startsWith('10.3.'))).toHaveLength(599);
    expect(infos.find(({ local }) => local === 'fd00::1')).toMatchObject({ prefixlen: 128, deprecated: true });

    const read = (await payloads(route, RTM_NEWADDR, (w) => dumpAddresses(w, 4))).map(decodeAddress);
    const ours = read.filter((address) => address?.index === index).map((address) => address?.address);
    expect(new Set(ours)).toEqual(new Set(v4.slice(1).map(({ address }) => address)));
    const read6 = (await payloads(route, RTM_NEWADDR, (w) => dumpAddresses(w, 6))).map(decodeAddress);
    expect(read6).toContainEqual(expect.objectContaining({ index, address: v6.address, prefix: 128 }));

    expect(await refused(route, (w) => deleteLinkByName(w, name))).toEqual([]);
    expect(await refused(route, (w) => getLink(w, name))).toEqual([19]);
  });
});

describe('conntrack', () => {
  /** linux/netfilter: NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW. */
  const FLOW_MESSAGE = 0x100;
  const insert = (...argv: string[]) => tool('conntrack', '-I', '-t', '1000', ...argv);
  const udp = (destination: string) => ['-p', 'udp', '-d', destination, '--sport', '1234', '--dport', '53'];

  test('conntrack flows of one family and protocol are listed, and deleted by tuple', async () => {
    const netfilter = connect(NETLINK_NETFILTER);
    await insert('-s', '10.0.0.9', ...udp('10.0.0.1'), '-m', '5');
    await insert('-s', '10.0.0.9', ...udp('10.0.0.2'));
    await insert('-s', 'fd00::9', ...udp('fd00::1'));
    await insert(
      '-s',
      '10.0.0.9',
      '-d',
      '10.0.0.1',
      '-p',
      'tcp',
      '--sport',
      '1',
      '--dport',
      '80',
      '--state',
      'ESTABLISHED',
    );
    const udpFlows = async () =>
      (await payloads(netfilter, FLOW_MESSAGE, (w) => dumpFlows(w, 4, { protocol: 17 }))).map((payload) =>
        decodeFlow(payload)!,
      );
    const flows = await udpFlows();
    // This kernel is new enough to leave the others out itself.
    expect(flows.map((flow) => flow.original.protocol)).toEqual([17, 17]);
    expect(flows.find((flow) => flow.original.destination === ip('10.0.0.1'))).toMatchObject({
      original: { source: ip('10.0.0.9'), destination: ip('10.0.0.1'), sourcePort: 1234, destinationPort: 53 },
      reply: { source: ip('10.0.0.1'), destination: ip('10.0.0.9'), sourcePort: 53, destinationPort: 1234 },
    });
    expect(
      await refused(netfilter, (w) => {
        for (const { original } of flows) deleteFlow(w, original);
        deleteFlow(w, flows[0]!.original);
      }),
    ).toEqual([2]);
    expect(await udpFlows()).toEqual([]);
    const left = await tool('conntrack', '-L', '-f', 'ipv4');
    expect(left).toContain('tcp');
    expect(left).not.toContain('udp');
    expect(await tool('conntrack', '-L', '-f', 'ipv6')).toContain('udp');
  });
});
