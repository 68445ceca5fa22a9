import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clusterAddress, podAddress } from '../bed/address-plan.ts';
import { Bed, UPLINK } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';
import { ManifestDirectory, POD_PORT, type ServiceShape, nodeObjects, serviceObjects } from './cluster-objects.ts';

jest.setTimeout(180_000);

const FOLLOW_MS = 1000;
const NODE_PORT = 30_001;
/** As keepalived in state BACKUP has it: the address is on no interface, the port happens to be that of a NodePort. */
const KEEPALIVED = '10.99.0.1';
const SERVICE: ServiceShape = {
  name: 'web',
  clusterIp: clusterAddress(1),
  nodePort: NODE_PORT,
  protocols: ['TCP', 'SCTP'],
  endpoints: [{ addresses: podAddress(0, 0), node: 0 }],
};

/** Node ports are at every address of the node, also at those that come while we run. */
describe('addresses of the node', () => {
  let bed: Bed;
  let node: Namespace;
  let client: Namespace;
  let directory: ManifestDirectory;
  let daemon: LongProcess;

  beforeAll(async () => {
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(1));
    await directory.write('web', serviceObjects(SERVICE));
    bed = await Bed.create({ nodes: 1, podsPerNode: 1, clients: 1 });
    [node, client] = [bed.node(0), bed.client(0)];
    await Promise.all([bed.pod(0, 0).serveTcp(POD_PORT), bed.pod(0, 0).serveSctp(POD_PORT)]);
    await node.exec(['ipvsadm', '-A', '-t', `${KEEPALIVED}:${NODE_PORT}`, '-s', 'rr']);
    daemon = await start();
    // What is asked for the first time is slow.
    for (const protocol of ['tcp', 'sctp'] as const) await client.probe(protocol, node.addresses.v4, NODE_PORT);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  function start(): Promise<LongProcess> {
    const flags = ['--ipvs-min-sync-period=0s', '--ipvs-sync-period=2s', `--manifests=${directory.path}`];
    return startDaemon(node, flags);
  }

  async function kill(): Promise<void> {
    daemon.signal('SIGKILL');
    expect(await daemon.ended(10_000)).toBe(true);
  }

  function answers(address: string, protocol: 'tcp' | 'sctp'): Promise<boolean> {
    return client.probe(protocol, address, NODE_PORT, { timeoutMs: 300 }).then(({ ok }) => ok);
  }

  async function served(address: string): Promise<boolean> {
    const at = `${address.includes(':') ? `[${address}]` : address}:${NODE_PORT} `;
    return (await node.exec(['ipvsadm', '-Sn'])).stdout.includes(at);
  }

  /** Milliseconds until the condition holds. */
  async function timeUntil(condition: () => Promise<boolean>, withinMs: number): Promise<number> {
    const start = performance.now();
    while (!(await condition())) {
      if (performance.now() - start > withinMs) throw new Error(`not within ${withinMs} ms`);
      await sleep(10);
    }
    return Math.round(performance.now() - start);
  }

  test.each([
    ['IPv4', '10.200.0.50', '10.200.0.50/24', ''],
    ['IPv6', 'fd00:200::50', 'fd00:200::50/64', 'nodad'],
  ])('NodePorts follow an address that is added and removed three times: %s', async (family, address, cidr, flags) => {
    const took: Record<'came' | 'went', number[]> = { came: [], went: [] };
    for (let round = 0; round < 3; round++) {
      expect(await served(address)).toBe(false);
      await node.ip([`addr add ${cidr} dev ${UPLINK} ${flags}`]);
      took.came.push(await timeUntil(() => answers(address, 'tcp'), 5000));
      expect(await answers(address, 'sctp')).toBe(true);
      await node.ip([`addr del ${cidr} dev ${UPLINK}`]);
      took.went.push(await timeUntil(async () => !(await served(address)), 5000));
      expect(await answers(address, 'tcp')).toBe(false);
    }
    process.stdout.write(`${family} address of the node, ms: ${JSON.stringify(took)}\n`);
    // The quickest of three: the rest is what else the machine had to do.
    for (const times of Object.values(took)) expect(Math.min(...times)).toBeLessThan(FOLLOW_MS);
  });

  test('NodePorts at a new IPv6 address are served after duplicate address detection', async () => {
    await node.ip([`addr add fd00:200::51/64 dev ${UPLINK}`]);
    expect(await timeUntil(() => answers('fd00:200::51', 'tcp'), 10_000)).toBeLessThan(5000);
    await node.ip([`addr del fd00:200::51/64 dev ${UPLINK}`]);
    await timeUntil(async () => !(await served('fd00:200::51')), 5000);
  });

  test('a removed interface removes the NodePorts at its addresses', async () => {
    await node.ip(['link add extra type dummy', 'addr add 10.200.0.60/32 dev extra', 'link set extra up']);
    await timeUntil(() => answers('10.200.0.60', 'tcp'), 5000);
    await node.ip(['link del extra']);
    await timeUntil(async () => !(await served('10.200.0.60')), 5000);
    expect(await answers(node.addresses.v4, 'tcp')).toBe(true);
  });

  test('a node address removed while the daemon is dead: the next start removes its NodePort and keeps keepalived’s virtual server', async () => {
    await node.ip([`addr add 10.200.0.70/24 dev ${UPLINK}`]);
    await timeUntil(() => served('10.200.0.70'), 5000);
    await kill();
    await node.ip([`addr del 10.200.0.70/24 dev ${UPLINK}`]);
    daemon = await start();
    expect(await served('10.200.0.70')).toBe(false);
    expect(daemon.output).toContain(`delete-virtual-server TCP 10.200.0.70:${NODE_PORT}`);
    // A full check finds nothing to delete either.
    await sleep(3000);
    expect(await served(KEEPALIVED)).toBe(true);
    await kill();
    expect(await served(node.addresses.v4)).toBe(true);
    await node.exec(daemonArgv(node, ['--cleanup']));
    expect(await served(node.addresses.v4)).toBe(false);
    expect(await served(KEEPALIVED)).toBe(true);
  });
});
