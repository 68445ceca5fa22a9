import { parseIp } from '../../../src/base/ip.ts';
import { now } from '../api-process.ts';
import type { BenchNode } from '../bench-node.ts';
import { DaemonNode, until } from '../daemon-process.ts';
import { KUBERNETES } from '../large-cluster.ts';
import { ratioAtMost } from '../measure.ts';
import { realServersOf, tcpServer } from '../real-servers.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';
import { boundAddresses } from '../../../test/support/bound-addresses.ts';

/**
 * In a cold start at a large cluster, how soon can pods reach the API server? Beside an empty Node: nothing of the cluster's
 * size is in it, so that a share of the whole start would only say how long the rest takes.
 */
export const kubernetesFirst: Row = {
  name: 'kubernetes-first',
  async run(out, size) {
    const shape = size.mixed(20_000, 1);
    const usable: number[] = [];
    const whole: number[] = [];
    const bare: number[] = [];
    for (let run = 1; run <= size.slowRuns; run++) {
      out.progress(`run ${run} of ${size.slowRuns}`);
      await using node = await DaemonNode.make(shape);
      const started = await node.start();
      const all = started.firstSync();
      await until(() => isUsable(node.bench));
      usable.push(now() - started.at);
      whole.push(await all);
      await started.process.stop();
      bare.push(await node.bareStart());
    }
    const name = `default/kubernetes usable in a cold start at ${sizeName(shape)}`;
    const target = ratioAtMost(4, 'at most 4 x an empty Node');
    out.add({ name, unit: 'ms', values: usable, against: 'node -e 0', baselines: bare, target });
    const against = 'the whole: start to initial sync complete';
    out.add({ name: `${name}, of the whole`, unit: 'ms', values: usable, against, baselines: whole });
  },
};

/** Virtual server, real server, and the address that takes packets in. */
async function isUsable({ kernel }: BenchNode): Promise<boolean> {
  const servers = await realServersOf(kernel, tcpServer(KUBERNETES.address, KUBERNETES.port));
  if (!servers.includes(`${KUBERNETES.endpoint}:6443`)) return false;
  const address = parseIp(KUBERNETES.address);
  return address !== undefined && (await boundAddresses(kernel)).includes(address);
}
