import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { startDaemon } from '../support/daemon.ts';

jest.setTimeout(patient(180_000));

/** Everything that a client can do with the demo's services, through the bundled daemon, seen with the system's own tools. */
describe('from manifests to packets', () => {
  let bed: Bed;
  let node: Namespace;
  let client: Namespace;
  let directory: string;
  let daemon: LongProcess;
  const pods = new Set(['pod-0-0', 'pod-0-1']);

  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'manifests-'));
    await cp('manifests/demo', directory, { recursive: true });
    bed = await Bed.create({ nodes: 1, podsPerNode: 3, clients: 1 });
    node = bed.node(0);
    client = bed.client(0);
    for (const index of [0, 1, 2]) {
      await bed.pod(0, index).serveTcp(8080);
      await bed.pod(0, index).serveUdp(8080);
    }
    daemon = await startDaemon(node, [
      '--ipvs-scheduler=rr',
      `--manifests=${directory}`,
      '--cluster-cidr=10.201.0.0/16,fd00:201::/48',
      '-v=2',
    ]);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  });

  async function who(from: Namespace, address: string, port: number, requests = 6): Promise<Set<string>> {
    const names = new Set<string>();
    for (let i = 0; i < requests; i++) {
      const result = await from.probeTcp(address, port);
      names.add(result.ok ? result.answeredBy : result.code);
    }
    return names;
  }

  async function ipvsadm(): Promise<string> {
    return (await node.exec(['ipvsadm', '-Sn'])).stdout;
  }

  test('ipvsadm shows the virtual servers with scheduler, affinity and weights', async () => {
    const lines = (await ipvsadm()).split('\n');
    expect(lines).toEqual(
      expect.arrayContaining([
        '-A -t 10.202.0.10:80 -s rr',
        '-a -t 10.202.0.10:80 -r 10.201.0.10:8080 -m -w 1',
        '-A -t [fd00:202::a]:80 -s rr',
        '-a -t [fd00:202::a]:80 -r [fd00:201::11]:8080 -m -w 1',
        '-A -t 10.203.0.10:80 -s rr',
        '-A -t 10.200.0.10:30080 -s rr',
        '-A -t [fd00:200::10]:30080 -s rr',
        '-A -u 10.202.0.53:53 -s rr -p 10800',
      ]),
    );
    expect(lines.filter((line) => line.includes('127.0.0.1') || line.includes('[::1]'))).toEqual([]);
  });

  test('addresses are bound to kube-ipvs0, and sets and rules have kube-proxy’s names', async () => {
    const { stdout } = await node.exec(['ip', '-j', 'addr', 'show', 'dev', 'kube-ipvs0']);
    const [device] = JSON.parse(stdout) as [{ addr_info: { local: string; prefixlen: number; scope: string }[] }];
    const bound = device.addr_info.filter(({ scope }) => scope !== 'link').map((a) => `${a.local}/${a.prefixlen}`);
    expect(bound.sort()).toEqual(['10.202.0.10/32', '10.202.0.53/32', '10.203.0.10/32', 'fd00:202::a/128']);
    const sets = (await node.exec(['ipset', 'save'])).stdout;
    expect(sets).toContain('add KUBE-CLUSTER-IP 10.202.0.10,tcp:80');
    expect(sets).toContain('add KUBE-6-CLUSTER-IP fd00:202::a,tcp:80');
    expect(sets).toContain('add KUBE-NODE-PORT-TCP 30080');
    const rules = (await node.exec(['iptables-save', '-t', 'nat'])).stdout;
    expect(rules).toContain('-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES');
  });

  test.each([
    ['ClusterIP', '10.202.0.10', 80],
    ['ClusterIP over IPv6', 'fd00:202::a', 80],
    ['external IP', '10.203.0.10', 80],
    ['NodePort', '10.200.0.10', 30080],
    ['NodePort over IPv6', 'fd00:200::10', 30080],
  ])('%s answers an outside client, a pod (hairpin included) and the node itself', async (_name, address, port) => {
    expect(await who(client, address, port)).toEqual(pods);
    expect(await who(bed.pod(0, 0), address, port)).toEqual(pods);
    expect(await who(node, address, port)).toEqual(pods);
  });

  test('UDP with affinity stays with one pod', async () => {
    const names = new Set<string>();
    for (let i = 0; i < 5; i++) {
      const result = await client.probeUdp('10.202.0.53', 53);
      names.add(result.ok ? result.answeredBy : result.code);
    }
    expect(names.size).toBe(1);
    expect(pods).toContain([...names][0]);
  });

  test('other ports of a VIP are refused, not left open to the host', async () => {
    expect(await client.probeTcp('10.202.0.10', 22)).toEqual({ ok: false, code: 'ECONNREFUSED' });
  });

  test('a changed manifest is applied; an invalid one is logged with its line, and the last good state stays', async () => {
    const file = path.join(directory, 'web.yaml');
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.replaceAll('10.201.0.11', '10.201.0.12'));
    await expectSoon(async () => (await ipvsadm()).includes('-a -t 10.202.0.10:80 -r 10.201.0.12:8080'));
    expect(await ipvsadm()).not.toContain('-a -t 10.202.0.10:80 -r 10.201.0.11:8080 -m -w 1');
    await writeFile(file, `${text}\n  : : [broken`);
    await daemon.waitForOutput(/web\.yaml.*\d+/, 10_000);
    expect(await who(client, '10.202.0.10', 80)).toEqual(new Set(['pod-0-0', 'pod-0-2']));
    await writeFile(file, text);
    await expectSoon(async () => (await ipvsadm()).includes('-a -t 10.202.0.10:80 -r 10.201.0.11:8080 -m -w 1'));
  });

  test('/healthz, /livez and /metrics report the state of the node', async () => {
    const livez = await node.exec(['curl', '-sS', 'http://127.0.0.1:10256/livez']);
    expect(JSON.parse(livez.stdout)).toMatchObject({ healthy: true });
    const mode = await node.exec(['curl', '-sS', 'http://127.0.0.1:10249/proxyMode']);
    expect(mode.stdout).toBe('ipvs');
    const metrics = (await node.exec(['curl', '-sS', 'http://127.0.0.1:10249/metrics'])).stdout;
    expect(metrics).toMatch(/^kubeproxy_sync_proxy_rules_duration_seconds_count\{ip_family="IPv4"\} [1-9]/m);
  });

  test('SIGTERM ends the daemon with 0 and the kernel keeps serving; --cleanup leaves nothing', async () => {
    await daemon.stop(10_000);
    expect(daemon.exit).toBe(0);
    expect(await who(client, '10.202.0.10', 80)).toEqual(pods);
    const argv = [process.execPath, 'build/kube-ipvs-proxy.mjs', '--cleanup', '--proxy-mode=ipvs'];
    const cleaned = await node.exec(argv, { allowFailure: true });
    expect(cleaned.stdout + cleaned.stderr).toContain('clean-up done');
    expect(cleaned.status).toBe(0);
    expect((await ipvsadm()).trim()).toBe('');
    expect((await node.exec(['ipset', 'save'])).stdout).toBe('');
    expect((await node.exec(['iptables-save'])).stdout).not.toContain('KUBE-');
    expect((await node.exec(['ip6tables-save'])).stdout).not.toContain('KUBE-');
    expect((await node.exec(['ip', '-j', 'link'])).stdout).not.toContain('kube-ipvs0');
    expect((await node.exec(argv)).status).toBe(0);
  });
});

async function expectSoon(condition: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + patient(15_000);
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`not within ${patient(15)} s`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
