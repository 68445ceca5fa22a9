import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clientAddress, clusterAddress, externalAddress, nodeAddress, podAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { Namespace } from '../bed/namespace.ts';
import { startDaemon } from '../support/daemon.ts';
import { TEST_MODE } from '../support/mode.ts';
import {
  ManifestDirectory,
  POD_PORT,
  SERVICE_PORT,
  type ServiceShape,
  nodeObjects,
  serviceObjects,
} from './cluster-objects.ts';

jest.setTimeout(120_000);

/** Those that bind no service address. */
const MODE = TEST_MODE === 'ipvs' ? 'iptables' : TEST_MODE;
const OPEN_PORT = 8081;
const HEALTH_PORT = 10_256;
const FAMILIES = ['v4', 'v6'] as const;

const POD = { addresses: podAddress(0, 0), node: 0 };
const POD_ELSEWHERE = { addresses: podAddress(1, 0), node: 1 };
const OF_NODE = { name: 'of-node', clusterIp: clusterAddress(1), externalIp: nodeAddress(1), endpoints: [POD] };
const OF_CLIENT = {
  name: 'of-client',
  clusterIp: clusterAddress(2),
  loadBalancerIp: clientAddress(0),
  endpoints: [POD],
};
/** Of the node's local routes alone, as agents of clouds add them. */
const ROUTED = { name: 'routed', clusterIp: clusterAddress(3), loadBalancerIp: externalAddress(3), endpoints: [POD] };
/** Of an interface of the node, as kube-ipvs0 has them for a while after ipvs mode. */
const BOUND: readonly ServiceShape[] = [
  { name: 'bound-cluster-ip', clusterIp: externalAddress(6) },
  { name: 'bound-ip', clusterIp: clusterAddress(4), externalIp: externalAddress(4) },
  { name: 'bound-lb', clusterIp: clusterAddress(5), loadBalancerIp: externalAddress(5) },
].map((shape) => ({ ...shape, external: 'Local', endpoints: [POD_ELSEWHERE] }));
/** Its endpoint is a program in the network of the node whose address is an external IP. */
const HOST = {
  name: 'host',
  clusterIp: clusterAddress(7),
  targetPort: OPEN_PORT,
  endpoints: [{ addresses: nodeAddress(1), node: 1 }],
};

/** Where no service address is bound, external and load balancer IPs may be addresses of other hosts. */
describe(`external addresses in ${MODE} mode`, () => {
  let bed: Bed;
  let node: Namespace;
  let directory: ManifestDirectory;

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 2, podsPerNode: 2, clients: 2 });
    node = bed.node(0);
    for (const pod of [bed.pod(0, 0), bed.pod(1, 0)]) await pod.serveTcp(POD_PORT);
    for (const host of [bed.node(1), bed.client(0)]) await host.serveTcp(OPEN_PORT);
    const bound = [4, 5, 6].map(externalAddress);
    await node.ip([
      `route add local ${externalAddress(3).v4} dev eth0`,
      `route add local ${externalAddress(3).v6} dev eth0`,
      'link add bound type dummy',
      ...bound.flatMap(({ v4, v6 }) => [`addr add ${v4}/32 dev bound`, `addr add ${v6}/128 dev bound nodad`]),
      'link set bound up',
    ]);
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(2));
    const services = [OF_NODE, OF_CLIENT, ROUTED, ...BOUND, HOST].flatMap((shape) => serviceObjects(shape));
    await directory.write('services', services);
    await startDaemon(node, [`--proxy-mode=${MODE}`, `--manifests=${directory.path}`]);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  const hosts = (): readonly Namespace[] => [node, bed.pod(0, 0), bed.pod(0, 1)];

  describe.each(FAMILIES)('%s', (family) => {
    test.each([
      ['another node', nodeAddress(1)[family], 'node-1'],
      ['a client', clientAddress(0)[family], 'client-0'],
    ])('those of %s are served at the port of the Service, and reachable at others', async (_of, address, name) => {
      for (const host of hosts()) {
        expect(await host.probeTcp(address, SERVICE_PORT)).toMatchObject({ answeredBy: 'pod-0-0' });
        expect(await host.probeTcp(address, OPEN_PORT)).toMatchObject({ answeredBy: name });
        const ping = await host.exec(['ping', '-c', '1', '-W', '2', address], { allowFailure: true });
        expect(ping.stdout).toContain(' 0% packet loss');
      }
    });

    test('connections that are translated to such an address arrive', async () => {
      for (const host of hosts()) {
        expect(await host.probeTcp(HOST.clusterIp[family], SERVICE_PORT)).toMatchObject({ answeredBy: 'node-1' });
      }
    });

    test('health checks arrive at a load balancer IP that is local', async () => {
      const url = `http://${family === 'v4' ? externalAddress(3).v4 : `[${externalAddress(3).v6}]`}:${HEALTH_PORT}/healthz`;
      const curl = ['curl', '-sg', '-m', '2', '-o', '/dev/null', '-w', '%{http_code}', url];
      expect((await bed.client(1).exec(curl, { allowFailure: true })).stdout).toBe('200');
    });

    test.each(BOUND)('the own connections of a node that has the address of $name are not lost', async (shape) => {
      const { v4, v6 } = shape.externalIp ?? shape.loadBalancerIp ?? shape.clusterIp;
      const address = family === 'v4' ? v4 : v6;
      const answer = await node.probeTcp(address, SERVICE_PORT);
      expect(answer).toMatchObject({ answeredBy: 'pod-1-0', sourceSeen: node.addresses[family] });
    });
  });

  test.each(FAMILIES)('other ports of a ClusterIP are closed (%s)', async (family) => {
    const code = MODE === 'nftables' ? 'ECONNREFUSED' : 'TIMEOUT';
    expect(await bed.pod(0, 1).probeTcp(OF_NODE.clusterIp[family], HEALTH_PORT)).toMatchObject({ code });
  });
});
