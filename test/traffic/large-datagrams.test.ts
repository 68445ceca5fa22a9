import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clusterAddress, podAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { ProbeOptions } from '../bed/namespace.ts';
import { startDaemon } from '../support/daemon.ts';
import { TEST_MODE } from '../support/mode.ts';
import { ManifestDirectory, POD_PORT, SERVICE_PORT, nodeObjects, serviceObjects } from './cluster-objects.ts';

jest.setTimeout(180_000);

const VIP = clusterAddress(1);
/** Three fragments. */
const BYTES = 4_000;

type From = 'client' | 'node' | 'pod';

const answered: unknown = expect.objectContaining({ ok: true, answeredBy: 'pod-0-0' });
const refused = { ok: false, code: 'EMSGSIZE' };

/**
 * What IPVS refuses, whoever has programmed it: what the node sends whole, because its own address has the MTU of lo (over IPv4,
 * it learns from that); and over IPv6, what a bridge has put together for the rules of iptables.
 */
const IPVS_ANSWERS: Readonly<Record<string, readonly unknown[]>> = {
  'node v4': [refused, answered],
  'node v6': [refused, refused],
  'pod v6': [refused, refused],
};

describe('a datagram that is longer than the MTU', () => {
  let bed: Bed;
  let directory: ManifestDirectory;

  beforeAll(async () => {
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(1));
    await directory.write(
      'web',
      serviceObjects({
        name: 'web',
        protocols: ['UDP'],
        clusterIp: VIP,
        endpoints: [{ addresses: podAddress(0, 0), node: 0 }],
      }),
    );
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
    await bed.pod(0, 0).serveUdp(POD_PORT);
    await startDaemon(bed.node(0), [`--manifests=${directory.path}`, '--cluster-cidr=10.201.0.0/16,fd00:201::/48']);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  async function ask(from: From, family: 'v4' | 'v6', size: Pick<ProbeOptions, 'bytes' | 'answerBytes'>) {
    const host = { client: bed.client(0), node: bed.node(0), pod: bed.pod(0, 1) }[from];
    return await host.probeUdp(VIP[family], SERVICE_PORT, size);
  }

  describe.each(['client', 'node', 'pod'] as const)('of a %s', (from) => {
    test.each(['v4', 'v6'] as const)('%s: the answer arrives', async (family) => {
      expect(await ask(from, family, { answerBytes: BYTES })).toEqual(answered);
    });

    // docs/troubleshooting.md says so. When a kernel can do it, this test fails, and that row is to be changed.
    test.each(['v4', 'v6'] as const)('%s: the request arrives, except where IPVS refuses it', async (family) => {
      const first = await ask(from, family, { bytes: BYTES });
      const second = await ask(from, family, { bytes: BYTES });
      expect([first, second]).toEqual(
        TEST_MODE === 'ipvs' ? (IPVS_ANSWERS[`${from} ${family}`] ?? [answered, answered]) : [answered, answered],
      );
    });
  });
});
