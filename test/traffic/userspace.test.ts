import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { ProbeResult } from '../bed/agent-protocol.ts';
import { clusterAddress, externalAddress, nodeAddress, podAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { querySocketOf, startDaemon } from '../support/daemon.ts';
import { PROGRAM } from '../support/program.ts';
import {
  ManifestDirectory,
  POD_PORT,
  SERVICE_PORT,
  type ServiceShape,
  nodeObjects,
  serviceObjects,
} from './cluster-objects.ts';

jest.setTimeout(patient(180_000));

const FAMILIES = ['v4', 'v6'] as const;
const NODE_PORT = 30_080;
const PODS = [0, 1, 2].map((pod) => ({ addresses: podAddress(0, pod), node: 0 }));

const WEB: ServiceShape = {
  name: 'web',
  clusterIp: clusterAddress(1),
  protocols: ['TCP', 'UDP'],
  nodePort: NODE_PORT,
  endpoints: PODS.slice(0, 2),
};
const STICKY: ServiceShape = { name: 'sticky', clusterIp: clusterAddress(2), affinitySeconds: 600, endpoints: PODS };
const EMPTY: ServiceShape = { name: 'empty', clusterIp: clusterAddress(3), protocols: ['TCP', 'UDP'], endpoints: [] };
/** For client 0 only, whose address is no longer to be seen where the connection is forwarded. */
const GUARDED: ServiceShape = {
  name: 'guarded',
  clusterIp: clusterAddress(4),
  protocols: ['TCP', 'UDP'],
  loadBalancerIp: externalAddress(4),
  sourceRanges: ['10.200.0.100/32', 'fd00:200::100/128'],
  endpoints: PODS.slice(0, 1),
};
const CHANGING: ServiceShape = {
  name: 'changing',
  clusterIp: clusterAddress(5),
  protocols: ['TCP', 'UDP'],
  endpoints: PODS.slice(0, 1),
};
const MANY = 200;

function answeredBy(results: readonly ProbeResult[]): string[] {
  return [...new Set(results.map((result) => (result.ok ? result.answeredBy : result.code)))].sort();
}

/** A program of the node forwards every connection. */
describe('userspace mode', () => {
  let bed: Bed;
  let node: Namespace;
  let directory: ManifestDirectory;
  let daemon: LongProcess;

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 1, podsPerNode: 3, clients: 2 });
    node = bed.node(0);
    for (const pod of [0, 1, 2].map((index) => bed.pod(0, index))) {
      await pod.serveTcp(POD_PORT);
      await pod.serveUdp(POD_PORT);
    }
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(1));
    for (const shape of [WEB, STICKY, EMPTY, GUARDED, CHANGING])
      await directory.write(shape.name, serviceObjects(shape));
    daemon = await start();
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  const start = (): Promise<LongProcess> =>
    startDaemon(node, ['--proxy-mode=userspace', `--manifests=${directory.path}`]);

  async function probes(
    host: Namespace,
    protocol: 'tcp' | 'udp',
    address: string,
    port = SERVICE_PORT,
    count = 6,
  ): Promise<readonly ProbeResult[]> {
    const request = { protocol, target: { address, port }, timeoutMs: patient(1_500) } as const;
    return await host.probeAll(Array(count).fill(request), 1);
  }

  describe.each(FAMILIES)('%s', (family) => {
    test.each(['tcp', 'udp'] as const)(
      'over %s, Pods, the node and clients reach a Service, in turn',
      async (protocol) => {
        const ways = [
          [bed.pod(0, 2), WEB.clusterIp[family], SERVICE_PORT],
          // An endpoint that is its own client.
          [bed.pod(0, 0), WEB.clusterIp[family], SERVICE_PORT],
          [node, WEB.clusterIp[family], SERVICE_PORT],
          [node, nodeAddress(0)[family], NODE_PORT],
          [bed.pod(0, 1), nodeAddress(0)[family], NODE_PORT],
          [bed.client(0), nodeAddress(0)[family], NODE_PORT],
        ] as const;
        for (const [host, address, port] of ways) {
          expect(answeredBy(await probes(host, protocol, address, port))).toEqual(['pod-0-0', 'pod-0-1']);
        }
      },
    );

    test('endpoints see an address of the node', async () => {
      const result = await bed.client(0).probeTcp(nodeAddress(0)[family], NODE_PORT);
      expect(result).toMatchObject({ ok: true });
      expect([nodeAddress(0)[family], family === 'v4' ? '10.201.0.1' : 'fd00:201::1']).toContain(
        result.ok ? result.sourceSeen : '',
      );
    });

    test('a client stays with its endpoint', async () => {
      for (const host of [bed.pod(0, 0), bed.pod(0, 1), bed.pod(0, 2)]) {
        expect(answeredBy(await probes(host, 'tcp', STICKY.clusterIp[family]))).toHaveLength(1);
      }
    });

    test('ports without endpoints and other ports of a cluster IP are refused', async () => {
      const refused = { ok: false, code: 'ECONNREFUSED' };
      expect(await bed.pod(0, 0).probeUdp(EMPTY.clusterIp[family], SERVICE_PORT)).toMatchObject(refused);
      for (const host of [node, bed.pod(0, 0)]) {
        expect(await host.probeTcp(EMPTY.clusterIp[family], SERVICE_PORT)).toMatchObject(refused);
        expect(await host.probeTcp(WEB.clusterIp[family], 81)).toMatchObject(refused);
      }
    });

    test.each(['tcp', 'udp'] as const)('over %s, source ranges are those of clients', async (protocol) => {
      const address = externalAddress(4)[family];
      expect(answeredBy(await probes(bed.client(0), protocol, address, SERVICE_PORT, 1))).toEqual(['pod-0-0']);
      expect(answeredBy(await probes(bed.client(1), protocol, address, SERVICE_PORT, 1))).toEqual(['TIMEOUT']);
    });
  });

  test('metrics and status count the connections of the engine', async () => {
    const count = async (): Promise<number> => {
      const { stdout } = await node.exec(['curl', '-sS', 'http://127.0.0.1:10249/metrics']);
      return Number(/^kubeipvs_userspace_connections_total (\d+)$/m.exec(stdout)?.[1]);
    };
    const before = await count();
    await probes(bed.pod(0, 2), 'tcp', WEB.clusterIp.v4);
    expect(await count()).toBe(before + 6);
    const argv = [process.execPath, PROGRAM, 'status', '-o', 'json', `--query-socket=${querySocketOf(node)}`];
    const { stdout } = await node.exec(['sh', '-c', '"$@" || true', 'sh', ...argv]);
    expect(JSON.parse(stdout)).toMatchObject({ userspace: { connections: before + 6, failed: 0 } });
  });

  test('a change of endpoints keeps the connections of those that go, and new ones reach the others', async () => {
    const { v4 } = CHANGING.clusterIp;
    const held = await bed.pod(0, 2).hold(v4, SERVICE_PORT);
    expect(held.first).toMatchObject({ answeredBy: 'pod-0-0' });
    await directory.write('changing', serviceObjects({ ...CHANGING, endpoints: PODS.slice(1, 2) }));
    await untilAnsweredBy(v4, 'pod-0-1');
    expect(answeredBy(await probes(bed.pod(0, 2), 'tcp', v4))).toEqual(['pod-0-1']);
    // Its socket would keep the flow of a datagram to a removed endpoint.
    expect(answeredBy(await probes(bed.pod(0, 2), 'udp', v4))).toEqual(['pod-0-1']);
    expect(await held.ask()).toMatchObject({ ok: true, answeredBy: 'pod-0-0' });
    await held.close();
  });

  test('a Service may lose all endpoints and get them again', async () => {
    const { v4 } = CHANGING.clusterIp;
    await directory.write('changing', serviceObjects({ ...CHANGING, endpoints: [] }));
    await untilAnsweredBy(v4, 'ECONNREFUSED');
    expect(await bed.pod(0, 2).probeUdp(v4, SERVICE_PORT)).toMatchObject({ ok: false, code: 'ECONNREFUSED' });
    await directory.write('changing', serviceObjects({ ...CHANGING, endpoints: PODS.slice(2, 3) }));
    await untilAnsweredBy(v4, 'pod-0-2');
    expect(answeredBy(await probes(bed.pod(0, 1), 'udp', v4))).toEqual(['pod-0-2']);
  });

  test('hundreds of Services share one socket for each family', async () => {
    const many = Array.from({ length: MANY }, (_, index): ServiceShape => ({
      name: `many-${index}`,
      clusterIp: { v4: `10.202.1.${index}`, v6: `fd00:202::1:${index}` },
      endpoints: PODS.slice(0, 1),
    }));
    await directory.write(
      'many',
      many.flatMap((shape) => serviceObjects(shape)),
    );
    await untilAnsweredBy('10.202.1.199', 'pod-0-0');
    expect(answeredBy(await probes(bed.pod(0, 2), 'tcp', 'fd00:202::1:199'))).toEqual(['pod-0-0']);
    const { stdout } = await node.exec(['ss', '-ltnH', 'sport >= 20000 and sport < 30000']);
    expect(stdout.trim().split('\n')).toHaveLength(2);
  });

  test('a daemon that stops leaves rules that serve until the next one starts, and waits for its connections', async () => {
    const { v4 } = WEB.clusterIp;
    const held = await bed.pod(0, 2).hold(v4, SERVICE_PORT);
    // The kernel remembers that its datagrams go to the engine.
    const flow = (): Promise<ProbeResult> => bed.pod(0, 2).probeUdp(v4, SERVICE_PORT, { sourcePort: 5_353 });
    expect(await flow()).toMatchObject({ ok: true });
    daemon.signal('SIGTERM');
    await daemon.waitForOutput(/rules serve new connections/, patient(10_000));
    expect(await held.ask()).toEqual(held.first);
    await held.close();
    // Long before it would end connections.
    await daemon.ended(patient(5_000));
    expect(daemon.exit).toBe(0);
    expect(await flow()).toMatchObject({ ok: true });
    for (const [host, address] of [
      [bed.pod(0, 2), v4],
      // The Pod may be its own server.
      [bed.pod(0, 0), WEB.clusterIp.v6],
      [bed.client(0), nodeAddress(0).v4],
    ] as const) {
      const port = host === bed.client(0) ? NODE_PORT : SERVICE_PORT;
      for (const protocol of ['tcp', 'udp'] as const) {
        expect(answeredBy(await probes(host, protocol, address, port, 20))).toEqual(['pod-0-0', 'pod-0-1']);
      }
    }
    daemon = await start();
    expect(answeredBy(await probes(bed.pod(0, 2), 'tcp', v4))).toEqual(['pod-0-0', 'pod-0-1']);
    expect(answeredBy(await probes(bed.pod(0, 2), 'udp', v4))).toEqual(['pod-0-0', 'pod-0-1']);
    await sleep(patient(500));
    expect(daemon.output).not.toMatch(/"level":"(error|warn)"/);
  });

  async function untilAnsweredBy(address: string, wanted: string): Promise<void> {
    const deadline = performance.now() + patient(10_000);
    let found: string[] = [];
    while (performance.now() < deadline) {
      found = answeredBy(await probes(bed.pod(0, 1), 'tcp', address, SERVICE_PORT, 1));
      if (found[0] === wanted) return;
      await sleep(100);
    }
    throw new Error(`${address} is answered by ${String(found)} instead of ${wanted}:\n${daemon.output}`);
  }
});
