import { expect, test } from '@jest/globals';
import { chainsCommand } from '../../../src/explain/translated-commands.ts';
import { plannedSet } from '../../../src/state/set-roles.ts';
import { parseCidr } from '../../../src/base/cidr.ts';
import { addressTraits } from '../../../src/state/address-traits.ts';
import type { Op } from '../../../src/state/op.ts';
import { real, virtualServer, vsId } from '../../support/state.ts';

const WEB = vsId('10.96.0.10', 80);
const WEB6 = vsId('fd00:96::a', 80, 'UDP');

const COMMANDS: readonly (readonly [Op, string])[] = [
  [
    { kind: 'add-entry', set: plannedSet('NODE-PORT-IP', 4, 1), entry: { type: 'hash:ip', address: WEB.address } },
    'iptables-restore: add the rules of KUBE-NODE-PORT-IP 10.96.0.10',
  ],
  [
    { kind: 'delete-entry', set: plannedSet('NODE-PORT-IP', 6, 1), entry: { type: 'hash:ip', address: WEB6.address } },
    'ip6tables-restore: delete the rules of KUBE-6-NODE-PORT-IP fd00:96::a',
  ],
  [
    { kind: 'add-virtual-server', virtualServer: virtualServer('10.96.0.10', 80) },
    'iptables-restore: add tcp 10.96.0.10:80',
  ],
  [
    { kind: 'edit-virtual-server', virtualServer: { ...virtualServer('10.96.0.10', 80), timeout: 60 } },
    'iptables-restore: change tcp 10.96.0.10:80 to session affinity 60 s',
  ],
  [
    {
      kind: 'edit-virtual-server',
      virtualServer: {
        ...virtualServer('203.0.113.1', 80),
        traits: addressTraits('loadBalancer', true, { ranges: [parseCidr('10.0.0.0/8')!], itself: false }),
      },
    },
    'iptables-restore: change tcp 203.0.113.1:80 to session affinity 0 s, LoadBalancerIP, source kept, open to 10.0.0.0/8',
  ],
  [{ kind: 'delete-virtual-server', id: WEB6 }, 'ip6tables-restore: delete udp [fd00:96::a]:80'],
  [
    { kind: 'add-real-server', id: WEB6, realServer: real('fd00:244::5', 1) },
    'ip6tables-restore: add udp [fd00:96::a]:80 -> [fd00:244::5]:8080',
  ],
  [
    { kind: 'delete-real-server', id: WEB, realServer: real('10.244.0.5', 1) },
    'iptables-restore: delete tcp 10.96.0.10:80 -> 10.244.0.5:8080',
  ],
  [{ kind: 'bind-address', address: WEB.address }, 'ip addr add 10.96.0.10/32 dev kube-ipvs0'],
];

test.each(COMMANDS)('%j is said as %s', (op, text) => {
  expect(chainsCommand(op)).toBe(text);
});
