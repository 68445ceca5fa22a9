import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { formatIp } from '../../src/base/ip.ts';
import { type DualStack, clusterAddress, externalAddress, podAddress } from '../bed/address-plan.ts';
import { Bed, POD_BRIDGE, UPLINK } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';
import { ip } from '../unit/plan/build.ts';
import { ManifestDirectory, SERVICE_PORT, nodeObjects, serviceObjects } from './cluster-objects.ts';

jest.setTimeout(patient(240_000));

const FAMILIES = ['v4', 'v6'] as const;

interface Row {
  readonly name: string;
  readonly forwarding: 'tunnel' | 'tunnel-gue' | 'tunnel-gue:5555' | 'tunnel-gre' | 'route';
  readonly vip: DualStack;
  /** The node of the endpoint. Clients send to node 0. */
  readonly node: 0 | 1;
  readonly pod: 0 | 1;
  readonly podNamespace?: string;
}

const ELSEWHERE: Row = { name: 'tunnel-elsewhere', forwarding: 'tunnel', vip: externalAddress(1), node: 1, pod: 0 };
const ROWS: readonly Row[] = [
  ELSEWHERE,
  { name: 'tunnel-here', forwarding: 'tunnel', vip: externalAddress(2), node: 0, pod: 0 },
  { name: 'route-here', forwarding: 'route', vip: externalAddress(3), node: 0, pod: 0 },
  { name: 'gue-elsewhere', forwarding: 'tunnel-gue:5555', vip: externalAddress(5), node: 1, pod: 1 },
  { name: 'gre-elsewhere', forwarding: 'tunnel-gre', vip: externalAddress(6), node: 1, pod: 1 },
  { name: 'gue-here', forwarding: 'tunnel-gue', vip: externalAddress(7), node: 0, pod: 1 },
  { name: 'gre-here', forwarding: 'tunnel-gre', vip: externalAddress(8), node: 0, pod: 1 },
];
const FOREIGN: Row = {
  name: 'foreign',
  forwarding: 'tunnel',
  vip: externalAddress(4),
  node: 1,
  pod: 0,
  podNamespace: 'other',
};
/** The bridge to the Pods does not accept them, and neither side accepts packets from unexpected devices. */
const STRICT = { [`net.ipv4.conf.${POD_BRIDGE}.rp_filter`]: 1, [`net.ipv4.conf.${POD_BRIDGE}.accept_local`]: 0 };

/** The daemon prepares the Pods; compare forwarding.test.ts, where the Pods do it themselves. */
describe('--dsr-prepare-pods', () => {
  let bed: Bed;
  let directory: ManifestDirectory;
  let folder: string;
  const daemons: LongProcess[] = [];

  const write = async (
    row: Row,
    forwarding: string = row.forwarding,
    pods: readonly number[] = [row.pod],
  ): Promise<void> => {
    await directory.write(
      row.name,
      serviceObjects({
        name: row.name,
        clusterIp: clusterAddress([...ROWS, FOREIGN].indexOf(row) + 1),
        protocols: ['TCP', 'UDP'],
        externalIp: row.vip,
        external: row.forwarding === 'route' ? 'Local' : 'Cluster',
        annotations: { forwarding },
        targetPort: SERVICE_PORT,
        endpoints: pods.map((pod) => ({
          addresses: podAddress(row.node, pod),
          node: row.node,
          ...(row.podNamespace === undefined ? {} : { podNamespace: row.podNamespace }),
        })),
      }),
    );
  };

  const namespaces = (index: number): string => path.join(folder, `node-${index}`);
  const flags = (index: number): readonly string[] => [
    `--manifests=${directory.path}`,
    '--service-annotations=forwarding',
    '--ipvs-sync-period=2s',
    '--ipvs-min-sync-period=0s',
    '--dsr-prepare-pods',
    `--dsr-netns-dir=${namespaces(index)}`,
  ];

  /** Each node sees the namespaces of its own Pods, and its own one. */
  async function show(node: number, namespace: Namespace): Promise<void> {
    await symlink(`/run/netns/${namespace.netns}`, path.join(namespaces(node), namespace.name));
  }

  /** Our devices in the Pod, with their addresses other than link-local ones. */
  async function prepared(pod: Namespace): Promise<string> {
    const { stdout } = await pod.exec(['ip', '-br', 'addr']);
    const lines = stdout.split('\n').filter((line) => line.startsWith('kube-ipvs'));
    return lines
      .map((line) => line.split(/\s+/).filter((word) => word !== '' && !word.startsWith('fe80:')))
      .map(([device = '', _state, ...addresses]) => [device.split('@')[0], ...addresses.toSorted()].join(' '))
      .toSorted()
      .join('\n');
  }

  async function until(what: string, condition: () => Promise<boolean>): Promise<void> {
    const deadline = Date.now() + patient(60_000);
    while (!(await condition())) {
      if (Date.now() > deadline) throw new Error(`never ${what}: ${daemons.map(({ output }) => output).join('\n')}`);
      await sleep(100);
    }
  }

  const untilPrepared = async (pod: Namespace, lines: readonly string[]): Promise<void> =>
    await until(`has ${lines.join(', ')}`, async () => (await prepared(pod)) === lines.join('\n'));

  const tunnels = (...vips: readonly DualStack[]): readonly string[] => [
    ['kube-ipvs-tun4', ...vips.map(({ v4 }) => `${v4}/32`)].join(' '),
    ['kube-ipvs-tun6', ...vips.map(({ v6 }) => `${v6}/128`)].join(' '),
  ];

  const greDevices = ({ v4, v6 }: DualStack): readonly string[] => [
    `kube-ipvs-gre4 ${v4}/32`,
    `kube-ipvs-gre6 ${v6}/128`,
  ];

  /** The UDP ports of the Pod that receive GUE: "5555 10.64.0.2". */
  async function guePorts(pod: Namespace): Promise<readonly string[]> {
    const { stdout } = await pod.exec(['ip', 'fou', 'show']);
    return stdout
      .split('\n')
      .flatMap((line) => /^port (\d+) gue(?: -6)? local (\S+)/.exec(line)?.slice(1, 3).join(' ') ?? [])
      .toSorted();
  }

  const sysctl = async (host: Namespace, key: string): Promise<string> =>
    (await host.exec(['cat', `/proc/sys/net/ipv4/conf/${key}`])).stdout.trim();

  /** The number of full checks that the daemon of the node has made. */
  async function fullChecks(index: number): Promise<number> {
    const { stdout } = await bed.node(index).exec(['curl', '-s', 'http://127.0.0.1:10249/metrics']);
    return Number(/^kubeipvs_sync_total\{kind="full",result="ok"\} (\d+)$/m.exec(stdout)?.[1] ?? 0);
  }

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 2, podsPerNode: 2, clients: 1 });
    directory = await ManifestDirectory.create();
    folder = await mkdtemp(path.join(tmpdir(), 'netns-'));
    // The daemon loads it for the first Pod with GUE. The node's own kernel may need it for others.
    if (process.env['KERNEL_USED'] !== 'native') await bed.node(0).exec(['modprobe', '-r', 'fou6', 'fou']);
    await directory.write('nodes', nodeObjects(2));
    for (const row of [...ROWS, FOREIGN]) await write(row);
    for (const index of [0, 1]) {
      await mkdir(namespaces(index));
      await show(index, bed.node(index));
      await bed.node(index).sysctl(STRICT);
      for (const pod of [bed.pod(index, 0), bed.pod(index, 1)]) {
        await show(index, pod);
        await pod.sysctl({ 'net.ipv4.conf.all.rp_filter': 1 });
        await pod.serveTcp(SERVICE_PORT);
      }
      daemons.push(await startDaemon(bed.node(index), flags(index)));
    }
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  test('each Pod gets the addresses of its Services, and the node nothing', async () => {
    const [, here, route, gueElsewhere, greElsewhere, gueHere, greHere] = ROWS as readonly [
      Row,
      Row,
      Row,
      Row,
      Row,
      Row,
      Row,
    ];
    // Not that of FOREIGN, whose slice names a Pod of another namespace.
    await untilPrepared(bed.pod(1, 0), tunnels(ELSEWHERE.vip));
    await untilPrepared(bed.pod(0, 0), [`kube-ipvs-dsr ${route.vip.v4}/32 ${route.vip.v6}/128`, ...tunnels(here.vip)]);
    await untilPrepared(bed.pod(1, 1), [...greDevices(greElsewhere.vip), ...tunnels(gueElsewhere.vip)]);
    await untilPrepared(bed.pod(0, 1), [...greDevices(greHere.vip), ...tunnels(gueHere.vip)]);
    for (const [index, port] of [6080, 5555].entries()) {
      const { v4, v6 } = bed.pod(index, 1).addresses;
      const own = [v4, v6].map((address) => `${port} ${formatIp(ip(address))}`);
      expect(await guePorts(bed.pod(index, 1))).toEqual(own.toSorted());
      expect(await guePorts(bed.pod(index, 0))).toEqual([]);
    }
    for (const index of [0, 1]) {
      expect(await prepared(bed.node(index))).not.toContain('kube-ipvs-');
      expect(await sysctl(bed.pod(index, 0), `${UPLINK}/arp_announce`)).toBe('2');
      expect(await sysctl(bed.node(index), `${POD_BRIDGE}/accept_local`)).toBe('3');
    }
  });

  describe.each(ROWS)('$name', ({ node, pod, vip }) => {
    test.each(FAMILIES)('%s: the Pod answers the client itself', async (family) => {
      const [client, address] = [bed.client(0), vip[family]];
      const answer = { ok: true, answeredBy: `pod-${node}-${pod}`, sourceSeen: client.addresses[family] };
      const server = await bed.pod(node, pod).serveUdp(SERVICE_PORT, { address });
      for (let count = 0; count < 3; count++) {
        expect(await client.probeTcp(address, SERVICE_PORT)).toMatchObject(answer);
        expect(await client.probeUdp(address, SERVICE_PORT)).toMatchObject(answer);
      }
      await server.close();
    });
  });

  test('a Pod that comes later is prepared', async () => {
    const pod = await bed.addPod(1);
    await show(1, pod);
    await pod.serveTcp(SERVICE_PORT);
    await write(ELSEWHERE, 'tunnel', [0, 2]);
    await untilPrepared(pod, tunnels(ELSEWHERE.vip));
    for (const family of FAMILIES) {
      await until('answers', async () => {
        const result = await bed.client(0).probeTcp(ELSEWHERE.vip[family], SERVICE_PORT);
        return result.ok && result.answeredBy === 'pod-1-2' && result.sourceSeen === bed.client(0).addresses[family];
      });
    }
    await write(ELSEWHERE);
    await untilPrepared(pod, []);
    expect(await prepared(bed.pod(1, 0))).toBe(tunnels(ELSEWHERE.vip).join('\n'));
  });

  test('a full check repairs what was changed in the Pod', async () => {
    const pod = bed.pod(1, 0);
    await pod.ip(['link del kube-ipvs-tun6', 'link set kube-ipvs-tun4 down']);
    await pod.sysctl({ 'net.ipv4.conf.kube-ipvs-tun4.rp_filter': 0 });
    await untilPrepared(pod, tunnels(ELSEWHERE.vip));
    await until('sets rp_filter', async () => (await sysctl(pod, 'kube-ipvs-tun4/rp_filter')) === '2');
    for (const family of FAMILIES) {
      expect(await bed.client(0).probeTcp(ELSEWHERE.vip[family], SERVICE_PORT)).toMatchObject({ ok: true });
    }
  });

  test('a restarted daemon adopts what it finds, and a change to NAT waits for the end of connections', async () => {
    const [client, pod] = [bed.client(0), bed.pod(1, 0)];
    const held = await Promise.all(FAMILIES.map((family) => client.hold(ELSEWHERE.vip[family], SERVICE_PORT)));
    await daemons[1]?.stop(10_000);
    daemons[1] = await startDaemon(bed.node(1), [...flags(1), '-v=2']);
    await write(ELSEWHERE, 'nat');
    await daemons[1].waitForOutput(/edit-real-server TCP/, 30_000);
    const before = await fullChecks(1);
    await until('checks twice', async () => (await fullChecks(1)) >= before + 2);
    expect(daemons[1].output).not.toContain('changed the network of a Pod');
    for (const connection of held) {
      expect(await connection.ask()).toMatchObject({ ok: true, answeredBy: 'pod-1-0' });
      await connection.close();
    }
    await untilPrepared(pod, []);
    // Another Pod behind the bridge is still prepared.
    expect(await sysctl(bed.node(1), `${POD_BRIDGE}/accept_local`)).toBe('3');
    await write(ELSEWHERE);
    await untilPrepared(pod, tunnels(ELSEWHERE.vip));
  });

  test('a deleted Service, and --cleanup, leave nothing', async () => {
    for (const { name } of ROWS.filter(({ node }) => node === 0)) await directory.remove(name);
    for (const pod of [bed.pod(0, 0), bed.pod(0, 1)]) await untilPrepared(pod, []);
    expect(await guePorts(bed.pod(0, 1))).toEqual([]);
    await until('sets the bridge back', async () => (await sysctl(bed.node(0), `${POD_BRIDGE}/accept_local`)) === '0');
    expect(await sysctl(bed.node(0), `${POD_BRIDGE}/rp_filter`)).toBe('1');
    await daemons[1]?.stop(10_000);
    await bed.node(1).exec([...daemonArgv(bed.node(1), flags(1)), '--cleanup']);
    for (const pod of [bed.pod(1, 0), bed.pod(1, 1)]) expect(await prepared(pod)).toBe('');
    expect(await guePorts(bed.pod(1, 1))).toEqual([]);
    expect(await sysctl(bed.node(1), `${POD_BRIDGE}/accept_local`)).toBe('0');
  });
});
