import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { clusterAddress, externalAddress, podAddress } from '../bed/address-plan.ts';
import { Bed, POD_BRIDGE, UPLINK } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';
import { ManifestDirectory, SERVICE_PORT, nodeObjects, serviceObjects } from './cluster-objects.ts';
import type { LoopStall } from './loop-stalls.ts';

jest.setTimeout(patient(240_000));

const VIP = externalAddress(1);

/** With --dsr-prepare-pods, a Pod with NET_ADMIN in its own namespace changes what is in it. */
let bed: Bed;
let directory: ManifestDirectory;
let folder: string;
let daemon: LongProcess;
let node: Namespace;
let victim: Namespace;
let impostor: Namespace;

const flags = (): readonly string[] => [
  `--manifests=${directory.path}`,
  '--service-annotations=forwarding',
  '--ipvs-sync-period=2s',
  '--ipvs-min-sync-period=0s',
  '--dsr-prepare-pods',
  `--dsr-netns-dir=${folder}`,
];

async function devices(pod: Namespace): Promise<string> {
  const { stdout } = await pod.exec(['ip', '-br', 'addr']);
  return stdout
    .split('\n')
    .flatMap((line) => /^(kube-ipvs\S+?)(@\S+)?\s/.exec(line)?.[1] ?? [])
    .toSorted()
    .join(' ');
}

async function acceptLocal(name: string): Promise<string> {
  return (await node.exec(['cat', `/proc/sys/net/ipv4/conf/${name}/accept_local`])).stdout.trim();
}

async function metric(name: string): Promise<number> {
  const { stdout } = await node.exec(['curl', '-s', 'http://127.0.0.1:10249/metrics']);
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(stdout)?.[1] ?? Number.NaN);
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + patient(60_000);
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(daemon.output);
    await sleep(100);
  }
}

const untilPrepared = (): Promise<void> =>
  until(async () => (await devices(victim)) === 'kube-ipvs-tun4 kube-ipvs-tun6');

async function twoFullChecks(): Promise<void> {
  const count = (): Promise<number> => metric('kubeipvs_sync_total\\{kind="full",result="ok"\\}');
  const before = await count();
  await until(async () => (await count()) >= before + 3);
}

beforeAll(async () => {
  bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
  [node, victim, impostor] = [bed.node(0), bed.pod(0, 0), bed.pod(0, 1)];
  directory = await ManifestDirectory.create();
  folder = await mkdtemp(path.join(tmpdir(), 'netns-'));
  // The impostor's file comes first.
  await symlink(`/run/netns/${impostor.netns}`, path.join(folder, 'a-impostor'));
  await symlink(`/run/netns/${victim.netns}`, path.join(folder, 'b-victim'));
  await node.sysctl({ [`net.ipv4.conf.${POD_BRIDGE}.accept_local`]: 0, [`net.ipv4.conf.${UPLINK}.accept_local`]: 0 });
  await directory.write('nodes', nodeObjects(1));
  await directory.write(
    'web',
    serviceObjects({
      name: 'web',
      clusterIp: clusterAddress(1),
      protocols: ['TCP'],
      externalIp: VIP,
      annotations: { forwarding: 'tunnel' },
      targetPort: SERVICE_PORT,
      endpoints: [{ addresses: podAddress(0, 0), node: 0 }],
    }),
  );
  await victim.serveTcp(SERVICE_PORT);
  daemon = await startDaemon(node, flags());
  await untilPrepared();
});

afterAll(async () => {
  await bed[Symbol.asyncDispose]();
  await directory[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

async function answers(): Promise<void> {
  const answer = { ok: true, answeredBy: 'pod-0-0', sourceSeen: bed.client(0).addresses.v4 };
  expect(await bed.client(0).probeTcp(VIP.v4, SERVICE_PORT)).toMatchObject(answer);
}

test('an address of the node network on a device of a prepared Pod does not open the uplink', async () => {
  await victim.ip([`addr add ${bed.client(0).addresses.v4}/32 dev ${UPLINK}`, 'addr add 203.0.113.7/32 dev lo']);
  await twoFullChecks();
  expect(await acceptLocal(UPLINK)).toBe('0');
  expect(await acceptLocal(POD_BRIDGE)).not.toBe('0');
  await victim.ip([`addr del ${bed.client(0).addresses.v4}/32 dev ${UPLINK}`]);
  await answers();
});

test('a Pod that gives itself the IP of a prepared one behind the same bridge gets nothing', async () => {
  const { v4, v6 } = victim.addresses;
  await impostor.ip([`addr add ${v4}/32 dev lo`, `addr add ${v6}/128 dev lo nodad`]);
  await twoFullChecks();
  expect(await devices(impostor)).toBe('');
  expect(await devices(victim)).toBe('kube-ipvs-tun4 kube-ipvs-tun6');
  await answers();
});

test('after a restart, it is not known whose the address is: neither is changed, and a warning names both', async () => {
  await daemon.stop(10_000);
  daemon = await startDaemon(node, flags());
  const warning = /several network namespaces have its address: \S*\/a-impostor, \S*\/b-victim/;
  await daemon.waitForOutput(warning, patient(30_000));
  await twoFullChecks();
  expect(await devices(impostor)).toBe('');
  expect(await devices(victim)).toBe('kube-ipvs-tun4 kube-ipvs-tun6');
  await answers();
});

test('an interface that does not lead to the impostor settles it', async () => {
  await victim.ip(['link del kube-ipvs-tun4']);
  await twoFullChecks();
  expect(await devices(victim)).toBe('kube-ipvs-tun6');
  await node.ip(['link set veth1 nomaster']);
  await untilPrepared();
  expect(await devices(impostor)).toBe('');
  await answers();
});

test('three thousand devices in a Pod do not hold the event loop', async () => {
  const devicesOfPod = Array.from({ length: 3_000 }, (_, index) => `many${index}`);
  await impostor.ip(devicesOfPod.map((name) => `link add ${name} type dummy`));
  await impostor.ip(devicesOfPod.map((name, index) => `addr add 10.200.${index >> 8}.${index & 255}/32 dev ${name}`));
  await daemon.stop(10_000);
  const stallFile = path.join(folder, 'stalls');
  daemon = await node.spawn(daemonArgv(node, flags()), {
    ...process.env,
    LOOP_STALLS: stallFile,
    NODE_OPTIONS: `--import=${pathToFileURL('test/traffic/loop-stalls.ts').href}`,
  });
  await daemon.waitForOutput(/initial sync complete/, patient(30_000));
  const served = Date.now();
  // The last of them is one that the daemon takes back: it has read all.
  await impostor.ip(['link add kube-ipvs-dsr type dummy', `addr add ${VIP.v4}/32 dev kube-ipvs-dsr`]);
  await until(async () => (await devices(impostor)) === '');
  await twoFullChecks();
  expect(await devices(victim)).toBe('kube-ipvs-tun4 kube-ipvs-tun6');
  await daemon.stop(10_000);
  const stalls = JSON.parse(await readFile(stallFile, 'utf8')) as readonly LoopStall[];
  // While the kernel lists devices, it holds the one CPU of User-Mode Linux, so this is what the loop itself computed.
  const held = stalls.filter(({ at, ms, cpuMs }) => at >= served && Math.min(ms, cpuMs) > patient(200));
  expect(held).toEqual([]);
});
