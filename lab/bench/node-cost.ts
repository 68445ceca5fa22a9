// What a node pays, of several builds of the daemon in the same kernel at the same time:
//   lab/kernel/run.sh node lab/bench/node-cost.ts SERVICESxENDPOINTS ROUNDS NAME=FILE.mjs[,ARGUMENT OF NODE]...
// Each round starts every build on a fresh node with its own API server, in another order, and prints for each: CPU to the
// end of the first sync; RSS, PSS and anonymous memory; CPU of one endpoint more; CPU of the same idle minute; memory after it.
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { DaemonNode, type Started } from './daemon-process.ts';
import type { ClusterShape } from './large-cluster.ts';
import { median } from './measure.ts';
import { processorMs } from './processor-time.ts';

interface Build {
  readonly name: string;
  readonly bundle: string;
  readonly runtime: readonly string[];
}

const CHANGES = 20;
/** More than the shortest time between two syncs. */
const PAUSE_MS = 1_200;
/** What the first sync used alone is given back by then. */
const REST_MS = 10_000;
/** Two full checks, of which the first compares what was written with what is there. */
const UNTIL_IDLE_MS = 45_000;
const IDLE_MS = 60_000;

const [size = '', rounds = '1', ...names] = process.argv.slice(2);
const [services = NaN, endpoints = NaN] = size.split('x').map(Number);
const shape: ClusterShape = {
  services,
  endpoints,
  dualStackEvery: 10,
  nodePortEvery: 20,
  udpEvery: 30,
  loadBalancerEvery: 50,
};
const builds = names.map((text): Build => {
  const [name = '', rest = ''] = text.split(/=(.*)/s);
  const [bundle = '', ...runtime] = rest.split(',');
  return { name, bundle, runtime };
});

/** By build, then by measure. */
const found = new Map(builds.map(({ name }) => [name, new Map<string, number[]>()]));

function note({ name }: Build, measure: string, value: number): void {
  const of = found.get(name);
  of?.set(measure, [...(of.get(measure) ?? []), value]);
  process.stderr.write(`${name}: ${measure}: ${value.toFixed(1)}\n`);
}

async function noteMemory(build: Build, { process: { pid } }: Started, when: string): Promise<void> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
  for (const part of ['Rss', 'Pss', 'Anonymous']) {
    const kib = new RegExp(`^${part}:\\s+(\\d+) kB`, 'm').exec(text)?.[1];
    note(build, `${part} ${when}, MiB`, Number(kib) / 1_024);
  }
}

async function start(build: Build, node: DaemonNode): Promise<Started> {
  const started = await node.start({ bundle: build.bundle, runtime: build.runtime });
  await started.firstSync();
  note(build, 'CPU to the first sync, ms', await processorMs(started.process.pid));
  await sleep(REST_MS);
  await noteMemory(build, started, 'after the first sync');
  const before = await processorMs(started.process.pid);
  for (let change = 0; change < CHANGES; change++) {
    await node.api.scale({ services: [change * 10 + 1], endpoints: endpoints + 1 });
    await sleep(PAUSE_MS);
  }
  note(build, 'CPU of a change, ms', ((await processorMs(started.process.pid)) - before) / CHANGES);
  return started;
}

async function round(order: readonly Build[]): Promise<void> {
  await using nodes = new AsyncDisposableStack();
  const running: (readonly [Build, Started])[] = [];
  for (const build of order) running.push([build, await start(build, nodes.use(await DaemonNode.make(shape)))]);
  await sleep(UNTIL_IDLE_MS);
  const before = await Promise.all(
    running.map(
      ([
        ,
        {
          process: { pid },
        },
      ]) => processorMs(pid),
    ),
  );
  await sleep(IDLE_MS);
  const after = await Promise.all(
    running.map(
      ([
        ,
        {
          process: { pid },
        },
      ]) => processorMs(pid),
    ),
  );
  for (const [at, [build, started]] of running.entries()) {
    note(build, 'CPU of an idle minute, ms', (after[at] ?? NaN) - (before[at] ?? NaN));
    await noteMemory(build, started, 'at the end');
  }
}

for (let count = 0; count < Number(rounds); count++) {
  await round(count % 2 === 0 ? builds : builds.toReversed());
}
for (const measure of found.values().next().value?.keys() ?? []) {
  const cells = Array.from(found, ([name, of]) => {
    const values = of.get(measure) ?? [];
    return `${name} ${median(values).toFixed(1)} (${values.map((value) => value.toFixed(1)).join(' ')})`;
  });
  process.stdout.write(`${measure}: ${cells.join('; ')}\n`);
}
