// `make bench`: what the proxy costs, against named baselines of the same run in the same kernel.
// BENCH_QUICK=1: smaller and fewer. BENCH_ROWS=part,part: only rows of such a name, or with such a part in it.
// Started twice: on the host for the rows that need no kernel, then in a kernel with IPVS for the others.
// BENCH_SERVICES=N, BENCH_RUNS=N: other sizes than those of size.ts. Only what was measured at full size gets into docs/.
import { Measurements, printTable } from './measure.ts';
import { publish } from './report-files.ts';
import type { Row } from './row.ts';
import { burst, burstUserSpace, watchBurst } from './row/burst.ts';
import { change } from './row/change.ts';
import { changeScale, changeScaleUserSpace, nftablesChangeScale } from './row/change-scale.ts';
import { churn, churnKernel } from './row/churn.ts';
import { endpointCheck } from './row/endpoint-check.ts';
import { eventLoop, eventLoopDaemon, eventLoopUserSpace, nftablesEventLoopDaemon } from './row/event-loop.ts';
import { firstSync } from './row/first-sync.ts';
import { fleet } from './row/fleet.ts';
import { footprint } from './row/footprint.ts';
import { fullCheck } from './row/full-check.ts';
import { kernelCosts } from './row/kernel-costs.ts';
import { kubeProxy, kubeProxyIptables, kubeProxyNftables } from './row/kube-proxy.ts';
import { kubernetesFirst } from './row/kubernetes-first.ts';
import { large, nftablesLargeParts } from './row/large.ts';
import { memory } from './row/memory.ts';
import { nftablesChange } from './row/nftables-change.ts';
import { nftablesFirstSync } from './row/nftables-first-sync.ts';
import { nftablesLarge } from './row/nftables-large.ts';
import { nftablesMemory } from './row/nftables-memory.ts';
import { perObject } from './row/per-object.ts';
import { pipeline } from './row/pipeline.ts';
import { processes } from './row/processes.ts';
import { scale } from './row/scale.ts';
import { start } from './row/start.ts';
import { userspaceEngine, userspaceEngineKernel } from './row/userspace-engine.ts';
import { watchLatency } from './row/watch-latency.ts';
import { makeSize } from './size.ts';

const ROWS: readonly Row[] = [
  pipeline,
  processes,
  firstSync,
  perObject,
  scale,
  change,
  changeScaleUserSpace,
  changeScale,
  watchLatency,
  burstUserSpace,
  burst,
  watchBurst,
  fullCheck,
  eventLoopUserSpace,
  eventLoop,
  eventLoopDaemon,
  start,
  kubernetesFirst,
  kernelCosts,
  endpointCheck,
  memory,
  footprint,
  churn,
  churnKernel,
  kubeProxy,
  nftablesFirstSync,
  nftablesChange,
  nftablesChangeScale,
  nftablesMemory,
  nftablesEventLoopDaemon,
  nftablesLarge,
  large,
  nftablesLargeParts,
  fleet,
  kubeProxyNftables,
  kubeProxyIptables,
  userspaceEngine,
  userspaceEngineKernel,
];

/** lab/kernel/run.sh says what kernel it found. */
const HOST = setting('KERNEL_USED') === undefined;

function setting(name: string): string | undefined {
  const value = process.env[name];
  return value === '' ? undefined : value;
}

function countOf(name: string): number | undefined {
  const value = setting(name);
  if (value === undefined) return undefined;
  if (!/^[1-9]\d*$/.test(value)) throw new Error(`${name} is not a count: ${value}`);
  return Number(value);
}

function selected(): readonly Row[] {
  const parts = setting('BENCH_ROWS')?.split(',') ?? [''];
  const whole = new Set(ROWS.map(({ name }) => name).filter((name) => parts.includes(name)));
  const rows = ROWS.filter(({ name, onlyByName = false }) =>
    parts.some((part) => (whole.has(part) || onlyByName ? name === part : name.includes(part))),
  );
  if (rows.length === 0) throw new Error(`no such rows; there are ${ROWS.map(({ name }) => name).join(', ')}`);
  return rows.filter(({ onHost = false }) => onHost === HOST);
}

function seconds(since: number): string {
  return `${Math.round((performance.now() - since) / 1_000)} s`;
}

const started = performance.now();
const quick = setting('BENCH_QUICK') !== undefined;
const services = countOf('BENCH_SERVICES');
const size = makeSize({
  quick,
  services,
  runs: countOf('BENCH_RUNS'),
});
/** A quick run of all ends within three minutes, whatever else the machine does: no row begins after so long. */
const deadlineMs = quick && setting('BENCH_ROWS') === undefined ? (HOST ? 20_000 : 110_000) : Infinity;
const measured: Measurements[] = [];
for (const row of selected()) {
  const begun = performance.now();
  const out = new Measurements(row.name);
  if (begun - started > deadlineMs) {
    out.progress(`left out, the time of a quick run is over: ROWS=${row.name} runs it`);
    continue;
  }
  out.progress('starts');
  try {
    await row.run(out, size);
    // A row that this kernel does not permit keeps its earlier results.
    if (!quick && services === undefined && out.all.length > 0) {
      const order = ROWS.map(({ name }) => name);
      publish(row.name, out.all, order);
    }
    out.progress(`done in ${seconds(begun)}`);
  } catch (error) {
    // The others are measured all the same.
    out.progress(`FAILED after ${seconds(begun)}: ${error instanceof Error ? error.stack : String(error)}`);
    process.exitCode = 1;
  }
  measured.push(out);
}
if (measured.length > 0) {
  printTable(measured.flatMap(({ all }) => all));
  process.stderr.write(`bench: ${seconds(started)} ${HOST ? 'on the host' : 'in the kernel'}\n`);
}
