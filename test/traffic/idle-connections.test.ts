import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clusterAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import { startDaemon } from '../support/daemon.ts';
import { ManifestDirectory, POD_PORT, SERVICE_PORT } from './cluster-objects.ts';

jest.setTimeout(180_000);

const VIP = clusterAddress(1);
const TIMEOUT_SECONDS = 4;

/** What --ipvs-tcp-timeout below the keepalive of the clients means, and that the log says so. */
describe('TCP connections that are idle', () => {
  let bed: Bed;
  let directory: ManifestDirectory;
  let daemon: LongProcess;

  beforeAll(async () => {
    directory = await ManifestDirectory.ofOnePod(VIP);
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
    await bed.pod(0, 0).serveTcp(POD_PORT);
    daemon = await startDaemon(bed.node(0), [
      `--manifests=${directory.path}`,
      '--cluster-cidr=10.201.0.0/16,fd00:201::/48',
      `--ipvs-tcp-timeout=${TIMEOUT_SECONDS}s`,
    ]);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  test('for longer than the timeout are forgotten, and reset by their next packet; one in use lives on', async () => {
    const [idle, used] = [
      await bed.client(0).hold(VIP.v4, SERVICE_PORT),
      await bed.client(0).hold(VIP.v4, SERVICE_PORT),
    ];
    for (const { first } of [idle, used]) expect(first).toMatchObject({ ok: true, answeredBy: 'pod-0-0' });
    for (let second = 0; second < 3 * TIMEOUT_SECONDS; second++) {
      await sleep(1000);
      expect(await used.ask()).toMatchObject({ ok: true });
    }
    expect(await idle.ask()).toEqual({ ok: false, code: 'ECONNRESET' });
  });

  test('are in the log: what will happen to them, and what to do', () => {
    expect(daemon.output).toMatch(
      /W.*idle for 4 s are forgotten.*tcp_keepalive_time\) comes after 7200 s.*set --ipvs-tcp-timeout above/,
    );
  });
});
