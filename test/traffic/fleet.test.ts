import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { Bed } from '../bed/bed.ts';
import type { CommandResult } from '../bed/command.ts';
import { patient } from '../bed/patience.ts';
import type { SupportReply } from '../../src/explain/node/node-replies.ts';
import type {
  FleetCheckReply,
  FleetServiceReply,
  FleetServicesReply,
  FleetStatusReply,
} from '../../src/fleet/fleet-replies.ts';
import { querySocketOf, startDaemon } from '../support/daemon.ts';

jest.setTimeout(patient(180_000));

const BUNDLE = path.resolve('build/kube-ipvs-proxy.mjs');
const NODES = [0, 1] as const;
const SPEC = {
  clusterIP: '10.202.0.10',
  clusterIPs: ['10.202.0.10'],
  type: 'NodePort',
  ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30_080 }],
};

/** JSON is YAML. */
function manifests(): string {
  const nodes = NODES.map((at) => ({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: `node-${at}` },
    status: { addresses: [{ type: 'InternalIP', address: `10.200.0.${10 + at}` }] },
  }));
  const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'web' }, spec: SPEC };
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web-1', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080 }],
    endpoints: NODES.map((at) => ({ addresses: [`10.201.${at}.10`], nodeName: `node-${at}` })),
  };
  return [...nodes, service, slice].map((each) => JSON.stringify(each)).join('\n---\n');
}

describe('two nodes asked at once', () => {
  let folder: string;
  let bed: Bed;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'fleet-'));
    const source = await mkdtemp(path.join(folder, 'manifests-'));
    await writeFile(path.join(source, 'all.yaml'), manifests());
    bed = await Bed.create({ nodes: 2, podsPerNode: 1, clients: 0 });
    for (const at of NODES) {
      await bed.pod(at, 0).serveTcp(8080);
      await startDaemon(bed.node(at), [
        `--manifests=${source}`,
        '--cluster-cidr=10.201.0.0/16',
        '--ipvs-scheduler=rr',
        '--ipvs-sync-period=1h',
      ]);
    }
    await writeKubectl();
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  /** A kubectl whose exec runs the program on the node of the Pod. */
  async function writeKubectl(): Promise<void> {
    const pods = NODES.map((at) => ({
      metadata: { name: `proxy-${at}` },
      spec: { nodeName: `node-${at}` },
      status: {
        phase: 'Running',
        hostIP: `10.200.0.${10 + at}`,
        containerStatuses: [{ name: 'kube-ipvs-proxy', state: { running: {} } }],
      },
    }));
    const cases = NODES.map(
      (at) =>
        `exec-proxy-${at}) shift 8; exec ip netns exec ${bed.node(at).netns} "${process.execPath}" "${BUNDLE}" "$@" "--query-socket=${querySocketOf(bed.node(at))}" ;;`,
    );
    const script = `#!/bin/sh
case $1-$2 in
  get-pods) echo '${JSON.stringify({ items: pods })}'; exit ;;
  get-nodes) printf 'node/node-0\\nnode/node-1\\nnode/node-2\\n'; exit ;;
  get-service) echo '${JSON.stringify({ spec: SPEC })}'; exit ;;
  version-*) echo '{}'; exit ;;
esac
if [ "$8" != kube-ipvs-proxy ]; then echo "$8 is not in this image" >&2; exit 1; fi
case $1-$4 in
  ${cases.join('\n  ')}
esac
`;
    await writeFile(path.join(folder, 'kubectl'), script, { mode: 0o755 });
  }

  function fleet(...argv: readonly string[]): Promise<CommandResult> {
    const PATH = `${folder}:${process.env['PATH']}`;
    const asked = ['env', `PATH=${PATH}`, process.execPath, BUNDLE, 'fleet', ...argv, '--timeout=60'];
    return bed.node(0).exec(asked, { allowFailure: true });
  }

  async function asked<R>(...argv: readonly string[]): Promise<R> {
    const { stdout, stderr } = await fleet(...argv, '-o', 'json');
    if (stdout === '') throw new Error(stderr);
    return JSON.parse(stdout) as R;
  }

  test('status: they differ in their sockets alone, and a third node has no Pod', async () => {
    const { answered, differing, withoutPod } = await asked<FleetStatusReply>('status');
    expect({ answered, withoutPod }).toEqual({ answered: 2, withoutPod: ['node-2'] });
    expect(differing.flatMap(({ differences }) => differences)).toEqual([
      expect.stringMatching(/^configuration [0-9a-f]{12} \(most: [0-9a-f]{12}\)$/),
    ]);
  });

  test('services and check: the Service is served, and every path to it carries packets', async () => {
    const { rows } = await asked<FleetServicesReply>('services');
    expect(rows).toMatchObject([{ service: 'default/web', endpoints: 2, otherwise: 0, problems: [] }]);
    const { ok, tried, failed } = await asked<FleetCheckReply>('check', 'web');
    expect({ ok, tried, failed }).toEqual({ ok: true, tried: 6, failed: [] });
  });

  test('what another program broke on one node is found there', async () => {
    await bed.node(1).exec(['ipvsadm', '-D', '-t', '10.202.0.10:80']);
    const check = await asked<FleetCheckReply>('check', 'web');
    expect(check.failed).toEqual([
      { from: 'node-1', path: 'ClusterIP', to: '10.202.0.10:80', why: expect.stringMatching(/ECONNREFUSED|no answer/) },
    ]);
    const { wrong, differing } = await asked<FleetServiceReply>('explain', 'web');
    expect(wrong).toBe(1);
    expect(differing.map(({ node }) => node)).toEqual(['node-1']);
    expect(differing[0]?.differences).toContain('the kernel lacks: ipvsadm -A -t 10.202.0.10:80 -s rr');
    expect((await fleet('diff')).stdout).toMatch(/^ {2}node-1:\n {6}default\/web: ipvsadm -A -t 10\.202\.0\.10:80/m);
  });

  test('bundle: the archive has what the kernel of each node has', async () => {
    const file = path.join(folder, 'bundle.tar.gz');
    expect(await fleet('bundle', '-f', file, '--nodes=node-0,node-1')).toMatchObject({ status: 0, stderr: '' });
    execFileSync('tar', ['-xzf', file, '-C', folder]);
    const root = path.join(folder, 'kube-ipvs-proxy-bundle');
    const supportOf = async (node: string): Promise<SupportReply> =>
      JSON.parse(await readFile(path.join(root, 'nodes', node, 'support.json'), 'utf8')) as SupportReply;
    const clusterIps = async (node: string): Promise<number> =>
      (await supportOf(node)).virtualServers.first.filter(({ at }) => at === 'TCP 10.202.0.10:80').length;
    expect([await clusterIps('node-0'), await clusterIps('node-1')]).toEqual([1, 0]);
    expect((await supportOf('node-0')).metrics).toContain('kubeipvs_objects');
    expect(await readFile(path.join(root, 'index.md'), 'utf8')).toContain(
      'iptables-legacy-save.txt is missing: iptables-legacy-save is not',
    );
  });
});
