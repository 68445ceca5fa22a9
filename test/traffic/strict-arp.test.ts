import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clusterAddress, externalAddress, podAddress } from '../bed/address-plan.ts';
import { Bed, UPLINK } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { startDaemon } from '../support/daemon.ts';
import { ManifestDirectory, nodeObjects, serviceObjects } from './cluster-objects.ts';

jest.setTimeout(180_000);

const VIP = externalAddress(1).v4;
const NODES = [0, 1] as const;

/**
 * Two nodes and a client on one switch; a load balancer IP is bound to kube-ipvs0 of both nodes. Who says that it is
 * theirs?
 */
describe('ARP for a service address', () => {
  let bed: Bed;
  let client: Namespace;
  let directory: ManifestDirectory;
  let daemons: LongProcess[] = [];

  beforeAll(async () => {
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(NODES.length));
    await directory.write(
      'web',
      serviceObjects({
        name: 'web',
        clusterIp: clusterAddress(1),
        loadBalancerIp: externalAddress(1),
        endpoints: [{ addresses: podAddress(0, 0), node: 0 }],
      }),
    );
    bed = await Bed.create({ nodes: NODES.length, clients: 1 });
    client = bed.client(0);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  async function restartDaemons(...flags: readonly string[]): Promise<void> {
    await Promise.all(daemons.map((daemon) => daemon.stop()));
    daemons = await Promise.all(
      NODES.map((node) => startDaemon(bed.node(node), [`--manifests=${directory.path}`, ...flags])),
    );
    for (const node of NODES) expect(await boundAddresses(bed.node(node))).toContain(`${VIP}/32`);
  }

  async function boundAddresses(node: Namespace): Promise<string> {
    return (await node.exec(['ip', 'addr', 'show', 'dev', 'kube-ipvs0'])).stdout;
  }

  /** Ethernet addresses of all who answer the client's two broadcasts. */
  async function whoHas(address: string): Promise<string[]> {
    const ask = ['arping', '-b', '-c', '2', '-w', '3', '-I', UPLINK, address];
    // Its status is 1 if no host responds, and also if two do.
    const { stdout } = await client.exec(ask, { allowFailure: true });
    expect(stdout).toContain('Sent ');
    const answers = [...stdout.matchAll(/reply from \S+ \[([\dA-F:]+)\]/g)].map(([, mac = '']) => mac.toLowerCase());
    return [...new Set(answers)].sort();
  }

  async function macOf(node: number): Promise<string> {
    const { stdout } = await bed.node(node).exec(['ip', '-j', 'link', 'show', 'dev', UPLINK]);
    const [{ address }] = JSON.parse(stdout) as [{ address: string }];
    return address;
  }

  /**
   * Whether the client learns of the VIP from a node that asks for the client's address while it talks from the VIP.
   */
  async function announced(): Promise<boolean> {
    const node = bed.node(0);
    await node.exec(['ip', 'neigh', 'flush', 'dev', UPLINK]);
    await client.exec(['ip', 'neigh', 'flush', 'dev', UPLINK]);
    await node.exec(['ping', '-c', '1', '-W', '2', '-I', VIP, client.addresses.v4]);
    return (await client.exec(['ip', 'neigh', 'show', 'to', VIP])).stdout.includes('lladdr');
  }

  test('without strict ARP every node answers ARP requests for a service address, and announces it', async () => {
    await restartDaemons();
    expect(await whoHas(VIP)).toEqual([await macOf(0), await macOf(1)].sort());
    expect(await announced()).toBe(true);
  });

  test('with --ipvs-strict-arp no node answers or announces a service address, and each still answers for its own address', async () => {
    await restartDaemons('--ipvs-strict-arp');
    expect(await whoHas(VIP)).toEqual([]);
    expect(await announced()).toBe(false);
    for (const node of NODES) expect(await whoHas(bed.node(node).addresses.v4)).toEqual([await macOf(node)]);
  });
});
