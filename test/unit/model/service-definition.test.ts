import { describe, expect, test } from '@jest/globals';
import type { Service } from '../../../src/kube/objects/objects.ts';
import { defineService, isForUs } from '../../../src/model/service-definition.ts';
import type { ServiceDefinition } from '../../../src/model/service-model.ts';
import { formatCidr } from '../../../src/base/cidr.ts';
import { formatIp } from '../../../src/base/ip.ts';
import { WEB, meta, reasons, service } from '../plan/build.ts';

function define(fields: Partial<Service>): ServiceDefinition {
  return defineService(WEB, service(fields), new Set());
}

const port = { name: 'http', protocol: 'TCP', port: 80, nodePort: 0 };

describe('services that are for us', () => {
  test.each([
    ['an ordinary one', {}, true],
    ['without a cluster IP', { clusterIP: '', clusterIPs: [] }, false],
    ['headless', { clusterIP: 'None' }, false],
    ['headless by clusterIPs alone', { clusterIP: '', clusterIPs: ['None'] }, false],
    ['ExternalName, even with a cluster IP', { type: 'ExternalName' }, false],
    ['with the label of headless ones', { meta: meta({ labels: { 'service.kubernetes.io/headless': '' } }) }, true],
    ['of another proxy', { meta: meta({ labels: { 'service.kubernetes.io/service-proxy-name': 'other' } }) }, false],
    [
      'of another proxy without a name',
      { meta: meta({ labels: { 'service.kubernetes.io/service-proxy-name': '' } }) },
      false,
    ],
    ['being deleted', { meta: meta({ deletionTimestamp: '2024-01-01T00:00:00Z' }) }, true],
  ])('%s', (_name, fields: Partial<Service>, expected) => {
    expect(isForUs(service(fields))).toBe(expected);
  });
});

describe('the time of creation', () => {
  test.each([
    ['in whole seconds', '2024-05-01T10:00:00Z', 1_714_557_600],
    ['in another time zone, with a fraction', '2024-05-01T12:00:00.9+02:00', 1_714_557_600],
    ['that is none', 'yesterday', undefined],
    ['that is none, but nearly', '2024-13-01T10:00:00Z', undefined],
    ['that is not said', undefined, undefined],
  ])('%s', (_name, text, expected) => {
    const definition = define(text === undefined ? {} : { creationTimestamp: text });
    expect(definition.createdAt).toBe(expected);
    expect(definition.warnings).toEqual([]);
  });
});

describe('cluster IPs', () => {
  test.each([
    ['without ipFamilies', { clusterIP: '10.96.0.1', clusterIPs: [] }, ['10.96.0.1'], []],
    ['with leading zeros', { clusterIP: '010.096.000.001' }, ['10.96.0.1'], []],
    [
      'one for each of ipFamilies',
      { clusterIPs: ['fd00::1', '10.96.0.1'], ipFamilies: ['IPv6', 'IPv4'] },
      ['10.96.0.1', 'fd00::1'],
      [],
    ],
    [
      'that ipFamilies contradicts',
      { clusterIPs: ['10.96.0.1', 'fd00::1'], ipFamilies: ['IPv6', 'IPv6'] },
      ['fd00::1'],
      ['wrong-family'],
    ],
    ['twice in one family', { clusterIPs: ['10.96.0.1', '10.96.0.2'] }, ['10.96.0.1'], ['duplicate-address']],
    ['that are none', { clusterIPs: ['10.96.0.256', '1.2.3'] }, [], ['invalid-address']],
    ['of loopback', { clusterIPs: ['127.0.0.1'] }, [], ['special-address']],
  ])('%s', (_name, fields, expected, warnings) => {
    const definition = define(fields);
    expect(definition.clusterIps.map(formatIp)).toEqual(expected);
    expect(reasons(definition.warnings)).toEqual(warnings);
  });
});

describe('external addresses', () => {
  test('are sorted, each once, of families with a cluster IP', () => {
    const definition = define({ externalIPs: ['203.0.113.9', '203.0.113.1', '203.0.113.9', 'fd00::9'] });
    expect(definition.externalIps.map(formatIp)).toEqual(['203.0.113.1', '203.0.113.9']);
    expect(reasons(definition.warnings)).toEqual(['duplicate-address', 'wrong-family']);
  });

  test.each(['0.0.0.0', '127.0.0.1', '169.254.169.254', '224.0.0.1', '255.255.255.255', 'example.org', ''])(
    '%p is refused as an external IP',
    (text) => {
      const definition = define({ externalIPs: [text] });
      expect(definition.externalIps).toEqual([]);
      expect(definition.warnings).toHaveLength(1);
    },
  );

  test.each(['::', '::1', 'fe80::1', 'ff02::1'])('%p is refused as a load balancer IP', (text) => {
    const definition = define({ clusterIPs: ['fd00::1'], loadBalancerIngress: [{ ip: text }] });
    expect(definition.loadBalancerIps).toEqual([]);
    expect(reasons(definition.warnings)).toEqual(['special-address']);
  });

  test('of load balancers count with ipMode VIP or none', () => {
    const { loadBalancerIps, warnings } = define({
      loadBalancerIngress: [
        { ip: '203.0.113.1' },
        { ip: '203.0.113.2', ipMode: 'VIP' },
        { ip: '203.0.113.3', ipMode: 'Proxy' },
      ],
    });
    expect(loadBalancerIps.map(formatIp)).toEqual(['203.0.113.1', '203.0.113.2']);
    expect(warnings).toEqual([]);
  });
});

describe('source ranges', () => {
  test('are trimmed, cleared of host bits, sorted, each once', () => {
    const definition = define({
      loadBalancerSourceRanges: [' 10.2.0.0/16', '10.1.2.3/16\t', '10.1.0.0/16', 'fd00::/8'],
    });
    expect(definition.sourceRanges.map(formatCidr)).toEqual(['10.1.0.0/16', '10.2.0.0/16', 'fd00::/8']);
    expect(definition.sourceRangeUnreadable).toBe(false);
  });

  test('that cannot be read are remembered: they must not open the service', () => {
    const definition = define({ loadBalancerSourceRanges: ['10.0.0.0'] });
    expect(definition).toMatchObject({ sourceRanges: [], sourceRangeUnreadable: true });
    expect(reasons(definition.warnings)).toEqual(['invalid-source-range']);
  });
});

describe('ports', () => {
  test.each([
    ['number 0', { ...port, port: 0 }],
    ['number 70000', { ...port, port: 70_000 }],
    ['number -1', { ...port, port: -1 }],
    ['a fraction', { ...port, port: 80.5 }],
    ['no number', { ...port, port: Number.NaN }],
    ['an unknown protocol', { ...port, protocol: 'ICMP' }],
    ['a protocol in lower case', { ...port, protocol: 'tcp' }],
    ['a name of 300 characters', { ...port, name: 'x'.repeat(300) }],
  ])('with %s are left out, the others stay', (_name, bad) => {
    const definition = define({ ports: [bad, { ...port, name: 'other', port: 81 }] });
    expect(definition.ports.map((each) => each.port)).toEqual([81]);
    expect(reasons(definition.warnings)).toEqual(['invalid-port']);
    expect(definition.warnings[0]?.message.length).toBeLessThan(300);
  });

  test('listed twice count once', () => {
    const definition = define({
      ports: [port, { ...port, port: 81 }, { ...port, name: 'web' }, { ...port, protocol: 'UDP' }],
    });
    expect(definition.ports.map(({ name, protocol, port: number }) => `${name} ${protocol} ${number}`)).toEqual([
      'http TCP 80',
      'http UDP 80',
    ]);
    expect(definition.warnings).toEqual([
      { reason: 'duplicate-port', message: expect.stringContaining('and 1 more like it') },
    ]);
  });

  test('with a bad node port are served without it', () => {
    const definition = define({ ports: [{ ...port, nodePort: 70_000 }] });
    expect(definition.ports).toEqual([{ name: 'http', protocol: 'TCP', port: 80 }]);
    expect(reasons(definition.warnings)).toEqual(['invalid-node-port']);
  });
});

describe('policies', () => {
  test.each([
    ['NodePort', [], true],
    ['LoadBalancer', [], true],
    ['ClusterIP', ['203.0.113.1'], true],
    ['ClusterIP', [], false],
  ])('externalTrafficPolicy Local counts for %s with external IPs %p: %p', (type, externalIPs, expected) => {
    expect(define({ type, externalIPs, externalTrafficPolicy: 'Local' }).externalLocal).toBe(expected);
  });

  test.each([
    ['LoadBalancer', 'Local', 30_000, 30_000, []],
    ['LoadBalancer', 'Local', 0, undefined, ['invalid-health-check-port']],
    ['LoadBalancer', 'Cluster', 30_000, undefined, []],
    ['NodePort', 'Local', 30_000, undefined, []],
  ])(
    '%s with %s and healthCheckNodePort %p',
    (type, externalTrafficPolicy, healthCheckNodePort, expected, warnings) => {
      const definition = define({ type, externalTrafficPolicy, healthCheckNodePort });
      expect(definition.healthCheckNodePort).toBe(expected);
      expect(reasons(definition.warnings)).toEqual(warnings);
    },
  );

  test.each([
    [undefined, 10_800, []],
    [1, 1, []],
    [86_400, 86_400, []],
    [0, 10_800, ['invalid-affinity-timeout']],
    [86_401, 10_800, ['invalid-affinity-timeout']],
  ])('ClientIP affinity of %p seconds', (seconds, expected, warnings) => {
    const definition = define({
      sessionAffinity: 'ClientIP',
      ...(seconds === undefined ? {} : { affinityTimeoutSeconds: seconds }),
    });
    expect(definition.affinitySeconds).toBe(expected);
    expect(reasons(definition.warnings)).toEqual(warnings);
  });
});
