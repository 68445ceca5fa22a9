import { formatEncapsulation } from '../../../src/base/service/service-requests.ts';
import { describe, expect, test } from '@jest/globals';
import type { Service } from '../../../src/kube/objects/objects.ts';
import { formatIp } from '../../../src/base/ip.ts';
import { TUNNEL_CHECKSUM, serverSettingsText } from '../../../src/state/real-server.ts';
import type { ServicePlan } from '../../../src/plan/service-plan.ts';
import { HERE, endpoint, entries, planOf, reasons, service, slice } from './build.ts';

const LOCAL = { externalTrafficPolicy: 'Local', healthCheckNodePort: 32_000 } as const;
const PORT = { name: '', protocol: 'TCP', port: 80 };

/** default/web at 10.96.0.1, external IP 198.51.100.1 and load balancer IP 203.0.113.1, with the target port 80. */
function plan(
  forwarding: string,
  fields: Partial<Service> = {},
  { endpoints = ['10.244.1.2'], port = PORT } = {},
): ServicePlan {
  return planOf({
    service: {
      annotations: [{ name: 'forwarding', value: forwarding }],
      type: 'LoadBalancer',
      externalIPs: ['198.51.100.1'],
      loadBalancerIngress: [{ ip: '203.0.113.1' }],
      ...fields,
    },
    slices: [
      slice(
        endpoints.map((address) => (address.startsWith('10.244.0.') ? endpoint(address, { nodeName: HERE }) : address)),
        { ports: [port] },
      ),
    ],
  });
}

/** "203.0.113.1 -> 10.244.1.2 weight=1 forwarding=tunnel", a line for each real server. */
function forwarded({ virtualServers }: ServicePlan): string[] {
  return virtualServers.flatMap(({ virtualServer, realServers }) =>
    realServers.map((server) =>
      [formatIp(virtualServer.address), '->', formatIp(server.address), serverSettingsText(server)].join(' '),
    ),
  );
}

const ALL_NAT = [
  '10.96.0.1 -> 10.244.1.2 weight=1',
  '198.51.100.1 -> 10.244.1.2 weight=1',
  '203.0.113.1 -> 10.244.1.2 weight=1',
];

describe('forwarding', () => {
  test('tunnel: external and load balancer IPs only, and clients keep their address', () => {
    const planned = plan('tunnel');
    expect(forwarded(planned)).toEqual([
      '10.96.0.1 -> 10.244.1.2 weight=1',
      '198.51.100.1 -> 10.244.1.2 weight=1 forwarding=tunnel',
      '203.0.113.1 -> 10.244.1.2 weight=1 forwarding=tunnel',
    ]);
    expect(entries(planned, 'EXTERNAL-IP', 'EXTERNAL-IP-LOCAL', 'LOAD-BALANCER', 'LOAD-BALANCER-LOCAL')).toEqual([
      'KUBE-EXTERNAL-IP-LOCAL 198.51.100.1,tcp:80',
      'KUBE-LOAD-BALANCER 203.0.113.1,tcp:80',
      'KUBE-LOAD-BALANCER-LOCAL 203.0.113.1,tcp:80',
    ]);
    expect(planned.warnings).toEqual([]);
  });

  test.each([
    ['tunnel-gre', 'tunnel-gre'],
    ['tunnel-gue:5555', 'tunnel-gue:5555'],
    ['tunnel-gue', 'tunnel-gue:6080'],
  ])('%s: the same, with another tunnel', (value, shown) => {
    const planned = plan(value);
    expect(forwarded(planned)).toEqual([
      '10.96.0.1 -> 10.244.1.2 weight=1',
      `198.51.100.1 -> 10.244.1.2 weight=1 forwarding=${shown}`,
      `203.0.113.1 -> 10.244.1.2 weight=1 forwarding=${shown}`,
    ]);
    expect(planned.warnings).toEqual([]);
  });

  test('GUE in IPv6 has checksums, without which the kernel drops the packets', () => {
    const planned = planOf({
      service: {
        annotations: [{ name: 'forwarding', value: 'tunnel-gue' }],
        clusterIP: 'fd00::1',
        externalIPs: ['2001:db8::1'],
      },
      slices: [slice(['fd00:1::2'], { addressType: 'IPv6', ports: [PORT] })],
    });
    const flags = planned.virtualServers.flatMap(({ realServers }) => realServers.map((each) => each.tunnelFlags));
    expect(flags).toEqual([TUNNEL_CHECKSUM, undefined]);
  });

  test('the Pods on this node are to be prepared, whichever this node chooses', () => {
    const own = [
      endpoint('10.244.0.2', { nodeName: HERE, ownPod: true }),
      endpoint('10.244.0.3', { nodeName: HERE, ownPod: true, ready: false, terminating: true }),
      endpoint('10.244.0.4', { nodeName: HERE }),
      endpoint('10.244.1.2', { ownPod: true }),
    ];
    const prepared = (value: string, targetPort = 80): readonly (string | undefined)[] =>
      planOf({
        service: { annotations: [{ name: 'forwarding', value }], externalIPs: ['198.51.100.1'] },
        slices: [slice(own, { ports: [{ ...PORT, port: targetPort }] })],
      }).virtualServers.map(
        ({ direct }) =>
          direct &&
          `${direct.method} ${formatEncapsulation(direct.encapsulation)} ${direct.pods.map(formatIp).join(' ')}`,
      );
    expect(prepared('tunnel')).toEqual([undefined, 'tunnel ipip 10.244.0.2 10.244.0.3']);
    expect(prepared('tunnel-gre')).toEqual([undefined, 'tunnel gre 10.244.0.2 10.244.0.3']);
    expect(prepared('tunnel-gue:5555')).toEqual([undefined, 'tunnel gue:5555 10.244.0.2 10.244.0.3']);
    expect(prepared('nat')).toEqual([undefined, undefined]);
    expect(prepared('tunnel', 8080)).toEqual([undefined, undefined]);
  });

  test('route: the endpoints on this node', () => {
    const planned = plan('route', LOCAL, { endpoints: ['10.244.0.2', '10.244.1.2'] });
    expect(forwarded(planned).slice(-2)).toEqual([
      '198.51.100.1 -> 10.244.0.2 weight=1 forwarding=route',
      '203.0.113.1 -> 10.244.0.2 weight=1 forwarding=route',
    ]);
    expect(planned.warnings).toEqual([]);
  });

  test('route: NAT to other nodes if this node has no endpoint', () => {
    expect(forwarded(plan('route', LOCAL))).toEqual(ALL_NAT);
  });

  test.each([
    ['nat', {}, {}, []],
    ['bridge', {}, {}, ['invalid-annotation']],
    ['tunnel', {}, { port: { ...PORT, port: 8080 } }, ['forwarding-not-possible']],
    ['route', {}, {}, ['forwarding-not-possible']],
    [
      'tunnel',
      { ports: [{ ...PORT, protocol: 'SCTP', nodePort: 0 }] },
      { port: { ...PORT, protocol: 'SCTP' } },
      ['forwarding-not-possible'],
    ],
  ])('%s %j %j: NAT', (forwarding, fields: Partial<Service>, options, warnings) => {
    const planned = plan(forwarding, fields, options);
    expect(forwarded(planned)).toEqual(ALL_NAT);
    expect(reasons(planned.warnings)).toEqual(warnings);
    const clean = planOf({
      service: { ...service(fields), ...fields, type: 'LoadBalancer', externalIPs: ['198.51.100.1'] },
      slices: [],
    });
    expect(entries(planned, 'EXTERNAL-IP', 'EXTERNAL-IP-LOCAL')).toEqual(
      entries(clean, 'EXTERNAL-IP', 'EXTERNAL-IP-LOCAL'),
    );
  });

  test('conntrack entries without NAT are never stale', () => {
    const udp = { ports: [{ ...PORT, protocol: 'UDP', nodePort: 0 }] };
    const at = ({ udp: planned }: ServicePlan): string[] => planned.map(({ id }) => formatIp(id.address));
    const port = { ...PORT, protocol: 'UDP' };
    expect(at(plan('tunnel', udp, { port }))).toEqual(['10.96.0.1']);
    expect(at(plan('nat', udp, { port }))).toEqual(['10.96.0.1', '198.51.100.1', '203.0.113.1']);
  });
});
