// `make soak DURATION=3600`: the bundled daemon on a real kernel, while the endpoints of its Services change all the time.
// It must not grow, lose descriptors, fail an operation, or leave a difference. Exits with 1 if it did.
import { setTimeout as sleep } from 'node:timers/promises';
import path from 'node:path';
import { querySocketOf } from '../../test/support/daemon.ts';
import { DaemonNode } from '../bench/daemon-process.ts';

const SHAPE = {
  services: 500,
  endpoints: 5,
  dualStackEvery: 4,
  nodePortEvery: 10,
  udpEvery: 10,
  loadBalancerEvery: 20,
};
/** Services that change together, and how often. */
const [TOGETHER, EVERY_MS] = [20, 1_000];
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

const seconds = Number(process.argv[2]);
if (!Number.isInteger(seconds) || seconds < SAMPLES) {
  process.stderr.write(`usage: soak.ts SECONDS (${SAMPLES} at least)\n`);
  process.exit(2);
}

await using node = await DaemonNode.make(SHAPE);
const daemon = await node.start();
await daemon.firstSync();
const samples: Sample[] = [];
const begin = performance.now();
let changes = 0;
for (let round = 0; samples.length < SAMPLES; round++) {
  const services = Array.from({ length: TOGETHER }, (_, n) => (round * 7 + n * 23) % SHAPE.services);
  await node.api.scale({ services, endpoints: round % (MOST_ENDPOINTS + 1) });
  changes += TOGETHER;
  await sleep(EVERY_MS);
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
  const residentMib = Math.round((metrics.get('process_resident_memory_bytes') ?? NaN) / MIB);
  const descriptors = metrics.get('process_open_fds') ?? NaN;
  const after = Math.round((performance.now() - begin) / 1000);
  say(`${after} s: ${changes} changes, ${residentMib} MiB resident, ${descriptors} descriptors`);
  return { residentMib, descriptors };
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
