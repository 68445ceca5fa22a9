import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { type ClusterShape, nodeObject, serviceObjects, sliceObjects } from '../../lab/bench/large-cluster.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import { differences, kernelState } from '../bed/kernel-state.ts';
import { patient } from '../bed/patience.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';

jest.setTimeout(patient(180_000));

const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
const FIRST: ClusterShape = { services: 300, endpoints: 3, dualStackEvery: 5, nodePortEvery: 5, udpEvery: 7 };
/** Fewer services, other endpoints, other families, protocols and node ports. */
const CHANGED: ClusterShape = { services: 260, endpoints: 2, dualStackEvery: 4, nodePortEvery: 6, udpEvery: 5 };
const KILLS = 2;
const BUDGET_MS = 40_000;

/**
 * A small generator of our own, so that a failure's seed finds the same moments again (as far as a scheduler lets
 * it).
 */
function* randoms(seed: number): Generator<number, never> {
  for (let state = seed >>> 0; ;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state / 2 ** 32;
  }
}

describe(`killed at any moment (SEED=${SEED})`, () => {
  const random = randoms(SEED);
  let directory: string;
  let bed: Bed;
  /** What an undisturbed daemon makes of each shape. */
  const undisturbed = new Map<ClusterShape, string>();
  /** How long it takes to start and sync, in ms: kills are spread over so much. */
  let firstSyncMs = 0;

  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'kill-'));
    bed = await Bed.create({ nodes: 2 });
    const calm = bed.node(0);
    for (const shape of [FIRST, CHANGED]) {
      await write(shape);
      const start = performance.now();
      const daemon = await startDaemon(calm, flags());
      firstSyncMs = Math.max(firstSyncMs, performance.now() - start);
      await daemon.stop(10_000);
      const state = nodeIndependent(await kernelState(calm));
      if (!state.includes('-a -t 10.202.1.1:80')) throw new Error('the undisturbed run has programmed nothing');
      undisturbed.set(shape, state);
    }
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  });

  // Both nodes go by the name of the same Node, and serve node ports on the address of their uplink alone.
  function flags(): string[] {
    return [
      `--manifests=${directory}`,
      '--hostname-override=node-0',
      '--cluster-cidr=10.64.0.0/10',
      '--nodeport-addresses=10.200.0.0/24,fd00:200::/64',
      '--ipvs-min-sync-period=0s',
    ];
  }

  async function write(shape: ClusterShape): Promise<void> {
    const items = [...serviceObjects(shape), ...sliceObjects(shape), nodeObject()];
    // A name that is not read as a manifest until the file is complete.
    const partial = path.join(directory, 'cluster.partial');
    await writeFile(partial, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    await rename(partial, path.join(directory, 'cluster.json'));
  }

  // The two nodes differ in their own addresses, which node ports are served on.
  function nodeIndependent(state: string): string {
    return state
      .replaceAll('10.200.0.11', '10.200.0.10')
      .replaceAll('fd00:200::11', 'fd00:200::10')
      .split('\n')
      .sort()
      .join('\n');
  }

  async function killAfter(daemon: LongProcess, ms: number): Promise<void> {
    await sleep(ms);
    daemon.signal('SIGKILL');
    expect(await daemon.ended(5_000)).toBe(true);
    expect(daemon.exit).toBe('SIGKILL');
  }

  test('the next start repairs everything that a killed first sync or change sync left', async () => {
    const started = performance.now();
    const node = bed.node(1);
    let rounds = 0;
    for (const shape of [FIRST, CHANGED, FIRST, CHANGED]) {
      if (rounds >= 2 && performance.now() - started > BUDGET_MS) break;
      rounds += 1;
      // A running daemon applies the change, and is killed at some point ...
      const before = await node.spawn(daemonArgv(node, flags()));
      await before.waitForOutput(/initial sync complete|health server listening/, 60_000);
      await write(shape);
      await killAfter(before, random.next().value * 1_500);
      // ... and so do those that come after it, in their first sync.
      for (let kill = 0; kill < KILLS; kill++) {
        const daemon = await node.spawn(daemonArgv(node, flags()));
        await killAfter(daemon, random.next().value * firstSyncMs);
      }
      const last = await startDaemon(node, flags());
      await last.stop(10_000);
      expect(differences(undisturbed.get(shape) ?? '', nodeIndependent(await kernelState(node)))).toEqual([]);
    }
  });
});
