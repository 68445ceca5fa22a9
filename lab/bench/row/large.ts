import { setTimeout as sleep } from 'node:timers/promises';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { type BenchMode, BenchNode, Driver } from '../bench-node.ts';
import { DaemonNode } from '../daemon-process.ts';
import { type ClusterShape, listedEvents, scaledEvent, serviceEvent } from '../large-cluster.ts';
import { type Measurements, timed } from '../measure.ts';
import { hasNfTables } from '../nf-tables.ts';
import { residentMib } from '../resident.ts';
import type { Row } from '../row.ts';
import type { Size } from '../size.ts';
import { UdpFlows } from '../udp-flows.ts';

/** A cluster of which one thing is as large as any user has it, and a change of just that thing. */
interface Large {
  readonly name: string;
  readonly shape: (size: Size) => ClusterShape;
  /** Further addresses of the node. */
  readonly addresses?: readonly string[];
  readonly changeName: string;
  /** The cluster with one thing more. */
  readonly grown: (shape: ClusterShape) => SourceEvent;
  /** The same as it was. */
  readonly shrunk: (shape: ClusterShape) => SourceEvent;
}

const PLAIN = { dualStackEvery: 0, nodePortEvery: 0, udpEvery: 0 } as const;
const CHANGES = 10;
const ADDRESSES = Array.from({ length: 7 }, (_, index) => `10.200.1.${index + 1}`);
const FLOWS = 100_000;
/** After the first sync of the daemon: what it used alone is given back by then. */
const REST_MS = 5_000;

function endpointMore(service: number): Pick<Large, 'changeName' | 'grown' | 'shrunk'> {
  return {
    changeName: 'one endpoint more or less',
    grown: (shape) => scaledEvent(service, shape, shape.endpoints + 1),
    shrunk: (shape) => scaledEvent(service, shape, shape.endpoints),
  };
}

const ALL: readonly Large[] = [
  { name: 'Services with 10 endpoints each', shape: (size) => size.mixed(50_000, 10), ...endpointMore(1) },
  {
    name: 'endpoints of one Service in slices of 100',
    shape: (size) => ({ services: 1, endpoints: size.services(100_000), endpointsOfSlice: 100, ...PLAIN }),
    ...endpointMore(0),
  },
  {
    name: `NodePorts on ${ADDRESSES.length + 1} addresses`,
    shape: (size) => ({ ...PLAIN, services: size.services(20_000), endpoints: 1, nodePortEvery: 1 }),
    addresses: ADDRESSES,
    ...endpointMore(1),
  },
  {
    name: 'source ranges of one load balancer',
    shape: (size) => ({
      ...PLAIN,
      services: 1,
      endpoints: 10,
      loadBalancerEvery: 1,
      sourceRanges: size.services(5_000),
    }),
    changeName: 'one source range more or less',
    grown: (shape) => serviceEvent(0, { ...shape, sourceRanges: (shape.sourceRanges ?? 0) + 1 }),
    shrunk: (shape) => serviceEvent(0, shape),
  },
];

/** Complete, how long a first sync and each change take, and which memory they need. */
export const large: Row = { name: 'large', onlyByName: true, run: (out, size) => measureAll('ipvs', out, size) };

/** The same in nftables mode. */
export const nftablesLargeParts: Row = {
  name: 'nftables-large-parts',
  onlyByName: true,
  async run(out, size) {
    if (await hasNfTables(out)) await measureAll('nftables', out, size);
  },
};

async function measureAll(mode: BenchMode, out: Measurements, size: Size): Promise<void> {
  for (const each of ALL) await measure(mode, each, out, size);
  await measureFlows(mode, out, size);
}

async function measure(mode: BenchMode, each: Large, out: Measurements, size: Size): Promise<void> {
  const shape = each.shape(size);
  const count = Math.max(shape.services, shape.sourceRanges ?? 0, shape.services === 1 ? shape.endpoints : 0);
  const name = `${count} ${each.name}, ${mode} mode`;
  out.progress(name);
  await using node = await BenchNode.make({ mode });
  await addAddresses(node, each.addresses);
  const driver = new Driver(node.kernel);
  const firstSync = await timed(() => driver.take(listedEvents(shape)));
  driver.takeOps();
  const changes: number[] = [];
  const processor: number[] = [];
  for (let change = 0; change < CHANGES; change++) {
    const event = change % 2 === 0 ? each.grown(shape) : each.shrunk(shape);
    const used = process.cpuUsage();
    changes.push(await timed(() => driver.take([event])));
    processor.push(processorSince(used));
    if (driver.takeOps().length === 0) throw new Error('the change has changed nothing');
  }
  const fullCheck = await timed(() => driver.fullCheck());
  const missing = driver.takeOps().length;
  if (missing > 0) throw new Error(`${missing} operations were missing after the first sync and the changes`);
  await driver.reconciler.stop();
  out.add({ name: `${name}: first sync`, unit: 'ms', values: [firstSync] });
  out.add({ name: `${name}: ${each.changeName}`, unit: 'ms', values: changes });
  out.add({ name: `${name}: ${each.changeName}, CPU time`, unit: 'ms', values: processor });
  out.add({ name: `${name}: full check, which finds all of it`, unit: 'ms', values: [fullCheck] });
  out.add({ name: `${name}: RSS of the daemon`, unit: 'MiB', values: [await residentAt(mode, shape, each.addresses)] });
}

/** Milliseconds of all threads: the kernel's part of a change is in them. */
function processorSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

async function residentAt(mode: BenchMode, shape: ClusterShape, addresses: Large['addresses']): Promise<number> {
  await using node = await DaemonNode.make(shape, mode);
  await addAddresses(node.bench, addresses);
  const started = await node.start();
  await started.firstSync();
  await sleep(REST_MS);
  return await residentMib(started.process.pid);
}

async function addAddresses(node: BenchNode, addresses: readonly string[] = []): Promise<void> {
  for (const address of addresses) await node.run(['ip', 'addr', 'add', `${address}/32`, 'dev', 'eth0']);
}

/** One of ten endpoints of a UDP Service goes, to each of which a tenth of the flows goes. */
async function measureFlows(mode: BenchMode, out: Measurements, size: Size): Promise<void> {
  const shape: ClusterShape = { ...PLAIN, services: 1, endpoints: 10, udpEvery: 1 };
  const count = size.services(FLOWS);
  const name = `${count} UDP flows, ${mode} mode`;
  await using node = await BenchNode.make({ mode });
  const driver = new Driver(node.kernel);
  await driver.take(listedEvents(shape));
  const flows = await UdpFlows.prepare(node);
  const took: number[] = [];
  const processor: number[] = [];
  for (let run = 1; run <= size.slowRuns; run++) {
    out.progress(`${name}, run ${run} of ${size.slowRuns}`);
    await driver.take([scaledEvent(0, shape, shape.endpoints)]);
    await flows.send(count);
    const before = await flows.counts();
    const going = before.get(flows.lastEndpoint(shape)) ?? 0;
    if (going === 0) throw new Error('no flow goes to the endpoint');
    const used = process.cpuUsage();
    took.push(await timed(() => driver.take([scaledEvent(0, shape, shape.endpoints - 1)])));
    processor.push(processorSince(used));
    const after = await flows.counts();
    if (after.has(flows.lastEndpoint(shape))) throw new Error('flows to the endpoint are left');
    out.progress(`${going} flows were deleted`);
  }
  await driver.reconciler.stop();
  out.add({ name: `${name}: one of 10 endpoints goes, with its flows`, unit: 'ms', values: took });
  out.add({ name: `${name}: one of 10 endpoints goes, with its flows, CPU time`, unit: 'ms', values: processor });
}
