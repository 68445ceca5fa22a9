import { describe, expect, test } from '@jest/globals';
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
