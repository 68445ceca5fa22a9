import { describe, expect, test } from '@jest/globals';
import type { Service } from '../../../src/kube/objects/objects.ts';
import { namespacedName } from '../../../src/base/service/names.ts';
import { NodePlan, plannedEntries } from '../../../src/plan/node/node-plan.ts';
import { planService } from '../../../src/plan/service/plan-service.ts';
import { formatIpSetEntry } from '../../../src/state/ip-set.ts';
import {
  HERE,
  addresses,
  applied,
  cidr,
  clusterOf,
  config,
  endpoint,
  entries,
  ip,
  meta,
  nodeView,
  planOf,
  reasons,
  servers,
  service,
  slice,
} from './build.ts';

// Each is a failure that users of IPVS service proxies reported; the issue is named behind it (kubernetes/kubernetes).
describe('hard cases', () => {
  test.each([
    ['an interface of this node', { interfaceAddresses: [ip('203.0.113.1')], reportedAddresses: [] }],
    ['the Node object', { interfaceAddresses: [ip('192.168.0.10')], reportedAddresses: [ip('203.0.113.1')] }],
  ])('an external IP on %s is served, but never bound or closed (#127410, #93175)', (_name, node) => {
    for (const fields of [
      { externalIPs: ['203.0.113.1'] },
      { type: 'LoadBalancer', loadBalancerIngress: [{ ip: '203.0.113.1' }] },
    ] satisfies Partial<Service>[]) {
      const plan = planOf({ service: fields, slices: [slice(['10.244.1.2'])], node });
      expect(addresses(plan)).toEqual(['10.96.0.1']);
      expect(entries(plan, 'IPVS-IPS')).toEqual(['KUBE-IPVS-IPS 10.96.0.1']);
      expect(servers(plan)).toContain('TCP 203.0.113.1:80 -> 10.244.1.2:8080');
      expect(reasons(plan.warnings)).toEqual(['node-owns-address']);
    }
  });

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

  test('where nothing is bound, an external address may be that of another host, so only ClusterIPs are closed', () => {
    const plan = planOf({
      service: {
        type: 'LoadBalancer',
        clusterIPs: ['10.96.0.1', 'fd00::1'],
        externalIPs: ['192.168.0.11', 'fd00:203::1'],
        loadBalancerIngress: [{ ip: '203.0.113.1' }],
      },
      slices: [slice(['10.244.1.2'])],
      config: { bindAddresses: false },
    });
    expect(addresses(plan)).toEqual([]);
    expect(entries(plan, 'IPVS-IPS')).toEqual(['KUBE-IPVS-IPS 10.96.0.1', 'KUBE-6-IPVS-IPS fd00::1']);
    expect(servers(plan)).toContain('TCP 192.168.0.11:80 -> 10.244.1.2:8080');
  });

  test('a NodePort is served at an address that is also a load balancer IP (#114815)', () => {
    const plan = planOf({
      service: {
        type: 'LoadBalancer',
        loadBalancerIngress: [{ ip: '192.168.0.10' }],
        ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 30_080 }],
      },
    });
    expect(servers(plan)).toContain('TCP 192.168.0.10:30080 ->');
  });

  test('no NodePort is served on loopback, in either family (#96879, #67730)', () => {
    const plan = planOf({
      service: {
        type: 'NodePort',
        clusterIPs: ['10.96.0.1', 'fd00::1'],
        ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 30_080 }],
      },
      node: { interfaceAddresses: ['127.0.0.1', '127.0.0.53', '::1'].map(ip) },
    });
    expect(servers(plan)).toEqual(['TCP 10.96.0.1:80 ->', 'TCP [fd00::1]:80 ->']);
  });

  test('internalTrafficPolicy and externalTrafficPolicy each apply to their own addresses (#71596, #66062)', () => {
    const endpoints = [endpoint('10.244.0.2', { nodeName: HERE }), endpoint('10.244.1.2')];
    const here = '10.244.0.2:8080';
    const all = `${here} 10.244.1.2:8080`;
    for (const [internalTrafficPolicy, externalTrafficPolicy, cluster, external] of [
      ['Cluster', 'Local', all, here],
      ['Local', 'Cluster', here, all],
    ] as const) {
      const plan = planOf({
        service: { externalIPs: ['203.0.113.1'], internalTrafficPolicy, externalTrafficPolicy },
        slices: [slice(endpoints)],
      });
      expect(servers(plan)).toEqual([`TCP 10.96.0.1:80 -> ${cluster}`, `TCP 203.0.113.1:80 -> ${external}`]);
    }
  });

  test('an address and an entry that two Services share stay until both Services are deleted (#71596, #80158)', () => {
    const shared = { type: 'LoadBalancer', loadBalancerIngress: [{ ip: '203.0.113.1' }] };
    const one = service({ ...shared, meta: meta({ name: 'one' }) });
    const two = service({
      ...shared,
      meta: meta({ name: 'two' }),
      clusterIP: '10.96.0.2',
      ports: [{ name: '', protocol: 'TCP', port: 443, nodePort: 0 }],
    });
    const cluster = clusterOf([applied.service(one), applied.service(two)]);
    const plan = new NodePlan();
    for (const name of cluster.names()) {
      const model = cluster.service(name);
      if (model !== undefined) plan.replace(name, planService(model, nodeView(), config()));
    }
    plan.replace(namespacedName('default', 'one'), undefined);
    expect(plan.wantsAddress(ip('203.0.113.1'))).toBe(true);
    expect(plannedEntries(plan.entries('IPVS-IPS', 4)).map(formatIpSetEntry)).toContain('203.0.113.1');
    plan.replace(namespacedName('default', 'two'), undefined);
    expect(plan.addressCount).toBe(0);
    expect(plan.entries('IPVS-IPS', 4).size).toBe(0);
  });

  test('an IPv4 address never has IPv6 endpoints (#93858)', () => {
    const plan = planOf({
      service: { type: 'NodePort', ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 30_080 }] },
      slices: [slice(['fd00:244::2'], { addressType: 'IPv6' }), slice(['10.244.1.2'], { name: 'web-2' })],
    });
    expect(servers(plan)).toEqual([
      'TCP 10.96.0.1:80 -> 10.244.1.2:8080',
      'TCP 10.244.0.1:30080 -> 10.244.1.2:8080',
      'TCP 192.168.0.10:30080 -> 10.244.1.2:8080',
    ]);
    expect(entries(plan).filter((line) => line.startsWith('KUBE-6-'))).toEqual([]);
  });

  test('SCTP NodePorts are in sets of address and port; with policy Local the client address is preserved (#73300, #104755)', () => {
    const plan = planOf({
      service: {
        type: 'NodePort',
        externalTrafficPolicy: 'Local',
        ports: [{ name: '', protocol: 'SCTP', port: 80, nodePort: 30_080 }],
      },
      node: { interfaceAddresses: [ip('192.168.0.10')] },
    });
    expect(entries(plan).filter((line) => line.includes('NODE-PORT'))).toEqual([
      'KUBE-NODE-PORT-SCTP-HASH 192.168.0.10,sctp:30080',
      'KUBE-NODE-PORT-LOCAL-SCTP-HASH 192.168.0.10,sctp:30080',
    ]);
  });

  test('with policy Local, a terminating local endpoint is the last resort, and the health check fails meanwhile (#97238)', () => {
    const plan = planOf({
      service: {
        type: 'LoadBalancer',
        loadBalancerIngress: [{ ip: '203.0.113.1' }],
        externalTrafficPolicy: 'Local',
        healthCheckNodePort: 32_000,
      },
      slices: [
        slice([
          endpoint('10.244.0.2', { nodeName: HERE, ready: false, serving: true, terminating: true }),
          endpoint('10.244.1.2'),
        ]),
      ],
    });
    expect(servers(plan)).toContain('TCP 203.0.113.1:80 -> 10.244.0.2:8080');
    expect(plan.healthCheck).toEqual({ port: 32_000, localEndpoints: { 4: 0 } });
    expect(plan.noLocalEndpoints).toEqual({ internal: [], external: [] });
  });

  test('one invalid part of a Service does not affect the rest (#80297)', () => {
    const plan = planOf({
      service: {
        externalIPs: ['not-an-address', '203.0.113.1'],
        ports: [
          { name: 'bad', protocol: 'TCP', port: 70_000, nodePort: 0 },
          { name: '', protocol: 'TCP', port: 80, nodePort: 0 },
        ],
      },
      slices: [slice(['nonsense', '10.244.1.2'])],
    });
    expect(servers(plan)).toEqual(['TCP 10.96.0.1:80 -> 10.244.1.2:8080', 'TCP 203.0.113.1:80 -> 10.244.1.2:8080']);
    expect(reasons(plan.warnings)).toEqual(['invalid-address', 'invalid-port']);
  });

  test('source ranges match address, protocol and port, so that another Service on the address stays open (#119656)', () => {
    const plan = planOf({
      service: {
        type: 'LoadBalancer',
        loadBalancerIngress: [{ ip: '203.0.113.1' }],
        loadBalancerSourceRanges: ['198.51.100.0/24'],
        ports: [{ name: '', protocol: 'UDP', port: 53, nodePort: 0 }],
      },
    });
    expect(entries(plan, 'LOAD-BALANCER-FW', 'LOAD-BALANCER-SOURCE-CIDR', 'LOAD-BALANCER-SOURCE-IP')).toEqual([
      'KUBE-LOAD-BALANCER-FW 203.0.113.1,udp:53',
      'KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.1,udp:53,198.51.100.0/24',
    ]);
  });
});
