import { Forwarder, type ForwarderName, ended, lineOf, started } from '../forwarder.ts';
import { type Measurements, type Target, median, percentile, ratioAtMost } from '../measure.ts';
import { processorMs } from '../processor-time.ts';
import { residentOf } from '../resident.ts';
import type { Row } from '../row.ts';
import type { Size } from '../size.ts';

const PEER = ['python3', 'lab/bench/stream_peer.py'];
const CONNECTS = 2_000;
const PINGS = 2_000;
const STREAM_GIB = 0.5;
/** Each has two descriptors of the forwarder, and a process may have only 20,000. */
const IDLE = 8_000;

/** The measures of one run, by name and unit. What the kernel does is counted as no processor time and no memory. */
type Costs = ReadonlyMap<string, number>;

/** The user-space engine beside other programs, and beside a connection without one. */
export const userspaceEngine: Row = {
  name: 'userspace-engine',
  onHost: true,
  onlyByName: true,
  run: (out, size) => compare(out, size, ['haproxy', 'socat', 'nothing']),
};

/** The same beside IPVS: on a test kernel, where system calls cost more. */
export const userspaceEngineKernel: Row = {
  name: 'userspace-engine-kernel',
  onlyByName: true,
  run: (out, size) => compare(out, size, ['haproxy', 'socat', 'ipvs']),
};

const TARGETS: Readonly<Record<string, Target>> = {
  'ms for 1,000 connections, one after the other': ratioAtMost(2, 'at least 0.5 of the connections a second'),
};

async function compare(out: Measurements, size: Size, others: readonly ForwarderName[]): Promise<void> {
  const runs = new Map<ForwarderName, Costs[]>();
  for (let run = 0; run < size.slowRuns; run++) {
    for (const name of ['ours', ...others] as const) {
      out.progress(`${name}, run ${run + 1}`);
      runs.set(name, [...(runs.get(name) ?? []), await costsOf(name)]);
    }
  }
  const valuesOf = (name: ForwarderName, measure: string): number[] =>
    (runs.get(name) ?? []).flatMap((costs) => costs.get(measure) ?? []);
  for (const measure of runs.get('ours')?.[0]?.keys() ?? []) {
    const [unit = '', ...words] = measure.split(' ');
    for (const other of others) {
      const baselines = valuesOf(other, measure);
      const target = other === 'haproxy' ? TARGETS[measure] : undefined;
      const name = `user-space engine: ${words.join(' ')}`;
      const values = valuesOf('ours', measure);
      if (baselines.length === 0) continue;
      out.add({ name: `${name}, beside ${other}`, unit, values, against: other, baselines, ...(target && { target }) });
    }
  }
}

async function costsOf(name: ForwarderName): Promise<Costs> {
  const server = started([...PEER, 'serve']);
  const endpoint = Number(await lineOf(server));
  const costs = new Map<string, number>();
  {
    await using forwarder = await Forwarder.start(name, endpoint);
    const { pid } = forwarder;
    const run = async (...argv: readonly (string | number)[]): Promise<number[]> =>
      (await lineOf(client(forwarder, argv))).split(' ').map(Number);
    // The first connections of a process run code that is not compiled yet.
    await run('connects', 500);
    const [seconds, cpu] = await withCpu(pid, () => run('connects', CONNECTS));
    costs.set('ms for 1,000 connections, one after the other', ((seconds[0] ?? NaN) * 1e6) / CONNECTS);
    if (cpu !== undefined) costs.set('ms processor time for 1,000 connections', (cpu * 1_000) / CONNECTS);
    for (const count of [1, 100]) {
      const [took, used] = await withCpu(pid, () => run('stream', STREAM_GIB * 1024 ** 3, count));
      const through = `through ${count === 1 ? 'one connection' : `${count} connections`}`;
      costs.set(`s for a GiB ${through}`, (took[0] ?? NaN) / STREAM_GIB);
      if (used !== undefined) costs.set(`s processor time for a GiB ${through}`, used / 1_000 / STREAM_GIB);
    }
    const pings = await run('pings', PINGS);
    costs.set('µs for a byte and its answer, p50', median(pings));
    costs.set('µs for a byte and its answer, p99', percentile(pings, 99));
    // socat has a process for each connection.
    if (pid !== undefined && name !== 'socat') {
      const before = (await residentOf(pid)).anonymous;
      const idle = client(forwarder, ['idle', IDLE]);
      await lineOf(idle);
      costs.set('KiB an idle connection takes', (((await residentOf(pid)).anonymous - before) * 1_024) / IDLE);
      await ended(idle);
    }
  }
  await ended(server);
  return costs;
}

function client({ address, port }: Forwarder, [what = '', ...rest]: readonly (string | number)[]) {
  return started([...PEER, `${what}`, address, `${port}`, ...rest.map(String)]);
}

/** Also returns the processor time in milliseconds that a process used meanwhile. */
async function withCpu<T>(pid: number | undefined, run: () => Promise<T>): Promise<readonly [T, number | undefined]> {
  if (pid === undefined) return [await run(), undefined];
  const before = await processorMs(pid);
  const result = await run();
  return [result, (await processorMs(pid)) - before];
}
