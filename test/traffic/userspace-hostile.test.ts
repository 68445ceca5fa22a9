import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clusterAddress, podAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import { runCommand } from '../bed/command.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { daemonArgv } from '../support/daemon.ts';
import { ManifestDirectory, POD_PORT, SERVICE_PORT, nodeObjects, serviceObjects } from './cluster-objects.ts';
import type { HealthProbe } from './health-probe.ts';

jest.setTimeout(patient(300_000));

const PEER = path.resolve('test/traffic/hostile_peer.py');
const PROBE = path.resolve('test/traffic/health-probe.ts');
/** What --userspace-max-connections is by default, half of which one Service may have. */
const MOST_OF_SERVICE = 8_192;
const CLIENTS = Array.from({ length: 20 }, (_, index) => `10.201.0.${100 + index}`);
const MIB = 1024 * 1024;

/** The Services of a hostile tenant, by the port of hostile_peer.py or of nothing. */
const HOSTILE = { silent: 9001, resetting: 9002, flooding: 9003 } as const;
const VIP = { silent: clusterAddress(1), resetting: clusterAddress(2), flooding: clusterAddress(3) };
const DEAD = clusterAddress(4);
const SINK = clusterAddress(5);
const OTHER = clusterAddress(6);

/** Clients and endpoints that behave badly, in a namespace of their own, and one Service of another namespace. */
describe('userspace mode, with hostile peers', () => {
  let bed: Bed;
  let node: Namespace;
  let clients: Namespace;
  let directory: ManifestDirectory;
  let daemon: LongProcess;

  beforeAll(async () => {
    // Each connection and each client of UDP has two entries.
    await runCommand(['sysctl', '-qw', 'net.netfilter.nf_conntrack_max=400000']);
    bed = await Bed.create({ nodes: 1, podsPerNode: 4 });
    node = bed.node(0);
    clients = bed.pod(0, 2);
    // The kernel's own buffers are not what is tested.
    for (const host of [node, clients, bed.pod(0, 1)]) {
      await host.exec(['sysctl', '-qw', 'net.ipv4.tcp_rmem=4096 16384 65536', 'net.ipv4.tcp_wmem=4096 16384 65536']);
    }
    await clients.ip(CLIENTS.map((address) => `addr add ${address}/24 dev eth0`));
    await bed.pod(0, 0).serveTcp(POD_PORT);
    await bed.pod(0, 0).serveUdp(POD_PORT);
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(1));
    const badPod = { addresses: podAddress(0, 1), node: 0 };
    const goodPod = { addresses: podAddress(0, 0), node: 0 };
    const nobody = { addresses: podAddress(0, 99), node: 0 };
    const hostileServices = Object.entries(HOSTILE).map(([name, targetPort]) => ({
      name,
      clusterIp: VIP[name as keyof typeof HOSTILE],
      targetPort,
      endpoints: [badPod],
    }));
    await directory.write('hostile', [
      ...hostileServices.flatMap(serviceObjects),
      ...serviceObjects({ name: 'dead', clusterIp: DEAD, endpoints: [nobody] }),
      ...serviceObjects({ name: 'sink', clusterIp: SINK, protocols: ['UDP'], targetPort: 9001, endpoints: [badPod] }),
    ]);
    const other = serviceObjects({
      name: 'other',
      clusterIp: OTHER,
      protocols: ['TCP', 'UDP'],
      endpoints: [goodPod],
    });
    await directory.write(
      'other',
      other.map((object) => ({ ...object, metadata: { ...object.metadata, namespace: 'other' } })),
    );
    const argv = daemonArgv(node, [`--manifests=${directory.path}`], 'userspace');
    // Containers have far more descriptors than init of a test kernel.
    daemon = await node.spawn(['sh', '-c', 'ulimit -n 40000; exec "$@"', 'sh', ...argv]);
    await daemon.waitForOutput(/initial sync complete/, 60_000);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  async function counters(): Promise<Readonly<Record<'active' | 'refused' | 'connections', number>>> {
    const { stdout } = await node.exec(['curl', '-sS', 'http://127.0.0.1:10249/metrics']);
    const value = (name: string): number =>
      Number(new RegExp(`^kubeipvs_userspace_${name} (\\d+)$`, 'm').exec(stdout)?.[1]);
    return {
      active: value('active_connections'),
      refused: value('refused_total'),
      connections: value('connections_total'),
    };
  }

  /** Waits for so many connections, beside the two that the other Service may have. */
  async function untilActive(wanted: number): Promise<void> {
    const deadline = performance.now() + patient(60_000);
    for (;;) {
      const more = (await counters()).active - wanted;
      if (more >= 0 && more <= 2) return;
      if (performance.now() > deadline) throw new Error(`${wanted + more} connections, not ${wanted}`);
      await sleep(200);
    }
  }

  async function memory(): Promise<number> {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${daemon.pid}/status`, 'utf8'))?.[1]) * 1024;
  }

  /** The daemon answers, and the other Service is served, while peers attack and until `meanwhile` has ended. */
  async function unnoticed(attackers: readonly (readonly string[])[], meanwhile: () => Promise<void>): Promise<void> {
    // Its end ends connections that a client or an endpoint has left half-closed.
    await using endpoint = await bed.pod(0, 1).spawn(['python3', PEER, 'listen', bed.pod(0, 1).addresses.v4]);
    await endpoint.waitForOutput(/begun/, 10_000);
    const health = await node.spawn([process.execPath, PROBE]);
    let isOver = false;
    const failures: string[] = [];
    let asked = 0;
    const victims = (async () => {
      while (!isOver) {
        // All Services share the queue of one listener: they wait behind those that came before.
        const options = { timeoutMs: 30_000 };
        const client = bed.pod(0, 3);
        for (const result of [
          await client.probeTcp(OTHER.v4, SERVICE_PORT, options),
          await client.probeUdp(OTHER.v4, SERVICE_PORT, { ...options, sourcePort: 5_353 }),
        ]) {
          if (!result.ok) failures.push(`request ${asked}: ${result.code}`);
          asked += 1;
        }
      }
    })();
    try {
      await using peers = new AsyncDisposableStack();
      const started = attackers.map(async (argv) => {
        const peer = peers.use(await clients.spawn(['python3', PEER, ...argv]));
        await peer.waitForOutput(/begun/, 200_000);
      });
      await Promise.all(started);
      await meanwhile();
    } finally {
      isOver = true;
    }
    await victims;
    health.signal('SIGTERM');
    await health.ended(10_000);
    const probes = JSON.parse(health.output) as readonly HealthProbe[];
    expect(probes.length).toBeGreaterThan(10);
    expect(probes.filter(({ status }) => status !== 200)).toEqual([]);
    expect(asked).toBeGreaterThan(10);
    expect(failures).toEqual([]);
    expect(Math.max(...probes.map(({ ms }) => ms))).toBeLessThan(patient(3_000));
  }

  test('20,000 silent clients of a silent endpoint get no more than the part of a Service', async () => {
    const before = await memory();
    const { refused } = await counters();
    const half = ['connect', VIP.silent.v4, `${SERVICE_PORT}`, '10000', 'silent', ...CLIENTS];
    await unnoticed([half, half], async () => {
      await untilActive(MOST_OF_SERVICE);
      // Those whose last packet found the queue of the listener full are not known yet.
      expect((await counters()).refused).toBeGreaterThan(refused + 5_000);
      const taken = (await memory()) - before;
      expect(taken).toBeLessThan(MOST_OF_SERVICE * 32 * 1024);
    });
    await untilActive(0);
  });

  test.each([
    ['clients that do not read', VIP.flooding, 'silent'],
    ['endpoints that do not read', VIP.silent, 'say'],
  ] as const)('the chunks of %s are bounded', async (_, { v4 }, manner) => {
    const before = await memory();
    await unnoticed([['connect', v4, `${SERVICE_PORT}`, '1000', manner, ...CLIENTS]], async () => {
      await untilActive(1_000);
      await sleep(patient(3_000));
      const taken = (await memory()) - before;
      expect(taken).toBeLessThan(1_000 * 100 * 1024);
    });
    await untilActive(0);
  });

  test('while an endpoint is dead, nothing is read from its clients; then they are reset', async () => {
    const before = await memory();
    await unnoticed([['connect', DEAD.v4, `${SERVICE_PORT}`, '1000', 'say', ...CLIENTS]], async () => {
      expect((await memory()) - before).toBeLessThan(64 * MIB);
      await untilActive(0);
    });
  });

  test('an endpoint that resets costs its clients alone', async () => {
    const { connections } = await counters();
    await unnoticed([['connect', VIP.resetting.v4, `${SERVICE_PORT}`, '1000', 'silent', ...CLIENTS]], async () => {
      await untilActive(0);
      expect((await counters()).connections).toBeGreaterThanOrEqual(connections + 1_000);
    });
  });

  test('65,000 sources of UDP get no more than the part of a Service', async () => {
    const before = await memory();
    await unnoticed([['datagrams', SINK.v4, `${SERVICE_PORT}`, '65000', ...CLIENTS]], async () => {
      expect((await counters()).active).toBeLessThanOrEqual(MOST_OF_SERVICE + 2);
      const taken = (await memory()) - before;
      expect(taken).toBeLessThan(128 * MIB);
    });
  });

  test('afterwards the daemon has logged no error', () => {
    expect(daemon.exit).toBeUndefined();
    expect(daemon.output).not.toMatch(/"level":"error"|is started again/);
  });
});
