import { describe, expect, test } from '@jest/globals';
import { parseCidr } from '../../../src/base/cidr.ts';
import { type IpAddress, IP_FAMILIES } from '../../../src/base/ip.ts';
import type { NamespacedName } from '../../../src/base/service/names.ts';
import { MODES, type ModeFacts, type ProxyMode, isMode } from '../../../src/base/proxy-mode.ts';
import type { Protocol } from '../../../src/base/protocol.ts';
import { type FoundPacket, packetReply } from '../../../src/explain/packet/packet-reply.ts';
import type { Packet } from '../../../src/explain/packet/packet.ts';
import type { PacketReply } from '../../../src/explain/replies.ts';
import { matchRule } from '../../../src/explain/packet/rule-match.ts';
import { plannedSets } from '../../../src/explain/packet/set-match.ts';
import type { EndpointSlice, Service } from '../../../src/kube/objects/objects.ts';
import { Cluster } from '../../../src/model/cluster.ts';
import { planNodeEntries } from '../../../src/plan/ipvs/node-entries.ts';
import { NodePlan } from '../../../src/plan/node/node-plan.ts';
import type { NodeView, PlanConfig } from '../../../src/plan/plan-config.ts';
import { planRules } from '../../../src/plan/ipvs/plan-rules.ts';
import { planService } from '../../../src/plan/service/plan-service.ts';
import { NO_OTHER_RULES } from '../../../src/state/rules/other-rules.ts';
import type { Route } from '../../../src/state/route.ts';
import { ruleChainKey } from '../../../src/state/rules/rules-in-force.ts';
import { endpoint, listed, port, service, slice } from '../../support/objects.ts';
import { MODE_PLANS } from '../../../src/plan/mode-plans.ts';
import { PLAN_CONFIG } from '../../support/reconciling.ts';
import { address, portOf, vsId } from '../../support/state.ts';

const CLUSTER_CIDR = parseCidr('10.244.0.0/16');
if (CLUSTER_CIDR === undefined) throw new Error('not a CIDR');
const BY_CIDR = { localDetectors: { 4: { kind: 'cidr', cidr: CLUSTER_CIDR } } } as const;
const CONFIG: PlanConfig = { ...PLAN_CONFIG, ...BY_CIDR };

/** Of this node: its address, a Pod that is an endpoint, and another. Of others: a Pod, a client. */
const [NODE, SELF, POD, OTHER, CLIENT] = ['192.168.9.1', '10.244.0.5', '10.244.0.7', '10.244.1.5', '192.168.9.77'];
const SERVICE_ADDRESSES = ['10.96.0.10', '203.0.113.9', '198.51.100.9'];

const VIEW: NodeView = {
  zone: '',
  nodeIps: [address(NODE)],
  reportedAddresses: [address(NODE)],
  interfaceAddresses: [address(NODE), address('10.244.0.1'), address('127.0.0.1')],
};

/** As on a node whose Pods are on the bridge cni0, and whose other Pods are behind a gateway. */
function routeTo(to: string, { bindsAddresses }: Pick<ModeFacts, 'bindsAddresses'> = MODES.ipvs): Route {
  if ((bindsAddresses && SERVICE_ADDRESSES.includes(to)) || to === NODE) {
    return { local: true, interfaceName: 'lo', gateway: false, source: address(to) };
  }
  const onBridge = to.startsWith('10.244.0.');
  return {
    local: false,
    interfaceName: onBridge ? 'cni0' : 'eth0',
    gateway: to.startsWith('10.244.1.'),
    source: address(onBridge ? '10.244.0.1' : NODE),
  };
}

const here = (at: string) => endpoint(at, { nodeName: 'node-a' });
const there = (at: string) => endpoint(at, { nodeName: 'node-b' });
const BOTH = slice('web', [here(SELF), there(OTHER)]);
const REMOTE = slice('web', [there(OTHER)]);

function web(change: Partial<Service> = {}): Service {
  return service('web', '10.96.0.10', {
    type: 'LoadBalancer',
    ports: [port(80, { nodePort: 30_080 })],
    externalIPs: ['203.0.113.9'],
    loadBalancerIngress: [{ ip: '198.51.100.9', ipMode: 'VIP' }],
    ...change,
  });
}

interface World {
  readonly service?: Service;
  readonly slice?: EndpointSlice;
  readonly config?: Partial<PlanConfig>;
  readonly found?: Partial<FoundPacket>;
}

function ask(
  from: string,
  to: string,
  world: World = {},
  protocol: Protocol = 'TCP',
  mode: ProxyMode = 'ipvs',
): PacketReply {
  const config = { ...PLAN_CONFIG, ...MODE_PLANS[mode], ...BY_CIDR, ...world.config };
  const cluster = new Cluster(config.nodeName);
  for (const event of listed([world.service ?? web()], [world.slice ?? BOTH])) cluster.apply(event);
  const plan = new NodePlan();
  plan.replaceNodeEntries(planNodeEntries(VIEW, config));
  for (const name of cluster.names()) {
    const model = cluster.service(name);
    if (model !== undefined) plan.replace(name, planService(model, VIEW, config));
  }
  const [at = '', number = ''] = to.split(':');
  const texts = [from, at, SELF, OTHER, NODE];
  const steps = packetReply({
    asked: { from: address(from), address: address(at), port: portOf(Number(number)), protocol },
    node: VIEW,
    config,
    plan,
    slices: (name: NamespacedName) => cluster.slices(name),
    found: {
      routes: new Map<IpAddress, Route>(texts.map((text) => [address(text), routeTo(text, MODES[mode])])),
      nodeInterface: 'eth0',
      packets: new Map(),
      commands: [],
      forwards: () => true,
      others: { ...NO_OTHER_RULES, variant: 'nft' },
      ...world.found,
    },
    mode,
  });
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** "arrives: 10.244.0.5:8080 sees 10.244.0.7, ..." */
function outcome({ result, endpoints }: PacketReply): string {
  const seen = endpoints.map(({ at, sees, answers }) => `${at} ${answers ? `sees ${sees}` : 'does not answer'}`);
  return [result, ...seen].join(', ');
}

const LOCAL = web({ externalTrafficPolicy: 'Local' });
const RANGES = web({ loadBalancerSourceRanges: ['192.168.9.0/26'] });
const SELF_ONLY = slice('web', [here(SELF)]);
const [CLUSTER_IP, EXTERNAL, VIP, NODE_PORT] = [
  '10.96.0.10:80',
  '203.0.113.9:80',
  '198.51.100.9:80',
  `${NODE}:30080`,
] as const;
const KEPT = (from: string): string => `arrives, ${SELF}:8080 sees ${from}, ${OTHER}:8080 sees ${from}`;
const MASQUERADED = `arrives, ${SELF}:8080 sees 10.244.0.1, ${OTHER}:8080 sees ${NODE}`;
const BRIDGE: World = { config: { localDetectors: { 4: { kind: 'bridge', interfaceName: 'cni0' } } } };
const PREFIX: World = { config: { localDetectors: { 4: { kind: 'interface-prefix', prefix: 'cni' } } } };
const UNKNOWN: World = { config: { localDetectors: {} } };

/** Ports of service addresses that no Service has are not closed in iptables mode. In userspace mode, endpoints see the node. */
function expectedIn(mode: ProxyMode, to: string, expected: string): string {
  if (mode === 'userspace') return asForwarded(expected);
  return mode === 'iptables' && to === '10.96.0.10:81' ? 'not served' : expected;
}

function asForwarded(expected: string): string {
  const endpoints = Array.from(expected.matchAll(/([\d.]+):8080/g), ([, endpoint]) => endpoint);
  if (endpoints.length === 0) return expected;
  return `arrives, ${endpoints.map((each) => `${each}:8080 sees ${each === SELF ? '10.244.0.1' : '192.168.9.1'}`).join(', ')}`;
}

describe.each(Object.keys(MODES).filter(isMode))(
  'in %s mode, which endpoints answer, and which source they see',
  (mode) => {
    test.each<[string, string, string, World, string]>([
      ['a Pod keeps its address at the cluster IP', POD, CLUSTER_IP, {}, KEPT(POD)],
      [
        'a Pod that is its own endpoint is masqueraded (hairpin)',
        SELF,
        CLUSTER_IP,
        {},
        `arrives, ${SELF}:8080 sees 10.244.0.1, ${OTHER}:8080 sees ${SELF}`,
      ],
      ['a client outside of the cluster CIDR is masqueraded', CLIENT, CLUSTER_IP, {}, MASQUERADED],
      ['--masquerade-all', POD, CLUSTER_IP, { config: { masqueradeAll: true } }, MASQUERADED],
      ['a bridge: a Pod', POD, CLUSTER_IP, BRIDGE, KEPT(POD)],
      ['a bridge: a client', CLIENT, CLUSTER_IP, BRIDGE, MASQUERADED],
      ['an interface prefix: a Pod', POD, CLUSTER_IP, PREFIX, KEPT(POD)],
      ['an interface prefix: a client', CLIENT, CLUSTER_IP, PREFIX, MASQUERADED],
      ['no detection: a Pod', POD, CLUSTER_IP, UNKNOWN, KEPT(POD)],
      [
        'no detection: only replies of this node reach a client',
        CLIENT,
        CLUSTER_IP,
        UNKNOWN,
        `arrives in part, ${SELF}:8080 sees ${CLIENT}, ${OTHER}:8080 does not answer`,
      ],
      ['the node has the cluster IP as source, and is masqueraded', NODE, CLUSTER_IP, {}, MASQUERADED],
      ['an external IP masquerades everybody', POD, EXTERNAL, {}, MASQUERADED],
      ['a load balancer IP masquerades everybody', POD, VIP, {}, MASQUERADED],
      ['a node port masquerades everybody', POD, NODE_PORT, {}, MASQUERADED],
      [
        'policy Local: an external IP keeps the client',
        CLIENT,
        EXTERNAL,
        { service: LOCAL },
        `arrives, ${SELF}:8080 sees ${CLIENT}`,
      ],
      [
        'policy Local: a load balancer IP keeps the client',
        CLIENT,
        VIP,
        { service: LOCAL },
        `arrives, ${SELF}:8080 sees ${CLIENT}`,
      ],
      [
        'policy Local: a node port keeps the client',
        CLIENT,
        NODE_PORT,
        { service: LOCAL },
        `arrives, ${SELF}:8080 sees ${CLIENT}`,
      ],
      [
        'policy Local, no endpoint here: no answer for a client',
        CLIENT,
        NODE_PORT,
        { service: LOCAL, slice: REMOTE },
        `no answer, ${OTHER}:8080 does not answer`,
      ],
      [
        'policy Local, no endpoint here: no answer for a Pod of another node',
        '10.244.1.9',
        NODE_PORT,
        { service: LOCAL, slice: REMOTE },
        `no answer, ${OTHER}:8080 does not answer`,
      ],
      [
        'policy Local, no endpoint here: a Pod of this node is answered',
        POD,
        NODE_PORT,
        { service: LOCAL, slice: REMOTE },
        `arrives, ${OTHER}:8080 sees ${POD}`,
      ],
      [
        'policy Local, no endpoint here: this node is answered',
        NODE,
        NODE_PORT,
        { service: LOCAL, slice: REMOTE },
        `arrives, ${OTHER}:8080 sees ${NODE}`,
      ],
      [
        'internalTrafficPolicy Local: endpoints of this node only',
        POD,
        CLUSTER_IP,
        { service: service('web', '10.96.0.10', { internalTrafficPolicy: 'Local' }) },
        `arrives, ${SELF}:8080 sees ${POD}`,
      ],
      [
        'internalTrafficPolicy Local, none here',
        POD,
        CLUSTER_IP,
        { service: service('web', '10.96.0.10', { internalTrafficPolicy: 'Local' }), slice: REMOTE },
        'refused',
      ],
      ['no endpoints', CLIENT, NODE_PORT, { slice: slice('web', []) }, 'refused'],
      ['source ranges: a client within', '192.168.9.60', VIP, { service: RANGES }, MASQUERADED],
      ['source ranges: a client outside', CLIENT, VIP, { service: RANGES }, 'dropped'],
      [
        'source ranges: the node, which has the load balancer IP as source',
        NODE,
        VIP,
        { service: RANGES },
        MASQUERADED,
      ],
      [
        'source ranges without this node',
        NODE,
        VIP,
        { service: web({ loadBalancerSourceRanges: ['203.0.113.0/24'] }) },
        'dropped',
      ],
      ['source ranges do not apply to the cluster IP', CLIENT, CLUSTER_IP, { service: RANGES }, MASQUERADED],
      ['a port of the address without a Service', POD, '10.96.0.10:81', {}, 'refused'],
      ['the same from the node', NODE, '10.96.0.10:81', {}, 'refused'],
      ['a port of this node without a Service', CLIENT, `${NODE}:22`, {}, 'not served'],
      ['another host', POD, '192.168.9.2:30080', {}, 'not served'],
      [
        'an endpoint in the network namespace of this node gets received packets unmasqueraded',
        CLIENT,
        CLUSTER_IP,
        { slice: slice('web', [here(NODE)]) },
        `arrives, ${NODE}:8080 sees ${CLIENT}`,
      ],
      [
        'the same from the node',
        NODE,
        CLUSTER_IP,
        { slice: slice('web', [here(NODE)]) },
        `arrives, ${NODE}:8080 sees ${NODE}`,
      ],
      [
        'node port addresses: one that serves none',
        CLIENT,
        NODE_PORT,
        { config: { nodePortAddresses: { primary: false, cidrs: [CLUSTER_CIDR] } } },
        'not served',
      ],
      [
        'masquerading with a port range',
        CLIENT,
        NODE_PORT,
        { config: { masqueradePorts: { from: portOf(40_000), to: portOf(60_000) } }, slice: SELF_ONLY },
        `arrives, ${SELF}:8080 sees 10.244.0.1`,
      ],
    ])('%s', (_what, from, to, world, expected) => {
      expect(outcome(ask(from, to, world, 'TCP', mode))).toBe(expectedIn(mode, to, expected));
    });

    test('a protocol without a virtual server is refused at the same port', () => {
      expect(outcome(ask(POD, CLUSTER_IP, {}, 'UDP', mode))).toBe(mode === 'iptables' ? 'not served' : 'refused');
    });

    test('an address of this node that the kernel does not tell is called that', () => {
      const routes = new Map([[address(CLIENT), routeTo(CLIENT)]]);
      const { endpoints } = ask(CLIENT, CLUSTER_IP, { found: { routes }, slice: SELF_ONLY }, 'TCP', mode);
      expect(endpoints).toEqual([
        { at: `${SELF}:8080`, sees: 'an address of this node', masqueraded: true, answers: true },
      ]);
    });
  },
);

describe('where the client is', () => {
  test.each<[string, string, World]>([
    [NODE, 'this node', {}],
    [POD, 'Pod of this node', {}],
    [OTHER, 'Pod of another node', {}],
    [CLIENT, 'outside', {}],
    [OTHER, 'outside', BRIDGE],
    [POD, 'Pod of this node', UNKNOWN],
    [CLIENT, 'outside', UNKNOWN],
  ])('%s is of: %s', (from, origin, world) => {
    expect(ask(from, CLUSTER_IP, world).origin).toBe(origin);
  });
});

describe('the first line', () => {
  test.each<[string, string, string, World]>([
    [`${POD} -> ${CLUSTER_IP}/TCP reaches one of 2 endpoints, which see ${POD}`, POD, CLUSTER_IP, {}],
    [
      `${SELF} -> ${CLUSTER_IP}/TCP reaches one of 2 endpoints, which see 10.244.0.1 (1 of them) or ${SELF} (1 of them)`,
      SELF,
      CLUSTER_IP,
      {},
    ],
    [`${POD} -> ${CLUSTER_IP}/TCP reaches ${SELF}:8080, which sees ${POD}`, POD, CLUSTER_IP, { slice: SELF_ONLY }],
    [
      `${CLIENT} -> ${NODE_PORT}/TCP is refused: default/web has no endpoint for it on this node`,
      CLIENT,
      NODE_PORT,
      { slice: slice('web', []) },
    ],
    [
      `${CLIENT} -> ${VIP}/TCP is dropped by KUBE-SOURCE-RANGES-FIREWALL: it is not in the source ranges of default/web`,
      CLIENT,
      VIP,
      { service: RANGES },
    ],
    [
      `${POD} -> 10.96.0.10:81/TCP is refused by KUBE-IPVS-FILTER: no Service has this port of the address`,
      POD,
      '10.96.0.10:81',
      {},
    ],
    [
      `${CLIENT} -> ${NODE_PORT}/TCP gets no answer: it reaches ${OTHER}:8080 unmasqueraded, so replies from other nodes do not return through this node`,
      CLIENT,
      NODE_PORT,
      { service: LOCAL, slice: REMOTE },
    ],
    [
      `${CLIENT} -> ${CLUSTER_IP}/TCP reaches one of 2 endpoints, of which 1 cannot answer: it is unmasqueraded, so replies from other nodes do not return through this node`,
      CLIENT,
      CLUSTER_IP,
      UNKNOWN,
    ],
    [
      `${CLIENT} -> ${NODE}:22/TCP reaches no Service: it is left to the programs of this node`,
      CLIENT,
      `${NODE}:22`,
      {},
    ],
    [
      `${POD} -> 192.168.9.2:30080/TCP reaches no Service: this node sends it on to another host`,
      POD,
      '192.168.9.2:30080',
      {},
    ],
    [
      `${POD} -> ${CLUSTER_IP}/TCP reaches one of 2 endpoints, which see ${POD}; this is the plan, from which the kernel differs here (2 commands below)`,
      POD,
      CLUSTER_IP,
      {
        found: {
          commands: ['ipvsadm -D -t 10.96.0.10:80', 'iptables -t nat -N KUBE-SERVICES'],
        },
      },
    ],
  ])('%s', (verdict, from, to, world) => {
    const reply = ask(from, to, world);
    expect(reply.verdict).toBe(verdict);
    expect(reply.ok).toBe(reply.result === 'arrives' && reply.commands.length === 0);
  });
});

describe('the way', () => {
  test('the rules in order, with their entries and counters, and the virtual server', () => {
    const { chains } = planRules(CONFIG, 4);
    const packets = new Map(
      chains.map((chain) => [ruleChainKey(chain), chain.rules.map((_rule, index) => 100 + index)]),
    );
    const { steps, service: name, use } = ask(CLIENT, CLUSTER_IP, { found: { packets } });
    const lines = steps.map(
      ({ table, hook, chain = '', rule, entries, packets: count }) =>
        `${table} ${hook} ${chain} ${count}: ${rule} (${entries.join(', ')})`,
    );
    const clusterIp = 'KUBE-CLUSTER-IP 10.96.0.10,tcp:80';
    expect(lines).toEqual([
      `nat PREROUTING KUBE-SERVICES 103: -m set --match-set KUBE-CLUSTER-IP dst,dst ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ (${clusterIp})`,
      'nat PREROUTING KUBE-MARK-MASQ 100: -j MARK --or-mark 0x4000 ()',
      `nat PREROUTING KUBE-SERVICES 109: -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT (${clusterIp})`,
      `filter INPUT KUBE-IPVS-FILTER 101: -m set --match-set KUBE-CLUSTER-IP dst,dst -j RETURN (${clusterIp})`,
      `filter INPUT KUBE-IPVS-ACCEPT 101: -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT (${clusterIp})`,
      'ipvs INPUT  undefined: virtual server 10.96.0.10:80/TCP of default/web, scheduler lc, 2 endpoints ()',
      'nat POSTROUTING KUBE-POSTROUTING 102: -j MARK --xor-mark 0x4000 ()',
      'nat POSTROUTING KUBE-POSTROUTING 103: -j MASQUERADE --random-fully ()',
    ]);
    expect({ name, use }).toEqual({ name: 'default/web', use: 'ClusterIP' });
  });

  test('a dropped packet ends at the rule that drops it', () => {
    const steps = ask(CLIENT, VIP, { service: RANGES }).steps.map(({ chain, rule }) => `${chain} ${rule}`);
    expect(steps.slice(-2)).toEqual([
      'KUBE-PROXY-FIREWALL -m set --match-set KUBE-LOAD-BALANCER-FW dst,dst -j KUBE-SOURCE-RANGES-FIREWALL',
      'KUBE-SOURCE-RANGES-FIREWALL -j DROP',
    ]);
  });

  test('the node is checked in table mangle, before IPVS replaces the address', () => {
    const { steps } = ask(NODE, VIP, { service: web({ loadBalancerSourceRanges: ['203.0.113.0/24'] }) });
    expect(steps.map(({ table, hook, chain }) => `${table} ${hook} ${chain}`)).toEqual([
      'mangle OUTPUT KUBE-PROXY-FIREWALL',
      'mangle OUTPUT KUBE-SOURCE-RANGES-FIREWALL',
    ]);
  });

  test('the rule of the hairpin is listed with its entry, beside that of the other endpoints', () => {
    const after = ask(SELF, CLUSTER_IP).steps.filter(({ hook }) => hook === 'POSTROUTING');
    expect(after.map(({ entries }) => entries)).toEqual([[`KUBE-LOOP-BACK ${SELF},tcp:8080,${SELF}`], []]);
  });

  test('session affinity is said of the virtual server, and the source that the kernel chooses in a note', () => {
    const sticky = web({ sessionAffinity: 'ClientIP', affinityTimeoutSeconds: 600 });
    const { steps, source, notes } = ask(NODE, CLUSTER_IP, { service: sticky });
    expect(steps.find(({ table }) => table === 'ipvs')).toEqual({
      hook: 'OUTPUT',
      table: 'ipvs',
      rule: 'virtual server 10.96.0.10:80/TCP of default/web, scheduler lc, 2 endpoints, a client keeps its endpoint for 600 s (session affinity)',
      entries: [],
    });
    expect(source).toBe('10.96.0.10');
    expect(notes).toEqual(['the kernel gives connections of this node to it the source 10.96.0.10']);
  });
});

const EVERY_CONFIG: readonly Partial<PlanConfig>[] = [
  {},
  { masqueradeAll: true },
  ...[BRIDGE, PREFIX, UNKNOWN].map(({ config = {} }) => config),
  { masqueradePorts: { from: portOf(40_000), to: portOf(60_000) }, randomFully: false },
  { localRouteCidrs: [CLUSTER_CIDR], unboundCidrs: [CLUSTER_CIDR] },
];

test.each(EVERY_CONFIG.map((config, at) => ({ at, config })))(
  'every option of the rules is known: %j',
  ({ config }) => {
    for (const family of IP_FAMILIES) {
      const packet = { ...vsId(family === 4 ? NODE : 'fd00::1', 80), mark: 0, inInterface: 'eth0' };
      const { address: source } = packet;
      const sets = plannedSets(new NodePlan(), family);
      const known = { ...packet, source, destination: source, sourceLocal: true, destinationLocal: true };
      for (const { rules } of planRules({ ...CONFIG, ...config }, family).chains) {
        for (const rule of rules) expect(() => matchRule(rule, known, sets)).not.toThrow();
      }
    }
    expect(() => matchRule(['--limit', '1/s', '-j', 'DROP'], {} as Packet, () => undefined)).toThrow('--limit');
  },
);
