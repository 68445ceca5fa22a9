import { describe, expect, test } from '@jest/globals';
import { formatIp } from '../../../../src/base/ip.ts';
import { parseCidr } from '../../../../src/base/cidr.ts';
import { planConfigOf } from '../../../../src/daemon/startup/node-identity.ts';
import { Cluster } from '../../../../src/model/cluster.ts';
import { configOf } from '../../../support/config.ts';

describe('what tells Pods of this node', () => {
  const detectors = (...flags: readonly string[]) =>
    planConfigOf(configOf(...flags), 'node-a', [4, 6], new Cluster('node-a')).localDetectors;

  test('is the cluster CIDR of each family', () => {
    expect(detectors('--cluster-cidr=10.244.0.0/16,fd00::/56')).toEqual({
      4: { kind: 'cidr', cidr: parseCidr('10.244.0.0/16') },
      6: { kind: 'cidr', cidr: parseCidr('fd00::/56') },
    });
  });

  test.each(['0.0.0.0/0', '::/0', '0.0.0.0/0,::/0'])('is not %s, which contains everyone', (cidrs) => {
    expect(detectors(`--cluster-cidr=${cidrs}`)).toEqual({});
  });
});

describe('node ports at loopback addresses', () => {
  test.each([
    ['ipvs', [], false, ''],
    ['nftables', ['--nodeport-addresses=all'], false, ''],
    ['ipvs', ['--nodeport-addresses=primary,localhost'], false, '127.0.0.1 ::1'],
    ['nftables', ['--nodeport-addresses=127.0.0.0/8'], false, '127.0.0.1'],
    ['iptables', [], true, ''],
    ['iptables', ['--nodeport-addresses=localhost'], true, '::1'],
    ['iptables', ['--nodeport-addresses=localhost', '--iptables-localhost-nodeports=false'], false, '::1'],
  ] as const)('%s mode, flags %j: by rules %s, by the engine "%s"', (mode, flags, byRules, byEngine) => {
    const config = configOf(`--proxy-mode=${mode}`, ...flags);
    const plan = planConfigOf(config, 'node-a', [4, 6], new Cluster('node-a'));
    expect(plan.routesLocalnet ?? false).toBe(byRules);
    expect(plan.localNodePortAddresses?.map(formatIp).join(' ')).toBe(byEngine);
  });
});
