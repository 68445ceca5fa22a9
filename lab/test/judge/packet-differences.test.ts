import { describe, expect, test } from '@jest/globals';
import type { Case, EndpointObject, ServiceObject, SliceObject } from '../../judge/case/case.ts';
import type { Facts } from '../../judge/compare.ts';
import { IPTABLES_DIFFERENCES, NFTABLES_DIFFERENCES } from '../../judge/rules/differences.ts';
import { explain } from '../../judge/rules/intended.ts';
import { probesAt } from '../../judge/rules/probes.ts';

const META = { namespace: 'default', creationTimestamp: '2026-01-01T00:00:00Z' };

function service(spec: Partial<ServiceObject['spec']> = {}): ServiceObject {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { ...META, name: 'web' },
    spec: {
      type: 'NodePort',
      clusterIPs: ['10.96.0.1'],
      ipFamilies: ['IPv4'],
      ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 30_080 }],
      externalTrafficPolicy: 'Local',
      ...spec,
    },
  };
}

function slice(...endpoints: readonly (readonly [string, string])[]): SliceObject {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { ...META, name: 'web-a', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    ports: [{ name: '', protocol: 'TCP', port: 8080 }],
    endpoints: endpoints.map(([address, nodeName]): EndpointObject => ({
      addresses: [address],
      conditions: {},
      nodeName,
    })),
  };
}

function caseOf(mode: Case['mode'], apply: Case['steps'][number]['apply'], nodePortAddresses: readonly string[]): Case {
  return {
    id: 0,
    mode,
    runs: 1,
    config: {
      scheduler: '',
      masqueradeAll: false,
      detectLocalMode: 'NodeCIDR',
      clusterCIDRs: [],
      nodePortAddresses,
      bindAddress: '',
      featureGates: {},
    },
    node: {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'node-0' },
      spec: { podCIDRs: ['10.244.0.0/24'] },
      status: { addresses: [{ type: 'InternalIP', address: '192.0.2.10' }] },
    },
    interfaces: { lo: ['127.0.0.1/8'], eth0: ['192.0.2.10/24'], cni0: ['10.244.0.1/24'] },
    steps: [{ apply, remove: [], flows: [] }],
  };
}

const NODE_PORT = 'TCP 192.0.2.10:30080';
const OUTSIDE = `packet from a client outside (203.0.113.200) to ${NODE_PORT}`;
const NODE = `packet from the node (192.0.2.10) to ${NODE_PORT}`;
const POD = `packet from a Pod here (10.244.0.99) to ${NODE_PORT}`;

const HERE = '1 translated to 10.244.0.2:8080';
const BOTH = '0.5 translated to 10.244.0.2:8080 | 0.5 translated to 10.244.1.2:8080';

interface Given {
  readonly mode: 'nftables' | 'iptables';
  readonly apply?: Case['steps'][number]['apply'];
  readonly nodePortAddresses?: readonly string[];
  readonly fact: string;
  readonly ours: string;
  readonly theirs: string;
  /** What becomes of some other packets with upstream's rules. Nobody handles the rest. */
  readonly others?: Readonly<Record<string, string>>;
}

const LOCAL = [service(), slice(['10.244.0.2', 'node-0'], ['10.244.1.2', 'node-1'])];

function explained({ mode, apply = LOCAL, nodePortAddresses = ['all'], fact, ours, theirs, others = {} }: Given) {
  const given = caseOf(mode, apply, nodePortAddresses);
  const facts: Facts = new Map([
    ...probesAt(given, 0).map((probe) => [probe.fact, '1 here'] as const),
    ...Object.entries(others),
    [fact, theirs],
  ]);
  const differences = mode === 'nftables' ? NFTABLES_DIFFERENCES : IPTABLES_DIFFERENCES;
  const mismatch = { given, step: 0, fact, ours, theirs: [theirs], oursAll: new Map(), theirsAll: [facts] };
  return explain(differences, mismatch);
}

const POLICY = 'policy Local leads every client to the endpoints here, and to all if there are none';

describe('policy Local', () => {
  test('a Pod reaches the endpoints to which upstream leads a client outside, and no others', () => {
    const given = { mode: 'nftables', fact: POD, theirs: BOTH, others: { [OUTSIDE]: HERE } } as const;
    expect(explained({ ...given, ours: HERE })).toEqual([POLICY]);
    expect(explained({ ...given, ours: '1 translated to 10.244.1.2:8080' })).toBeUndefined();
    expect(explained({ ...given, ours: `${HERE}, masqueraded` })).toBeUndefined();
    expect(explained({ ...given, ours: '1 dropped' })).toBeUndefined();
  });

  test('the node keeps its source in nftables mode only', () => {
    const given = { fact: NODE, theirs: `${HERE}, masqueraded`, others: { [OUTSIDE]: HERE } };
    expect(explained({ ...given, mode: 'nftables', ours: HERE })).toEqual([
      "policy Local keeps the source of the node's own connections",
    ]);
    expect(explained({ ...given, mode: 'iptables', ours: HERE })).toBeUndefined();
  });

  test('without an endpoint here, a client outside reaches those that the node reaches', () => {
    const elsewhere = '1 translated to 10.244.1.2:8080';
    const apply = [service(), slice(['10.244.1.2', 'node-1'])];
    const others = { [NODE]: `${elsewhere}, masqueraded` };
    const given = { mode: 'iptables', apply, fact: OUTSIDE, theirs: '1 dropped', others } as const;
    expect(explained({ ...given, ours: elsewhere })).toEqual([POLICY]);
    expect(explained({ ...given, ours: `${elsewhere}, masqueraded` })).toBeUndefined();
    expect(explained({ ...given, ours: '1 rejected' })).toBeUndefined();
  });

  test('policy Cluster is not concerned', () => {
    const apply = [service({ externalTrafficPolicy: 'Cluster' }), ...LOCAL.slice(1)];
    const given = { mode: 'nftables', apply, fact: POD, theirs: BOTH, others: { [OUTSIDE]: HERE } } as const;
    expect(explained({ ...given, ours: HERE })).toBeUndefined();
  });
});

describe('node ports', () => {
  const AT_BRIDGE = 'packet from a client outside (203.0.113.200) to TCP 10.244.0.1:30080';

  test('by default in nftables mode, another address does what upstream does at the primary one', () => {
    const given = { mode: 'nftables', nodePortAddresses: [], fact: AT_BRIDGE, theirs: '1 here' } as const;
    expect(explained({ ...given, ours: HERE, others: { [OUTSIDE]: HERE } })).toEqual(['node ports at all addresses']);
    expect(explained({ ...given, ours: BOTH, others: { [OUTSIDE]: HERE } })).toBeUndefined();
    expect(
      explained({ ...given, nodePortAddresses: ['primary'], ours: HERE, others: { [OUTSIDE]: HERE } }),
    ).toBeUndefined();
  });

  test('in iptables mode, upstream rejects also where it does not serve them', () => {
    const given = { mode: 'iptables', fact: AT_BRIDGE, theirs: '1 rejected', ours: '1 here' } as const;
    expect(explained({ ...given, nodePortAddresses: ['192.0.2.0/24'] })).toEqual([
      'node ports without endpoints at addresses that do not serve node ports',
    ]);
    expect(explained({ ...given, nodePortAddresses: ['10.244.0.0/16'] })).toBeUndefined();
    expect(explained({ ...given, nodePortAddresses: ['192.0.2.0/24'], theirs: HERE })).toBeUndefined();
  });
});
