import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { Service } from '../../src/kube/objects/objects.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { createIpvsKernel } from '../../src/kernel/ipvs/ipvs-kernel.ts';
import { Cluster } from '../../src/model/cluster.ts';
import { type IpFamily, parseIp } from '../../src/base/ip.ts';
import { planNodeEntries } from '../../src/plan/ipvs/node-entries.ts';
import { NodePlan } from '../../src/plan/node/node-plan.ts';
import { planRules } from '../../src/plan/ipvs/plan-rules.ts';
import { planService } from '../../src/plan/service/plan-service.ts';
import { SET_ROLES, plannedSet } from '../../src/state/set-roles.ts';
import type { Op } from '../../src/state/op.ts';
import { formatFailure } from '../../src/state/outcome.ts';
import { Transaction } from '../../src/state/transaction.ts';
import { type DualStack, clusterAddress, externalAddress } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import { runCommand } from '../bed/command.ts';
import type { Namespace } from '../bed/namespace.ts';
import { QuietLog } from '../contract/quiet-log.ts';
import { RULE_CONFIGS } from '../contract/rule-configs.ts';
import { HERE, applied, config, endpoint, meta, nodeView, service, slice } from '../unit/plan/build.ts';

jest.setTimeout(180_000);

const FAMILIES: readonly IpFamily[] = [4, 6];
const ALL_SETS: readonly Op[] = FAMILIES.flatMap((family) =>
  SET_ROLES.map((role) => ({ kind: 'create-set' as const, set: plannedSet(role, family, 0) })),
);
async function applyAll(kernel: Kernel, ops: readonly Op[]): Promise<void> {
  const { failures } = await kernel.apply(new Transaction(ops));
  if (failures.length > 0) throw new Error(failures.map(formatFailure).join('\n'));
}

describe('the rules', () => {
  const netns = `rules-${process.pid}`;
  const kernels: Kernel[] = [];
  const log = new QuietLog();
  // Each remembers nothing of what others wrote.
  const kernel = (): Kernel => {
    const made = createIpvsKernel({ log, netns: `/run/netns/${netns}` });
    kernels.push(made);
    return made;
  };

  beforeAll(async () => {
    await runCommand(['ip', 'netns', 'add', netns]);
    await applyAll(kernel(), ALL_SETS);
  });

  afterAll(async () => {
    await Promise.all(kernels.map((each) => each.close()));
    await runCommand(['ip', 'netns', 'del', netns]);
  });

  test.each(RULE_CONFIGS.flatMap(([name, fields]) => FAMILIES.map((family) => [name, family, fields] as const)))(
    'with %s the tools accept the rules of IPv%i, and a second process reads them back as equal',
    async (_name, family, fields) => {
      const rules = planRules(config(fields), family);
      expect(await kernel().ensureRules(rules)).toMatchObject({ changed: true });
      expect(await kernel().ensureRules(rules)).toMatchObject({ changed: false });
    },
  );
});

/** Both addresses of a service in one family each. */
type FamilyName = keyof DualStack;

describe.each<FamilyName>(['v4', 'v6'])('packets under the rules, %s', (family) => {
  const ipFamily: IpFamily = family === 'v4' ? 4 : 6;
  const iptables = family === 'v4' ? 'iptables' : 'ip6tables';
  const open = clusterAddress(10)[family];
  const remote = clusterAddress(11)[family];
  const guarded = externalAddress(12)[family];
  const guardedButNode = externalAddress(13)[family];
  const localOnly = externalAddress(14)[family];
  const NODE_PORT = 30_080;
  const HEALTH_PORT = 32_000;
  const HOST_PORT = 2222;
  let bed: Bed;
  let node: Namespace;
  let kernel: Kernel;
  const log = new QuietLog();

  beforeAll(async () => {
    bed = await Bed.create({ nodes: 2, podsPerNode: 2, clients: 2 });
    node = bed.node(0);
    for (const pod of [bed.pod(0, 0), bed.pod(0, 1), bed.pod(1, 0)]) await pod.serveTcp(8080);
    await node.serveTcp(HOST_PORT);
    await node.serveTcp(HEALTH_PORT);
    kernel = createIpvsKernel({ log, netns: `/run/netns/${node.netns}` });
    await kernel.prepare();
    await kernel.setSysctl('net/ipv4/vs/conntrack', '1');
    await applyAll(kernel, ALL_SETS);
    for (const each of FAMILIES) await kernel.ensureRules(planRules(config(), each));
    await applyAll(kernel, await operations());
  });

  afterEach(async () => {
    await undrop();
  });

  afterAll(async () => {
    await kernel.close();
    await bed[Symbol.asyncDispose]();
  });

  function exposed(name: string, clusterIp: string, fields: Partial<Service> = {}): Service {
    return service({ meta: meta({ name }), clusterIP: clusterIp, ...fields });
  }

  /** As a balancer would: address known, reachable from the client of index 0 only, and from more. */
  function balanced(address: string, ...sources: readonly string[]): Partial<Service> {
    return { type: 'LoadBalancer', loadBalancerIngress: [{ ip: address }], loadBalancerSourceRanges: sources };
  }

  /** Everything for the services below on node 0, from nothing. */
  async function operations(): Promise<Op[]> {
    const bits = ipFamily === 4 ? 32 : 128;
    const client = `${bed.client(0).addresses[family]}/${bits}`;
    const own = node.addresses[family];
    const here = bed.pod(0, 0).addresses[family];
    const there = bed.pod(1, 0).addresses[family];
    const cluster = new Cluster(HERE);
    const add = (object: Service, address: string, nodeName: string): void => {
      const { name } = object.meta;
      cluster.apply(applied.service(object));
      const owner = { labels: { 'kubernetes.io/service-name': name } };
      const addressType = ipFamily === 4 ? 'IPv4' : 'IPv6';
      cluster.apply(applied.slice(slice([endpoint(address, { nodeName })], { name, meta: owner, addressType })));
    };
    const nodePort = { type: 'NodePort', ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: NODE_PORT }] };
    add(exposed('open', open, nodePort), here, HERE);
    add(exposed('remote', remote), there, 'node-b');
    add(exposed('guarded', clusterAddress(12)[family], balanced(guarded, client)), here, HERE);
    add(
      exposed('guarded-but-node', clusterAddress(13)[family], balanced(guardedButNode, client, `${own}/${bits}`)),
      here,
      HERE,
    );
    const local = { externalTrafficPolicy: 'Local', healthCheckNodePort: HEALTH_PORT };
    add(exposed('local', clusterAddress(14)[family], { ...balanced(localOnly), ...local }), there, 'node-b');

    const addresses = (await kernel.getNodeAddresses()).map(({ address }) => address);
    const view = nodeView({
      nodeIps: [parseIp(own)].flatMap((ip) => ip ?? []),
      reportedAddresses: [],
      interfaceAddresses: addresses,
    });
    const plan = new NodePlan();
    plan.replaceNodeEntries(planNodeEntries(view, config()));
    for (const name of cluster.names()) {
      const model = cluster.service(name);
      if (model !== undefined) plan.replace(name, planService(model, view, config()));
    }
    const changes = plan.takeChanges();
    return [
      ...changes.entries.map(({ role, family: of, entry }): Op => ({
        kind: 'add-entry',
        set: plannedSet(role, of, 0),
        entry,
      })),
      ...changes.virtualServers.flatMap(({ id, wanted }): Op[] =>
        wanted === undefined
          ? []
          : [
              { kind: 'add-virtual-server', virtualServer: wanted.virtualServer },
              ...wanted.realServers.map((realServer): Op => ({ kind: 'add-real-server', id, realServer })),
            ],
      ),
      ...changes.addresses.map(({ address }): Op => ({ kind: 'bind-address', address })),
    ];
  }

  const CHAINS = ['INPUT', 'FORWARD'];
  // No IPv6 host can do without: its neighbours are found by these.
  const NEIGHBOURS = ['-p', 'ipv6-icmp', '-j', 'ACCEPT'];

  async function drop(): Promise<void> {
    for (const chain of CHAINS) {
      if (ipFamily === 6) await node.exec([iptables, '-I', chain, ...NEIGHBOURS]);
      await node.exec([iptables, '-P', chain, 'DROP']);
    }
  }

  async function undrop(): Promise<void> {
    for (const chain of CHAINS) {
      await node.exec([iptables, '-P', chain, 'ACCEPT']);
      if (ipFamily === 6) await node.exec([iptables, '-D', chain, ...NEIGHBOURS], { allowFailure: true });
    }
  }

  test('the node reaches a pod of another node by cluster IP without a local detector', async () => {
    expect(await node.probeTcp(remote, 80)).toMatchObject({
      ok: true,
      answeredBy: 'pod-1-0',
      sourceSeen: node.addresses[family],
    });
  });

  test('the node reaches a pod of another node by a load balancer IP with policy Local', async () => {
    expect(await node.probeTcp(localOnly, 80)).toMatchObject({
      ok: true,
      answeredBy: 'pod-1-0',
      sourceSeen: node.addresses[family],
    });
  });

  test('a pod reaches itself through its service', async () => {
    expect(await bed.pod(0, 0).probeTcp(open, 80)).toMatchObject({ ok: true, answeredBy: 'pod-0-0' });
  });

  test('a service address answers pings, but nothing that the node itself listens on', async () => {
    const client = bed.client(0);
    const ping = ['ping', '-c', '1', '-W', '3', open];
    expect((await client.exec(ping, { allowFailure: true })).status).toBe(0);
    expect((await node.exec(ping, { allowFailure: true })).status).toBe(0);
    expect(await client.probeTcp(open, HOST_PORT)).toEqual({ ok: false, code: 'ECONNREFUSED' });
    expect(await client.probeTcp(node.addresses[family], HOST_PORT)).toMatchObject({ ok: true, answeredBy: 'node-0' });
  });

  test('source ranges accept only their sources, for connections of the node too', async () => {
    expect(await bed.client(0).probeTcp(guarded, 80)).toMatchObject({ ok: true });
    expect(await bed.client(1).probeTcp(guarded, 80)).toMatchObject({ ok: false });
    expect(await bed.pod(0, 1).probeTcp(guarded, 80)).toMatchObject({ ok: false });
    expect(await node.probeTcp(guarded, 80)).toMatchObject({ ok: false });
    expect(await bed.client(0).probeTcp(guardedButNode, 80)).toMatchObject({ ok: true });
    expect(await bed.client(1).probeTcp(guardedButNode, 80)).toMatchObject({ ok: false });
    expect(await node.probeTcp(guardedButNode, 80)).toMatchObject({ ok: true });
  });

  test('policies of DROP stop other traffic, not service traffic', async () => {
    await drop();
    const client = bed.client(0);
    expect(await client.probeTcp(node.addresses[family], HOST_PORT)).toEqual({ ok: false, code: 'TIMEOUT' });
    expect(await client.probeTcp(open, 80)).toMatchObject({ ok: true });
    expect(await client.probeTcp(node.addresses[family], NODE_PORT)).toMatchObject({ ok: true });
    expect(await client.probeTcp(node.addresses[family], HEALTH_PORT)).toMatchObject({
      ok: true,
      answeredBy: 'node-0',
    });
    expect(await client.probeTcp(guarded, 80)).toMatchObject({ ok: true });
    expect(await bed.client(1).probeTcp(guarded, 80)).toMatchObject({ ok: false });
    expect(await bed.pod(0, 1).probeTcp(open, 80)).toMatchObject({ ok: true });
    expect(await bed.pod(0, 1).probeTcp(remote, 80)).toMatchObject({ ok: true });
  });

  test('rules of other programs still decide first', async () => {
    const theirs = ['INPUT', '-s', bed.client(1).addresses[family], '-j', 'DROP'];
    await node.exec([iptables, '-I', ...theirs]);
    try {
      await drop();
      expect(await bed.client(1).probeTcp(open, 80)).toEqual({ ok: false, code: 'TIMEOUT' });
      expect(await bed.client(0).probeTcp(open, 80)).toMatchObject({ ok: true });
    } finally {
      await node.exec([iptables, '-D', ...theirs]);
    }
  });

  test('the hostPort of a pod does not capture traffic of a Service', async () => {
    const target = `${ipFamily === 4 ? bed.pod(0, 1).addresses.v4 : `[${bed.pod(0, 1).addresses.v6}]`}:8080`;
    const hostPort = [
      '-p',
      'tcp',
      '--dport',
      '80',
      '-m',
      'addrtype',
      '--dst-type',
      'LOCAL',
      '-j',
      'DNAT',
      '--to',
      target,
    ];
    for (const chain of ['PREROUTING', 'OUTPUT']) await node.exec([iptables, '-t', 'nat', '-A', chain, ...hostPort]);
    try {
      expect(await bed.client(0).probeTcp(node.addresses[family], 80)).toMatchObject({
        ok: true,
        answeredBy: 'pod-0-1',
      });
      for (const from of [bed.client(0), bed.pod(0, 1), node]) {
        expect(await from.probeTcp(open, 80)).toMatchObject({ ok: true, answeredBy: 'pod-0-0' });
      }
      expect(await bed.client(1).probeTcp(guarded, 80)).toMatchObject({ ok: false });
    } finally {
      for (const chain of ['PREROUTING', 'OUTPUT']) await node.exec([iptables, '-t', 'nat', '-D', chain, ...hostPort]);
    }
  });

  test('writing and checking the rules logs no warning', () => {
    expect(log.troubles).toEqual([]);
  });
});
