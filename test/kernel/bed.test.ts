import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';

import { clusterAddress } from '../bed/address-plan.ts';
import type { Transport } from '../bed/agent-protocol.ts';
import { Bed, POD_BRIDGE } from '../bed/bed.ts';
import { CommandError, runCommand } from '../bed/command.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';

jest.setTimeout(patient(120_000));

const families = ['v4', 'v6'] as const;
const cases = families.flatMap((family) =>
  (['tcp', 'udp', 'sctp'] as const).map((protocol) => [protocol, family] as const),
);

describe('a test bed of two nodes', () => {
  let bed: Bed;
  let node: Namespace;
  let client: Namespace;
  const service = clusterAddress(10);

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 2, podsPerNode: 2, clients: 1 });
    node = bed.node(0);
    client = bed.client(0);
    for (const pod of [bed.pod(0, 0), bed.pod(0, 1), bed.pod(1, 0)]) {
      await pod.serveTcp(8080);
      await pod.serveUdp(8080);
      await pod.serveSctp(8080);
    }
    await balanceByHand();
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
  });

  // As when a pod is added whose random address happens to be lower than all others.
  test('the pods keep their gateway when a port with a lower address comes', async () => {
    const address = async (): Promise<string> =>
      (await node.exec(['cat', `/sys/class/net/${POD_BRIDGE}/address`])).stdout.trim();
    const before = await address();
    await node.ip(['link add low address 00:00:5e:00:53:01 type dummy', `link set low master ${POD_BRIDGE} up`]);
    expect(await address()).toBe(before);
    for (const family of families) expect(await client.probeTcp(service[family], 80)).toMatchObject({ ok: true });
    await node.ip(['link del low']);
  });

  /** What a proxy would do for a service with two endpoints on its own node and one on the other. */
  async function balanceByHand(): Promise<void> {
    await node.sysctl({ 'net.ipv4.vs.conntrack': 1 });
    await node.ip([
      'link add kube-ipvs0 type dummy',
      `addr add ${service.v4}/32 dev kube-ipvs0`,
      `addr add ${service.v6}/128 dev kube-ipvs0 nodad`,
    ]);
    const lines = families.flatMap((family) =>
      ['-t', '-u', '--sctp-service'].flatMap((flag) => {
        const virtual = family === 'v4' ? `${service.v4}:80` : `[${service.v6}]:80`;
        const reals = [bed.pod(0, 0), bed.pod(0, 1), bed.pod(1, 0)].map(({ addresses: { v4, v6 } }) =>
          family === 'v4' ? `${v4}:8080` : `[${v6}]:8080`,
        );
        return [`-A ${flag} ${virtual} -s rr`, ...reals.map((real) => `-a ${flag} ${virtual} -r ${real} -m`)];
      }),
    );
    await node.exec(['ipvsadm', '-R'], { input: `${lines.join('\n')}\n` });
    for (const family of families) {
      // Replies must come back through this node: from another node's pod to a client, and from a pod to itself.
      const iptables = family === 'v4' ? 'iptables' : 'ip6tables';
      const toService = ['-m', 'ipvs', '--vaddr', service[family], '--vport', '80'];
      await node.exec([iptables, '-t', 'nat', '-A', 'POSTROUTING', ...toService, '-j', 'MASQUERADE']);
    }
  }

  async function namesSeen(from: Namespace, protocol: Transport, family: 'v4' | 'v6'): Promise<Set<string>> {
    const names = new Set<string>();
    for (let n = 0; n < 6; n++) {
      const result = await from.probe(protocol, service[family], 80);
      names.add(result.ok ? result.answeredBy : result.code);
    }
    return names;
  }

  test.each(cases)(
    'a client reaches pods of both nodes, which see its own address: %s %s',
    async (protocol, family) => {
      for (const pod of [bed.pod(0, 0), bed.pod(1, 0)]) {
        const result = await client.probe(protocol, pod.addresses[family], 8080);
        expect(result).toMatchObject({ ok: true, answeredBy: pod.name, sourceSeen: client.addresses[family] });
      }
    },
  );

  test.each(cases)(
    "pods reach each other across nodes, and see each other's own addresses: %s %s",
    async (protocol, family) => {
      const from = bed.pod(1, 1);
      for (const pod of [bed.pod(0, 0), bed.pod(1, 0)]) {
        const result = await from.probe(protocol, pod.addresses[family], 8080);
        expect(result).toMatchObject({ ok: true, answeredBy: pod.name, sourceSeen: from.addresses[family] });
      }
    },
  );

  const everyone = new Set(['pod-0-0', 'pod-0-1', 'pod-1-0']);

  test.each(cases)('IPVS balances a client over all pods: %s %s', async (protocol, family) => {
    expect(await namesSeen(client, protocol, family)).toEqual(everyone);
  });

  test.each(cases)('IPVS balances a pod over all pods, itself included: %s %s', async (protocol, family) => {
    expect(await namesSeen(bed.pod(0, 0), protocol, family)).toEqual(everyone);
  });

  test.each(cases)('IPVS balances the node itself: %s %s', async (protocol, family) => {
    expect(await namesSeen(node, protocol, family)).toEqual(everyone);
  });

  test.each(families)('a closed port is refused, an unused address does not respond: %s', async (family) => {
    const pod = bed.pod(0, 0);
    expect(await client.probeTcp(pod.addresses[family], 9)).toEqual({ ok: false, code: 'ECONNREFUSED' });
    expect(await client.probeUdp(pod.addresses[family], 9)).toEqual({ ok: false, code: 'ECONNREFUSED' });
    expect(await client.probeSctp(pod.addresses[family], 9)).toEqual({ ok: false, code: 'ECONNREFUSED' });
    const nobody = clusterAddress(200)[family];
    expect(await client.probeTcp(nobody, 80, { timeoutMs: 500 })).toEqual({ ok: false, code: 'TIMEOUT' });
    // Its second attempt may hear of what a router on the way says.
    const sctp = await client.probeSctp(nobody, 80, { timeoutMs: 500 });
    expect(['TIMEOUT', 'ENETUNREACH']).toContain(sctp.ok ? sctp.answeredBy : sctp.code);
  });

  test('a held connection stays with its pod, and breaks with its server', async () => {
    const server = await bed.pod(0, 0).serveTcp(8081);
    const connection = await client.hold(bed.pod(0, 0).addresses.v4, 8081, { sourcePort: 40_001 });
    expect(connection.first).toMatchObject({ ok: true, answeredBy: 'pod-0-0', sourcePort: 40_001 });
    expect(await connection.ask()).toEqual(connection.first);
    await server.close();
    expect(await connection.ask()).toMatchObject({ ok: false });
    await connection.close();
    expect(await client.probeTcp(bed.pod(0, 0).addresses.v4, 8081)).toEqual({ ok: false, code: 'ECONNREFUSED' });
  });

  test.each(['tcp', 'udp'] as const)('a load counts responses and failures: %s', async (protocol) => {
    const shape = { perSecond: 20, durationMs: 1500, timeoutMs: 3000 };
    const through = await client.load(protocol, service.v4, 80, shape);
    expect(through).toMatchObject({ sent: 30, failures: {} });
    // A UDP port that was used before stays with the pod it had then.
    for (const name of everyone) expect(Math.abs((through.answers[name] ?? 0) - 10)).toBeLessThanOrEqual(2);
    const refused = await client.load(protocol, bed.pod(0, 0).addresses.v4, 9, { ...shape, durationMs: 250 });
    expect(refused).toEqual({ sent: 5, answers: {}, failures: { ECONNREFUSED: 5 } });
  });

  test('concurrent requests are answered in order, with every protocol', async () => {
    const pods = [bed.pod(0, 0), bed.pod(1, 0), bed.pod(0, 1)];
    const probes = pods.flatMap(({ addresses: { v4: address } }) =>
      (['sctp', 'tcp', 'udp'] as const).map((protocol) => ({
        protocol,
        target: { address, port: 8080 },
        timeoutMs: 2000,
      })),
    );
    const names = (await client.probeAll(probes, 3)).map((result) => (result.ok ? result.answeredBy : result.code));
    expect(names).toEqual(pods.flatMap(({ name }) => [name, name, name]));
  });

  test('a program that fails is an error with its status and output, unless failure is allowed', async () => {
    const argv = ['ipvsadm', '-D', '-t', '10.202.0.99:1'];
    const failure = await node.exec(argv).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(CommandError);
    expect(String(failure)).toMatch(/ipvsadm -D -t 10\.202\.0\.99:1: status \d+: .+/);
    expect((await node.exec(argv, { allowFailure: true })).status).not.toBe(0);
    await expect(node.exec(['sleep', '20'], { timeoutMs: 200 })).rejects.toThrow('killed after 200 ms');
    await expect(runCommand(['/no/such/program'])).rejects.toThrow('ENOENT');
  });

  test('a long-running program can be watched and stopped', async () => {
    const program = await node.spawn(['sh', '-c', 'sleep 0.2; echo seen; exec sleep 1000']);
    await program.waitForOutput(/seen/, 10_000);
    expect(program.exit).toBeUndefined();
    await program.stop();
    expect(program.exit).toBe('SIGTERM');
    await expect(program.waitForOutput(/never/, 1000)).rejects.toThrow('ended with SIGTERM');
  });
});

test('a disposed bed leaves no namespace and no process', async () => {
  const before = (await runCommand(['ip', 'netns', 'list'])).stdout;
  let pid = 0;
  {
    await using bed = await Bed.create({ podsPerNode: 1 });
    await bed.pod(0, 0).serveTcp(80);
    ({ pid } = await bed.node(0).spawn(['sleep', '1000']));
    process.kill(pid, 0);
  }
  expect((await runCommand(['ip', 'netns', 'list'])).stdout).toBe(before);
  expect(() => process.kill(pid, 0)).toThrow('ESRCH');
});
