import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { Answer, ProbeResult } from '../bed/agent-protocol.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import type { SupportReply } from '../../src/explain/node/node-replies.ts';
import { querySocketOf, startDaemon } from '../support/daemon.ts';

jest.setTimeout(patient(180_000));

const PORTS = `[{ name: tcp, protocol: TCP, port: 8080 }, { name: udp, protocol: UDP, port: 8080 }, { name: sctp, protocol: SCTP, port: 8080 }]`;

function servicePorts(nodePort: number): string {
  const port = (protocol: string): string =>
    `    - { name: ${protocol.toLowerCase()}, protocol: ${protocol}, port: 80, targetPort: 8080, nodePort: ${nodePort} }\n`;
  return `  ports:\n${['TCP', 'UDP', 'SCTP'].map(port).join('')}`;
}

function slice(service: string, family: 'IPv4' | 'IPv6'): string {
  const network = family === 'IPv4' ? '10.201.0.1' : 'fd00:201::1';
  return `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${service}-${family.toLowerCase()}, labels: { kubernetes.io/service-name: ${service} } }
addressType: ${family}
ports: ${PORTS}
endpoints:
  - { addresses: ['${network}0'], nodeName: node-0 }
  - { addresses: ['${network}1'], nodeName: node-0 }
`;
}

/** Every kind of object: affinity, source ranges, no endpoints, node ports, both policies, three protocols, two families. */
const MANIFESTS = `apiVersion: v1
kind: Node
metadata: { name: node-0 }
status: { addresses: [{ type: InternalIP, address: 10.200.0.10 }, { type: InternalIP, address: 'fd00:200::10' }] }
---
apiVersion: v1
kind: Service
metadata: { name: sticky }
spec:
  type: LoadBalancer
  clusterIP: 10.202.0.10
  clusterIPs: [10.202.0.10, 'fd00:202::a']
  ipFamilies: [IPv4, IPv6]
  externalIPs: [10.203.0.10]
  sessionAffinity: ClientIP
  sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } }
  loadBalancerSourceRanges: [10.200.0.0/24, 10.0.0.0/12, 10.1.2.3/32, 'fd00:200::/64', 'fd00:300::/57']
${servicePorts(30_080)}status: { loadBalancer: { ingress: [{ ip: 10.203.0.11 }, { ip: 'fd00:203::b' }] } }
${slice('sticky', 'IPv4')}${slice('sticky', 'IPv6')}---
apiVersion: v1
kind: Service
metadata: { name: local }
spec:
  type: LoadBalancer
  clusterIP: 10.202.0.20
  clusterIPs: [10.202.0.20]
  externalIPs: [10.203.0.20]
  externalTrafficPolicy: Local
  healthCheckNodePort: 30999
${servicePorts(30_081)}status: { loadBalancer: { ingress: [{ ip: 10.203.0.21 }] } }
${slice('local', 'IPv4')}---
apiVersion: v1
kind: Service
metadata: { name: shared }
spec:
  type: NodePort
  clusterIP: 10.202.0.40
  clusterIPs: [10.202.0.40, 'fd00:202::28']
  ipFamilies: [IPv4, IPv6]
  externalIPs: [10.203.0.40, 'fd00:203::28']
${servicePorts(30_083)}${slice('shared', 'IPv4')}${slice('shared', 'IPv6')}---
apiVersion: v1
kind: Service
metadata: { name: empty }
spec:
  type: NodePort
  clusterIP: 10.202.0.30
  clusterIPs: [10.202.0.30, 'fd00:202::1e']
  ipFamilies: [IPv4, IPv6]
  sessionAffinity: ClientIP
${servicePorts(30_082)}---
apiVersion: v1
kind: Service
metadata: { name: empty-without-affinity }
spec: { clusterIP: 10.202.0.31, clusterIPs: [10.202.0.31], ports: [{ port: 80 }] }
`;

/** What changes the rules. */
const SETTINGS: readonly (readonly [string, readonly string[]])[] = [
  ['a cluster CIDR', ['--cluster-cidr=10.201.0.0/16,fd00:201::/48']],
  ['a cluster CIDR that ends within a byte', ['--cluster-cidr=10.200.0.0/15,fd00:200::/31']],
  ['a bridge', ['--detect-local-mode=BridgeInterface', '--pod-bridge-interface=cni0']],
  [
    'a prefix of interfaces, and a range of ports for masquerading',
    [
      '--detect-local-mode=InterfaceNamePrefix',
      '--pod-interface-name-prefix=veth',
      '--masquerade-port-range=20000-30000',
    ],
  ],
  ['everything masqueraded', ['--masquerade-all']],
];

function onNfTables(): void {
  let folder: string;
  let bed: Bed;
  let node: Namespace;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'nft-round-trip-'));
    await writeFile(path.join(folder, 'all.yaml'), MANIFESTS);
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
    node = bed.node(0);
    for (const index of [0, 1]) await bed.pod(0, index).serveTcp(8080);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  // Of an element that nft has loaded, Linux 6.1 names the timeout only if it is not that of the set.
  const list = async (...options: readonly string[]): Promise<string> =>
    (await node.exec(['nft', ...options, 'list', 'ruleset'])).stdout.replaceAll(/( timeout \w+)? expires \w+/g, '');

  const ask = (): Promise<ProbeResult> => bed.client(0).probeTcp('10.202.0.10', 80);

  const started = async (flags: readonly string[]): Promise<LongProcess> => {
    const common = ['--proxy-mode=nftables', '--iptables-sync-period=1s', '-v=4', `--manifests=${folder}`];
    const program = await startDaemon(node, [...common, ...flags]);
    await program.waitForOutput(/kind="full"/, 30_000);
    return program;
  };

  async function daemon(flags: readonly string[]): Promise<string> {
    const program = await started(flags);
    await program.stop();
    return program.output;
  }

  test.each(SETTINGS)('with %s: a support archive has a script that makes the same ruleset', async (_name, flags) => {
    const program = await started(flags);
    const support = [process.execPath, path.resolve('build/kube-ipvs-proxy.mjs'), 'support', '-o', 'json'];
    const { stdout } = await node.exec([...support, `--query-socket=${querySocketOf(node)}`]);
    const { tables } = JSON.parse(stdout) as SupportReply;
    await program.stop();
    // Nobody has asked: there is no client to remember.
    const before = await list();
    await node.exec(['nft', 'flush', 'ruleset']);
    expect((await node.exec(['nft', '-f', '-'], { input: `${tables.join('\n')}\n` })).stderr).toBe('');
    expect(linesOf(await list())).toEqual(linesOf(before));
    await node.exec(['nft', 'flush', 'ruleset']);
  });

  test.each(SETTINGS)(
    'with %s: nft -f of what nft list ruleset prints gives the same ruleset',
    async (_name, flags) => {
      await daemon(flags);
      const first = (await ask()) as Answer;
      expect(first.ok).toBe(true);
      const written = await node.exec(['nft', 'list', 'ruleset']);
      expect(written.stderr).toBe('');
      const before = await list();
      for (const of of [
        'element',
        'choose-2',
        'choose-of/fd00.202..28_tcp_80',
        'map @shared-endpoints',
        'clients-tcp_10.201.0.10_8080',
        'ip saddr @sources-',
        'sctp',
      ]) {
        expect(before).toContain(of);
      }
      await node.exec(['nft', 'delete', 'table', 'ip', 'kube-proxy']);
      await node.exec(['nft', 'delete', 'table', 'ip6', 'kube-proxy']);
      const loaded = await node.exec(['nft', '-f', '-'], { input: written.stdout });
      expect(loaded.stderr).toBe('');
      expect(linesOf(await list())).toEqual(linesOf(before));
      // The client that was remembered is still remembered.
      for (let times = 0; times < 6; times++) expect(await ask()).toMatchObject({ answeredBy: first.answeredBy });
      // A rule that is written again gets another handle.
      const handles = await list('--handle');
      const output = await daemon(flags);
      expect(output).toMatch(/kind="first" .*operations=0 failures=0/);
      expect(output).not.toMatch(/kind="full" .*operations=[1-9]|restored/);
      expect(linesOf(await list('--handle'))).toEqual(linesOf(handles));
    },
  );
}

/** The elements of a set have no order. */
function linesOf(ruleset: string): readonly string[] {
  const [sets, elements] = [
    ruleset.replaceAll(/elements = \{[^}]*\}/g, ''),
    ruleset.matchAll(/elements = \{([^}]*)\}/g),
  ];
  const sorted = Array.from(elements, ([, text = '']) =>
    text
      .split(',')
      .map((each) => each.trim())
      .toSorted()
      .join('\n'),
  );
  return [...sets.split('\n'), ...sorted];
}

describe('nft reads what nftables mode has written', () => {
  // Debian's User-Mode Linux has no nf_tables.
  if (process.env['KERNEL_USED'] === 'uml')
    test.todo('was not tried: it takes a kernel with nf_tables, as KERNEL=uml-nft');
  else onNfTables();
});
