import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { type DualStack, clusterAddress, externalAddress, nodeAddress, podAddress } from '../bed/address-plan.ts';
import { Bed, POD_BRIDGE, UPLINK } from '../bed/bed.ts';
import type { Namespace } from '../bed/namespace.ts';
import { startDaemon } from '../support/daemon.ts';
import { ManifestDirectory, SERVICE_PORT, nodeObjects, serviceObjects } from './cluster-objects.ts';

jest.setTimeout(180_000);

const FAMILIES = ['v4', 'v6'] as const;
/** Longer than the MTU, so that the request needs segments of full size. */
const LONG_HEADER = `x-long: ${'a'.repeat(12_000)}`;

interface Row {
  readonly name: string;
  readonly forwarding: 'tunnel' | 'route' | 'tunnel-gue:5555' | 'tunnel-gre';
  readonly vip: DualStack;
  /** The node of the endpoint. Clients send to node 0. */
  readonly node: 0 | 1;
}

const ROWS: readonly Row[] = [
  { name: 'tunnel-elsewhere', forwarding: 'tunnel', vip: externalAddress(1), node: 1 },
  { name: 'tunnel-here', forwarding: 'tunnel', vip: externalAddress(2), node: 0 },
  { name: 'gue-elsewhere', forwarding: 'tunnel-gue:5555', vip: externalAddress(4), node: 1 },
  { name: 'gre-elsewhere', forwarding: 'tunnel-gre', vip: externalAddress(5), node: 1 },
  { name: 'gue-here', forwarding: 'tunnel-gue:5555', vip: externalAddress(6), node: 0 },
  { name: 'gre-here', forwarding: 'tunnel-gre', vip: externalAddress(7), node: 0 },
  { name: 'route-here', forwarding: 'route', vip: externalAddress(3), node: 0 },
];

/** The commands of docs/forwarding.md, in the Pod. */
async function preparePod(pod: Namespace, rows: readonly Row[]): Promise<void> {
  const vips = (...methods: readonly Row['forwarding'][]): readonly DualStack[] =>
    rows.filter(({ forwarding }) => methods.includes(forwarding)).map(({ vip }) => vip);
  await pod.ip([
    `link add dsr4 type ipip local ${pod.addresses.v4}`,
    `link add dsr6 type ip6tnl mode ip6ip6 local ${pod.addresses.v6}`,
    'link add dsr type dummy',
    'fou add port 5555 gue',
    'fou add port 5555 gue -6',
    `link add gre4 type gre local ${pod.addresses.v4}`,
    `link add gre6 type ip6gre local ${pod.addresses.v6}`,
    ...vips('tunnel', 'tunnel-gue:5555').flatMap(({ v4, v6 }) => [
      `addr add ${v4}/32 dev dsr4`,
      `addr add ${v6}/128 dev dsr6 nodad`,
    ]),
    ...vips('tunnel-gre').flatMap(({ v4, v6 }) => [`addr add ${v4}/32 dev gre4`, `addr add ${v6}/128 dev gre6 nodad`]),
    ...vips('route').flatMap(({ v4, v6 }) => [`addr add ${v4}/32 dev dsr`, `addr add ${v6}/128 dev dsr nodad`]),
    ...['dsr4', 'dsr6', 'dsr', 'gre4', 'gre6'].map((device) => `link set ${device} up`),
  ]);
  await pod.sysctl({
    'net.ipv4.conf.dsr4.rp_filter': 2,
    'net.ipv4.conf.gre4.rp_filter': 2,
    [`net.ipv4.conf.${UPLINK}.arp_announce`]: 2,
  });
}

describe('forwarding without NAT', () => {
  let bed: Bed;
  let directory: ManifestDirectory;

  const write = async (row: Row, forwarding: string | undefined = row.forwarding, targetPort = SERVICE_PORT) => {
    await directory.write(
      row.name,
      serviceObjects({
        name: row.name,
        clusterIp: clusterAddress(ROWS.indexOf(row) + 1),
        protocols: ['TCP', 'UDP'],
        externalIp: row.vip,
        external: row.forwarding === 'route' ? 'Local' : 'Cluster',
        ...(forwarding === 'none' ? {} : { annotations: { forwarding } }),
        targetPort,
        endpoints: [{ addresses: podAddress(row.node, 0), node: row.node }],
      }),
    );
  };

  /** Returns the answer to a request that is longer than the MTU. */
  async function requestOfManySegments(address: string): Promise<string> {
    const url = `http://${address.includes(':') ? `[${address}]` : address}:${SERVICE_PORT}/`;
    return (await bed.client(0).exec(['curl', '-sg', '-m', '20', '-H', LONG_HEADER, url])).stdout;
  }

  /** Those that get new connections, as ipvsadm prints them. */
  const realServers = async (address: string): Promise<string[]> =>
    (await bed.node(0).exec(['ipvsadm', '-Sn'])).stdout
      .split('\n')
      .filter((line) => line.startsWith('-a') && line.includes(address) && !line.includes(' -w 0'));

  async function untilForwarded(address: string, option: string): Promise<void> {
    const deadline = Date.now() + 60_000;
    for (;;) {
      const found = await realServers(address);
      if (found.length === 2 && found.every((line) => line.includes(` ${option} `))) return;
      if (Date.now() > deadline) throw new Error(`not forwarded with ${option}: ${found.join('; ')}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** Packets from the address that came in through any interface of the node. */
  async function answersThrough(node: Namespace, family: keyof DualStack, vip: DualStack): Promise<number> {
    const program = family === 'v4' ? 'iptables' : 'ip6tables';
    const { stdout } = await node.exec([program, '-t', 'mangle', '-nvxL', 'PREROUTING']);
    const line = stdout
      .split('\n')
      .find((each) => each.split(/\s+/).some((word) => word.split('/')[0] === vip[family]));
    if (line === undefined) throw new Error(`no counter for ${vip[family]}`);
    return Number(line.trim().split(/\s+/)[0]);
  }

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 2, podsPerNode: 1, clients: 1 });
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(2));
    for (const row of ROWS) await write(row);
    for (const index of [0, 1]) {
      const [node, pod] = [bed.node(index), bed.pod(index, 0)];
      await preparePod(
        pod,
        ROWS.filter((row) => row.node === index),
      );
      // The answers come from an address that is local to the node as well.
      await node.sysctl({ [`net.ipv4.conf.${POD_BRIDGE}.accept_local`]: 1 });
      await pod.serveTcp(SERVICE_PORT);
      for (const { vip } of ROWS.filter((row) => row.node === index)) {
        for (const family of FAMILIES) await pod.serveUdp(SERVICE_PORT, { address: vip[family] });
      }
      for (const { vip } of ROWS) {
        await node.exec(['iptables', '-t', 'mangle', '-A', 'PREROUTING', '-s', vip.v4]);
        await node.exec(['ip6tables', '-t', 'mangle', '-A', 'PREROUTING', '-s', vip.v6]);
      }
      await startDaemon(node, [`--manifests=${directory.path}`, '--service-annotations=forwarding']);
    }
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  describe.each(ROWS)('$name', (row) => {
    test.each(FAMILIES)('%s: the Pod answers the client itself', async (family) => {
      const [client, address] = [bed.client(0), row.vip[family]];
      const answer = { ok: true, answeredBy: `pod-${row.node}-0`, sourceSeen: client.addresses[family] };
      const [first, before] = [bed.node(0), await answersThrough(bed.node(row.node), family, row.vip)];
      for (let count = 0; count < 3; count++) {
        expect(await client.probeTcp(address, SERVICE_PORT)).toMatchObject(answer);
        expect(await client.probeUdp(address, SERVICE_PORT)).toMatchObject(answer);
      }
      expect(await requestOfManySegments(address)).toContain(`"answeredBy":"pod-${row.node}-0"`);
      const through = await Promise.all(
        [first, bed.node(row.node)].map((node) => answersThrough(node, family, row.vip)),
      );
      expect(through[1]).toBeGreaterThan(before);
      expect(through[0]).toBe(row.node === 0 ? through[1] : 0);
    });

    test('the cluster IP still has NAT', async () => {
      const clusterIp = clusterAddress(ROWS.indexOf(row) + 1);
      expect(await realServers(clusterIp.v4)).toEqual([
        expect.stringContaining(' -m '),
        expect.stringContaining(' -m '),
      ]);
    });
  });

  test.each(FAMILIES)('%s: a change to NAT and back keeps open TCP connections and UDP flows', async (family) => {
    const [row] = ROWS as readonly [Row, ...Row[]];
    const [client, address, node] = [bed.client(0), row.vip[family], nodeAddress(0)[family]];
    const own = client.addresses[family];
    // The one of beforeAll listens at the service address, where packets with NAT do not arrive.
    const translatedServer = await bed.pod(1, 0).serveUdp(SERVICE_PORT, { address: podAddress(1, 0)[family] });
    const flow = async (sourcePort: number) => await client.probeUdp(address, SERVICE_PORT, { sourcePort });
    const [directPort, translatedPort] = family === 'v4' ? [20_001, 20_002] : [20_003, 20_004];
    const direct = await client.hold(address, SERVICE_PORT);
    expect(await flow(directPort)).toMatchObject({ ok: true, sourceSeen: own });
    await write(row, 'none');
    await untilForwarded(address, '-m');
    const translated = await client.hold(address, SERVICE_PORT);
    expect(translated.first).toMatchObject({ ok: true, sourceSeen: node });
    expect(await flow(translatedPort)).toMatchObject({ ok: true, sourceSeen: node });
    expect(await direct.ask()).toMatchObject({ ok: true, sourceSeen: own });
    expect(await flow(directPort)).toMatchObject({ ok: true, sourceSeen: own });
    await write(row);
    await untilForwarded(address, '-i');
    for (const connection of [direct, translated]) {
      expect(await connection.ask()).toMatchObject({ ok: true, answeredBy: 'pod-1-0' });
      await connection.close();
    }
    expect(await flow(directPort)).toMatchObject({ ok: true, sourceSeen: own });
    expect(await flow(translatedPort)).toMatchObject({ ok: true, sourceSeen: node });
    await translatedServer.close();
  });

  /** ICMP "fragmentation needed" and ICMPv6 "packet too big" that the client has received. */
  async function tooBigSeen(family: keyof DualStack): Promise<number> {
    const counter = family === 'v4' ? 'IcmpMsgInType3' : 'Icmp6InPktTooBigs';
    const { stdout } = await bed.client(0).exec(['nstat', '-asz', counter]);
    return Number(new RegExp(`${counter}\\s+(\\d+)`).exec(stdout)?.[1] ?? 0);
  }

  test.each([
    ['tunnel-elsewhere', 'v4', 1480],
    ['tunnel-elsewhere', 'v6', 1460],
    ['gue-elsewhere', 'v4', 1468],
    ['gue-elsewhere', 'v6', 1448],
    ['gre-elsewhere', 'v4', 1476],
    ['gre-elsewhere', 'v6', 1456],
  ] as const)(
    '%s %s: the client is told the MTU of the tunnel, and a long request arrives',
    async (name, family, mtu) => {
      const client = bed.client(0);
      const address = ROWS.find((row) => row.name === name)?.vip[family] ?? '';
      const option = family === 'v4' ? '-4' : '-6';
      const route = async (): Promise<string> => (await client.exec(['ip', option, 'route', 'get', address])).stdout;
      await client.exec(['ip', option, 'route', 'flush', 'cache']);
      expect(await route()).not.toContain('mtu');
      const before = await tooBigSeen(family);
      expect(await requestOfManySegments(address)).toContain('"answeredBy":"pod-1-0"');
      expect(await route()).toContain(` mtu ${mtu} `);
      expect(await tooBigSeen(family)).toBeGreaterThan(before);
    },
  );

  test('a change of a GRE tunnel to NAT keeps open connections', async () => {
    const row = ROWS.find(({ name }) => name === 'gre-elsewhere') as Row;
    const client = bed.client(0);
    const held = await client.hold(row.vip.v4, SERVICE_PORT);
    await write(row, 'none');
    await untilForwarded(row.vip.v4, '-m');
    expect(await held.ask()).toMatchObject({ ok: true, sourceSeen: client.addresses.v4 });
    await held.close();
    await write(row);
    await untilForwarded(row.vip.v4, '-i');
  });

  test('a target port that differs gets NAT', async () => {
    const [row] = ROWS as readonly [Row, ...Row[]];
    const served = await bed.pod(1, 0).serveTcp(8080);
    await write(row, 'tunnel', 8080);
    await untilForwarded(row.vip.v4, '-m');
    const answer = await bed.client(0).probeTcp(row.vip.v4, SERVICE_PORT);
    expect(answer).toMatchObject({ ok: true, answeredBy: 'pod-1-0', sourceSeen: nodeAddress(0).v4 });
    await served.close();
  });
});
