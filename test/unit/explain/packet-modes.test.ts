import { describe, expect, test } from '@jest/globals';
import { parseCidr } from '../../../src/base/cidr.ts';
import { serviceLines } from '../../../src/command/explain.ts';
import type { PacketReply, ServiceReply } from '../../../src/explain/replies.ts';
import { parseWithPolicies } from '../../../src/kernel/iptables/chain-policies.ts';
import type { Op } from '../../../src/state/op.ts';
import { Transaction } from '../../../src/state/transaction.ts';
import { PLANES } from '../../fake-kernel/planes.ts';
import { listed, service, slice } from '../../support/objects.ts';
import { questionsOf } from '../../support/questions.ts';
import { MODE_PLANS } from '../../../src/plan/mode-plans.ts';
import { PLAN_CONFIG, Reconciling } from '../../support/reconciling.ts';
import { address, real, vsId } from '../../support/state.ts';

const [CLIENT, POD, NODE] = ['192.168.9.77', '10.244.0.7', '192.168.9.1'];
const CLUSTER_IP = '10.96.0.10:80';
const VIP = '198.51.100.9:80';
const CIDR = parseCidr('10.244.0.0/16')!;

const WEB = service('web', '10.96.0.10', {
  type: 'LoadBalancer',
  sessionAffinity: 'ClientIP',
  affinityTimeoutSeconds: 600,
  loadBalancerIngress: [{ ip: '198.51.100.9', ipMode: 'VIP' }],
  loadBalancerSourceRanges: ['192.168.9.0/26'],
});
const EMPTY = service('empty', '10.96.0.20');

interface World {
  /** Lines of iptables-save, without COMMIT. */
  readonly saved?: string;
}

async function started(mode: 'nftables' | 'iptables', { saved = '' }: World = {}) {
  const { kernel, node } = PLANES[mode]();
  await kernel.prepare();
  node.setNodeAddresses(
    [
      [NODE, 'eth0'],
      ['10.244.0.1', 'cni0'],
    ].map(([at = '', interfaceName = '']) => ({ address: address(at), prefix: 24, interfaceName, tentative: false })),
  );
  node.otherRules = { variant: 'nft', tables: parseWithPolicies(saved), baseChains: [] };
  const plan = { ...PLAN_CONFIG, ...MODE_PLANS[mode], localDetectors: { 4: { kind: 'cidr', cidr: CIDR } } } as const;
  const run = new Reconciling(kernel, { plan });
  await run.settle(...listed([WEB, EMPTY], [slice('web', ['10.244.0.5', '10.244.0.6'])]));
  const { ask } = questionsOf(kernel, run);
  const packet = async (from: string, at: string): Promise<PacketReply> =>
    (await ask(`/v1/packet?from=${from}&at=${at}`)) as PacketReply;
  const explain = async (name: string): Promise<ServiceReply> =>
    (await ask(`/v1/service?namespace=default&name=${name}`)) as ServiceReply;
  return { kernel, packet, explain };
}

function wayOf({ steps }: PacketReply): string[] {
  return steps.map(({ table, hook, chain, entries }) => [table, hook, chain, ...entries].join(' '));
}

describe('the way is said in the words of the mode', () => {
  const WAYS = {
    nftables: {
      client: [
        'nat PREROUTING masquerade-check',
        'nat PREROUTING services service-ips { 10.96.0.10 . tcp . 80 }',
        'nat POSTROUTING masquerading',
      ],
      pod: ['nat PREROUTING services service-ips { 10.96.0.10 . tcp . 80 }'],
      outside: ['filter PREROUTING firewall-check firewall-ips { 198.51.100.9 . tcp . 80 }'],
      unserved: ['filter PREROUTING service-endpoints-check no-endpoint-services { 10.96.0.20 . tcp . 80 }'],
    },
    iptables: {
      client: [
        'nat PREROUTING KUBE-MARK-MASQ',
        'nat PREROUTING KUBE-SERVICES',
        'filter FORWARD KUBE-FORWARD',
        'nat POSTROUTING KUBE-POSTROUTING',
      ],
      pod: ['nat PREROUTING KUBE-SERVICES'],
      outside: ['filter FORWARD KUBE-PROXY-FIREWALL'],
      unserved: ['filter FORWARD KUBE-SERVICES'],
    },
  };

  test.each(['nftables', 'iptables'] as const)('%s', async (mode) => {
    const { packet } = await started(mode);
    const fromClient = await packet(CLIENT, CLUSTER_IP);
    expect(fromClient).toMatchObject({ ok: true, result: 'arrives', commands: [] });
    expect(fromClient.lookedAt).not.toContain('firewall mark');
    expect(fromClient.steps.map(({ rule }) => rule)).toContain(
      'service port 10.96.0.10:80/TCP of default/web, scheduler random, 2 endpoints, a client keeps its endpoint for 600 s (session affinity)',
    );
    const fromPod = await packet(POD, CLUSTER_IP);
    expect(fromPod.endpoints.map(({ sees }) => sees)).toEqual([POD, POD]);
    const outside = await packet(CLIENT, VIP);
    expect(outside.verdict).toMatch(/is dropped by .* it is not in the source ranges of default\/web$/);
    const unserved = await packet(POD, '10.96.0.20:80');
    expect(unserved).toMatchObject({ ok: false, result: 'refused' });
    expect({
      client: wayOf(fromClient),
      pod: wayOf(fromPod),
      outside: wayOf(outside),
      unserved: wayOf(unserved),
    }).toEqual(WAYS[mode]);
  });
});

describe.each(['nftables', 'iptables'] as const)('%s mode: a translated packet meets rules of others', (mode) => {
  const FORWARD_DROP = '*filter\n:FORWARD DROP [0:0]\n';
  const JUMP = '-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD\n';
  const KUBE_FORWARD = ':KUBE-FORWARD - [0:0]\n-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT\n';

  test.each<[name: string, saved: string, from: string, result: PacketReply['result']]>([
    [
      'on the way to the Service',
      '*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -d 10.96.0.10/32 -j DROP',
      POD,
      'dropped',
    ],
    [
      'to its address, after translation',
      '*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -d 10.96.0.10/32 -j DROP',
      POD,
      'arrives',
    ],
    ['to the endpoints', '*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -d 10.244.0.0/16 -i cni0 -j DROP', POD, 'dropped'],
    ['of another interface', '*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -i eth9 -j DROP', POD, 'arrives'],
    ['in INPUT, which it does not pass', '*filter\n:INPUT DROP [0:0]', POD, 'arrives'],
    ['a policy', FORWARD_DROP, POD, 'dropped'],
    [
      'from the node, in OUTPUT',
      '*filter\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -d 10.244.0.0/16 -j REJECT',
      NODE,
      'refused',
    ],
  ])('%s', async (_name, saved, from, result) => {
    const { packet } = await started(mode, { saved });
    expect((await packet(from, CLUSTER_IP)).result).toBe(result);
  });

  test('a policy of FORWARD does not see what our chain accepts', async () => {
    const { packet } = await started(mode, { saved: `${FORWARD_DROP}${KUBE_FORWARD}${JUMP}` });
    // Masqueraded packets have the mark.
    expect((await packet(CLIENT, CLUSTER_IP)).result).toBe('arrives');
    expect((await packet(POD, CLUSTER_IP)).result).toBe('dropped');
  });

  test('a node without a route sends nothing', async () => {
    const { packet } = await started(mode);
    const { result, verdict } = await packet(NODE, '10.96.0.20:80');
    expect(result).toBe('not served');
    expect(verdict).toContain('is not sent: this node has no route to 10.96.0.20');
  });

  test('where the kernel differs from the plan, the commands are those of the mode', async () => {
    const { kernel, packet } = await started(mode);
    const realServer = real('10.244.0.6', 1);
    await kernel.apply(new Transaction([{ kind: 'delete-real-server', id: vsId('10.96.0.10', 80), realServer }]));
    const reply = await packet(POD, CLUSTER_IP);
    expect(reply.verdict).toContain('from which the kernel differs here (1 command below)');
    expect(reply.commands.join('\n')).toMatch(
      mode === 'nftables' ? /^nft -f - <<'END'\n[^]*10\.244\.0\.6/ : /^iptables[^]*-restore[^]*10\.244\.0\.6:8080/,
    );
    expect((await packet(POD, VIP)).commands).toEqual([]);
  });

  test('a Service of which an address and an entry differ is explained with the commands of the mode', async () => {
    const { kernel, explain } = await started(mode);
    expect(await explain('web')).toMatchObject({ ok: true });
    const realServer = real('10.244.0.6', 1);
    const entry = { type: 'hash:ip', address: address('10.96.0.10') } as const;
    const sets = mode === 'nftables' ? await kernel.getSets(['KUBE-IPVS-IPS']) : [];
    await kernel.apply(
      new Transaction([
        { kind: 'delete-real-server', id: vsId('10.96.0.10', 80), realServer },
        ...sets.map((set): Op => ({ kind: 'delete-entry', set, entry })),
      ]),
    );
    const reply = await explain('web');
    const { verdict, ports, sets: said } = reply;
    // A shell can run what is printed.
    expect(serviceLines(reply)).toContain(mode === 'nftables' ? 'END' : 'COMMIT');
    expect(verdict).toContain('the kernel differs from the plan at 10.96.0.10:80 (1 command in all)');
    const [cluster, balancer] = ports[0]?.addresses ?? [];
    expect(cluster?.commands.join('\n')).toMatch(
      mode === 'nftables' ? /^nft -f - <<'END'\n[^]*10\.244\.0\.6/ : /^iptables[^]*-restore[^]*10\.244\.0\.6:8080/,
    );
    expect(balancer).toMatchObject({ use: 'LoadBalancerIP', state: 'as planned', commands: [] });
    expect(said.find(({ set }) => set.includes('cluster-ips'))?.commands).toEqual(
      mode === 'nftables' ? ["nft -f - <<'END'\nadd element ip kube-proxy cluster-ips { 10.96.0.10 }\nEND"] : undefined,
    );
  });
});

test.each(['nftables', 'iptables'] as const)('%s mode: another port of a cluster IP', async (mode) => {
  const { packet } = await started(mode);
  const reply = await packet(POD, '10.96.0.10:81');
  expect(reply.result).toBe(mode === 'nftables' ? 'refused' : 'not served');
  expect(wayOf(reply)).toEqual(
    mode === 'nftables' ? ['filter PREROUTING cluster-ips-check cluster-ips { 10.96.0.10 }'] : [],
  );
});
