import type { Port } from '../../src/base/port.ts';
import type { PlanConfig } from '../../src/plan/plan-config.ts';
import { cidr } from '../unit/plan/build.ts';

/** All rules that there can be, by what asks for them. */
export const RULE_CONFIGS: readonly [string, Partial<PlanConfig>][] = [
  ['nothing special', {}],
  [
    'masqueradeAll, no --random-fully, the highest bit',
    { masqueradeAll: true, randomFully: false, masqueradeMark: 1 << 31 },
  ],
  [
    'cluster CIDRs',
    {
      localDetectors: {
        4: { kind: 'cidr', cidr: cidr('10.201.0.0/16') },
        6: { kind: 'cidr', cidr: cidr('fd00:201::/48') },
      },
    },
  ],
  [
    'interfaces',
    {
      localDetectors: { 4: { kind: 'bridge', interfaceName: 'cni0' }, 6: { kind: 'interface-prefix', prefix: 'veth' } },
    },
  ],
  ['ports to masquerade with', { masqueradePorts: { from: 1024 as Port, to: 29_999 as Port } }],
];
