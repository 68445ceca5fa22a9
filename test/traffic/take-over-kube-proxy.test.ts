import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { KeptConnection, Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { startDaemon } from '../support/daemon.ts';
import { type KubeProxyMode, builtKubeProxy, startApiServer, startKubeProxy } from '../support/kube-proxy.ts';
import { DNS, GUARDED, GUARDED_WAY } from './added-services.ts';
import { LEAST_REQUESTS, LOAD_CLIENTS, LOAD_TIME_MS, type Way, underLoad } from './steady-load.ts';

jest.setTimeout(patient(400_000) + 4 * LOAD_TIME_MS);

const CLUSTER_CIDR = '10.201.0.0/16,fd00:201::/48';

const WAYS: readonly Way[] = [
  ['ClusterIP', 'tcp', '10.202.0.10', 80],
  ['ClusterIP of the API server', 'tcp', '10.202.0.1', 443],
  ['NodePort', 'tcp', '10.200.0.10', 30_080],
  ['external IP', 'tcp', '10.203.0.10', 80],
  GUARDED_WAY,
  ['ClusterIP over IPv6', 'tcp', 'fd00:202::a', 80],
  ['ClusterIP over UDP', 'udp', '10.202.0.20', 53],
];
const TCP_WAYS = WAYS.filter(([, protocol]) => protocol === 'tcp');
/** In the source ranges are the clients of the bed before this one. */
const OUTSIDER = 4;

/** The daemon programs default/kubernetes before it has listed the others: these must be served meanwhile, too. */
const MORE_SERVICES = `${DNS}---
apiVersion: v1
kind: Service
metadata: { name: kubernetes, namespace: default }
spec:
  clusterIP: 10.202.0.1
  clusterIPs: [10.202.0.1]
  ipFamilies: [IPv4]
  ports: [{ name: https, protocol: TCP, port: 443 }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: kubernetes, namespace: default, labels: { kubernetes.io/service-name: kubernetes } }
addressType: IPv4
ports: [{ name: https, protocol: TCP, port: 8080 }]
endpoints:
  - { addresses: [10.201.0.10], conditions: { ready: true } }
---
${GUARDED}---
apiVersion: v1
kind: Service
metadata: { name: empty, namespace: default }
spec:
  clusterIP: 10.202.0.40
  clusterIPs: [10.202.0.40]
  ipFamilies: [IPv4]
  sessionAffinity: ClientIP
  sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } }
  ports: [{ name: http, protocol: TCP, port: 80 }]
`;

interface Step {
  readonly who: 'kube-proxy' | 'ours';
  readonly mode: KubeProxyMode;
  readonly nodePortAddresses?: readonly string[];
}

const ours = (mode: KubeProxyMode): Step => ({ who: 'ours', mode });
const kubeProxy = (mode: KubeProxyMode, nodePortAddresses?: readonly string[]): Step => ({
  who: 'kube-proxy',
  mode,
  ...(nodePortAddresses && { nodePortAddresses }),
});

/** Without these, kube-proxy deletes its set of node port addresses instead of filling it. */
const EVERY_ADDRESS = ['0.0.0.0/0', '::/0'];

const ROUTES: readonly (readonly [string, readonly Step[]])[] = [
  [
    'kube-proxy in nftables mode to ours, back, and again',
    [kubeProxy('nftables'), ours('nftables'), kubeProxy('nftables', EVERY_ADDRESS), ours('nftables')],
  ],
  ['kube-proxy in iptables mode to ours in nftables mode', [kubeProxy('iptables'), ours('nftables')]],
  ['kube-proxy in ipvs mode to ours in nftables mode', [kubeProxy('ipvs'), ours('nftables')]],
  ['kube-proxy in nftables mode to ours in ipvs mode', [kubeProxy('nftables'), ours('ipvs')]],
  [
    'ours in nftables mode to kube-proxy in ipvs mode, through our ipvs mode',
    [ours('nftables'), ours('ipvs'), kubeProxy('ipvs')],
  ],
  [
    'ours in ipvs mode to kube-proxy in nftables mode, through our nftables mode',
    [ours('ipvs'), ours('nftables'), kubeProxy('nftables')],
  ],
  [
    'kube-proxy in iptables mode to ours, back, and again',
    [kubeProxy('iptables'), ours('iptables'), kubeProxy('iptables'), ours('iptables')],
  ],
  ['kube-proxy in iptables mode to ours in ipvs mode', [kubeProxy('iptables'), ours('ipvs')]],
  ['kube-proxy in ipvs mode to ours in iptables mode', [kubeProxy('ipvs'), ours('iptables')]],
  ['kube-proxy in nftables mode to ours in iptables mode', [kubeProxy('nftables'), ours('iptables')]],
  [
    'ours in ipvs mode to kube-proxy in iptables mode, through our iptables mode',
    [ours('ipvs'), ours('iptables'), kubeProxy('iptables')],
  ],
  [
    'ours in nftables mode to kube-proxy in iptables mode, through our iptables mode',
    [ours('nftables'), ours('iptables'), kubeProxy('iptables')],
  ],
  [
    'ours in iptables mode to kube-proxy in nftables mode, through our nftables mode',
    [ours('iptables'), ours('nftables'), kubeProxy('nftables')],
  ],
];

/** When it starts, kube-proxy removes the objects of other modes first, and programs its own seconds later. */
const WITH_A_GAP: readonly (readonly [string, Step, Step])[] = [
  ['ours in nftables mode to kube-proxy in ipvs mode', ours('nftables'), kubeProxy('ipvs')],
  ['ours in ipvs mode to kube-proxy in nftables mode', ours('ipvs'), kubeProxy('nftables')],
];

/** A node on which one proxy after the other serves, all of the same cluster. */
class Host implements AsyncDisposable {
  readonly node: Namespace;
  readonly clients: readonly Namespace[];
  readonly #outsider: Namespace;
  readonly #bed: Bed;
  readonly #folder: string;
  readonly #program: string;
  #proxy: LongProcess | undefined;
  #api = '';
  #held: readonly KeptConnection[] = [];

  private constructor(bed: Bed, folder: string, program: string) {
    this.#bed = bed;
    this.#folder = folder;
    this.#program = program;
    this.node = bed.node(0);
    this.clients = Array.from({ length: OUTSIDER }, (_, index) => bed.client(index));
    this.#outsider = bed.client(OUTSIDER);
  }

  static async create(program: string): Promise<Host> {
    const folder = await mkdtemp(path.join(tmpdir(), 'take-over-'));
    await cp('manifests/demo', path.join(folder, 'objects'), { recursive: true });
    await writeFile(path.join(folder, 'objects/more.yaml'), MORE_SERVICES);
    const bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: OUTSIDER + 1 });
    const host = new Host(bed, folder, program);
    for (const index of [0, 1]) {
      await bed.pod(0, index).serveTcp(8080);
      await bed.pod(0, index).serveUdp(8080);
    }
    host.#api = await startApiServer(host.node, `${folder}/objects`, host.#kubeconfig);
    return host;
  }

  /** Starts the proxy of a step, after the one before has been stopped. Resolves when it has programmed everything. */
  async change(step: Step): Promise<void> {
    await this.#proxy?.stop();
    this.#proxy = step.who === 'ours' ? await this.#startOurs(step.mode) : await this.#startKubeProxy(step);
  }

  async hold(): Promise<void> {
    const [client] = this.clients;
    if (client === undefined) throw new Error('no client');
    this.#held = await Promise.all(TCP_WAYS.map(([, , address, port]) => client.hold(address, port)));
    const unanswered = TCP_WAYS.filter((_way, index) => this.#held[index]?.first.ok !== true);
    if (unanswered.length > 0) throw new Error(`no answer: ${unanswered.join('; ')}\n${this.output}`);
  }

  async letGo(): Promise<void> {
    await Promise.all(this.#held.map((connection) => connection.close()));
    this.#held = [];
  }

  async brokenConnections(): Promise<number> {
    const answers = await Promise.all(this.#held.map((connection) => connection.ask(4_000)));
    return answers.filter(({ ok }) => !ok).length;
  }

  /** The client outside of the source ranges tries without pause. Returns how often, and what answers it got. */
  async outsiderMeanwhile(work: () => Promise<void>): Promise<{ readonly tries: number; readonly answers: unknown[] }> {
    let over = false;
    let tries = 0;
    const answers: unknown[] = [];
    const [, , guardedAddress, guardedPort] = GUARDED_WAY;
    const lanes = Array.from({ length: 4 }, async () => {
      while (!over) {
        const result = await this.#outsider.probeTcp(guardedAddress, guardedPort, { timeoutMs: 300 });
        tries += 1;
        if (result.ok) answers.push(result);
      }
    });
    try {
      await work();
    } finally {
      over = true;
    }
    await Promise.all(lanes);
    return { tries, answers };
  }

  async text(...argv: readonly string[]): Promise<string> {
    return (await this.node.exec(argv, { allowFailure: true })).stdout;
  }

  /** Nothing of ipvs mode is left when its last connection has ended: then another proxy may take over. */
  async retireIpvs(to: KubeProxyMode): Promise<void> {
    await this.letGo();
    await this.#proxy?.stop();
    this.#proxy = await this.#startOurs(to, ['--ipvs-drain-timeout=1s']);
    await this.#proxy.waitForOutput(/removed the last objects of ipvs mode/, 60_000);
  }

  /** Adds a Service without endpoints, and waits until kube-proxy has written it. Each needs another last byte of its IP. */
  async addService(lastByte: number): Promise<void> {
    const clusterIP = `10.202.0.${lastByte}`;
    const service = {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: `late-${lastByte}`, namespace: 'default' },
      spec: {
        clusterIP,
        clusterIPs: [clusterIP],
        ipFamilies: ['IPv4'],
        ports: [{ name: 'http', protocol: 'TCP', port: 80 }],
      },
    };
    const url = `${this.#api}/api/v1/namespaces/default/services`;
    const json = ['--header', 'Content-Type: application/json', '--data', JSON.stringify(service)];
    await this.node.exec(['curl', '--silent', '--fail', ...json, url]);
    for (let waited = 0; waited < patient(20_000); waited += 200) {
      if ((await this.text('nft', 'list', 'map', 'ip', 'kube-proxy', 'no-endpoint-services')).includes(clusterIP))
        return;
      await sleep(200);
    }
    throw new Error(`${clusterIP} is not served:\n${this.output}`);
  }

  get output(): string {
    return this.#proxy?.output ?? '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bed[Symbol.asyncDispose]();
    await rm(this.#folder, { recursive: true });
  }

  get #kubeconfig(): string {
    return path.join(this.#folder, 'kubeconfig');
  }

  async #startOurs(mode: KubeProxyMode, flags: readonly string[] = []): Promise<LongProcess> {
    const all = [
      `--proxy-mode=${mode}`,
      `--kubeconfig=${this.#kubeconfig}`,
      `--cluster-cidr=${CLUSTER_CIDR}`,
      ...flags,
    ];
    return await startDaemon(this.node, all);
  }

  #startKubeProxy({ mode, nodePortAddresses }: Step): Promise<LongProcess> {
    return startKubeProxy(this.node, this.#program, {
      mode,
      kubeconfig: this.#kubeconfig,
      clusterCidr: CLUSTER_CIDR,
      ...(nodePortAddresses && { nodePortAddresses }),
    });
  }
}

/** What the node has of each mode. */
async function modesOf(host: Host): Promise<readonly string[]> {
  const table = await host.text('nft', 'list', 'table', 'ip', 'kube-proxy');
  const rules = `${await host.text('iptables-save')}${await host.text('ip6tables-save')}`;
  const found: readonly (readonly [string, boolean])[] = [
    ['nftables of kube-proxy', table.includes('map service-nodeports')],
    ['nftables of ours', table !== '' && !table.includes('map service-nodeports')],
    ['iptables', /KUBE-(SVC|SEP|EXT|SERVICES|NODEPORTS)/.test(rules)],
    ['ipvs', (await host.text('ip', 'link', 'show', 'kube-ipvs0')) !== ''],
  ];
  return found.filter(([, has]) => has).map(([mode]) => mode);
}

const MODES_AFTER: Readonly<Record<string, readonly string[]>> = {
  'ours nftables': ['nftables of ours'],
  'ours ipvs': ['iptables', 'ipvs'],
  'kube-proxy nftables': ['nftables of kube-proxy'],
  'kube-proxy ipvs': ['iptables', 'ipvs'],
  'ours iptables': ['iptables'],
  'kube-proxy iptables': ['iptables'],
};

function withBoth(program: string): void {
  let host: Host | undefined;

  afterEach(async () => {
    await host?.[Symbol.asyncDispose]();
    host = undefined;
  });

  test.each(ROUTES)('%s: no request fails, no connection breaks, no source range opens', async (_route, steps) => {
    host = await Host.create(program);
    const on = host;
    for (const [index, step] of steps.entries()) {
      if (index === 0) {
        await on.change(step);
        await on.hold();
        continue;
      }
      const fromIpvs = steps[index - 1]?.mode === 'ipvs' && step.mode !== 'ipvs';
      process.stdout.write(`${step.who} in ${step.mode} mode starts: `);
      const { answers, tries } = await on.outsiderMeanwhile(async () => {
        const { sent, failures } = await underLoad(on.clients.slice(0, LOAD_CLIENTS), WAYS, () => on.change(step));
        expect([step, failures]).toEqual([step, {}]);
        expect(sent).toBeGreaterThanOrEqual(LEAST_REQUESTS);
      });
      expect(answers).toEqual([]);
      expect(tries).toBeGreaterThan(10);
      expect(await on.brokenConnections()).toBe(0);
      if (fromIpvs) {
        await on.retireIpvs(step.mode);
        await on.hold();
      }
      if (step.who === 'kube-proxy' && step.mode === 'nftables') await expectFurtherSyncs(on, index);
      await expectModes(on, MODES_AFTER[`${step.who} ${step.mode}`] ?? []);
      expect(await on.brokenConnections()).toBe(0);
    }
  });
}

/** Why docs/migrate.md has a step more. */
function directly(program: string): void {
  test.each(WITH_A_GAP)('%s directly: requests fail', async (route, from, to) => {
    await using host = await Host.create(program);
    await host.change(from);
    await host.hold();
    const { sent, failures } = await underLoad(host.clients.slice(0, LOAD_CLIENTS), WAYS, () => host.change(to));
    const broken = await host.brokenConnections();
    process.stdout.write(
      `${route}: of ${sent} requests failed ${JSON.stringify(failures)}; ${broken} of ${TCP_WAYS.length} connections broke\n`,
    );
    expect(Object.keys(failures)).not.toEqual([]);
  });
}

/** A second after the first sync, kube-proxy deletes chains of ours that it does not need. */
async function expectFurtherSyncs(host: Host, index: number): Promise<void> {
  for (const lastByte of [100 + 2 * index, 101 + 2 * index]) {
    await sleep(1_500);
    await host.addService(lastByte);
  }
  const errors = host.output
    .split('\n')
    .filter((line) => /stale nftables|stale chains|sync failed|Failed to list/.test(line));
  expect(errors.filter((line) => line.startsWith('E'))).toEqual([]);
  expect(errors).not.toEqual([]);
}

/** Leftovers are removed after the first sync. */
async function expectModes(host: Host, wanted: readonly string[]): Promise<void> {
  for (let waited = 0; waited < patient(20_000); waited += 500) {
    if ((await modesOf(host)).join() === wanted.join()) return;
    await sleep(500);
  }
  expect({ modes: await modesOf(host), output: host.output }).toEqual({ modes: wanted });
}

const program = await builtKubeProxy();

describe('the real kube-proxy and the daemon take over from each other', () => {
  // Debian's User-Mode Linux has no nf_tables.
  if (process.env['KERNEL_USED'] === 'uml')
    test.todo('was not tried: it takes a kernel with nf_tables, as KERNEL=uml-nft');
  else if (program === undefined) test.todo('was not tried: make smoke-build builds kube-proxy');
  else {
    withBoth(program);
    directly(program);
  }
});
