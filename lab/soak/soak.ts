// `make soak DURATION=3600`: the bundled daemon on a real kernel, while the endpoints of its Services change all the time.
// It must not grow, lose descriptors, fail an operation, or leave a difference. Exits with 1 if it did.
// SERVICES=10000 CHANGES=100: of so many Services, so many change in each second. TEST_MODE=nftables: in that mode.
import { setTimeout as sleep } from 'node:timers/promises';
import path from 'node:path';
import { querySocketOf } from '../../test/support/daemon.ts';
import { TEST_MODE } from '../../test/support/mode.ts';
import { DaemonNode } from '../bench/daemon-process.ts';

const SHAPE = {
  endpoints: 5,
  dualStackEvery: 4,
  nodePortEvery: 10,
  udpEvery: 10,
  loadBalancerEvery: 20,
};
const EVERY_MS = 1_000;
const MOST_ENDPOINTS = 8;
const SAMPLES = 20;
/** Caches are filled and code is compiled in the first fifth. */
const WARM = SAMPLES / 5;
/** What may be added to the resident memory after that: a part, and MiB. */
const [GROWTH, SLACK_MIB] = [0.1, 5];
const MORE_DESCRIPTORS = 2;
const SETTLED_MS = 10_000;
/** Nobody else changes this kernel: a repair is a difference that a change of ours left. */
const FAULT = /^kubeipvs_(?:(?:sync|operations)_total\{.*"(?:failed|partial)"|(?:drift|iptables_rules)_repaired_total)/;
const MIB = 1024 * 1024;
const BUNDLE = path.resolve('build/kube-ipvs-proxy.mjs');

interface Sample {
  readonly residentMib: number;
  readonly descriptors: number;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

const [seconds = NaN, services = NaN, together = NaN] = process.argv.slice(2).map(Number);
if (![seconds, services, together].every(Number.isInteger) || seconds < SAMPLES || together > services) {
  process.stderr.write(`usage: soak.ts SECONDS SERVICES CHANGES (${SAMPLES} seconds at least)\n`);
  process.exit(2);
}
const mode = TEST_MODE;
if (mode === 'userspace') throw new Error('in userspace mode, nothing is in the kernel');

await using node = await DaemonNode.make({ ...SHAPE, services }, mode);
const daemon = await node.start();
await daemon.firstSync();
const samples: Sample[] = [];
const begin = performance.now();
let changes = 0;
for (let round = 0; samples.length < SAMPLES; round++) {
  const next = begin + round * EVERY_MS - performance.now();
  if (next > 0) await sleep(next);
  // 7 and 23 share no factor with a round number of Services: these differ, and the next round has others.
  const changed = Array.from({ length: together }, (_, n) => (round * 7 + n * 23) % services);
  await node.api.scale({ services: changed, endpoints: round % (MOST_ENDPOINTS + 1) });
  changes += together;
  if (performance.now() - begin >= ((samples.length + 1) * seconds * 1000) / SAMPLES) samples.push(await sample());
}
const faults = faultsOf(samples, await node.metrics());
await sleep(SETTLED_MS);
const diff = [process.execPath, BUNDLE, 'diff', `--query-socket=${querySocketOf(node.namespace)}`];
const { status, stdout } = await node.namespace.exec(diff, { allowFailure: true });
if (status !== 0) faults.push(`the kernel differs from the plan: ${stdout}`);
for (const fault of faults) say(`soak: ${fault}`);
say(`soak: ${changes} changes in ${seconds} s: ${faults.length === 0 ? 'held' : 'DID NOT HOLD'}`);
process.exitCode = faults.length === 0 ? 0 : 1;

async function sample(): Promise<Sample> {
  const metrics = await node.metrics();
  const mib = (name: string): number => Math.round((metrics.get(name) ?? NaN) / MIB);
  const residentMib = mib('process_resident_memory_bytes');
  const heapMib = mib('nodejs_heap_size_used_bytes');
  const descriptors = metrics.get('process_open_fds') ?? NaN;
  const cpu = Math.round(metrics.get('process_cpu_seconds_total') ?? NaN);
  const after = Math.round((performance.now() - begin) / 1000);
  const { virtualServers, realServers } = await objects();
  say(
    `${after} s: ${changes} changes, ${residentMib} MiB resident, ${heapMib} MiB of heap, ${descriptors} descriptors, ` +
      `${cpu} s of CPU time; ${virtualServers} virtual servers and ${realServers} real servers in the kernel`,
  );
  return { residentMib, descriptors };
}

async function objects(): Promise<{ readonly virtualServers: number; readonly realServers: number }> {
  const all = await node.bench.kernel.getVirtualServers();
  const lists = [...(await node.bench.kernel.getRealServers(all)).values()];
  return { virtualServers: all.length, realServers: lists.reduce((sum, { length }) => sum + length, 0) };
}

function faultsOf(all: readonly Sample[], metrics: ReadonlyMap<string, number>): string[] {
  const [warm, last] = [all[WARM - 1], all.at(-1)];
  if (warm === undefined || last === undefined) return ['nothing was measured'];
  const found: string[] = [];
  const most = warm.residentMib * (1 + GROWTH) + SLACK_MIB;
  // A number that is missing is NaN, and so not at most.
  if (!(last.residentMib <= most))
    found.push(`resident memory grew from ${warm.residentMib} to ${last.residentMib} MiB`);
  if (!(last.descriptors <= warm.descriptors + MORE_DESCRIPTORS))
    found.push(`descriptors grew from ${warm.descriptors} to ${last.descriptors}`);
  for (const [name, value] of metrics) {
    if (value > 0 && FAULT.test(name)) found.push(`${name} is ${value}`);
  }
  return found;
}
