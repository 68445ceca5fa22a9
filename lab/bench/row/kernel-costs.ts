import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseCidr } from '../../../src/base/cidr.ts';
import { type IpAddress, parseIp } from '../../../src/base/ip.ts';
import type { Op } from '../../../src/state/op.ts';
import { Transaction } from '../../../src/state/transaction.ts';
import { BenchNode, Driver } from '../bench-node.ts';
import { clusterIp, listedEvents } from '../large-cluster.ts';
import { type Measurements, timed } from '../measure.ts';
import { NetnsShell } from '../netns-shell.ts';
import type { Row } from '../row.ts';
import { type Size, sizeName } from '../size.ts';

const RUN_ESTIMATION = 'net/ipv4/vs/run_estimation';
/** The estimator comes every two seconds: at least once in this time. */
const WATCHED_MS = 2_500;

/** What the kernel itself takes, and what can be chosen in its place: lab/notes/kernel-costs.md. */
export const kernelCosts: Row = {
  name: 'kernel-costs',
  async run(out, size) {
    const counts = size.quick ? [10_000] : [1_000, 5_000, 10_000];
    for (const full of counts) await addresses(out, size, size.services(full));
    if (!size.quick) await estimation(out, size);
    await setBuckets(out, size);
  },
};

/** Addresses on kube-ipvs0 against one local route: to make, and for whoever lists the node's addresses. */
async function addresses(out: Measurements, size: Size, count: number): Promise<void> {
  const ops = Array.from({ length: count }, (_, index): Op => ({
    kind: 'bind-address',
    address: serviceIp(index + 1),
  }));
  const route: Op = { kind: 'add-route', cidr: parseCidr('10.202.0.0/16')! };
  const made: number[] = [];
  const routed: number[] = [];
  const listed: number[] = [];
  const listedLight: number[] = [];
  for (let run = 0; run < size.slowRuns; run++) {
    await using node = await BenchNode.make();
    await using light = await BenchNode.make();
    made.push(await timed(() => apply(node, ops)));
    routed.push(await timed(() => apply(light, [route])));
    await using shell = new NetnsShell(node.path);
    await using lightShell = new NetnsShell(light.path);
    listed.push((await shell.time('ip addr')).wallMs);
    listedLight.push((await lightShell.time('ip addr')).wallMs);
  }
  const made1 = { name: `${count} addresses made`, values: made, baselines: routed, against: 'one local route made' };
  out.add({ ...made1, unit: 'ms' });
  const against = 'with one local route';
  out.add({ name: `ip addr, ${count} addresses`, unit: 'ms', values: listed, baselines: listedLight, against });
}

/** The longest that a process which does nothing but look at the clock was held up. */
async function estimation(out: Measurements, size: Size): Promise<void> {
  const shape = size.mixed(10_000, 5);
  await using node = await BenchNode.make();
  const driver = new Driver(node.kernel);
  await driver.take(listedEvents(shape));
  const on: number[] = [];
  const off: number[] = [];
  for (let run = 0; run < size.slowRuns; run++) {
    for (const [value, values] of [['1', on] as const, ['0', off] as const]) {
      await node.kernel.setSysctl(RUN_ESTIMATION, value);
      values.push(longestGap());
    }
  }
  await driver.reconciler.stop();
  const name = `estimation: CPU held at ${sizeName(shape)}, longest in ${WATCHED_MS / 1_000} s`;
  out.add({ name, unit: 'ms', values: on, baselines: off, against: 'estimation stopped' });
}

function longestGap(): number {
  const end = performance.now() + WATCHED_MS;
  let before = performance.now();
  let longest = 0;
  for (let now = before; now < end; now = performance.now()) {
    longest = Math.max(longest, now - before);
    before = now;
  }
  return longest;
}

/** A set that grows with its entries, the default of ipset, against one with enough buckets for all. */
async function setBuckets(out: Measurements, size: Size): Promise<void> {
  const count = size.services(50_000);
  const buckets = 2 ** Math.ceil(Math.log2(count / 2));
  const scratch = await mkdtemp(path.join(tmpdir(), 'kernel-costs-'));
  const entries = Array.from(
    { length: count },
    (_, index) => `add s 10.${200 + (index >> 16)}.${(index >> 8) & 255}.${index & 255},tcp:80`,
  );
  const fileOf = async (hashSize: number): Promise<string> => {
    const file = path.join(scratch, String(hashSize));
    const create = `create s hash:ip,port maxelem 1048576 hashsize ${hashSize}`;
    await writeFile(file, [create, ...entries, ''].join('\n'));
    return file;
  };
  const grown: number[] = [];
  const sized: number[] = [];
  await using node = await BenchNode.make();
  await using shell = new NetnsShell(node.path);
  for (let run = 0; run < size.slowRuns; run++) {
    for (const [hashSize, values] of [[1024, grown] as const, [buckets, sized] as const]) {
      values.push((await shell.time(`ipset restore < ${await fileOf(hashSize)}`)).wallMs);
      await shell.time('ipset destroy s');
    }
  }
  await rm(scratch, { recursive: true });
  const name = `ipset restore of ${count} entries, 1024 buckets at first`;
  out.add({ name, unit: 'ms', values: grown, baselines: sized, against: `with ${buckets} buckets` });
}

async function apply(node: BenchNode, ops: readonly Op[]): Promise<void> {
  const { failures } = await node.kernel.apply(new Transaction(ops));
  if (failures.length > 0) throw new Error(`${failures.length} of ${ops.length} were refused`);
}

function serviceIp(service: number): IpAddress {
  const address = parseIp(clusterIp(service, 4));
  if (address === undefined) throw new Error('no address');
  return address;
}
