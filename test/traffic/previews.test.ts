import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { DifferenceReply, PlanReply } from '../../src/explain/replies.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { querySocketOf, startDaemon } from '../support/daemon.ts';
import { TEST_MODE } from '../support/mode.ts';
import { PROGRAM } from '../support/program.ts';

jest.setTimeout(patient(240_000));

const MANIFESTS = `apiVersion: v1
kind: Node
metadata: { name: node-0 }
status: { addresses: [{ type: InternalIP, address: 10.200.0.10 }, { type: InternalIP, address: 'fd00:200::10' }] }
---
apiVersion: v1
kind: Service
metadata: { name: web }
spec:
  type: LoadBalancer
  clusterIP: 10.202.0.10
  clusterIPs: [10.202.0.10]
  loadBalancerSourceRanges: [10.200.0.0/24, 10.0.0.0/12]
  ports: [{ protocol: TCP, port: 80, targetPort: 8080, nodePort: 30080 }]
status: { loadBalancer: { ingress: [{ ip: 10.203.0.11 }] } }
---
apiVersion: v1
kind: Service
metadata: { name: sticky }
spec:
  clusterIP: 10.202.0.11
  clusterIPs: [10.202.0.11]
  sessionAffinity: ClientIP
  ports: [{ protocol: TCP, port: 80, targetPort: 8080 }]
---
apiVersion: v1
kind: Service
metadata: { name: empty }
spec: { clusterIP: 10.202.0.12, clusterIPs: [10.202.0.12], ports: [{ port: 80 }] }
${['web', 'sticky'].map(slice).join('')}`;

function slice(service: string): string {
  return `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${service}, labels: { kubernetes.io/service-name: ${service} } }
addressType: IPv4
ports: [{ protocol: TCP, port: 8080 }]
endpoints:
  - { addresses: ['10.201.0.10'], nodeName: node-0 }
  - { addresses: ['10.201.0.11'], nodeName: node-0 }
`;
}

/** What another program destroys, and the Services or rules that miss it. */
const DAMAGE: Readonly<Record<string, readonly (readonly [string, string, string | undefined])[]>> = {
  nftables: [
    ['a service port', 'nft delete element ip kube-proxy service-ips { 10.202.0.10 . tcp . 80 }', 'default/web'],
    ['an endpoint', 'nft delete element ip kube-proxy service-endpoints { 10.202.0.10 . tcp . 80 . 1 }', 'default/web'],
    ['all service ports', 'nft flush map ip kube-proxy service-ips', 'default/sticky'],
    ['source ranges', 'nft flush map ip kube-proxy firewall-ips', undefined],
    ['a cluster IP', 'nft delete element ip kube-proxy cluster-ips { 10.202.0.12 }', 'default/empty'],
    ['the rules of a chain', 'nft flush chain ip kube-proxy services', undefined],
    ['a chain with a hook', 'nft delete chain ip kube-proxy nat-output', undefined],
  ],
  iptables: [
    ['a rule that leads to a Service', 'iptables -t nat -D KUBE-SERVICES 1', 'default'],
    ['the rules of all Services', 'iptables -t nat -F KUBE-SERVICES', 'default/web'],
    [
      'the chains of endpoints',
      'for c in $(iptables -t nat -S | sed -n "s/^-N \\(KUBE-SEP-[^ ]*\\).*/\\1/p"); do iptables -t nat -F $c; done',
      'default/sticky',
    ],
    ['what rejects', 'iptables -F KUBE-SERVICES', 'default/empty'],
    [
      'a jump',
      'iptables -t nat -D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
      undefined,
    ],
  ],
};

function inMode(): void {
  let folder: string;
  let bed: Bed;
  let node: Namespace;
  let daemon: LongProcess;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'previews-'));
    await writeFile(path.join(folder, 'all.yaml'), MANIFESTS);
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
    node = bed.node(0);
    for (const index of [0, 1]) await bed.pod(0, index).serveTcp(8080);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  const FLAGS = ['--cluster-cidr=10.201.0.0/16', '--nodeport-addresses=10.200.0.0/24,fd00:200::/64'];
  /** Runs the commands of a reply in a shell. */
  const run = async ({ operations }: Pick<PlanReply, 'operations'>): Promise<string> => {
    const input = operations.map(({ command }) => `${command}\n`).join('');
    const { stderr } = await node.exec(['sh', '-e'], { input });
    return stderr;
  };
  const diff = async (): Promise<DifferenceReply> => {
    const argv = [process.execPath, PROGRAM, 'diff', '-o', 'json', `--query-socket=${querySocketOf(node)}`];
    // Its exit code says whether there is a difference.
    const { stdout } = await node.exec(['sh', '-c', '"$@" || true', 'sh', ...argv]);
    return JSON.parse(stdout) as DifferenceReply;
  };
  const expectServed = async (): Promise<void> => {
    for (const [address, port] of [
      ['10.202.0.10', 80],
      ['10.203.0.11', 80],
      ['10.202.0.11', 80],
      ['10.200.0.10', 30_080],
    ] as const) {
      for (let times = 0; times < 4; times++) {
        expect(await bed.client(0).probeTcp(address, port)).toMatchObject({ ok: true });
      }
    }
    expect(await bed.client(0).probeTcp('10.202.0.12', 80)).toEqual({ ok: false, code: 'ECONNREFUSED' });
  };

  test('what plan prints serves when a shell has run it, and the daemon writes nothing more', async () => {
    const argv = ['plan', '-f', folder, '--node', 'node-0', '-o', 'json', '--', `--proxy-mode=${TEST_MODE}`, ...FLAGS];
    const { stdout } = await node.exec([process.execPath, PROGRAM, ...argv]);
    const reply = JSON.parse(stdout) as PlanReply;
    expect(reply).toMatchObject({ ok: true, warnings: [] });
    expect(new Set(reply.operations.map(({ service }) => service))).toEqual(
      new Set([undefined, 'default/web', 'default/sticky', 'default/empty']),
    );
    expect(await run(reply)).toBe('');
    await node.exec(['sysctl', '-qw', 'net.ipv4.ip_forward=1']);
    await expectServed();
    // No full check repairs what the other tests damage.
    daemon = await startDaemon(node, [...FLAGS, `--manifests=${folder}`, '--iptables-sync-period=1h', '-v=4']);
    expect(daemon.output).toMatch(/kind="first" .*operations=0 failures=0/);
    expect(daemon.output).not.toMatch(/iptables rules written|restored/);
    expect(await diff()).toMatchObject({ ok: true, operations: [], verdict: 'the kernel is as planned' });
  });

  test.each(DAMAGE[TEST_MODE] ?? [])(
    'without %s: diff names the owner, and what it prints repairs it',
    async (_what, damage, owner) => {
      await node.exec(['sh', '-e'], { input: `${damage}\n` });
      const found = await diff();
      expect(found).toMatchObject({ ok: false, more: 0 });
      // A rule of iptables mode that a whole chain shares names its Service in its comment.
      expect(JSON.stringify(found.operations)).toContain(owner ?? 'write-rule');
      expect(await run(found)).toBe('');
      expect(await diff()).toMatchObject({ ok: true, verdict: 'the kernel is as planned' });
      await expectServed();
      expect(daemon.output).not.toContain('kind="full"');
    },
  );
}

describe('what plan and diff print', () => {
  if (DAMAGE[TEST_MODE] === undefined) test.todo('is run by a shell in nftables and iptables mode');
  else if (TEST_MODE === 'nftables' && process.env['KERNEL_USED'] === 'uml')
    test.todo('was not tried: it takes a kernel with nf_tables, as KERNEL=uml-nft');
  else inMode();
});
