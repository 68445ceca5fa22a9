// `make bench`: what the proxy costs, against named baselines of the same run in the same kernel. BENCH_QUICK=1: smaller and fewer.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { FakeKernel } from '../../src/kernel/fake-kernel.ts';
import { parseIp } from '../../src/net/ip.ts';
import { toPort } from '../../src/net/port.ts';
import { formatRealServer } from '../../src/state/real-server.ts';
import { virtualServerKey } from '../../src/state/virtual-server.ts';
import { LongProcess } from '../bed/long-process.ts';
import { Namespace } from '../bed/namespace.ts';
import { daemonArgv } from '../support/daemon.ts';
import { imageEntrypoint, inContainer } from '../support/image.ts';
import { BenchNode, Driver } from './bench-node.ts';
import { isIpvs, record, replay } from './floor.ts';
import {
  type ClusterShape,
  NODE_ADDRESS,
  NODE_NAME,
  clusterIp,
  growthIp,
  listedEvents,
  scaledEvent,
} from './large-cluster.ts';
import { Measurements, timed } from './measure.ts';
import { NetnsShell } from './netns-shell.ts';
import { countProcesses } from './processes.ts';

const quick = (process.env['BENCH_QUICK'] ?? '') !== '';
const RUNS = quick
  ? { first: 1, floor: 1, change: 5, full: 2, memory: 1, pipeline: 2 }
  : { first: 3, floor: 2, change: 20, full: 5, memory: 2, pipeline: 5 };
const LARGE: ClusterShape = {
  services: quick ? 1_000 : 5_000,
  endpoints: 10,
  dualStackEvery: 20,
  nodePortEvery: 20,
  udpEvery: 20,
};
const SIZE = `${LARGE.services}x${LARGE.endpoints}`;

const out = new Measurements();

/** A full table, then the same table by the system's own tool, in fresh namespaces, in turn. */
async function firstSync(): Promise<void> {
  const ours: number[] = [];
  const tool: number[] = [];
  const oursKernel: number[] = [];
  const oursIpvs: number[] = [];
  for (let run = 1; run <= RUNS.first; run++) {
    out.progress(`first sync of ${SIZE}, run ${run} of ${RUNS.first}`);
    await using node = await BenchNode.make();
    const driver = new Driver(node.kernel);
    const events = listedEvents(LARGE);
    ours.push(await timed(() => driver.take(events)));
    oursKernel.push(driver.kernelMs);
    await driver.reconciler.stop();
    const saved = await node.run(['ipvsadm', '-Sn']);
    await using other = await BenchNode.make();
    tool.push(await timed(() => other.run(['ipvsadm', '--restore'], saved)));
    await using third = await BenchNode.make();
    const ops = driver.ops.filter(isIpvs);
    oursIpvs.push(await timed(() => third.kernel.apply({ ops })));
    for (const { netns, text } of await Promise.all(
      [other, third].map(async (filled) => ({ netns: filled.netns, text: await filled.run(['ipvsadm', '-Sn']) })),
    )) {
      if (sortedLines(text) !== sortedLines(saved)) throw new Error(`${netns} holds another table`);
    }
  }
  const against = 'ipvsadm --restore of the same virtual servers';
  // What it does beyond the tool's work is in it: sets, their entries, addresses, and the processes for the rules.
  const kernelName = `first-sync ${SIZE}, programmed from the plan`;
  out.add({ name: `first-sync ${SIZE}, planning included`, unit: 'ms', values: ours, against, baselines: tool });
  out.add({ name: kernelName, unit: 'ms', values: oursKernel, against, baselines: tool });
  out.add({ name: `first-sync ${SIZE}, IPVS part alone`, unit: 'ms', values: oursIpvs, against, baselines: tool });
}

function sortedLines(text: string): string {
  return text.split('\n').sort().join('\n');
}

async function processes(): Promise<void> {
  const shape = { ...LARGE, services: 200 };
  await using node = await BenchNode.make();
  const driver = new Driver(node.kernel);
  const counts = await countProcesses(() => driver.take(listedEvents(shape)));
  await driver.reconciler.stop();
  const sum = (pattern: RegExp): number =>
    [...counts].filter(([name]) => pattern.test(name)).reduce((total, [, count]) => total + count, 0);
  const add = (name: string, value: number): void =>
    void out.add({ name: `first-sync processes: ${name}`, unit: 'processes', values: [value] });
  add('iptables-restore', sum(/tables.*-restore$/));
  add('iptables-save', sum(/tables.*-save$/));
  add('all others', sum(/^(?!.*-(save|restore)$)/));
}

/** How much of a first sync is the kernel's own time. */
async function floor(): Promise<void> {
  const ours: number[] = [];
  const oursApply: number[] = [];
  const raw: number[] = [];
  for (let run = 1; run <= RUNS.floor; run++) {
    out.progress(`raw replay of the messages of ${SIZE}, run ${run} of ${RUNS.floor}`);
    await using node = await BenchNode.make();
    const driver = new Driver(node.kernel);
    const events = listedEvents(LARGE);
    ours.push(await timed(() => driver.take(events)));
    await driver.reconciler.stop();
    await using recorder = await BenchNode.make();
    const recording = await record(recorder, driver.ops);
    await using other = await BenchNode.make();
    raw.push(await replay(other, recording));
    await using third = await BenchNode.make();
    oursApply.push(await timed(() => third.kernel.apply({ ops: driver.ops })));
    const [wanted, found] = await Promise.all([node, other].map((filled) => filled.kernel.getBoundAddresses()));
    if (wanted?.length !== found?.length) throw new Error('the replay left another state');
  }
  const against = 'raw replay of the same netlink messages: the floor';
  out.add({ name: `first-sync ${SIZE}, over the floor`, unit: 'ms', values: ours, against, baselines: raw });
  out.add({ name: `its transaction alone, over the floor`, unit: 'ms', values: oursApply, against, baselines: raw });
}

async function steady(): Promise<void> {
  out.progress(`one change, and full checks, at ${SIZE}`);
  await using node = await BenchNode.make();
  const driver = new Driver(node.kernel);
  await driver.take(listedEvents(LARGE));
  await using shell = new NetnsShell(node.path);
  await changes(node, driver, shell);
  await fullChecks(node, driver, shell);
  await driver.reconciler.stop();
}

/** Plain TCP services of one family: each second from 1 on grows by our hand, the one after it by the tool's. */
async function changes(node: BenchNode, driver: Driver, shell: NetnsShell): Promise<void> {
  const ours: number[] = [];
  const tool: number[] = [];
  for (let run = 0; run < RUNS.change; run++) {
    const mine = run * 20 + 1;
    const theirs = mine + 1;
    const before = node.kernel.counters.processesStarted;
    const event = scaledEvent(mine, LARGE, LARGE.endpoints + 1);
    ours.push(await timed(() => driver.take([event])));
    if (node.kernel.counters.processesStarted !== before) throw new Error('a change started a process');
    await mustHold(node, mine);
    const argument = `-t ${clusterIp(theirs, 4)}:80 -r ${growthIp(theirs, 4)}:8080 -m -w 1`;
    tool.push((await shell.time(`ipvsadm -a ${argument}`)).wallMs);
    await mustHold(node, theirs);
  }
  const against = 'one ipvsadm -a process';
  out.add({ name: `change: one endpoint more at ${SIZE}`, unit: 'ms', values: ours, against, baselines: tool });
  // Those of the tool are drift: taken back here, so that the full checks have nothing to do.
  await driver.fullCheck();
}

async function mustHold(node: BenchNode, service: number): Promise<void> {
  const address = parseIp(clusterIp(service, 4));
  const port = toPort(80);
  if (address === undefined || port === undefined) throw new Error('no address');
  const id = { address, port, protocol: 'TCP' } as const;
  const servers = (await node.kernel.getRealServers([id])).get(virtualServerKey(id)) ?? [];
  const wanted = `${growthIp(service, 4)}:8080`;
  if (!servers.some((server) => formatRealServer(server) === wanted)) throw new Error(`${wanted} is not in the kernel`);
}

async function fullChecks(node: BenchNode, driver: Driver, shell: NetnsShell): Promise<void> {
  const ours = { wall: [] as number[], cpu: [] as number[] };
  const tool = { wall: [] as number[], cpu: [] as number[] };
  const writesBefore = node.kernel.counters.writes;
  for (let run = 0; run < RUNS.full; run++) {
    const cpu = process.cpuUsage();
    const report = await driver.fullCheck();
    const used = process.cpuUsage(cpu);
    if (report.operations.size > 0) throw new Error('a check of an unchanged kernel planned operations');
    ours.wall.push(report.durationMs);
    ours.cpu.push((used.user + used.system) / 1_000);
    const times = await shell.time('ipvsadm -Sn; ipset save; ip addr');
    tool.wall.push(times.wallMs);
    tool.cpu.push(times.cpuMs);
  }
  const against = 'ipvsadm -Sn + ipset save + ip addr';
  out.add({
    name: `full check, no change, ${SIZE}: wall`,
    unit: 'ms',
    values: ours.wall,
    against,
    baselines: tool.wall,
  });
  out.add({ name: `full check, no change, ${SIZE}: CPU`, unit: 'ms', values: ours.cpu, against, baselines: tool.cpu });
  const writes = node.kernel.counters.writes - writesBefore;
  out.add({ name: `full check, no change, ${SIZE}: writes`, unit: 'messages', values: [writes] });
}

/** Resident set of the bundled daemon, as it is shipped, in MiB. */
async function memory(): Promise<void> {
  const scratch = await mkdtemp(path.join(tmpdir(), 'bench-'));
  const bare: number[] = [];
  const idle: number[] = [];
  const full: number[] = [];
  const image: number[] = [];
  for (let run = 1; run <= RUNS.memory; run++) {
    out.progress(`memory, run ${run} of ${RUNS.memory}`);
    await using nothing = await LongProcess.start([process.execPath, '-e', 'setInterval(() => {}, 1e6)']);
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    bare.push(await residentMib(nothing.pid));
    idle.push(await daemonMemory(scratch, { ...LARGE, services: 1 }));
    full.push(await daemonMemory(scratch, LARGE));
    image.push(await imageMemory());
  }
  await rm(scratch, { recursive: true });
  const against = 'node that does nothing';
  out.add({ name: 'RSS of the daemon, idle', unit: 'MiB', values: idle, against, baselines: bare });
  out.add({ name: 'RSS of the daemon in the image, idle', unit: 'MiB', values: image, against, baselines: bare });
  out.add({ name: `RSS of the daemon at ${SIZE}`, unit: 'MiB', values: full, against, baselines: bare });
}

async function daemonMemory(scratch: string, shape: ClusterShape): Promise<number> {
  const kubeconfig = path.join(scratch, 'kubeconfig');
  await using bench = await BenchNode.make();
  await using node = new Namespace(NODE_NAME, bench.netns, { v4: NODE_ADDRESS, v6: '' });
  const api = ['test/bench/serve-cluster.ts', '--kubeconfig', kubeconfig];
  const sizes = ['services', 'endpoints'] as const;
  const every = {
    'dual-stack-every': shape.dualStackEvery,
    'node-port-every': shape.nodePortEvery,
    'udp-every': shape.udpEvery,
  };
  for (const size of sizes) api.push(`--${size}`, String(shape[size]));
  for (const [flag, value] of Object.entries(every)) api.push(`--${flag}`, String(value));
  const server = await node.spawn([process.execPath, ...api]);
  await server.waitForOutput(/http:\S+/, 120_000);
  const daemon = await node.spawn(daemonArgv(node, [`--kubeconfig=${kubeconfig}`, '--cluster-cidr=10.64.0.0/10']));
  await daemon.waitForOutput(/first sync done/, 240_000);
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  return residentMib(daemon.pid);
}

/** The container image's root file system, started as the image starts; the few Services of the demo. */
async function imageMemory(): Promise<number> {
  await using bench = await BenchNode.make();
  await using node = new Namespace('node-0', bench.netns, { v4: NODE_ADDRESS, v6: '' });
  const flags = ['--proxy-mode=ipvs', '--hostname-override=node-0', '--conntrack-max-per-core=0'];
  const argv = [...(await imageEntrypoint()), ...flags, '--manifests=/etc/kube-ipvs-proxy'];
  const daemon = await node.spawn(inContainer('manifests/demo', argv));
  await daemon.waitForOutput(/first sync done/, 120_000);
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  return residentMib(daemon.pid);
}

async function residentMib(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(status) ?? [];
  if (kib === undefined) throw new Error(`process ${pid} has no resident set`);
  return Number(kib) / 1_024;
}

/** All of our own work, no kernel: from listed objects to applied operations. */
async function pipeline(): Promise<void> {
  const shape: ClusterShape = {
    services: quick ? 2_000 : 10_000,
    endpoints: 1,
    dualStackEvery: 0,
    nodePortEvery: 0,
    udpEvery: 0,
  };
  out.progress(`user-space pipeline, ${shape.services} services`);
  const events = listedEvents(shape);
  const values: number[] = [];
  for (let run = 0; run < RUNS.pipeline; run++) {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const driver = new Driver(kernel);
    values.push(((await timed(() => driver.take(events))) * 1_000) / shape.services);
    await driver.reconciler.stop();
  }
  out.add({ name: 'user-space pipeline, a service with one endpoint', unit: 'µs', values });
}

const started = performance.now();
for (const part of [pipeline, processes, firstSync, floor, steady, memory]) await part();
out.table();
out.progress(`${quick ? 'quick, ' : ''}${Math.round((performance.now() - started) / 1_000)} s in all`);
