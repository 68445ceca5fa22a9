import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clusterAddress, podAddress } from '../bed/address-plan.ts';
import type { Answer, ProbeRequest, Transport } from '../bed/agent-protocol.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { startDaemon } from '../support/daemon.ts';
import { ManifestDirectory, POD_PORT, SERVICE_PORT, nodeObjects, serviceObjects } from './cluster-objects.ts';

jest.setTimeout(180_000);

const NODE_PORT = 30_080;
const NODE_PORTS = { from: 30_000, to: 32_767 };
/** Where no node port is. */
const PORTS = { from: 61_000, to: 62_000 };
/** To each of two addresses: more than half of the ports are then taken, for connection tracking remembers ended connections. */
const REQUESTS = 300;

/** Connections from outside, through a node whose endpoint is on another node: each is masqueraded. */
describe('--masquerade-port-range under load', () => {
  let bed: Bed;
  let node: Namespace;
  let client: Namespace;
  let directory: ManifestDirectory;
  let daemon: LongProcess | undefined;

  beforeAll(async () => {
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(2));
    await directory.write(
      'web',
      serviceObjects({
        name: 'web',
        clusterIp: clusterAddress(1),
        nodePort: NODE_PORT,
        protocols: ['TCP', 'UDP'],
        endpoints: [{ addresses: podAddress(1, 0), node: 1 }],
      }),
    );
    bed = await Bed.create({ nodes: 2, podsPerNode: 1, clients: 1 });
    [node, client] = [bed.node(0), bed.client(0)];
    await Promise.all([bed.pod(1, 0).serveTcp(POD_PORT), bed.pod(1, 0).serveUdp(POD_PORT)]);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  async function restartDaemon(...flags: readonly string[]): Promise<void> {
    await daemon?.stop();
    const always = ['--cluster-cidr=10.201.0.0/16,fd00:201::/48', `--manifests=${directory.path}`];
    daemon = await startDaemon(node, [...always, ...flags]);
  }

  /** Node port and cluster IP in turn. */
  function requests(protocol: Transport, family: 'v4' | 'v6'): ProbeRequest[] {
    const targets = [
      { address: node.addresses[family], port: NODE_PORT },
      { address: clusterAddress(1)[family], port: SERVICE_PORT },
    ];
    return Array.from({ length: REQUESTS }, () => targets)
      .flat()
      .map((target) => ({ protocol, target, timeoutMs: 10_000 }));
  }

  async function answersTo(probes: readonly ProbeRequest[]): Promise<Answer[]> {
    const results = await client.probeAll(probes);
    expect(results.filter(({ ok }) => !ok)).toEqual([]);
    const answers = results.filter((result): result is Answer => result.ok);
    expect(answers).toHaveLength(probes.length);
    return answers;
  }

  test('without the flag, the kernel selects NodePorts as source ports too', async () => {
    await restartDaemon();
    const ports = (await answersTo(requests('tcp', 'v4'))).map(({ sourcePort }) => sourcePort);
    expect(ports.filter((port) => isIn(NODE_PORTS, port))).not.toEqual([]);
  });

  describe('with the range', () => {
    beforeAll(async () => {
      await restartDaemon(`--masquerade-port-range=${PORTS.from}-${PORTS.to}`);
    });

    test.each([
      ['tcp', 'v4'],
      ['udp', 'v4'],
      ['tcp', 'v6'],
      ['udp', 'v6'],
    ] as const)('%s over IP%s: every source port is in the range, and no packet is lost', async (protocol, family) => {
      const answers = await answersTo(requests(protocol, family));
      expect([...new Set(answers.map(({ sourceSeen }) => sourceSeen))]).toEqual([node.addresses[family]]);
      const ports = answers.map(({ sourcePort }) => sourcePort);
      expect(ports.filter((port) => !isIn(PORTS, port))).toEqual([]);
      // Many at once: else it would be no load.
      expect(new Set(ports).size).toBeGreaterThan(REQUESTS);
      const flows = (await flowsToPod(family)).filter((line) => line.startsWith(protocol));
      expect(flows.length).toBeGreaterThan(REQUESTS);
      expect(flows.filter((line) => line.includes('UNREPLIED'))).toEqual([]);
    });
  });

  /** What connection tracking of the node knows of the service's only endpoint. */
  async function flowsToPod(family: 'v4' | 'v6'): Promise<string[]> {
    const { stdout } = await node.exec(['conntrack', '-L', '-f', family === 'v4' ? 'ipv4' : 'ipv6']);
    return stdout.split('\n').filter((line) => line.includes(`src=${podAddress(1, 0)[family]} `));
  }
});

function isIn({ from, to }: { readonly from: number; readonly to: number }, port: number): boolean {
  return port >= from && port <= to;
}
