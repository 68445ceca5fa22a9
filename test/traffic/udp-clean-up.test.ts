import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clusterAddress, nodeAddress, podAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import { formatIp } from '../../src/base/ip.ts';
import { address as parseAddress } from '../support/state.ts';
import { startDaemon } from '../support/daemon.ts';
import { ManifestDirectory, POD_PORT, SERVICE_PORT, nodeObjects, serviceObjects } from './cluster-objects.ts';

jest.setTimeout(180_000);

const NODE_PORT = 30_080;
const FAMILIES = ['v4', 'v6'] as const;
const answered: unknown = expect.objectContaining({ ok: true, answeredBy: 'pod-0-0' });

describe('UDP flows to what goes while no daemon runs', () => {
  let bed: Bed;
  let directory: ManifestDirectory;

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 1, podsPerNode: 1, clients: 1 });
    await bed.pod(0, 0).serveUdp(POD_PORT);
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(1));
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  async function write(endpoints: number): Promise<void> {
    const shape = { name: 'statsd', protocols: ['UDP'], nodePort: NODE_PORT, clusterIp: clusterAddress(1) } as const;
    const pods = [{ addresses: podAddress(0, 0), node: 0 }];
    await directory.write('statsd', serviceObjects({ ...shape, endpoints: pods.slice(0, endpoints) }));
  }

  /** One request to each address; always from the same ports, so that it belongs to the same flow. */
  async function ask(sourcePort: number): Promise<unknown[]> {
    const targets = FAMILIES.flatMap(
      (family) =>
        [
          [clusterAddress(1)[family], SERVICE_PORT],
          [nodeAddress(0)[family], NODE_PORT],
        ] as const,
    );
    return await Promise.all(
      targets.map(async ([address, port], index) =>
        bed.client(0).probeUdp(address, port, { sourcePort: sourcePort + index, timeoutMs: 500 }),
      ),
    );
  }

  /** The UDP flows to the Pod that connection tracking has. */
  async function flows(): Promise<string[]> {
    const found: string[] = [];
    for (const family of FAMILIES) {
      const { stdout } = await bed.node(0).exec(['conntrack', '-L', '-f', family === 'v4' ? 'ipv4' : 'ipv6']);
      const lines = stdout.split('\n').filter((line) => line.startsWith('udp'));
      const pod = formatIp(parseAddress(podAddress(0, 0)[family]));
      found.push(...lines.filter((line) => line.includes(`src=${pod} `)));
    }
    return found;
  }

  test.each([
    ['its Service', 21_100, async () => await directory.remove('statsd')],
    ['the last endpoint of its Service', 21_200, async () => await write(0)],
  ])('a flow is deleted at the next start if %s went', async (_what, sourcePort, change) => {
    await write(1);
    const flags = [`--manifests=${directory.path}`, '--cluster-cidr=10.201.0.0/16,fd00:201::/48'];
    const before = await startDaemon(bed.node(0), flags);
    expect(await ask(sourcePort)).toEqual([answered, answered, answered, answered]);
    before.signal('SIGKILL');
    expect(await before.ended(5_000)).toBe(true);
    await change();
    expect(await ask(sourcePort)).toEqual([answered, answered, answered, answered]);
    expect(await flows()).toHaveLength(4);
    const after = await startDaemon(bed.node(0), flags);
    expect(await flows()).toEqual([]);
    expect(await ask(sourcePort)).not.toContainEqual(answered);
    expect(await flows()).toEqual([]);
    await after.stop(10_000);
  });
});
