import { describe, expect, test } from '@jest/globals';
import { formatIp } from '../../../src/base/ip.ts';
import { type KubeProxyEvidence, knownDifferences } from '../../../src/explain/difference/explained-by-kube-proxy.ts';
import { plannedSet } from '../../../src/state/set-roles.ts';
import type { KnownDifference } from '../../../src/state/rules/known-difference.ts';
import type { Op } from '../../../src/state/op.ts';
import { VS_SCHED_FALLBACK, VS_SCHED_PORT, virtualServerKey } from '../../../src/state/virtual-server.ts';
import { address, virtualServer, vsId } from '../../support/state.ts';

const MH = { ...virtualServer('10.96.0.1', 80), scheduler: 'mh', flags: VS_SCHED_PORT };
const EVIDENCE: KubeProxyEvidence = {
  virtualServers: new Map([[virtualServerKey(MH), MH]]),
  bound: new Set([address('fd00::1'), address('10.96.0.1')]),
  isEndpoint: (each) => formatIp(each) === '10.244.0.7',
};

const NODE_PORT_IP = plannedSet('NODE-PORT-IP', 6, 0);
const CLUSTER_IP = plannedSet('CLUSTER-IP', 4, 0);
const CLOSED = plannedSet('IPVS-IPS', 4, 0);
const LOOP_BACK = plannedSet('LOOP-BACK', 4, 0);

const hairpin = (text: string) => ({ type: 'hash:ip,port,ip', ...vsId(text, 80), address2: address(text) }) as const;
const single = { type: 'hash:ip', address: address('10.96.0.1') } as const;
const service = { type: 'hash:ip,port', ...vsId('10.96.0.1', 80) } as const;

type Case = readonly [name: string, ops: readonly Op[], known: readonly (KnownDifference | undefined)[]];

const CASES: readonly Case[] = [
  [
    'the set of node port addresses',
    [
      { kind: 'create-set', set: NODE_PORT_IP },
      { kind: 'add-entry', set: NODE_PORT_IP, entry: single },
    ],
    ['node-port-addresses', 'node-port-addresses'],
  ],
  ['a set without entries', [{ kind: 'create-set', set: CLUSTER_IP }], ['empty-set']],
  [
    'a missing set with entries',
    [
      { kind: 'create-set', set: CLUSTER_IP },
      { kind: 'add-entry', set: CLUSTER_IP, entry: service },
    ],
    [undefined, undefined],
  ],
  [
    'the set of closed addresses, which releases before 1.27 lack',
    [
      { kind: 'create-set', set: CLOSED },
      { kind: 'add-entry', set: CLOSED, entry: single },
    ],
    ['closed-addresses', 'closed-addresses'],
  ],
  ['an entry that is missing in this set', [{ kind: 'add-entry', set: CLOSED, entry: single }], [undefined]],
  [
    'LOOP-BACK entries of endpoints and of nobody',
    [
      { kind: 'delete-entry', set: LOOP_BACK, entry: hairpin('10.244.0.7') },
      { kind: 'delete-entry', set: LOOP_BACK, entry: hairpin('10.244.0.8') },
      { kind: 'add-entry', set: LOOP_BACK, entry: hairpin('10.244.0.7') },
    ],
    ['loop-back', undefined, undefined],
  ],
  [
    'addresses that are bound and addresses that are not',
    ['fd00::1', 'fd00::2', '10.96.0.1'].map((each) => ({ kind: 'bind-address', address: address(each) })),
    ['ipv6-lifetime', undefined, undefined],
  ],
  [
    'flags of a hashing scheduler',
    [{ kind: 'edit-virtual-server', virtualServer: { ...MH, flags: VS_SCHED_PORT | VS_SCHED_FALLBACK } }],
    ['scheduler-flags'],
  ],
  [
    'another scheduler, another timeout, and an unknown virtual server',
    [
      { ...MH, scheduler: 'rr' },
      { ...MH, timeout: 7 },
      { ...MH, ...vsId('10.96.0.2', 80) },
    ].map((each) => ({ kind: 'edit-virtual-server', virtualServer: each })),
    [undefined, undefined, undefined],
  ],
  [
    'node ports on loopback and link-local addresses',
    ['127.0.0.1', '::1', 'fe80::1', '192.168.9.1'].map((each) => ({
      kind: 'delete-virtual-server',
      id: vsId(each, 30_080),
    })),
    ['node-port-on-loopback', 'node-port-on-loopback', 'node-port-on-loopback', undefined],
  ],
];

describe('what kube-proxy explains', () => {
  test.each(CASES)('%s', (_name, ops, known) => {
    expect(ops.map(knownDifferences(ops, EVIDENCE))).toEqual(known);
  });
});
