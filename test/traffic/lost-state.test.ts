import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { unloadIpvs } from '../contract/unload-ipvs.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';

jest.setTimeout(180_000);

/** Longer than whatever is awaited "at once". */
const SYNC_PERIOD_MS = 20_000;
const AT_ONCE_MS = 10_000;
const VIP4 = '10.202.0.10';
const VIP6 = 'fd00:202::a';

/** What a kube-proxy in iptables mode does when it starts: removes what ipvs mode left, then writes its own chains. */
const KUBE_PROXY_STARTS = `
ipvsadm -C
ip link del kube-ipvs0
for table in nat filter mangle; do
  for program in iptables ip6tables; do
    $program-save -t $table | grep -v -- ' KUBE-\\|:KUBE-' | $program-restore -T $table
  done
done
for set in $(ipset list -n | grep ^KUBE-); do ipset destroy $set; done
iptables -t nat -N KUBE-PROXY-CANARY
iptables -t nat -N KUBE-SVC-ERIFXISQEP7F7OF4
`;

/** Other programs take away what every Service needs, while the daemon runs. */
const MASQUERADE = /-A KUBE-POSTROUTING .*MASQUERADE/;

describe('a node whose state others remove', () => {
  let bed: Bed;
  let node: Namespace;
  let client: Namespace;
  let daemon: LongProcess;

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
    node = bed.node(0);
    client = bed.client(0);
    for (const pod of [0, 1]) await bed.pod(0, pod).serveTcp(8080);
    daemon = await startDaemon(node, [
      '--manifests=manifests/demo',
      '--cluster-cidr=10.201.0.0/16,fd00:201::/48',
      `--ipvs-sync-period=${SYNC_PERIOD_MS}ms`,
      '--ipvs-tcp-timeout=800s',
    ]);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
  });

  async function served(): Promise<readonly boolean[]> {
    const probes = await Promise.all([VIP4, VIP6].map((address) => client.probeTcp(address, 80, { timeoutMs: 500 })));
    return probes.map(({ ok }) => ok);
  }

  async function servedWithin(ms: number): Promise<void> {
    const until = performance.now() + ms;
    let answers = await served();
    while (answers.includes(false) && performance.now() < until) {
      await setTimeout(100);
      answers = await served();
    }
    expect(answers).toEqual([true, true]);
  }

  /** What the daemon has written since. */
  function mark(): () => string {
    const start = daemon.output.length;
    return () => daemon.output.slice(start);
  }

  async function healthz(): Promise<string> {
    return (await node.exec(['curl', '-sS', 'http://127.0.0.1:10256/healthz'])).stdout;
  }

  async function metric(name: string): Promise<number> {
    const text = (await node.exec(['curl', '-sS', 'http://127.0.0.1:10249/metrics'])).stdout;
    const line = text.split('\n').find((each) => each.startsWith(`${name} `));
    return Number(line?.slice(name.length));
  }

  test('kube-ipvs0 is down, as with kube-proxy, and serves both families', async () => {
    const [link] = JSON.parse((await node.exec(['ip', '-j', 'link', 'show', 'dev', 'kube-ipvs0'])).stdout) as {
      flags: string[];
    }[];
    expect(link?.flags).not.toContain('UP');
    await servedWithin(AT_ONCE_MS);
  });

  test('a deleted kube-ipvs0 is restored immediately, counted, and named in the log', async () => {
    const output = mark();
    await node.exec(['ip', 'link', 'del', 'kube-ipvs0']);
    await servedWithin(AT_ONCE_MS);
    await daemon.waitForOutput(/no rules of a kube-proxy/, 30_000);
    expect(output()).toMatch(/kube-ipvs0 was deleted: full check started/);
    expect(output()).toMatch(/interface kube-ipvs0 was missing: created again/);
    expect(await metric('kubeipvs_drift_repaired_total{object="device"}')).toBe(1);
  });

  test('after a kube-proxy in iptables mode has started, everything is restored immediately, and the log names it', async () => {
    const output = mark();
    await node.exec(['sh', '-c', KUBE_PROXY_STARTS]);
    await servedWithin(AT_ONCE_MS);
    await daemon.waitForOutput(/probably a kube-proxy in iptables or nftables mode/, 30_000);
    expect(output()).toMatch(/KUBE-PROXY-CANARY/);
    // Rules that were removed after the first check had read them are restored by the next check.
    const until = performance.now() + SYNC_PERIOD_MS + AT_ONCE_MS;
    let rules = '';
    while (!MASQUERADE.test(rules) && performance.now() < until) {
      rules = (await node.exec(['iptables-save'])).stdout;
    }
    expect(rules).toMatch(MASQUERADE);
    await node.exec(['sh', '-c', 'for c in PROXY-CANARY SVC-ERIFXISQEP7F7OF4; do iptables -t nat -X KUBE-$c; done']);
  });

  test('--cleanup refuses while the daemon runs; with --force it warns, and the daemon restores everything', async () => {
    const refused = await node.exec(daemonArgv(node, ['--cleanup']), { allowFailure: true });
    expect(refused.status).toBe(1);
    expect(refused.stderr).toMatch(/kube-ipvs-proxy runs in this network namespace \(node node-0, process \d+/);
    expect(await served()).toEqual([true, true]);
    const forced = await node.exec(daemonArgv(node, ['--cleanup', '--force']), {
      timeoutMs: 60_000,
      allowFailure: true,
    });
    expect(forced.stderr).toMatch(/removing everything because of --force/);
    // The daemon may write its rules again before their sets are removed. Nothing else may fail.
    const failed = forced.stderr.split('\n').filter((line) => line.startsWith('E'));
    expect(failed.filter((line) => !/destroy-set .* IPSET_ERR_BUSY/.test(line))).toEqual([]);
    expect(forced.status).toBe(failed.length === 0 ? 0 : 1);
    await servedWithin(AT_ONCE_MS + SYNC_PERIOD_MS);
  });

  test('the next check repairs changed settings and reports a service address on another interface', async () => {
    const output = mark();
    const keys = ['net.ipv4.ip_forward', 'net.ipv4.vs.conntrack', 'net.ipv4.vs.expire_nodest_conn'];
    for (const key of keys) await node.exec(['sysctl', '-w', `${key}=0`]);
    await node.exec(['ipvsadm', '--set', '700', '0', '0']);
    await node.exec(['ip', 'addr', 'add', `${VIP4}/32`, 'dev', 'lo']);
    await daemon.waitForOutput(new RegExp(`addresses of Services are on other interfaces.*${VIP4} on lo`), 60_000);
    for (const key of keys) {
      expect((await node.exec(['sysctl', '-n', key])).stdout.trim()).toBe('1');
      expect(output()).toContain(`sysctl ${key} was 0, set to 1 again`);
    }
    expect((await node.exec(['ipvsadm', '-l', '--timeout'])).stdout).toContain('800 ');
    expect(await metric('kubeipvs_drift_repaired_total{object="setting"}')).toBe(4);
    expect(await metric('kubeipvs_node_problems')).toBe(1);
    expect(await healthz()).toContain(`${VIP4} on lo`);
    await node.exec(['ip', 'addr', 'del', `${VIP4}/32`, 'dev', 'lo']);
    await daemon.waitForOutput(/this problem no longer exists: addresses of Services/, 60_000);
    // Health is updated at the end of that check.
    for (let wait = 0; wait < 50 && (await healthz()).includes('problems'); wait++) await setTimeout(100);
    expect(await healthz()).not.toContain('problems');
  });

  test('the next check loads ip_vs again after it was unloaded, with its settings', async () => {
    // Other network namespaces of this machine may be using it.
    if (process.env['KERNEL_USED'] === 'native') return;
    const output = mark();
    await unloadIpvs({ run: async (...argv) => (await node.exec(argv)).stdout });
    await servedWithin(AT_ONCE_MS + SYNC_PERIOD_MS);
    expect(output()).toMatch(/the kernel module ip_vs was unloaded/);
    expect((await node.exec(['sysctl', '-n', 'net.ipv4.vs.conntrack'])).stdout.trim()).toBe('1');
    expect((await node.exec(['ipvsadm', '-l', '--timeout'])).stdout).toContain('800 ');
    expect(await healthz()).toContain('"healthy":true');
  });
});
