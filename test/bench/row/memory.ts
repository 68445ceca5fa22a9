import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { LongProcess } from '../../bed/long-process.ts';
import { Namespace } from '../../bed/namespace.ts';
import { daemonArgv } from '../../support/daemon.ts';
import { imageEntrypoint, inContainer } from '../../support/image.ts';
import { BenchNode } from '../bench-node.ts';
import { type ClusterShape, NODE_ADDRESS, NODE_NAME } from '../large-cluster.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';

/** Resident set of the bundled daemon, as it is shipped, in MiB. */
export const memory: Row = {
  name: 'memory',
  async run(out, size) {
    const shape = size.mixed(10_000, 10);
    const scratch = await mkdtemp(path.join(tmpdir(), 'bench-'));
    const bare: number[] = [];
    const idle: number[] = [];
    const full: number[] = [];
    const image: number[] = [];
    for (let run = 1; run <= size.slowRuns; run++) {
      out.progress(`run ${run} of ${size.slowRuns}`);
      await using nothing = await LongProcess.start([process.execPath, '-e', 'setInterval(() => {}, 1e6)']);
      await new Promise((resolve) => setTimeout(resolve, 2_000));
      bare.push(await residentMib(nothing.pid));
      idle.push(await daemonMemory(scratch, { ...shape, services: 1 }));
      full.push(await daemonMemory(scratch, shape));
      image.push(await imageMemory());
    }
    await rm(scratch, { recursive: true });
    const against = 'node that does nothing';
    out.add({ name: 'RSS of the daemon, idle', unit: 'MiB', values: idle, against, baselines: bare });
    out.add({ name: 'RSS of the daemon in the image, idle', unit: 'MiB', values: image, against, baselines: bare });
    out.add({ name: `RSS of the daemon at ${sizeName(shape)}`, unit: 'MiB', values: full, against, baselines: bare });
  },
};

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
