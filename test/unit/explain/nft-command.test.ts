import { expect, test } from '@jest/globals';
import { parseCidr } from '../../../src/base/cidr.ts';
import { nftCommand } from '../../../src/explain/translated-commands.ts';
import { type SetRole, plannedSet } from '../../../src/state/set-roles.ts';
import { addressTraits } from '../../../src/state/address-traits.ts';
import type { IpSetEntry } from '../../../src/state/ip-set.ts';
import type { Op } from '../../../src/state/op.ts';
import { address, real, virtualServer, vsId } from '../../support/state.ts';

const WEB = vsId('10.96.0.10', 80);
const WEB6 = vsId('fd00:96::a', 80, 'UDP');

function addEntry(role: SetRole, family: 4 | 6, entry: IpSetEntry): Op {
  return { kind: 'add-entry', set: plannedSet(role, family, 1), entry };
}

const RESTRICTED = addressTraits('loadBalancer', true, { ranges: [parseCidr('10.0.0.0/8')!], itself: false });

const COMMANDS: readonly (readonly [Op, string])[] = [
  [
    { kind: 'delete-entry', set: plannedSet('IPVS-IPS', 6, 1), entry: { type: 'hash:ip', address: WEB6.address } },
    'nft delete element ip6 kube-proxy cluster-ips { fd00:96::a }',
  ],
  [
    addEntry('LOOP-BACK', 6, { type: 'hash:ip,port,ip', ...WEB6, address2: WEB6.address }),
    'nft add element ip6 kube-proxy hairpin-endpoints { fd00:96::a . udp . 80 . fd00:96::a }',
  ],
  [
    { kind: 'add-virtual-server', virtualServer: virtualServer('10.96.0.10', 80) },
    'nft: add service port 10.96.0.10 . tcp . 80 to ip kube-proxy',
  ],
  [
    {
      kind: 'edit-virtual-server',
      virtualServer: { ...virtualServer('10.96.0.10', 80), timeout: 60, traits: RESTRICTED },
    },
    'nft: change service port 10.96.0.10 . tcp . 80 of ip kube-proxy to session affinity 60 s, LoadBalancerIP, source kept, open to 10.0.0.0/8',
  ],
  [
    {
      kind: 'edit-virtual-server',
      virtualServer: { ...virtualServer('203.0.113.1', 80), list: vsId('10.96.0.10', 80) },
    },
    'nft: change service port 203.0.113.1 . tcp . 80 of ip kube-proxy to session affinity 0 s, and its endpoints to those of 10.96.0.10 . tcp . 80',
  ],
  [{ kind: 'delete-virtual-server', id: WEB6 }, 'nft: delete service port fd00:96::a . udp . 80 from ip6 kube-proxy'],
  [
    { kind: 'add-real-server', id: WEB6, realServer: real('fd00:244::5', 1) },
    'nft: add fd00:96::a . udp . 80 -> fd00:244::5 . 8080 to ip6 kube-proxy',
  ],
  [
    { kind: 'edit-real-server', id: WEB, realServer: real('10.244.0.5', 0) },
    'nft: delete 10.96.0.10 . tcp . 80 -> 10.244.0.5 . 8080 from ip kube-proxy',
  ],
  [
    { kind: 'delete-real-server', id: WEB, realServer: real('10.244.0.5', 1) },
    'nft: delete 10.96.0.10 . tcp . 80 -> 10.244.0.5 . 8080 from ip kube-proxy',
  ],
  [{ kind: 'bind-address', address: address('10.96.0.10') }, 'ip addr add 10.96.0.10/32 dev kube-ipvs0'],
];

test.each(COMMANDS.map(([op, command]) => ({ op, command })))('$command', ({ op, command }) => {
  expect(nftCommand(op)).toBe(command);
});
