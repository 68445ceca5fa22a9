import { FakeKernel } from '../../../test/fake-kernel/fake-kernel.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { BenchNode } from '../bench-node.ts';
import { ChurnHistory } from '../churn-history.ts';
import { type Weight, weigh } from '../heap.ts';
import { type Measurements, ratioAtMost } from '../measure.ts';
import type { Row } from '../row.ts';
import type { Size } from '../size.ts';
import { UserSpace } from '../user-space.ts';

const MIB = 1024 * 1024;

/** Changes in one sync. */
const TOGETHER = 200;

/** Weighed so often in all; the first fifth is for caches to fill and code to be compiled. */
const WEIGHINGS = 10;
const WARM = 2;

interface Life {
  readonly kernel: Kernel;
  readonly services: number;
  /** Lines of the watches. */
  readonly changes: number;
  /** Forgets what the kernel in memory remembers for tests. */
  readonly forget?: () => void;
}

/** All of the daemon but HTTP, on a kernel in memory: a cluster of one size lives through a million changes. */
export const churn: Row = {
  name: 'churn-user-space',
  onHost: true,
  async run(out, size) {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const forget = (): void => void kernel.applied.splice(0);
    await report(out, 'in user space', { kernel, services: 1_000, changes: changesOf(size, 1_000_000), forget });
  },
};

/** The same on the real kernel: what the addon and its buffers keep. */
export const churnKernel: Row = {
  name: 'churn-kernel',
  async run(out, size) {
    await using node = await BenchNode.make();
    await report(out, 'on the real kernel', { kernel: node.kernel, services: 200, changes: changesOf(size, 50_000) });
  },
};

function changesOf(size: Size, full: number): number {
  return Math.max(10_000, size.services(full));
}

async function report(out: Measurements, where: string, life: Life): Promise<void> {
  const weights = await live(out, life);
  const warm = weights.slice(0, WARM).at(-1);
  const last = weights.at(-1);
  if (warm === undefined || last === undefined) throw new Error('nothing was weighed');
  const against = `the same after the first ${(life.changes * WARM) / WEIGHINGS}`;
  const target = ratioAtMost(1.05, 'no growth: at most 5% above');
  const rows: readonly (readonly [string, keyof Weight])[] = [
    ['heap used', 'heap'],
    ['external memory', 'external'],
    ['array buffers', 'buffers'],
    ['RSS', 'resident'],
  ];
  for (const [what, key] of rows) {
    const name = `${what} after ${life.changes} changes ${where}`;
    const [values, baselines] = [[last[key] / MIB], [warm[key] / MIB]];
    out.add({ name, unit: 'MiB', values, against, baselines, target });
  }
}

async function live(out: Measurements, { kernel, services, changes, forget }: Life): Promise<readonly Weight[]> {
  const history = new ChurnHistory({ services, endpoints: 3, dualStackEvery: 0, nodePortEvery: 20, udpEvery: 20 });
  const space = new UserSpace(kernel);
  await space.list(history.all());
  const weights: Weight[] = [];
  for (let taken = 0; weights.length < WEIGHINGS;) {
    for (let one = 0; one < TOGETHER; one++) {
      for (const line of history.next()) {
        space.take(line);
        taken++;
      }
    }
    await space.settled();
    forget?.();
    if (taken < ((weights.length + 1) * changes) / WEIGHINGS) continue;
    weights.push(await weigh());
    out.progress(`${taken} changes, heap ${((weights.at(-1)?.heap ?? 0) / MIB).toFixed(1)} MiB`);
  }
  await space.stop();
  const { virtualServerCount } = space.reconciler.plan;
  if (virtualServerCount < services) throw new Error(`${virtualServerCount} virtual servers are left of ${services}`);
  return weights;
}
