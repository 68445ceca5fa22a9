import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clusterAddress, podAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import { startDaemon } from '../support/daemon.ts';
import { ManifestDirectory, POD_PORT, SERVICE_PORT, serviceObjects } from './cluster-objects.ts';

jest.setTimeout(180_000);

const VIP = clusterAddress(1);
const OTHER_VIP = clusterAddress(2);
const TIMEOUT_SECONDS = 4;

/** Limits of the IPVS connection table, which are independent of the program that configures IPVS. */
describe('TCP connections', () => {
  let bed: Bed;
  let directory: ManifestDirectory;
  let daemon: LongProcess;

  beforeAll(async () => {
    directory = await ManifestDirectory.ofOnePod(VIP);
    const endpoints = [{ addresses: podAddress(0, 0), node: 0 }];
    await directory.write('other', serviceObjects({ name: 'other', clusterIp: OTHER_VIP, endpoints }));
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

  test('connections idle for longer than the timeout are reset by their next packet; one in use continues', async () => {
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

  test('the log at start names the idle timeout of TCP connections, its effect and the remedy', () => {
    expect(daemon.output).toMatch(
      /W.*idle for 4 s are forgotten.*tcp_keepalive_time\) comes after 7200 s.*set --ipvs-tcp-timeout above/,
    );
  });

  test('of two connections from one client port through two virtual servers to one real server, the earlier gets no more replies', async () => {
    const client = bed.client(0);
    const asked = async (ports: readonly [number, number]): Promise<boolean> => {
      const held = await client.hold(VIP.v4, SERVICE_PORT, { sourcePort: ports[0] });
      const later = await client.probeTcp(OTHER_VIP.v4, SERVICE_PORT, { sourcePort: ports[1] });
      expect([held.first.ok, later.ok]).toEqual([true, true]);
      const answer = await held.ask();
      await held.close();
      return answer.ok;
    };
    expect(await asked([40_001, 40_001])).toBe(false);
    expect(await asked([40_002, 40_003])).toBe(true);
  });
});
