import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { Bed } from '../bed/bed.ts';
import { differences, kernelState } from '../bed/kernel-state.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { daemonArgv, startDaemon } from '../support/daemon.ts';
import { documentedMetrics, readScrape, scrapedMetrics, select } from '../support/scrape.ts';
import { QUERIES } from '../unit/manifests/monitoring-queries.ts';
import { readQuery } from '../unit/manifests/promql.ts';

jest.setTimeout(180_000);

const NODE_PATH = '/api/v1/nodes/node-0';
const DRIFT = /^kubeipvs_drift_repaired_total\{object="virtual-server"\} (\d+)$/m;
const EVENTS_PATH = '/apis/events.k8s.io/v1/events';

interface EventObject {
  readonly reason: string;
  readonly type: string;
  readonly note: string;
  readonly regarding: { readonly kind: string; readonly name: string };
}

/** What iptables-mode kube-proxy leaves, in small; the two jumps of a table are in it as well. */
const IPTABLES_MODE = `*filter
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
-I FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-I INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-I INPUT -j KUBE-NODEPORTS
-A FORWARD -s 203.0.113.7/32 -j ACCEPT
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SVC-ABCDEFGHIJKLMNOP - [0:0]
:KUBE-SEP-ABCDEFGHIJKLMNOP - [0:0]
-I PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.202.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-ABCDEFGHIJKLMNOP
-A KUBE-SVC-ABCDEFGHIJKLMNOP -j KUBE-SEP-ABCDEFGHIJKLMNOP
-A KUBE-SEP-ABCDEFGHIJKLMNOP -s 10.201.0.10/32 -j KUBE-MARK-MASQ
COMMIT
`;

/** The daemon as a citizen of its node and of the cluster: metrics, events, the Node object, what others left. */
describe('the daemon on its node', () => {
  let bed: Bed;
  let node: Namespace;
  let scratch: string;
  let kubeconfig: string;
  let server: string;

  beforeAll(async () => {
    scratch = await mkdtemp(path.join(tmpdir(), 'node-level-'));
    kubeconfig = path.join(scratch, 'kubeconfig');
    bed = await Bed.create({ nodes: 1, podsPerNode: 1, clients: 0 });
    node = bed.node(0);
    const api = ['test/apiserver/main.ts', '--objects', 'manifests/demo', '--kubeconfig', kubeconfig];
    const apiServer = await node.spawn([process.execPath, ...api]);
    [server] = await apiServer.waitForOutput(/https?:\/\/\S+/, 30_000);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await rm(scratch, { recursive: true });
  });

  async function curl(...args: readonly string[]): Promise<string> {
    return (await node.exec(['curl', '-sS', ...args])).stdout;
  }

  async function patch(url: string, change: unknown): Promise<void> {
    const type = 'Content-Type: application/merge-patch+json';
    await curl('-f', '-X', 'PATCH', '-H', type, '--data', JSON.stringify(change), url);
  }

  const patchNode = (spec: unknown): Promise<void> => patch(server + NODE_PATH, { spec });

  async function events(reason: string): Promise<readonly EventObject[]> {
    const { items } = JSON.parse(await curl(server + EVENTS_PATH)) as { items: readonly EventObject[] };
    return items.filter((event) => event.reason === reason);
  }

  const start = (...flags: readonly string[]): Promise<LongProcess> =>
    startDaemon(node, [`--kubeconfig=${kubeconfig}`, '--cluster-cidr=10.201.0.0/16,fd00:201::/48', ...flags]);

  async function exposition(): Promise<string> {
    return await curl('http://127.0.0.1:10249/metrics');
  }

  test('a scrape has the metrics of docs/metrics.md with types, labels and help, live ones have changed, and the start is an Event', async () => {
    const daemon = await start();
    const text = await exposition();
    const scrape = readScrape(`${text}\n${await curl('http://127.0.0.1:10249/metrics/slis')}`, {});
    const documented = documentedMetrics(await readFile('docs/metrics.md', 'utf8'));
    const page = new Map([...documented].filter(([, { help }]) => !help.endsWith(' mode only)')));
    expect(page.size).toBeGreaterThan(40);
    expect(scrapedMetrics(scrape, page)).toEqual(page);
    for (const series of [
      'rest_client_requests_total{code="200",method="GET"',
      'rest_client_request_duration_seconds_count{verb="GET"',
      'kubeproxy_sync_proxy_rules_service_changes_total ',
      'kubeproxy_sync_proxy_rules_endpoint_changes_total ',
      'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv6"}',
      'kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"}',
      'kubeipvs_watch_state{resource="services",state="watching"}',
      'kubeipvs_watch_state{resource="endpointslices",state="watching"}',
      'kubeipvs_watch_state{resource="nodes",state="watching"}',
      'kubeipvs_objects{type="virtual-server"}',
      'kubeipvs_netlink_bytes_total{direction="received"}',
    ]) {
      const line = text.split('\n').find((one) => one.startsWith(series));
      expect([series, Number(line?.split(' ').at(-1))]).toEqual([series, expect.any(Number)]);
      expect([series, Number(line?.split(' ').at(-1)) > 0]).toEqual([series, true]);
    }
    expect(text).toMatch(/^kubeipvs_processes_started_total\{program="iptables(-legacy|-nft)?-restore"\} [1-9]/m);
    expect(text).toMatch(/^kubeproxy_sync_proxy_rules_service_changes_pending 0$/m);
    expect(daemon.output).toMatch(/nodePortAddresses\) is not set/);
    const [event] = await events('Starting');
    expect(event).toMatchObject({ type: 'Normal', regarding: { kind: 'Node', name: 'node-0' } });
    await daemon.stop(10_000);
  });

  test('every query of the alerts and the dashboard finds data in a scrape', async () => {
    const daemon = await start('--ipvs-sync-period=2s', '--service-metrics');
    const before = Number((await exposition()).match(DRIFT)?.[1]);
    const annotations = { 'endpoints.kubernetes.io/last-change-trigger-time': new Date().toISOString() };
    await patch(`${server}/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-ipv4`, {
      metadata: { annotations },
      ports: [{ name: 'http', protocol: 'TCP', port: 8081 }],
    });
    await node.exec(['ipvsadm', '-C']);
    await expectSoon(async () => Number((await exposition()).match(DRIFT)?.[1]) > before);
    const target = { job: 'kube-proxy', service_proxy: 'kube-ipvs-proxy', instance: 'node-0' };
    const { samples } = readScrape(await exposition(), target);
    const known = [...samples, { name: 'up', labels: target, value: 1 }];
    const empty = QUERIES.flatMap(([where, query]) =>
      readQuery(query)
        .selected.filter((selected) => select(known, selected).length === 0)
        .map((selected) => [where, selected]),
    );
    expect(empty).toEqual([]);
    expect(QUERIES.length).toBeGreaterThan(40);
    await daemon.stop(10_000);
  });

  test('a health port in use, with hard fail, gives exit code 1, one sentence and an Event', async () => {
    const holder = await start();
    const flags = ['--bind-address-hard-fail', `--kubeconfig=${kubeconfig}`];
    const { status, stderr, stdout } = await node.exec(daemonArgv(node, flags), { allowFailure: true });
    expect(status).toBe(1);
    expect(stdout + stderr).toContain('the health server cannot listen on 0.0.0.0:10256');
    const [event] = await events('FailedToStartProxierHealthcheck');
    expect(event).toMatchObject({ type: 'Warning', regarding: { kind: 'Node', name: 'node-0' } });
    await holder.stop(10_000);
  });

  test('a healthCheckNodePort in use gives an Event about the Service, and the daemon continues', async () => {
    const daemon = await start('--bind-address-hard-fail');
    const service = {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'checked', namespace: 'default' },
      spec: {
        type: 'LoadBalancer',
        clusterIP: '10.202.0.99',
        clusterIPs: ['10.202.0.99'],
        externalTrafficPolicy: 'Local',
        healthCheckNodePort: 10256,
        ports: [{ port: 80, protocol: 'TCP' }],
      },
      status: { loadBalancer: { ingress: [{ ip: '10.203.0.99' }] } },
    };
    const json = 'Content-Type: application/json';
    await curl('-f', '-H', json, '--data', JSON.stringify(service), `${server}/api/v1/namespaces/default/services`);
    await expectSoon(async () => (await events('FailedToStartServiceHealthcheck')).length > 0);
    expect((await events('FailedToStartServiceHealthcheck'))[0]).toMatchObject({
      type: 'Warning',
      note: expect.stringContaining('10256'),
      regarding: { kind: 'Service', name: 'checked' },
    });
    expect(JSON.parse(await curl('http://127.0.0.1:10256/livez'))).toMatchObject({ healthy: true });
    await daemon.stop(10_000);
  });

  test('with NodeCIDR, a change of podCIDRs ends the daemon with 1; other changes of the Node do not', async () => {
    const daemon = await start('--detect-local-mode=NodeCIDR');
    await patchNode({ unschedulable: true });
    expect(await daemon.ended(1_000)).toBe(false);
    await patchNode({ podCIDR: '10.201.9.0/24', podCIDRs: ['10.201.9.0/24'] });
    expect(await daemon.ended(15_000)).toBe(true);
    expect(daemon.exit).toBe(1);
    expect(daemon.output).toContain('pod CIDRs of our Node changed');
  });

  test('conntrack timeouts are set; the maximum cannot be raised in a namespace, and the error says so', async () => {
    const initOnly = (...flags: readonly string[]): ReturnType<Namespace['exec']> =>
      node.exec(daemonArgv(node, ['--init-only', ...flags]), { allowFailure: true });
    const timeouts = [
      '--conntrack-tcp-timeout-established=90m',
      '--conntrack-udp-timeout=45s',
      '--conntrack-tcp-be-liberal',
    ];
    expect((await initOnly(...timeouts)).status).toBe(0);
    const sysctl = async (name: string): Promise<string> =>
      (await node.exec(['cat', `/proc/sys/net/netfilter/nf_conntrack_${name}`])).stdout.trim();
    expect(await Promise.all(['tcp_timeout_established', 'udp_timeout', 'tcp_be_liberal'].map(sysctl))).toEqual([
      '5400',
      '45',
      '1',
    ]);
    const before = await sysctl('max');
    const { status, stdout, stderr } = await initOnly(
      '--conntrack-max-per-core=1',
      `--conntrack-min=${Number(before) + 1}`,
    );
    expect(status).toBe(1);
    expect(stdout + stderr).toMatch(
      /net\/netfilter\/nf_conntrack_max cannot be set to \d+ \(it is \d+\).*--conntrack-max-per-core=0/,
    );
    expect(await sysctl('max')).toBe(before);
  });

  test('rules, sets, virtual servers and addresses that another program flushes together are restored by a full check', async () => {
    const daemon = await start('--ipvs-sync-period=4s');
    // Stopped: a check in the middle of the flush would put rules back, and they would hold on to the sets.
    daemon.signal('SIGSTOP');
    const before = await kernelState(node);
    for (const text of ['create KUBE-IPVS-IPS', '-A KUBE-SERVICES', '-A -t 10.202.0.', '10.202.0.']) {
      expect(before).toContain(text);
    }
    const flush = [
      'iptables-save | grep -v KUBE- | iptables-restore',
      'ip6tables-save | grep -v KUBE- | ip6tables-restore',
      'ipset destroy',
      'ipvsadm -C',
      'ip addr flush dev kube-ipvs0',
    ];
    await node.exec(['sh', '-c', `set -e; ${flush.join('; ')}`]);
    daemon.signal('SIGCONT');
    let left: string[] = [];
    await expectSoon(async () => {
      left = differences(before, await kernelState(node));
      return left.length === 0;
    }).catch(() => undefined);
    expect(left).toEqual([]);
    await daemon.stop(10_000);
  });

  test('leftovers of iptables mode are removed after the first sync, or by --cleanup', async () => {
    const saved = async (): Promise<string> => (await node.exec(['iptables-save'])).stdout;
    await node.exec([process.execPath, 'build/kube-ipvs-proxy.mjs', '--cleanup', '--proxy-mode=ipvs']);
    expect(await saved()).not.toContain('KUBE-');
    await node.exec(['iptables-restore', '--noflush'], { input: IPTABLES_MODE });
    const daemon = await start();
    await daemon.waitForOutput(
      /removed the rules that kube-proxy in iptables mode left.*filter\/KUBE-SERVICES/,
      15_000,
    );
    expect(await saved()).not.toMatch(/KUBE-(SVC|SEP)-|KUBE-NODEPORTS|--ctstate NEW .*-j KUBE-/);
    expect(await saved()).toContain('-A FORWARD -s 203.0.113.7/32 -j ACCEPT');
    await daemon.stop(10_000);
    await node.exec(['iptables-restore', '--noflush'], { input: IPTABLES_MODE });
    const { status } = await node.exec(daemonArgv(node, ['--cleanup']), { allowFailure: true });
    expect(status).toBe(0);
    expect(await saved()).not.toContain('KUBE-');
    expect(await saved()).toContain('-A FORWARD -s 203.0.113.7/32 -j ACCEPT');
    expect((await node.exec(daemonArgv(node, ['--cleanup']))).status).toBe(0);
  });
});

async function expectSoon(condition: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 15_000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error('not within 15 s');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
