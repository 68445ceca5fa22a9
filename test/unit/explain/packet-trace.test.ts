import { expect, test } from '@jest/globals';
import { parseCidr } from '../../../src/base/cidr.ts';
import type { PacketReply } from '../../../src/explain/replies.ts';
import type { Service } from '../../../src/kube/objects/objects.ts';
import type { PlanConfig } from '../../../src/plan/plan-config.ts';
import { type RulesPlane, iptablesPlane, nftablesPlane } from '../../fake-kernel/planes.ts';
import { endpoint, listed, port, service, slice } from '../../support/objects.ts';
import { MODE_PLANS } from '../../../src/plan/mode-plans.ts';
import { questionsOf } from '../../support/questions.ts';
import { PLAN_CONFIG, Reconciling } from '../../support/reconciling.ts';
import { address, portOf } from '../../support/state.ts';
import { trace } from '../../trace/trace.ts';

const NODE = '192.168.9.1';
/** Where packets come from, and through which interface; none: from the node. */
const CLIENTS: Readonly<Record<string, string | undefined>> = {
  '192.168.9.77': 'eth0',
  '192.168.9.20': 'eth0',
  '10.244.0.7': 'cni0',
  '10.244.0.5': 'cni0',
  [NODE]: undefined,
};
/** Cluster IPs, of a Service without endpoints too, a load balancer IP, a node port, and what nobody serves. */
const TARGETS = [
  ['10.96.0.10', 80],
  ['10.96.0.10', 81],
  ['10.96.0.20', 80],
  ['192.168.9.200', 80],
  [NODE, 30_080],
  [NODE, 22],
] as const;

const SERVICES: Readonly<Record<string, Partial<Service>>> = {
  'policy Cluster': {},
  'policy Local': { externalTrafficPolicy: 'Local' },
  'source ranges and session affinity': {
    loadBalancerSourceRanges: ['192.168.9.0/26'],
    sessionAffinity: 'ClientIP',
    affinityTimeoutSeconds: 600,
  },
  'no endpoint': { externalTrafficPolicy: 'Local' },
};
const CONFIGS: Readonly<Record<string, Partial<PlanConfig>>> = {
  'a cluster CIDR': { localDetectors: { 4: { kind: 'cidr', cidr: parseCidr('10.244.0.0/16')! } } },
  'a bridge': { localDetectors: { 4: { kind: 'bridge', interfaceName: 'cni0' } } },
  'no detection': {},
  '--masquerade-all': { masqueradeAll: true },
};

const PLANES: readonly (() => RulesPlane)[] = [nftablesPlane, iptablesPlane];

/** For example "translated to 10.244.0.5:8080 masqueraded, 10.244.0.6:8080". */
function endText(verdict: string, endpoints: readonly (readonly [at: string, isMasqueraded: boolean])[]): string {
  const texts = endpoints.map(([at, isMasqueraded]) => `${at}${isMasqueraded ? ' masqueraded' : ''}`);
  return [verdict, texts.toSorted().join(', ')].filter(Boolean).join(' to ');
}

function explained({ result, verdict, endpoints }: PacketReply): string {
  if (endpoints.length > 0)
    return endText(
      'translated',
      endpoints.map(({ at, masqueraded }) => [at, masqueraded]),
    );
  if (result === 'refused') return 'rejected';
  if (result === 'dropped') return 'dropped';
  return verdict.includes('left to the programs of this node') ? 'here' : 'forwarded';
}

const CASES = PLANES.flatMap((plane) =>
  Object.entries(SERVICES).flatMap(([what, change]) =>
    Object.entries(CONFIGS).map(([how, config]) => ({ mode: plane().kernel.mode, what, how, plane, change, config })),
  ),
);

test.each(CASES)(
  '$mode mode, $what, $how: explain --from says what the rules do',
  async ({ plane, change, config, what }) => {
    const { kernel, node, rulesetOf } = plane();
    const nodeAddresses = [
      [NODE, 'eth0'],
      ['10.244.0.1', 'cni0'],
    ].map(([at = '', interfaceName = '']) => ({ address: address(at), prefix: 24, interfaceName, tentative: false }));
    node.setNodeAddresses(nodeAddresses);
    await kernel.prepare();
    const run = new Reconciling(kernel, { plan: { ...PLAN_CONFIG, ...MODE_PLANS[kernel.mode], ...config } });
    const web = service('web', '10.96.0.10', {
      type: 'LoadBalancer',
      ports: [port(80, { nodePort: 30_080 })],
      loadBalancerIngress: [{ ip: '192.168.9.200', ipMode: 'VIP' }],
      ...change,
    });
    const here = endpoint('10.244.0.5', { nodeName: 'node-a' });
    const there = endpoint('10.244.1.5', { nodeName: 'node-b' });
    const slices = what === 'no endpoint' ? [] : [slice('web', [here, there])];
    await run.settle(...listed([web, service('empty', '10.96.0.20')], slices));
    const { ask } = questionsOf(kernel, run);
    const own = new Set(nodeAddresses.map((each) => each.address));
    const ruleset = await rulesetOf(4);
    for (const [from, through] of Object.entries(CLIENTS)) {
      for (const [to, number] of TARGETS) {
        // The node in memory has no route to cluster IPs.
        if (through === undefined && to.startsWith('10.96.')) continue;
        const reply = (await ask(`/v1/packet?from=${from}&at=${to}:${number}`)) as PacketReply;
        const packet = {
          source: address(reply.source),
          destination: address(to),
          protocol: 'TCP',
          port: portOf(number),
          through,
        } as const;
        const ends = trace(ruleset, packet, { isLocal: (each) => own.has(each) }).map(({ value }) => value);
        const [first] = ends;
        const traced =
          first?.verdict === 'translated'
            ? endText(
                'translated',
                ends.map(({ endpoint: at = '', isMasqueraded }) => [at, isMasqueraded]),
              )
            : first?.verdict;
        expect(`${from} -> ${to}:${number} ${explained(reply)}`).toBe(`${from} -> ${to}:${number} ${traced}`);
      }
    }
  },
);
