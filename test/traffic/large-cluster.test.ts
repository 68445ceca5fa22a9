import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { ApiProcess } from '../../lab/bench/api-process.ts';
import { BenchNode, Driver } from '../../lab/bench/bench-node.ts';
import { type ClusterShape, listedEvents } from '../../lab/bench/large-cluster.ts';
import { Bed } from '../bed/bed.ts';
import type { Namespace } from '../bed/namespace.ts';
import { daemonArgv } from '../support/daemon.ts';
import type { HealthProbe } from './health-probe.ts';
import type { LoopStall } from './loop-stalls.ts';
import { countsInWords } from '../../src/state/op.ts';

jest.setTimeout(300_000);

const SERVICES = 10_000;
const ANSWER_WITHIN_MS = 100;
const native = process.env['KERNEL_USED'] === 'native';

/*
 * On a native kernel the limit holds for each answer and for each turn of the loop.
 *
 * User-Mode Linux has one CPU, on which the probe, the API server, the daemon's loop and its netlink thread take turns; it is not
 * preemptible, a page touched for the first time costs it tens of microseconds, and what its host does meanwhile counts as its own
 * computing. There the limit holds for most answers, and no single one may take longer than what such a kernel explains. A loop that
 * starves (as one that reads a whole list in microtasks: 3 s) shows all the same.
 */
const LIMITS = native
  ? { answerMs: ANSWER_WITHIN_MS, loopMs: ANSWER_WITHIN_MS, shareInTime: 1 }
  : { answerMs: 2_000, loopMs: 1_500, shareInTime: 0.85 };

describe(`a cluster of ${SERVICES} services`, () => {
  let scratch: string;
  let bed: Bed;
  let node: Namespace;
  let server: ApiProcess | undefined;
  let probes: readonly HealthProbe[];
  let stalls: readonly LoopStall[];
  let output: string;

  beforeAll(async () => {
    scratch = await mkdtemp(path.join(tmpdir(), 'large-'));
    bed = await Bed.create();
    node = bed.node(0);
    const stallFile = path.join(scratch, 'stalls');
    const shape = { services: SERVICES, endpoints: 2, dualStackEvery: 10, nodePortEvery: 10, udpEvery: 0 };
    server = await ApiProcess.start(`/run/netns/${node.netns}`, shape);
    const probe = await node.spawn([process.execPath, 'test/traffic/health-probe.ts']);
    const [program = '', ...args] = daemonArgv(node, [
      `--kubeconfig=${server.kubeconfig}`,
      '--cluster-cidr=10.64.0.0/10',
    ]);
    const daemon = await node.spawn([program, '--max-semi-space-size=2', ...args], {
      ...process.env,
      LOOP_STALLS: stallFile,
      NODE_OPTIONS: `--import=${pathToFileURL('test/traffic/loop-stalls.ts').href}`,
    });
    await daemon.waitForOutput(/initial sync complete/, 120_000);
    await probe.stop(10_000);
    await daemon.stop(10_000);
    output = daemon.output;
    if (daemon.exit !== 0) throw new Error(`ended with ${String(daemon.exit)}: ${output}`);
    const all = JSON.parse(probe.output) as readonly HealthProbe[];
    // Before the first answer the daemon was not there.
    probes = all.slice(all.findIndex(({ status }) => status !== 0));
    const firstAnswer = probes[0]?.at ?? Infinity;
    const noted = JSON.parse(await readFile(stallFile, 'utf8')) as readonly LoopStall[];
    stalls = noted.filter(({ at }) => at >= firstAnswer);
  });

  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await bed[Symbol.asyncDispose]();
    await rm(scratch, { recursive: true });
  });

  test('all services of a large cluster are in the kernel after the first sync', async () => {
    const virtualServers = (await node.exec(['ipvsadm', '-Sn'])).stdout
      .split('\n')
      .filter((line) => line.startsWith('-A'));
    // With default/kubernetes. Each tenth has a ClusterIP of the other family too, and node ports on the addresses of uplink and bridge.
    expect(virtualServers.length).toBe(1 + SERVICES + SERVICES / 10 + 4 * (SERVICES / 10));
    expect(output).not.toContain('refused');
  });

  test('/healthz and /livez respond in time during the first sync', () => {
    expect(probes.length).toBeGreaterThan(50);
    expect(probes.filter(({ status }) => status === 0)).toEqual([]);
    expect(probes.filter(({ path: asked, status }) => asked === '/livez' && status !== 200)).toEqual([]);
    expect(probes.filter(({ ms }) => ms > LIMITS.answerMs)).toEqual([]);
    const inTime = probes.filter(({ ms }) => ms <= ANSWER_WITHIN_MS).length / probes.length;
    expect(inTime).toBeGreaterThanOrEqual(LIMITS.shareInTime);
  });

  test('the first sync of a large cluster never blocks the event loop', () => {
    const busy = stalls.map(({ ms, cpuMs }) => (native ? ms : Math.min(ms, cpuMs)));
    expect(Math.max(0, ...busy)).toBeLessThanOrEqual(LIMITS.loopMs);
  });
});

describe('a full check', () => {
  const shape: ClusterShape = { services: 500, endpoints: 3, dualStackEvery: 3, nodePortEvery: 3, udpEvery: 4 };

  test('a full check writes nothing to an unchanged kernel, and only what is missing to a changed one', async () => {
    await using bench = await BenchNode.make();
    const driver = new Driver(bench.kernel);
    await driver.take(listedEvents(shape));
    const { writes } = bench.kernel.counters;
    for (let i = 0; i < 3; i++) expect((await driver.fullCheck()).operations.size).toBe(0);
    expect(bench.kernel.counters.writes).toBe(writes);
    await bench.run(['ipvsadm', '-D', '-t', '10.202.1.1:80']);
    const report = await driver.fullCheck();
    expect(countsInWords(report.drift)).toEqual(['1 x add-virtual-server', '3 x add-real-server']);
    expect(bench.kernel.counters.writes).toBe(writes + 4);
    await driver.reconciler.stop();
  });
});
