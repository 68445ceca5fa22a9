import { expect, test } from '@jest/globals';
import { networkCommands } from '../../cluster/network.ts';
import { nodeFiles } from '../../cluster/node-files.ts';
import { parseSettings } from '../../cluster/settings.ts';

const settings = (family: string): ReturnType<typeof parseSettings> => parseSettings([`FAMILY=${family}`]);

test('a node of both families has addresses, routes and ranges of both', () => {
  const files = nodeFiles(settings('dual'), 2);
  expect(files['hostname']).toBe('node-2');
  expect(files['addresses']).toBe('172.30.0.12,fd00:30::12');
  expect(files['network']?.split('\n')).toEqual([
    'link set lo up',
    'link set vec0 address 02:00:00:00:00:02',
    'link set vec0 up',
    'addr add 172.30.0.12/24 dev vec0',
    'route add default via 172.30.0.1',
    'route add 10.244.1.0/24 via 172.30.0.11',
    'addr add fd00:30::12/64 dev vec0 nodad',
    'route add default via fd00:30::1',
    'route add fd00:244:0:1::/64 via fd00:30::11',
    '',
  ]);
  const { plugins } = JSON.parse(files['cni.conflist'] ?? '') as { plugins: [{ ipam: { ranges: unknown } }] };
  expect(plugins[0].ipam.ranges).toEqual([[{ subnet: '10.244.2.0/24' }], [{ subnet: 'fd00:244:0:2::/64' }]]);
});

test('only Pods of the families of the cluster are masqueraded', () => {
  const { iptables, ip6tables } = nodeFiles(settings('ipv6'), 1);
  expect(iptables).toBe('*nat\nCOMMIT\n');
  expect(ip6tables).toContain('-A POSTROUTING -s fd00:244:0:1::/64 ! -d fd00:244::/48 -o vec0 -j MASQUERADE');
});

test('CoreDNS is asked by its address of the first family', () => {
  const dns = (family: string): unknown =>
    (JSON.parse(nodeFiles(settings(family), 1)['kubelet.json'] ?? '') as { clusterDNS: unknown }).clusterDNS;
  expect(dns('dual')).toEqual(['10.96.0.10']);
  expect(dns('ipv6,ipv4')).toEqual(['fd00:96::a']);
});

test('the network has a bridge, a tap device for each node and a route to its Pods', () => {
  expect(networkCommands({ families: ['ipv4'], nodes: 2 })).toEqual([
    'link set lo up',
    'link add nodes type bridge',
    'addr add 172.30.0.1/24 dev nodes',
    'link set nodes up',
    'tuntap add node-1 mode tap',
    'link set node-1 master nodes up',
    'route add 10.244.1.0/24 via 172.30.0.11',
    'tuntap add node-2 mode tap',
    'link set node-2 master nodes up',
    'route add 10.244.2.0/24 via 172.30.0.12',
  ]);
});
