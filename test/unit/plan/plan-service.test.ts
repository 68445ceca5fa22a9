import { describe, expect, test } from '@jest/globals';
import type { Service } from '../../../src/kube/objects/objects.ts';
import { formatIp } from '../../../src/base/ip.ts';
import type { Port } from '../../../src/base/port.ts';
import { MODE_PLANS } from '../../../src/plan/mode-plans.ts';
import { formatRealServer } from '../../../src/state/real-server.ts';
import { formatVirtualServer } from '../../../src/state/virtual-server.ts';
import {
  ELSEWHERE,
  HERE,
  WEB,
  addresses,
  cidr,
  endpoint,
  entries,
  ip,
  planOf,
  reasons,
  servers,
  slice,
} from './build.ts';

const LB: Partial<Service> = { type: 'LoadBalancer', loadBalancerIngress: [{ ip: '203.0.113.1' }] };
const port = (protocol: string, number: number, nodePort = 0): Service['ports'][number] => ({
  name: protocol.toLowerCase(),
  protocol,
  port: number,
  nodePort,
});

describe('a cluster IP', () => {
  test('a ClusterIP is a virtual server, an address and two set entries', () => {
    const plan = planOf({ slices: [slice(['10.244.1.3', '10.244.1.2'])] });
    expect(plan).toEqual({
      service: WEB,
      virtualServers: [
        {
          virtualServer: {
            address: ip('10.96.0.1'),
            port: 80 as Port,
            protocol: 'TCP',
            scheduler: 'rr',
            flags: 0,
            timeout: 0,
            prefix: 32,
          },
          realServers: [
            { address: ip('10.244.1.2'), port: 8080 as Port, weight: 1 },
            { address: ip('10.244.1.3'), port: 8080 as Port, weight: 1 },
          ],
          traits: { kind: 'cluster', keepsSource: true },
          portName: '',
        },
      ],
      addresses: [ip('10.96.0.1')],
      closed: [ip('10.96.0.1')],
      hairpins: [],
      entries: [
        {
          role: 'CLUSTER-IP',
          family: 4,
          entry: { type: 'hash:ip,port', address: ip('10.96.0.1'), protocol: 'TCP', port: 80 as Port },
        },
        { role: 'IPVS-IPS', family: 4, entry: { type: 'hash:ip', address: ip('10.96.0.1') } },
      ],
      udp: [],
      noLocalEndpoints: { internal: [], external: [] },
      warnings: [],
    });
  });

  test('a ClusterIP of each family has the endpoints of that family', () => {
    const plan = planOf({
      service: { clusterIPs: ['10.96.0.1', 'fd00::1'] },
      slices: [slice(['10.244.1.2']), slice(['fd00:244::2'], { name: 'six', addressType: 'IPv6' })],
    });
    expect(servers(plan)).toEqual(['TCP 10.96.0.1:80 -> 10.244.1.2:8080', 'TCP [fd00::1]:80 -> [fd00:244::2]:8080']);
    expect(plan.virtualServers.map(({ virtualServer }) => virtualServer.prefix)).toEqual([32, 128]);
    expect(entries(plan)).toEqual([
      'KUBE-CLUSTER-IP 10.96.0.1,tcp:80',
      'KUBE-6-CLUSTER-IP fd00::1,tcp:80',
      'KUBE-IPVS-IPS 10.96.0.1',
      'KUBE-6-IPVS-IPS fd00::1',
    ]);
  });

  test('a ClusterIP of a family that this node does not serve is omitted with all its objects', () => {
    const plan = planOf({
      service: {
        ...LB,
        clusterIPs: ['10.96.0.1', 'fd00::1'],
        loadBalancerIngress: [{ ip: 'fd00::9' }],
        ports: [port('TCP', 80, 30_080)],
      },
      config: { families: [4] },
    });
    expect(servers(plan).filter((line) => line.includes('['))).toEqual([]);
    expect(entries(plan).filter((line) => line.startsWith('KUBE-6'))).toEqual([]);
  });

  test('a ClusterIP that the node has on an interface is bound, but its other ports are not closed', () => {
    const plan = planOf({ node: { interfaceAddresses: [ip('10.96.0.1')] } });
    expect(addresses(plan)).toEqual(['10.96.0.1']);
    expect(entries(plan, 'IPVS-IPS')).toEqual([]);
  });
});

describe('external IPs', () => {
  const service = { externalIPs: ['203.0.113.2', '203.0.113.1'] };

  test.each([
    ['Cluster', 'EXTERNAL-IP', 'EXTERNAL-IP-LOCAL'],
    ['Local', 'EXTERNAL-IP-LOCAL', 'EXTERNAL-IP'],
  ] as const)(
    'external IPs with policy %s are in KUBE-%s and not in KUBE-%s',
    (externalTrafficPolicy, here, notHere) => {
      const plan = planOf({ service: { ...service, externalTrafficPolicy }, slices: [slice(['10.244.1.2'])] });
      expect(servers(plan)).toEqual([
        'TCP 10.96.0.1:80 -> 10.244.1.2:8080',
        'TCP 203.0.113.1:80 -> 10.244.1.2:8080',
        'TCP 203.0.113.2:80 -> 10.244.1.2:8080',
      ]);
      expect(addresses(plan)).toEqual(['10.96.0.1', '203.0.113.1', '203.0.113.2']);
      expect(entries(plan, here)).toEqual([`KUBE-${here} 203.0.113.1,tcp:80`, `KUBE-${here} 203.0.113.2,tcp:80`]);
      expect(entries(plan, notHere)).toEqual([]);
    },
  );

  test('an external IP that is also a load balancer IP is one virtual server, in the set of the load balancer IP', () => {
    const plan = planOf({ service: { ...LB, externalIPs: ['203.0.113.1'] } });
    expect(servers(plan)).toEqual(['TCP 10.96.0.1:80 ->', 'TCP 203.0.113.1:80 ->']);
    expect(entries(plan, 'EXTERNAL-IP', 'LOAD-BALANCER')).toEqual(['KUBE-LOAD-BALANCER 203.0.113.1,tcp:80']);
  });

  test('external IPs of a Service without ports are not bound', () => {
    expect(addresses(planOf({ service: { ...LB, ...service, ports: [] } }))).toEqual(['10.96.0.1']);
  });
});

describe('addresses that are not bound', () => {
  test('an address of --ipvs-unbound-cidrs is served and named in its sets, but neither bound nor closed (#53775)', () => {
    const unboundCidrs = [cidr('10.96.0.1/32'), cidr('203.0.113.0/24'), cidr('fd00:203::/64')];
    const plan = planOf({
      service: {
        type: 'LoadBalancer',
        clusterIPs: ['10.96.0.1', 'fd00::1'],
        externalIPs: ['203.0.113.1', '203.0.114.1'],
        loadBalancerIngress: [{ ip: 'fd00:203::1' }, { ip: '192.168.0.10' }, { ip: '203.0.113.2' }],
      },
      slices: [slice(['10.244.1.2'])],
      // One that the node has and that is not to be bound needs no warning; one that only the node has does.
      node: { interfaceAddresses: ['192.168.0.10', '203.0.113.2'].map(ip) },
      config: { unboundCidrs },
    });
    expect(addresses(plan)).toEqual(['203.0.114.1', 'fd00::1']);
    expect(entries(plan, 'IPVS-IPS')).toEqual(['KUBE-IPVS-IPS 203.0.114.1', 'KUBE-6-IPVS-IPS fd00::1']);
    expect(entries(plan, 'CLUSTER-IP')).toContain('KUBE-CLUSTER-IP 10.96.0.1,tcp:80');
    expect(entries(plan, 'LOAD-BALANCER')).toContain('KUBE-LOAD-BALANCER 203.0.113.2,tcp:80');
    expect(servers(plan)).toEqual(
      expect.arrayContaining([
        'TCP 10.96.0.1:80 -> 10.244.1.2:8080',
        'TCP 203.0.113.1:80 -> 10.244.1.2:8080',
        'TCP [fd00:203::1]:80 ->',
      ]),
    );
    expect(plan.warnings.map(({ message }) => message)).toEqual([expect.stringContaining('192.168.0.10')]);
  });

  test('an address of --ipvs-local-route-cidrs is served and closed, but not bound (aerospike-server#16)', () => {
    const plan = planOf({
      service: { clusterIPs: ['10.96.0.1', 'fd00::1'], externalIPs: ['203.0.113.1', '10.96.7.7'] },
      slices: [slice(['10.244.1.2'])],
      config: { localRouteCidrs: [cidr('10.96.0.0/12')] },
    });
    expect(addresses(plan)).toEqual(['203.0.113.1', 'fd00::1']);
    expect(entries(plan, 'IPVS-IPS')).toEqual([
      'KUBE-IPVS-IPS 10.96.0.1',
      'KUBE-IPVS-IPS 10.96.7.7',
      'KUBE-IPVS-IPS 203.0.113.1',
      'KUBE-6-IPVS-IPS fd00::1',
    ]);
    expect(servers(plan)).toContain('TCP 10.96.0.1:80 -> 10.244.1.2:8080');
  });
});

describe('load balancer IPs', () => {
  test('load balancer IPs are in KUBE-LOAD-BALANCER, with policy Local also in KUBE-LOAD-BALANCER-LOCAL', () => {
    expect(entries(planOf({ service: LB }), 'LOAD-BALANCER', 'LOAD-BALANCER-LOCAL')).toEqual([
      'KUBE-LOAD-BALANCER 203.0.113.1,tcp:80',
    ]);
    const service = { ...LB, externalTrafficPolicy: 'Local', healthCheckNodePort: 32_000 };
    expect(entries(planOf({ service }), 'LOAD-BALANCER', 'LOAD-BALANCER-LOCAL')).toEqual([
      'KUBE-LOAD-BALANCER 203.0.113.1,tcp:80',
      'KUBE-LOAD-BALANCER-LOCAL 203.0.113.1,tcp:80',
    ]);
  });

  test('load balancer IPs with ipMode Proxy are ignored', () => {
    const plan = planOf({ service: { ...LB, loadBalancerIngress: [{ ip: '203.0.113.1', ipMode: 'Proxy' }] } });
    expect(servers(plan)).toEqual(['TCP 10.96.0.1:80 ->']);
    expect(entries(plan, 'LOAD-BALANCER')).toEqual([]);
  });
});

describe('source ranges', () => {
  const roles = ['LOAD-BALANCER-FW', 'LOAD-BALANCER-SOURCE-CIDR', 'LOAD-BALANCER-SOURCE-IP'] as const;
  const withRanges = (...ranges: readonly string[]): string[] =>
    entries(planOf({ service: { ...LB, loadBalancerSourceRanges: ranges } }), ...roles);

  test('source ranges close the address to all other clients', () => {
    expect(withRanges('198.51.100.0/24', '10.0.0.1/32')).toEqual([
      'KUBE-LOAD-BALANCER-FW 203.0.113.1,tcp:80',
      'KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.1,tcp:80,10.0.0.1',
      'KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.1,tcp:80,198.51.100.0/24',
    ]);
  });

  test('source ranges that contain this node accept its own connections', () => {
    expect(withRanges('192.168.0.0/16').at(-1)).toBe('KUBE-LOAD-BALANCER-SOURCE-IP 203.0.113.1,tcp:80,203.0.113.1');
  });

  test('a source range of /0 admits all clients, whatever else is there', () => {
    expect(withRanges('0.0.0.0/0')).toEqual([]);
    expect(withRanges('198.51.100.0/24', '0.0.0.0/0', 'nonsense')).toEqual([]);
  });

  test('a source range of ::/0 admits IPv6 clients only', () => {
    expect(withRanges('::/0', '198.51.100.0/24')).toEqual([
      'KUBE-LOAD-BALANCER-FW 203.0.113.1,tcp:80',
      'KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.1,tcp:80,198.51.100.0/24',
    ]);
    const loadBalancerIngress = [{ ip: 'fd00::9' }];
    const service = { ...LB, clusterIPs: ['fd00::1'], loadBalancerIngress, loadBalancerSourceRanges: ['::/0'] };
    expect(entries(planOf({ service }), ...roles)).toEqual([]);
  });

  test('source ranges of only the other family leave the address open', () => {
    expect(withRanges('fd00::/8')).toEqual([]);
  });

  test('unreadable source ranges close the address in both families', () => {
    expect(withRanges('10.0.0.0-10.0.0.9')).toEqual(['KUBE-LOAD-BALANCER-FW 203.0.113.1,tcp:80']);
  });

  test('source ranges do not affect ClusterIPs, external IPs and NodePorts', () => {
    const plan = planOf({
      service: {
        ...LB,
        externalIPs: ['203.0.113.7'],
        ports: [port('TCP', 80, 30_080)],
        loadBalancerSourceRanges: ['198.51.100.0/24'],
      },
    });
    expect(entries(plan, 'LOAD-BALANCER-FW')).toEqual(['KUBE-LOAD-BALANCER-FW 203.0.113.1,tcp:80']);
  });
});

describe('node ports', () => {
  const service = {
    type: 'NodePort',
    ports: [port('TCP', 80, 30_080), port('UDP', 53, 30_053), port('SCTP', 99, 30_099)],
  };

  test('NodePorts are served at every address of the node except loopback and link-local ones', () => {
    const plan = planOf({ service: { ...service, clusterIPs: ['10.96.0.1', 'fd00::1'] } });
    expect(servers(plan).filter((line) => /:30\d\d\d /.test(line))).toEqual([
      'UDP 10.244.0.1:30053 ->',
      'TCP 10.244.0.1:30080 ->',
      'SCTP 10.244.0.1:30099 ->',
      'UDP 192.168.0.10:30053 ->',
      'TCP 192.168.0.10:30080 ->',
      'SCTP 192.168.0.10:30099 ->',
      'UDP [fd00:10::a]:30053 ->',
      'TCP [fd00:10::a]:30080 ->',
      'SCTP [fd00:10::a]:30099 ->',
    ]);
    expect(addresses(plan)).toEqual(['10.96.0.1', 'fd00::1']);
  });

  test.each([
    ['Cluster', []],
    [
      'Local',
      [
        'KUBE-NODE-PORT-LOCAL-TCP 30080',
        'KUBE-NODE-PORT-LOCAL-UDP 30053',
        'KUBE-NODE-PORT-LOCAL-SCTP-HASH 10.244.0.1,sctp:30099',
        'KUBE-NODE-PORT-LOCAL-SCTP-HASH 192.168.0.10,sctp:30099',
      ],
    ],
  ])('NodePorts with policy %s are in sets by protocol, SCTP for each address', (externalTrafficPolicy, more) => {
    const plan = planOf({ service: { ...service, externalTrafficPolicy } });
    expect(
      entries(plan)
        .filter((line) => line.includes('NODE-PORT'))
        .sort(),
    ).toEqual(
      [
        'KUBE-NODE-PORT-TCP 30080',
        'KUBE-NODE-PORT-UDP 30053',
        'KUBE-NODE-PORT-SCTP-HASH 10.244.0.1,sctp:30099',
        'KUBE-NODE-PORT-SCTP-HASH 192.168.0.10,sctp:30099',
        ...more,
      ].sort(),
    );
  });

  test.each([
    ['nothing', [], ['10.244.0.1', '192.168.0.10', 'fd00:10::a']],
    ['one network: the other family is not restricted', ['192.168.0.0/24'], ['192.168.0.10', 'fd00:10::a']],
    ['both families', ['192.168.0.10/32', 'fd00:10::/64'], ['192.168.0.10', 'fd00:10::a']],
    ['everything', ['0.0.0.0/0', '::/0'], ['10.244.0.1', '192.168.0.10', 'fd00:10::a']],
    ['loopback, which is never served', ['127.0.0.0/8'], ['fd00:10::a']],
    ['link-local, which is never served', ['fe80::/10'], ['10.244.0.1', '192.168.0.10']],
    ['a network where the node is not', ['172.16.0.0/12', 'fd01::/16'], []],
  ])('NodePorts with nodePortAddresses of %s', (_name, ranges, expected) => {
    const plan = planOf({
      service: { type: 'NodePort', clusterIPs: ['10.96.0.1', 'fd00::1'], ports: [port('TCP', 80, 30_080)] },
      config: { nodePortAddresses: { primary: false, cidrs: ranges.map(cidr) } },
    });
    const served = plan.virtualServers.map(({ virtualServer }) => virtualServer).filter((each) => each.port === 30_080);
    expect(served.map(({ address }) => formatIp(address))).toEqual(expected);
    expect(entries(plan, 'NODE-PORT-TCP')).toHaveLength(new Set(expected.map((each) => each.includes(':'))).size);
  });
});

describe('session affinity', () => {
  test('session affinity makes every virtual server of the Service persistent', () => {
    const plan = planOf({
      service: { ...LB, sessionAffinity: 'ClientIP', affinityTimeoutSeconds: 60, ports: [port('TCP', 80, 30_080)] },
    });
    expect(plan.virtualServers.length).toBeGreaterThan(3);
    for (const { virtualServer } of plan.virtualServers) expect(virtualServer).toMatchObject({ flags: 1, timeout: 60 });
  });

  test.each([
    ['ipvs', [], 60],
    ['nftables', [], 0],
    ['iptables', [], 0],
    ['nftables', ['10.244.1.3'], 60],
    ['iptables', ['10.244.1.3'], 60],
  ] as const)('in %s mode with endpoints %j, the timeout is %d s', (mode, endpoints, timeout) => {
    const service = { sessionAffinity: 'ClientIP', affinityTimeoutSeconds: 60 };
    const plan = planOf({ service, slices: [slice(endpoints)], config: MODE_PLANS[mode] });
    const flags = timeout > 0 ? 1 : 0;
    expect(plan.virtualServers[0]?.virtualServer).toMatchObject({ flags, timeout });
  });
});

describe('schedulers', () => {
  // linux/ip_vs.h: persistent 0x1, fallback 0x8, port 0x10.
  test.each([
    ['rr', 'None', 0],
    ['lc', 'None', 0],
    ['mh', 'None', 0x18],
    ['mh', 'ClientIP', 0x19],
    ['sh', 'None', 0x08],
  ])('%s with affinity %s', (scheduler, sessionAffinity, flags) => {
    const plan = planOf({ service: { sessionAffinity }, config: { scheduler } });
    expect(plan.virtualServers[0]?.virtualServer).toMatchObject({ scheduler, flags });
  });
});

describe('hairpin', () => {
  test('hairpin entries exist for local endpoints only', () => {
    const plan = planOf({
      slices: [slice([endpoint('10.244.0.2', { nodeName: HERE }), endpoint('10.244.1.2', { nodeName: ELSEWHERE })])],
    });
    expect(entries(plan, 'LOOP-BACK')).toEqual(['KUBE-LOOP-BACK 10.244.0.2,tcp:8080,10.244.0.2']);
  });

  test('hairpin has endpoints of an unknown node, too, except in ipvs mode', () => {
    const slices = [
      slice([
        endpoint('10.244.0.2', { nodeName: HERE }),
        endpoint('10.244.0.3', { nodeName: '' }),
        endpoint('10.244.1.4', { nodeName: ELSEWHERE }),
      ]),
    ];
    const [here, unknown] = ['10.244.0.2', '10.244.0.3'].map((each) => `KUBE-LOOP-BACK ${each},tcp:8080,${each}`);
    expect(entries(planOf({ slices }), 'LOOP-BACK')).toEqual([here]);
    expect(entries(planOf({ slices, config: { bindAddresses: false } }), 'LOOP-BACK')).toEqual([here, unknown]);
  });

  test('hairpin has an entry for each target port, whether or not ports of the Service share it', () => {
    const ports = [port('TCP', 80), { ...port('TCP', 81), name: 'more' }];
    const here = endpoint('10.244.0.2', { nodeName: HERE });
    const plan = planOf({
      service: { ports },
      slices: [
        slice([here], {
          ports: [
            { name: 'tcp', protocol: 'TCP', port: 8080 },
            { name: 'more', protocol: 'TCP', port: 8080 },
          ],
        }),
        slice([here], { name: 'web-2', ports: [{ name: 'more', protocol: 'TCP', port: 9090 }] }),
      ],
    });
    expect(entries(plan, 'LOOP-BACK')).toEqual([
      'KUBE-LOOP-BACK 10.244.0.2,tcp:8080,10.244.0.2',
      'KUBE-LOOP-BACK 10.244.0.2,tcp:9090,10.244.0.2',
    ]);
  });
});

describe('health checks', () => {
  const service: Partial<Service> = {
    ...LB,
    clusterIPs: ['10.96.0.1', 'fd00::1'],
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 32_000,
    ports: [port('TCP', 80), port('UDP', 53)],
  };
  const ports = [
    { name: 'tcp', protocol: 'TCP', port: 8080 },
    { name: 'udp', protocol: 'UDP', port: 5353 },
  ];

  test('health checks count each local ready address once, over both families', () => {
    const plan = planOf({
      service,
      slices: [
        slice(
          [
            endpoint('10.244.0.2', { nodeName: HERE }),
            endpoint('10.244.0.3', { nodeName: HERE }),
            endpoint('10.244.0.4', { nodeName: HERE, ready: false }),
            endpoint('10.244.0.5', { nodeName: HERE, ready: false, serving: true, terminating: true }),
            endpoint('10.244.1.2'),
          ],
          { ports },
        ),
        slice([endpoint('fd00:244::2', { nodeName: HERE })], { name: 'six', addressType: 'IPv6', ports }),
      ],
    });
    expect(plan.healthCheck).toEqual({ port: 32_000, localEndpoints: { 4: 2, 6: 1 } });
    expect(entries(plan, 'HEALTH-CHECK-NODE-PORT')).toEqual([
      'KUBE-HEALTH-CHECK-NODE-PORT 32000',
      'KUBE-6-HEALTH-CHECK-NODE-PORT 32000',
    ]);
  });

  test('there are no health checks without policy Local or without a load balancer', () => {
    for (const fields of [{ externalTrafficPolicy: 'Cluster' }, { type: 'NodePort' }]) {
      const plan = planOf({ service: { ...service, ...fields } });
      expect(plan).not.toHaveProperty('healthCheck');
      expect(entries(plan, 'HEALTH-CHECK-NODE-PORT')).toEqual([]);
    }
  });
});

describe('UDP', () => {
  test('UDP flows may belong to any serving endpoint, but from outside only to those here, if there are any and the policy is Local', () => {
    const plan = planOf({
      service: {
        type: 'NodePort',
        internalTrafficPolicy: 'Local',
        externalTrafficPolicy: 'Local',
        ports: [port('UDP', 53, 30_053), port('TCP', 53)],
      },
      slices: [
        slice(
          [
            endpoint('10.244.0.2', { nodeName: HERE }),
            endpoint('10.244.1.2', { hintZones: ['zone-b'] }),
            endpoint('10.244.1.3', { ready: false, serving: true }),
            endpoint('10.244.1.4', { ready: true, serving: false }),
          ],
          {
            ports: [
              { name: 'udp', protocol: 'UDP', port: 5353 },
              { name: 'tcp', protocol: 'TCP', port: 5353 },
            ],
          },
        ),
      ],
    });
    const answering = '10.244.0.2:5353 10.244.1.2:5353 10.244.1.3:5353';
    const shown = plan.udp.map(({ id, answering: who }) =>
      [formatVirtualServer(id), ...who.map(formatRealServer)].join(' '),
    );
    expect(shown).toEqual([
      `UDP 10.96.0.1:53 ${answering}`,
      'UDP 10.244.0.1:30053 10.244.0.2:5353',
      'UDP 192.168.0.10:30053 10.244.0.2:5353',
    ]);
  });

  test('while this node has no endpoint, UDP flows from outside may belong to any', () => {
    const plan = planOf({
      service: { type: 'NodePort', externalTrafficPolicy: 'Local', ports: [port('UDP', 53, 30_053)] },
      slices: [slice([endpoint('10.244.1.2')], { ports: [{ name: 'udp', protocol: 'UDP', port: 5353 }] })],
    });
    expect(plan.udp.map(({ answering: who }) => who.map(formatRealServer))).toEqual(Array(3).fill(['10.244.1.2:5353']));
  });

  test('no endpoint answers UDP flows while none serves', () => {
    const [dns] = planOf({ service: { ports: [port('UDP', 53)] } }).udp;
    expect(dns?.answering).toEqual([]);
  });
});

describe('warnings', () => {
  test('warnings of the model are included in those of the plan, sorted', () => {
    const plan = planOf({
      service: { externalIPs: ['192.168.0.10', 'nonsense'], ports: [port('TCP', 0), port('UDP', 53)] },
    });
    expect(reasons(plan.warnings)).toEqual(['invalid-address', 'invalid-port', 'node-owns-address']);
    expect(servers(plan)).toEqual(['UDP 10.96.0.1:53 ->', 'UDP 192.168.0.10:53 ->']);
  });
});
