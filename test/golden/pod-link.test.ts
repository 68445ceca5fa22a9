import { expect, test } from '@jest/globals';
import { RTM_NEWLINK, decodeLink } from '../../src/netlink/family/route/link.ts';
import { createTunnel, setIpv4Conf, setLinkUp } from '../../src/netlink/family/route/pod-link.ts';
import { dumpTcpConnections } from '../../src/netlink/family/sock-diag/tcp-socket.ts';
import { NETLINK_ROUTE } from '../../src/netlink/netlink-protocol.ts';
import { exchange } from './capture.ts';
import { decoded, firstPayload, ip, sentBytes, written } from './netlink.ts';

const request = (name: string): string => sentBytes(exchange('ip-tunnel', name).sent[0]);

// ip writes all attributes of a tunnel, also those with their default.
test.each([
  ['tunnel4-add', 'tun4', 'ipip', ip('10.244.0.2'), ['69706970', '080002000af40002']],
  [
    'tunnel6-add',
    'tun6',
    'ip6tnl',
    ip('fd00::2'),
    ['697036746e6c', '14000200fd000000000000000000000000000002', '0500090029'],
  ],
  ['gre4-add', 'gre4', 'gre', ip('10.244.0.2'), ['677265', '080006000af40002']],
  ['gre6-add', 'gre6', 'ip6gre', ip('fd00::2'), ['697036677265', '14000600fd000000000000000000000000000002']],
] as const)('%s: each attribute that we write is one of those of ip', (name, suffix, kind, local, attributes) => {
  const device = `kube-ipvs-${suffix}`;
  const ours = written((writer) => createTunnel(writer, device, kind, local));
  const theirs = request(name);
  // Type, flags, struct ifinfomsg and the name.
  expect(ours.slice(8, 104)).toBe(theirs.slice(8, 104));
  for (const attribute of attributes) for (const message of [ours, theirs]) expect(message).toContain(attribute);
});

test('a device is set up as ip does it', () => {
  const ours = written((writer) => setLinkUp(writer, 4));
  expect(decoded(NETLINK_ROUTE, ours)).toBe(decoded(NETLINK_ROUTE, request('tunnel4-up')));
});

// No tool writes these: linux/if_link.h, IFLA_AF_SPEC > AF_INET > IFLA_INET_CONF > IPV4_DEVCONF_*.
test('sysctls of a device', () => {
  expect(written((writer) => setIpv4Conf(writer, 4, { rpFilter: 2 }))).toContain(
    '14001a80' + '10000280' + '0c000180' + '0800080002000000',
  );
});

test.each([
  ['tunnel4-show', { name: 'kube-ipvs-tun4', kind: 'ipip', up: true, local: ip('10.244.0.2'), rpFilter: 2 }],
  ['tunnel6-show', { name: 'kube-ipvs-tun6', kind: 'ip6tnl', up: false, local: ip('fd00::2') }],
  ['gre4-show', { name: 'kube-ipvs-gre4', kind: 'gre', up: false, local: ip('10.244.0.2') }],
  ['gre6-show', { name: 'kube-ipvs-gre6', kind: 'ip6gre', up: false, local: ip('fd00::2') }],
  ['eth0-show', { name: 'eth0', kind: 'veth', up: true, local: undefined, arpAnnounce: 2 }],
])('%s: what the kernel said to ip', (name, device) => {
  const payload = firstPayload(exchange('ip-tunnel', name).received, RTM_NEWLINK);
  expect(decodeLink(payload)).toMatchObject(device);
});

test('connections are listed as ss does it, in other states', () => {
  for (const [index, family] of ([4, 6] as const).entries()) {
    const theirs = sentBytes(exchange('ip-tunnel', 'ss').sent[index]);
    const ours = written((writer) => dumpTcpConnections(writer, family));
    const withoutStates = (message: string): string => message.slice(0, 40) + message.slice(48);
    expect(withoutStates(ours)).toBe(withoutStates(theirs));
  }
});
