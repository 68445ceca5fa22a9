import { setTimeout as sleep } from 'node:timers/promises';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { now } from '../api-process.ts';
import { DaemonNode, until } from '../daemon-process.ts';
import { clusterIp, growthIp } from '../large-cluster.ts';
import type { Target } from '../measure.ts';
import { NetnsShell } from '../netns-shell.ts';
import { holdsRealServer } from '../real-servers.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';

/** Times more than other rows: this one is about the worst of a hundred. */
const TIMES = 10;

/**
 * --ipvs-min-sync-period of the daemon, its default, is counted from the end of a sync: whoever comes later does not
 * wait for it.
 */
const PAUSE_MS = 1_100;

const TARGET: Target = {
  text: 'p99 at most 2 x the median of one ipvsadm -a process',
  reached: ({ p99, baseline }) => baseline !== null && p99 <= 2 * baseline,
};

/**
 * From the API server's writing of an event to the moment when the kernel shows it: HTTP, the daemon as a process,
 * the kernel.
 */
export const watchLatency: Row = {
  name: 'watch-latency',
  async run(out, size) {
    const shape = size.mixed(10_000, 5);
    await using node = await DaemonNode.make(shape);
    await using shell = new NetnsShell(node.bench.path);
    await (await node.start()).firstSync();
    const ours: number[] = [];
    const looks: number[] = [];
    const tool: number[] = [];
    const changes = size.runs * TIMES;
    for (let run = 0; run < changes; run++) {
      await sleep(PAUSE_MS);
      const [mine, theirs] = pairOf(run, shape.services);
      const seen = until(() => look(node.bench.kernel, mine, looks)).then(now);
      const given = await node.api.scale({ services: [mine], endpoints: shape.endpoints + 1 });
      ours.push((await seen) - given);
      tool.push(
        (await shell.time(`ipvsadm -a -t ${clusterIp(theirs, 4)}:80 -r ${growthIp(theirs, 4)}:8080 -m -w 1`)).wallMs,
      );
      if (!(await holdsRealServer(node.bench.kernel, theirs))) throw new Error('ipvsadm added nothing');
    }
    const name = `watch event to kernel, one endpoint more at ${sizeName(shape)}`;
    const against = 'one ipvsadm -a process';
    out.add({ name, unit: 'ms', values: ours, against, baselines: tool, target: TARGET });
    out.add({
      name: 'of that, one look at the kernel: its resolution, besides the millisecond between two',
      unit: 'ms',
      values: looks,
    });
  },
};

async function look(kernel: Kernel, service: number, looks: number[]): Promise<boolean> {
  const start = now();
  const found = await holdsRealServer(kernel, service);
  looks.push(now() - start);
  return found;
}

/** Two plain Services that were not changed yet, as long as there are any. */
function pairOf(run: number, services: number): readonly [number, number] {
  const ten = (run * 10) % (services - (services % 10));
  const round = Math.trunc((run * 10) / services);
  return [ten + 1 + 2 * round, ten + 2 + 2 * round];
}
