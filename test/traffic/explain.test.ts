import { mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { clientAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { CommandResult } from '../bed/command.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import type { PacketReply, TopReply } from '../../src/explain/replies.ts';
import { querySocketOf, startDaemon } from '../support/daemon.ts';

jest.setTimeout(patient(180_000));

const BUNDLE = path.resolve('build/kube-ipvs-proxy.mjs');
const COUNTERS = ['connections', 'incomingPackets', 'outgoingPackets', 'incomingBytes', 'outgoingBytes'] as const;
const PODS = ['10.201.0.10', '10.201.0.11'];

function manifest(pods: readonly string[]): string {
  const endpoints = pods.map((address) => `  - { addresses: [${address}], nodeName: node-0 }`).join('\n');
  return `apiVersion: v1
kind: Node
metadata: { name: node-0 }
status: { addresses: [{ type: InternalIP, address: 10.200.0.10 }] }
---
apiVersion: v1
kind: Service
metadata: { name: web }
spec: { clusterIP: 10.202.0.10, externalIPs: [10.203.0.10], type: NodePort, ports: [{ name: http, port: 80, nodePort: 30080 }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web-1, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ name: http, port: 8080 }]
endpoints:
${endpoints}
  - { addresses: [10.201.0.99], nodeName: node-0, conditions: { ready: false, serving: false } }
`;
}

/** What another program does to the node, and what `diff` must name. */
const BROKEN: readonly (readonly [broken: string, named: string])[] = [
  ['ipvsadm -d -t 10.202.0.10:80 -r 10.201.0.10:8080', 'ipvsadm -a -t 10.202.0.10:80 -r 10.201.0.10:8080 -m -w 1'],
  ['ipvsadm -E -t 10.200.0.10:30080 -s sh', 'ipvsadm -E -t 10.200.0.10:30080 -s rr'],
  [
    'ipvsadm -e -t 10.200.0.10:30080 -r 10.201.0.11:8080 -m -w 9',
    'ipvsadm -e -t 10.200.0.10:30080 -r 10.201.0.11:8080 -m -w 1',
  ],
  ['ip addr del 10.202.0.10/32 dev kube-ipvs0', 'ip addr add 10.202.0.10/32 dev kube-ipvs0'],
  [
    'ip route del local 10.203.0.10 table local',
    'ip addr del 10.203.0.10/32 dev kube-ipvs0; ip -4 route flush table local exact 10.203.0.10; ip addr add 10.203.0.10/32 dev kube-ipvs0 # it has no local route',
  ],
  ['ip addr add 10.202.0.77/32 dev kube-ipvs0', 'ip addr del 10.202.0.77/32 dev kube-ipvs0'],
  ['ipset del KUBE-CLUSTER-IP 10.202.0.10,tcp:80', 'ipset add KUBE-CLUSTER-IP 10.202.0.10,tcp:80'],
  ['ipset add KUBE-NODE-PORT-TCP 31000', 'ipset del KUBE-NODE-PORT-TCP 31000'],
  ['sysctl -qw net.ipv4.vs.conntrack=0', 'sysctl -w net.ipv4.vs.conntrack=1'],
  ['iptables -t nat -F KUBE-POSTROUTING', 'iptables -t nat -F KUBE-POSTROUTING'],
];

describe('the subcommands on a node', () => {
  let folder: string;
  let bed: Bed;
  let node: Namespace;
  let daemon: LongProcess;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'explain-'));
    await apply(PODS);
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
    node = bed.node(0);
    for (const pod of [0, 1]) await bed.pod(0, pod).serveTcp(8080);
    daemon = await startDaemon(node, [
      `--manifests=${folder}`,
      '--cluster-cidr=10.201.0.0/16',
      '--ipvs-scheduler=rr',
      '--ipvs-min-sync-period=0s',
      '--ipvs-sync-period=1h',
    ]);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  /** Atomically, so that the daemon never reads half a file. */
  async function apply(pods: readonly string[]): Promise<void> {
    await writeFile(path.join(folder, '.next'), manifest(pods));
    await rename(path.join(folder, '.next'), path.join(folder, 'web.yaml'));
  }

  function run(...argv: readonly string[]): Promise<CommandResult> {
    const asked = [process.execPath, BUNDLE, ...argv, `--query-socket=${querySocketOf(node)}`];
    return node.exec(asked, { allowFailure: true });
  }

  async function shell(script: string): Promise<string> {
    return (await node.exec(['sh', '-ec', script])).stdout;
  }

  test('only root may ask, and a node as planned has no difference', async () => {
    expect((await stat(querySocketOf(node))).mode & 0o777).toBe(0o600);
    expect(await run('diff')).toEqual({ status: 0, stdout: 'the kernel is as planned\n', stderr: '' });
    const { status, stdout } = await run('explain', 'web');
    expect(stdout).toMatch(
      /^default\/web is served on this node: 2 of 3 endpoints used at \d addresses, and the kernel/,
    );
    expect(stdout).toContain('not used: not ready');
    expect(status).toBe(0);
  });

  test('diff names everything that another program broke, explain names it for the Service; the commands repair it', async () => {
    await shell(BROKEN.map(([command]) => command).join('\n'));
    const broken = await run('diff');
    expect(broken.status).toBe(1);
    const lines = broken.stdout.split('\n');
    expect(BROKEN.map(([, named]) => named).filter((named) => !lines.includes(named))).toEqual([]);
    const { status, stdout } = await run('explain', 'web');
    expect(stdout.replaceAll('\n', ' ')).toMatch(
      /^default\/web is not as it should be on this node: the kernel differs from the plan at 10\.200\.0\.10:30080/,
    );
    expect(status).toBe(1);
    expect(stdout).toContain('of the node: sysctl -w net.ipv4.vs.conntrack=1\n');
    expect((await run('explain', '10.202.0.10:80')).stdout).toBe(
      '10.202.0.10:80/TCP is the ClusterIP of default/web\n',
    );

    // A flushed chain is declared in the words of iptables-restore: it is there, and its rules are added.
    const script = lines.slice(1).map((line) => (line.includes(' -N ') ? `${line} 2>/dev/null || true` : line));
    await shell(script.join('\n'));
    expect(await run('diff')).toEqual({ status: 0, stdout: 'the kernel is as planned\n', stderr: '' });
  });

  const TAKEN: readonly (readonly [does: string, undo: string, result: PacketReply['result'], verdict: RegExp])[] = [
    [
      'iptables -I INPUT -s 10.200.0.0/16 -p tcp --dport 80 -j DROP',
      'iptables -D INPUT 1',
      'dropped',
      /is dropped by a rule of another program in filter INPUT: -s 10\.200\.0\.0\/16 .*-j DROP/,
    ],
    [
      'iptables -t raw -A PREROUTING -p tcp --dport 80 -j DROP',
      'iptables -t raw -F',
      'dropped',
      /is dropped by a rule of another program in raw PREROUTING/,
    ],
    [
      'iptables -A OUTPUT -d 10.201.0.0/16 -p tcp --dport 8080 -j REJECT',
      'iptables -D OUTPUT -d 10.201.0.0/16 -p tcp --dport 8080 -j REJECT',
      'refused',
      /is refused by a rule of another program in filter OUTPUT/,
    ],
    [
      'ipvsadm -A -f 16384 -s rr',
      'ipvsadm -D -f 16384',
      'not served',
      /is taken by a virtual server of another program for firewall mark 16384/,
    ],
    [
      'ip route replace blackhole 10.202.0.10 table local',
      'ip addr del 10.202.0.10/32 dev kube-ipvs0; ip route del 10.202.0.10 table local; ip addr add 10.202.0.10/32 dev kube-ipvs0',
      'arrives',
      /the kernel differs here/,
    ],
  ];

  test.each(TAKEN)('%s: no packet arrives, and explain --from says why', async (does, undo, result, verdict) => {
    const client = bed.client(0);
    const question = ['explain', 'web', `--from=${clientAddress(0).v4}`, '--output=json'];
    const ask = async (): Promise<PacketReply> => JSON.parse((await run(...question)).stdout) as PacketReply;
    expect((await client.probeTcp('10.202.0.10', 80)).ok).toBe(true);
    expect(await ask()).toMatchObject({ ok: true, result: 'arrives' });
    await shell(does);
    try {
      const probe = await client.probeTcp('10.202.0.10', 80, { timeoutMs: patient(1_000) });
      const reply = await ask();
      expect([probe.ok, reply.ok, reply.result]).toEqual([false, false, result]);
      expect(reply.verdict).toMatch(verdict);
    } finally {
      await shell(undo);
    }
    expect((await client.probeTcp('10.202.0.10', 80)).ok).toBe(true);
  });

  test('top has the traffic of a client, by Service and by endpoint', async () => {
    const client = bed.client(0);
    const load = client.load('tcp', '10.200.0.10', 30080, { perSecond: 20, durationMs: 30_000, timeoutMs: 3_000 });
    const service = await run('top', '--interval=6', '--output=json');
    const endpoint = await run('top', '--interval=6', '--output=json', '--by=endpoint', '--sort=name');
    await load;
    expect(service).toMatchObject({ status: 0, stderr: '' });
    const [web] = (JSON.parse(service.stdout) as TopReply).rows;
    expect(web).toMatchObject({ of: 'default/web' });
    for (const counter of COUNTERS) expect(web?.perSecond?.[counter]).toBeGreaterThan(0);
    const { rows } = JSON.parse(endpoint.stdout) as TopReply;
    expect(rows.map((row) => row.endpoint)).toEqual(PODS.map((address) => `${address}:8080/TCP`));
    for (const row of rows) expect(row.perSecond?.connections).toBeGreaterThan(0);
  });

  test('flooded and fuzzed, and its readers killed, the daemon applies each change at once and does not grow', async () => {
    await changeMs(PODS.slice(1));
    const calm = [await changeMs(PODS), await changeMs(PODS.slice(1)), await changeMs(PODS)];
    const before = await residentKib();
    const attackers: LongProcess[] = [];
    for (let each = 0; each < 2; each++) {
      const script = path.resolve('test/support/hostile-reader.ts');
      const attacker = await node.spawn([process.execPath, script, querySocketOf(node)]);
      await attacker.waitForOutput(/begun/, patient(10_000));
      attackers.push(attacker);
    }
    const flooded: number[] = [];
    const end = performance.now() + patient(10_000);
    for (let turn = 0; performance.now() < end; turn++)
      flooded.push(await changeMs(turn % 2 === 0 ? PODS.slice(1) : PODS));
    await changeMs(PODS);
    for (const attacker of attackers) await attacker.stop();
    process.stderr.write(
      `change, ms: calm ${calm.map(Math.round).join(' ')}, flooded median ${Math.round(median(flooded))} of ${flooded.length}, ` +
        `worst ${Math.round(Math.max(...flooded))}; memory ${before} -> ${await residentKib()} KiB\n`,
    );
    expect(flooded.length).toBeGreaterThan(2);
    expect(Math.max(...flooded)).toBeLessThan(patient(5_000));
    expect((await residentKib()) - before).toBeLessThan(40 * 1024);
    expect(await run('diff')).toEqual({ status: 0, stdout: 'the kernel is as planned\n', stderr: '' });
  });

  test('without a daemon, status, top and explain IP:PORT read the kernel alone, and say so', async () => {
    await daemon.stop(10_000);
    const only = 'no daemon runs here (or it has another --query-socket), so only the kernel was read: ';
    const first = async (...argv: readonly string[]): Promise<string> => {
      const { status, stdout, stderr } = await run(...argv, '--output=json');
      expect({ status, stderr }).toEqual({ status: 1, stderr: '' });
      return (JSON.parse(stdout) as { verdict: string }).verdict;
    };
    const before = await node.exec(['sh', '-c', 'ipvsadm -Sn; ipset save; ip addr']);
    expect(await first('status')).toMatch(`${only}4 virtual servers on node `);
    const servers = '10.201.0.10:8080 (weight 1), 10.201.0.11:8080 (weight 1)';
    expect(await first('explain', '10.202.0.10:80')).toBe(
      `${only}10.202.0.10:80/TCP is a ClusterIP, with real servers ${servers}`,
    );
    expect(await first('explain', '10.200.0.10:30080')).toBe(
      `${only}10.200.0.10:30080/TCP is a NodePort, with real servers ${servers}`,
    );
    expect(await first('top', '--interval=2')).toMatch(/, so only the kernel was read: .* to 4 virtual servers$/);
    expect((await run('status')).stdout.startsWith('no daemon runs here')).toBe(true);
    expect(await node.exec(['sh', '-c', 'ipvsadm -Sn; ipset save; ip addr'])).toEqual(before);
  });

  test('without a daemon, the other questions are a sentence', async () => {
    const { status, stdout, stderr } = await run('diff');
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toMatch(
      `kube-ipvs-proxy: no daemon listens at ${querySocketOf(node)}, and diff needs it, because it alone knows`,
    );
  });

  /** Milliseconds from a change of the manifests until the kernel has it. */
  async function changeMs(pods: readonly string[]): Promise<number> {
    const began = performance.now();
    await apply(pods);
    for (;;) {
      const { stdout } = await node.exec(['ipvsadm', '-Ln', '-t', '10.202.0.10:80']);
      if (stdout.split('\n').filter((line) => / -> .*:8080 .* 1 /.test(line)).length === pods.length) break;
      if (performance.now() - began > patient(30_000)) throw new Error(`not in the kernel after 30 s:\n${stdout}`);
      await sleep(10);
    }
    return performance.now() - began;
  }

  async function residentKib(): Promise<number> {
    return Number(/^VmRSS:\s+(\d+)/m.exec(await readFile(`/proc/${daemon.pid}/status`, 'utf8'))?.[1]);
  }
});

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}
