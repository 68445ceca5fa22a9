import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clusterAddress, podAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { Namespace } from '../bed/namespace.ts';
import { daemonArgv } from '../support/daemon.ts';
import { WallClock } from '../support/wall-clock.ts';
import { ManifestDirectory, nodeObjects, serviceObjects } from './cluster-objects.ts';

jest.setTimeout(180_000);

const HOUR = 3_600;
/** A sync period is four seconds: a proxy that goes by the wall clock is late by hours. */
const SOON_MS = 30_000;

describe('a wall clock that is set while the daemon runs', () => {
  let bed: Bed;
  let node: Namespace;
  let directory: ManifestDirectory;
  let clock: WallClock;
  let scratch: string;

  const writeService = (name: string, number: number): Promise<void> =>
    directory.write(
      name,
      serviceObjects({
        name,
        clusterIp: clusterAddress(number),
        endpoints: [{ addresses: podAddress(0, 0), node: 0 }],
      }),
    );

  beforeAll(async () => {
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(1));
    await writeService('first', 1);
    bed = await Bed.create({ nodes: 1, podsPerNode: 1, clients: 0 });
    node = bed.node(0);
    scratch = await mkdtemp(path.join(tmpdir(), 'clock-'));
    clock = new WallClock(scratch);
    const flags = [`--manifests=${directory.path}`, '--ipvs-sync-period=4s'];
    const { argv, env } = clock.prepare(daemonArgv(node, flags));
    const daemon = await node.spawn(argv, env);
    await daemon.waitForOutput(/initial sync complete/, 60_000);
  });

  afterAll(async () => {
    clock[Symbol.dispose]();
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
    await rm(scratch, { recursive: true });
  });

  async function served(number: number): Promise<boolean> {
    return (await node.exec(['ipvsadm', '-Sn'])).stdout.includes(`-a -t ${clusterAddress(number).v4}:80 -r `);
  }

  async function soon(what: string, isSo: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + SOON_MS;
    while (!(await isSo())) {
      if (performance.now() > end) throw new Error(`not within ${SOON_MS} ms: ${what}`);
      await sleep(200);
    }
  }

  async function livez(): Promise<string> {
    const url = 'http://127.0.0.1:10256/livez';
    return (await node.exec(['curl', '-sS', '-o', '/dev/null', '-w', '%{http_code}', url])).stdout;
  }

  test('a wall clock set back by five hours and forward again affects neither changes nor full checks nor health', async () => {
    for (const [seconds, number] of [
      [-5 * HOUR, 2],
      [0, 3],
    ] as const) {
      clock.set(seconds);
      await writeService(`service-${number}`, number);
      await soon('a new service', () => served(number));
      await node.exec(['ipvsadm', '-D', '-t', `${clusterAddress(1).v4}:80`]);
      await soon('what somebody else has deleted', () => served(1));
      // Longer than a sync may be outstanding.
      await sleep(9_000);
      expect(await livez()).toBe('200');
    }
  });
});
