import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { DifferenceReply, PacketReply, PlanReply } from '../../src/explain/replies.ts';
import { clientAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { daemonArgv, querySocketOf, startDaemon } from '../support/daemon.ts';
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
    ['endpoints', 'nft flush map ip kube-proxy shared-endpoints', 'default/web'],
    ['all service ports', 'nft flush map ip kube-proxy service-ips', 'default/sticky'],
    ['source ranges', 'nft flush map ip kube-proxy firewall-ips', 'default/web'],
    ['a cluster IP', 'nft delete element ip kube-proxy cluster-ips { 10.202.0.12 }', 'default/empty'],
    ['the rules of a chain', 'nft flush chain ip kube-proxy services', undefined],
    ['a chain with a hook', 'nft delete chain ip kube-proxy nat-output', undefined],
  ],
  iptables: [
    [
      'the rule that leads to a Service',
      'n=$(iptables -t nat -nL KUBE-SERVICES --line-numbers | sed -n "s/^\\([0-9]*\\) .* 10\\.202\\.0\\.10 .*/\\1/p"); iptables -t nat -D KUBE-SERVICES $n',
      'default/web',
    ],
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

/** What kube-proxy leaves if it has started in the tables or chains of ours, and what a dry run says of it. */
const OF_KUBE_PROXY: Readonly<Record<string, readonly [string, RegExp]>> = {
  nftables: [
    'nft add map ip kube-proxy service-nodeports "{ type inet_proto . inet_service : verdict; }"',
    /no unexpected differences, and \d known ones? \(other-table \d\)/,
  ],
  iptables: ['iptables -t nat -I KUBE-SERVICES -d 10.202.0.99 -j KUBE-MARK-MASQ', /[1-9] unexpected difference/],
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
  const ask = async <T>(...words: readonly string[]): Promise<T> => {
    const argv = [process.execPath, PROGRAM, ...words, '-o', 'json', `--query-socket=${querySocketOf(node)}`];
    // The exit code says whether all is as it should be.
    const { stdout } = await node.exec(['sh', '-c', '"$@" || true', 'sh', ...argv]);
    return JSON.parse(stdout) as T;
  };
  const diff = (): Promise<DifferenceReply> => ask('diff');
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

  test('explain --from says what becomes of a client, also by rules of others, and its commands repair', async () => {
    const from = `--from=${clientAddress(0).v4}`;
    const explain = (target = 'web'): Promise<PacketReply> => ask('explain', target, from);
    expect(await explain()).toMatchObject({ ok: true, result: 'arrives', commands: [], otherRules: [] });
    expect(await explain('10.202.0.12:80')).toMatchObject({ ok: false, result: 'refused' });

    await node.exec(['iptables', '-I', 'FORWARD', '-d', '10.201.0.0/16', '-p', 'tcp', '--dport', '8080', '-j', 'DROP']);
    const dropped = await bed.client(0).probeTcp('10.202.0.10', 80, { timeoutMs: patient(1_000) });
    expect([dropped.ok, (await explain()).verdict]).toEqual([
      false,
      expect.stringContaining('is dropped by a rule of another program in filter FORWARD: -d 10.201.0.0/16'),
    ]);
    await node.exec(['iptables', '-D', 'FORWARD', '1']);

    const damage = DAMAGE[TEST_MODE]?.[0]?.[1] ?? '';
    await node.exec(['sh', '-ec', damage]);
    // Whatever is asked first, the answer is not from what was read for the question before.
    expect(await ask('explain', '10.202.0.10:80')).toMatchObject({ matches: [{ is: 'ClusterIP', inKernel: false }] });
    const differing = await explain();
    expect(differing.verdict).toContain('from which the kernel differs here');
    expect(await run({ operations: differing.commands.map((command) => ({ do: 'write-rule', command })) })).toBe('');
    expect(await explain()).toMatchObject({ ok: true, commands: [] });
    expect(await bed.client(0).probeTcp('10.202.0.10', 80)).toMatchObject({ ok: true });
  });

  /** The rules byte for byte, without counters and the time that clients with session affinity have left. */
  const ruleset = async (): Promise<string> => {
    const saved = 'iptables-save; ip6tables-save';
    const { stdout } = await node.exec(['sh', '-ec', TEST_MODE === 'nftables' ? 'nft list ruleset' : saved]);
    return stdout.replaceAll(/^#.*$| \[\d+:\d+\]$| expires \w+/gm, '');
  };

  test('a dry run beside what kube-proxy left finds it, and leaves the rules as they are, byte for byte', async () => {
    const [left, found] = OF_KUBE_PROXY[TEST_MODE] ?? ['', /never/];
    const socket = `${querySocketOf(node)}-shadow`;
    const flags = [...FLAGS, `--manifests=${folder}`, '--dry-run', '--iptables-sync-period=5s'];
    const argv = [
      ...daemonArgv(node, flags).filter((flag) => !flag.startsWith('--query-socket')),
      `--query-socket=${socket}`,
    ];
    await node.exec(['sh', '-ec', left]);
    const before = await ruleset();
    const shadow = await node.spawn(argv);
    try {
      await shadow.waitForOutput(found, patient(180_000));
      expect(await ruleset()).toBe(before);
      const { stdout } = await node.exec(['curl', '-sS', 'http://127.0.0.1:10349/metrics']);
      const programs = stdout.match(/(?<=^kubeipvs_processes_started_total\{program=")[^"]+/gm) ?? [];
      expect(programs.filter((name) => !/^ip6?tables(-nft|-legacy)?-save$/.test(name))).toEqual([]);
    } finally {
      await shadow.stop(10_000);
    }
    expect(shadow.exit).toBe(0);
  });
}

describe('what plan and diff print', () => {
  if (DAMAGE[TEST_MODE] === undefined) test.todo('is run by a shell in nftables and iptables mode');
  else if (TEST_MODE === 'nftables' && process.env['KERNEL_USED'] === 'uml')
    test.todo('was not tried: it takes a kernel with nf_tables, as KERNEL=uml-nft');
  else inMode();
});
