import { setTimeout as sleep } from 'node:timers/promises';
import { LongProcess } from '../../../test/bed/long-process.ts';
import { Namespace } from '../../../test/bed/namespace.ts';
import { imageEntrypoint, imageEnvironment, inContainer } from '../../../test/support/image.ts';
import { BenchNode } from '../bench-node.ts';
import { DaemonNode } from '../daemon-process.ts';
import { type ClusterShape, NODE_ADDRESS } from '../large-cluster.ts';
import { type Measurements, type Target, valueAtMost } from '../measure.ts';
import { residentMib } from '../resident.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';

const MIB = 1024 * 1024;

/** After the first sync: what it used alone is given back by then. */
const REST_MS = 5_000;

/** The memory metrics of the daemon, and their names here. */
const PARTS = {
  nodejs_heap_size_used_bytes: 'heap used',
  nodejs_heap_size_total_bytes: 'heap',
  nodejs_external_memory_bytes: 'external',
} as const;

interface Weighed {
  readonly what: string;
  readonly shape: ClusterShape;
  readonly target?: Target;
}

/** Resident set of the bundled daemon, as it is shipped. */
export const memory: Row = {
  name: 'memory',
  async run(out, size) {
    const bare: number[] = [];
    const image: number[] = [];
    for (let run = 1; run <= size.slowRuns; run++) {
      await using nothing = await LongProcess.start([process.execPath, '-e', 'setInterval(() => {}, 1e6)']);
      await sleep(2_000);
      bare.push(await residentMib(nothing.pid));
      image.push(await imageMemory());
    }
    const target = valueAtMost(75, 'at most 75 MiB');
    const name = 'RSS of the daemon in the image, idle';
    out.add({ name, unit: 'MiB', values: image, against: BARE, baselines: bare, target });
    const idle = { ...size.mixed(1, 1), services: 1 };
    const large = size.mixed(10_000, 10);
    await weigh(out, size.slowRuns, bare, { what: 'idle', shape: idle, target });
    for (const shape of [size.mixed(1_000, 10), size.mixed(50_000, 1)]) {
      await weigh(out, 1, bare, { what: `at ${sizeName(shape)}`, shape });
    }
    const largeTarget = valueAtMost(160, 'at most 160 MiB at 10,000 x 10');
    await weigh(out, size.slowRuns, bare, { what: `at ${sizeName(large)}`, shape: large, target: largeTarget });
  },
};

const BARE = 'node that does nothing';

async function weigh(out: Measurements, runs: number, bare: readonly number[], weighed: Weighed): Promise<void> {
  const { what, shape, target } = weighed;
  const values: number[] = [];
  const parts = new Map<string, number[]>(Object.values(PARTS).map((part) => [part, []]));
  for (let run = 1; run <= runs; run++) {
    out.progress(`${what}, run ${run} of ${runs}`);
    await using node = await DaemonNode.make(shape);
    const started = await node.start();
    await started.firstSync();
    await sleep(REST_MS);
    values.push(await residentMib(started.process.pid));
    const metrics = await node.metrics();
    for (const [metric, part] of Object.entries(PARTS)) parts.get(part)?.push((metrics.get(metric) ?? NaN) / MIB);
  }
  const name = `RSS of the daemon ${what}`;
  out.add({ name, unit: 'MiB', values, against: BARE, baselines: bare, ...(target && { target }) });
  for (const [part, found] of parts) out.add({ name: `${part} of the daemon ${what}`, unit: 'MiB', values: found });
}

/** The container image's root file system, started as the image starts; the few Services of the demo. */
async function imageMemory(): Promise<number> {
  await using bench = await BenchNode.make();
  await using node = new Namespace('node-0', bench.netns, { v4: NODE_ADDRESS, v6: '' });
  const flags = ['--proxy-mode=ipvs', '--hostname-override=node-0', '--conntrack-max-per-core=0'];
  const argv = [...(await imageEntrypoint()), ...flags, '--manifests=/etc/kube-ipvs-proxy'];
  const daemon = await node.spawn(inContainer('manifests/demo', argv), await imageEnvironment());
  await daemon.waitForOutput(/initial sync complete/, 120_000);
  await sleep(REST_MS);
  return residentMib(daemon.pid);
}
