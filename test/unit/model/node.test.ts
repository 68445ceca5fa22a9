import { describe, expect, test } from '@jest/globals';
import { defineNode, nodeIps } from '../../../src/model/node.ts';
import { formatIp } from '../../../src/base/ip.ts';
import { cidr, ip, meta, node } from '../plan/build.ts';

describe('a Node object', () => {
  test('a Node reports InternalIPs before ExternalIPs, each once, and no other addresses', () => {
    const { reportedAddresses } = defineNode(
      node({
        addresses: [
          { type: 'Hostname', address: 'node-a' },
          { type: 'ExternalIP', address: '203.0.113.9' },
          { type: 'InternalIP', address: 'fd00::9' },
          { type: 'InternalIP', address: '192.168.0.10' },
          { type: 'InternalIP', address: 'not-an-address' },
          { type: 'ExternalIP', address: '192.168.0.10' },
        ],
      }),
    );
    expect(reportedAddresses.map(formatIp)).toEqual(['fd00::9', '192.168.0.10', '203.0.113.9']);
  });

  test('the zone of a Node is "" if it has none', () => {
    const labels = { 'topology.kubernetes.io/zone': 'eu-1a' };
    expect(defineNode(node({ meta: meta({ name: 'node-a', labels }) })).zone).toBe('eu-1a');
    expect(defineNode(node()).zone).toBe('');
  });

  test('unreadable pod CIDRs of a Node are omitted', () => {
    expect(defineNode(node({ podCIDRs: ['fd00:244::/64', '10.244.0.0/24', 'x'] })).podCidrs).toEqual([
      cidr('10.244.0.0/24'),
      cidr('fd00:244::/64'),
    ]);
  });
});

describe('the addresses of the node', () => {
  const reported = [ip('192.168.0.10'), ip('192.168.0.11'), ip('fd00::9')];

  test.each([
    ['nothing', undefined, ['192.168.0.10', 'fd00::9']],
    ['an address of the first family', '10.1.1.1', ['10.1.1.1', 'fd00::9']],
    ['an address of the second family, which becomes the primary one', 'fd00::1', ['fd00::1', '192.168.0.10']],
  ])('with --bind-address %s', (_name, bind, expected) => {
    expect(nodeIps(reported, bind === undefined ? undefined : ip(bind)).map(formatIp)).toEqual(expected);
  });

  test('a Node that reports no address has none', () => {
    expect(nodeIps([])).toEqual([]);
  });
});
