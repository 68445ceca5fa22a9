import { expect, test } from '@jest/globals';
import { parseCidr } from '../../../../src/base/cidr.ts';
import { toolCommand } from '../../../../src/state/commands/tool-command.ts';
import { plannedSet } from '../../../../src/state/set-roles.ts';
import type { Op } from '../../../../src/state/op.ts';
import { FORWARDING, TUNNEL_CHECKSUM, TUNNEL_TYPE } from '../../../../src/state/real-server.ts';
import {
  VS_ONE_PACKET,
  VS_PERSISTENT,
  VS_SCHED_FALLBACK,
  VS_SCHED_PORT,
} from '../../../../src/state/virtual-server.ts';
import { address, real, virtualServer, vsId } from '../../../support/state.ts';

const CIDR = parseCidr('10.96.0.0/12')!;
const WEB = virtualServer('10.96.0.1', 80);
const entry = { type: 'hash:ip,port', ...vsId('10.96.0.1', 53, 'UDP') } as const;

const CASES: readonly (readonly [Op, string])[] = [
  [
    { kind: 'create-set', set: plannedSet('CLUSTER-IP', 6, 0) },
    'ipset create KUBE-6-CLUSTER-IP hash:ip,port family inet6 maxelem 65536',
  ],
  [
    { kind: 'create-set', set: plannedSet('NODE-PORT-TCP', 4, 0) },
    'ipset create KUBE-NODE-PORT-TCP bitmap:port range 0-65535',
  ],
  [
    { kind: 'grow-set', set: plannedSet('CLUSTER-IP', 4, 60_000), entries: [entry] },
    'ipset create KUBE~CLUSTER-IP hash:ip,port family inet maxelem 131072; add its 1 entries; ipset swap KUBE~CLUSTER-IP KUBE-CLUSTER-IP',
  ],
  [{ kind: 'destroy-set', set: plannedSet('IPVS-IPS', 4, 0) }, 'ipset destroy KUBE-IPVS-IPS'],
  [{ kind: 'add-entry', set: plannedSet('CLUSTER-IP', 4, 1), entry }, 'ipset add KUBE-CLUSTER-IP 10.96.0.1,udp:53'],
  [{ kind: 'delete-entry', set: plannedSet('CLUSTER-IP', 4, 1), entry }, 'ipset del KUBE-CLUSTER-IP 10.96.0.1,udp:53'],
  [{ kind: 'add-virtual-server', virtualServer: WEB }, 'ipvsadm -A -t 10.96.0.1:80 -s lc'],
  [
    {
      kind: 'edit-virtual-server',
      virtualServer: { ...virtualServer('fd00::1', 53, 'UDP'), flags: VS_PERSISTENT, timeout: 10_800 },
    },
    'ipvsadm -E -u [fd00::1]:53 -s lc -p 10800',
  ],
  [
    {
      kind: 'add-virtual-server',
      virtualServer: {
        ...virtualServer('10.96.0.1', 9, 'SCTP'),
        scheduler: 'mh',
        flags: VS_SCHED_FALLBACK | VS_SCHED_PORT,
      },
    },
    'ipvsadm -A --sctp-service 10.96.0.1:9 -s mh -b mh-fallback,mh-port',
  ],
  [
    {
      kind: 'add-virtual-server',
      virtualServer: { ...WEB, flags: VS_PERSISTENT, timeout: 60, prefix: 20 },
    },
    'ipvsadm -A -t 10.96.0.1:80 -s lc -p 60 -M 255.255.240.0',
  ],
  [
    {
      kind: 'add-virtual-server',
      virtualServer: { ...virtualServer('fd00::1', 53, 'UDP'), flags: VS_ONE_PACKET, prefix: 64 },
    },
    'ipvsadm -A -u [fd00::1]:53 -s lc -M 64 -o',
  ],
  [
    {
      kind: 'edit-real-server',
      id: WEB,
      realServer: { ...real('10.244.0.5', 3), upperThreshold: 10, lowerThreshold: 8 },
    },
    'ipvsadm -e -t 10.96.0.1:80 -r 10.244.0.5:8080 -m -w 3 -x 10 -y 8',
  ],
  [{ kind: 'delete-virtual-server', id: WEB }, 'ipvsadm -D -t 10.96.0.1:80'],
  [
    { kind: 'add-real-server', id: WEB, realServer: real('10.244.0.5', 1) },
    'ipvsadm -a -t 10.96.0.1:80 -r 10.244.0.5:8080 -m -w 1',
  ],
  [
    { kind: 'edit-real-server', id: WEB, realServer: real('10.244.0.5', 0) },
    'ipvsadm -e -t 10.96.0.1:80 -r 10.244.0.5:8080 -m -w 0',
  ],
  [
    { kind: 'add-real-server', id: WEB, realServer: { ...real('10.244.0.5', 1, 80), forwarding: FORWARDING.tunnel } },
    'ipvsadm -a -t 10.96.0.1:80 -r 10.244.0.5:80 -i -w 1',
  ],
  [
    {
      kind: 'add-real-server',
      id: WEB,
      realServer: { ...real('10.244.0.5', 1, 80), forwarding: FORWARDING.tunnel, tunnelType: TUNNEL_TYPE.gre },
    },
    'ipvsadm -a -t 10.96.0.1:80 -r 10.244.0.5:80 -i --tun-type gre -w 1',
  ],
  [
    {
      kind: 'add-real-server',
      id: WEB,
      realServer: {
        ...real('10.244.0.5', 1, 80),
        forwarding: FORWARDING.tunnel,
        tunnelType: TUNNEL_TYPE.gue,
        tunnelPort: 6080,
        tunnelFlags: TUNNEL_CHECKSUM,
      },
    },
    'ipvsadm -a -t 10.96.0.1:80 -r 10.244.0.5:80 -i --tun-type gue --tun-port 6080 --tun-csum -w 1',
  ],
  [
    { kind: 'edit-real-server', id: WEB, realServer: { ...real('10.244.0.5', 1, 80), forwarding: FORWARDING.route } },
    'ipvsadm -e -t 10.96.0.1:80 -r 10.244.0.5:80 -g -w 1',
  ],
  [
    { kind: 'delete-real-server', id: WEB, realServer: real('10.244.0.5', 0) },
    'ipvsadm -d -t 10.96.0.1:80 -r 10.244.0.5:8080',
  ],
  [{ kind: 'bind-address', address: address('10.96.0.1') }, 'ip addr add 10.96.0.1/32 dev kube-ipvs0'],
  [
    { kind: 'bind-address', address: address('fd00::1'), again: true },
    'ip addr del fd00::1/128 dev kube-ipvs0; ip -6 route flush table local exact fd00::1; ip addr add fd00::1/128 dev kube-ipvs0 # it has no local route',
  ],
  [{ kind: 'unbind-address', address: address('fd00::1') }, 'ip addr del fd00::1/128 dev kube-ipvs0'],
  [{ kind: 'unbind-address', address: address('10.96.0.1'), prefix: 24 }, 'ip addr del 10.96.0.1/24 dev kube-ipvs0'],
  [{ kind: 'add-route', cidr: CIDR }, 'ip route add local 10.96.0.0/12 dev lo table local proto 120'],
  [{ kind: 'delete-route', cidr: CIDR }, 'ip route del local 10.96.0.0/12 dev lo table local proto 120'],
];

test.each(CASES.map(([op, command]) => [command, op] as const))('%s', (command, op) => {
  expect(toolCommand(op)).toBe(command);
});
