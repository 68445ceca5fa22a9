import { describe, expect, test } from '@jest/globals';
import { parseSettings } from '../../cluster/settings.ts';

describe('settings of the test cluster', () => {
  test('no arguments, or empty ones, are the defaults', () => {
    const defaults = {
      cluster: 'test',
      nodes: 2,
      kubernetes: '1.35.4',
      families: ['ipv4'],
      proxy: 'ours',
      overlay: 'privileged',
      loadBalancer: false,
      memory: '4G',
    };
    expect(parseSettings([])).toEqual(defaults);
    expect(parseSettings(['NODES=', 'FAMILY=', 'CLUSTER='])).toEqual(defaults);
  });

  test('each can be set', () => {
    const argv = ['CLUSTER=a', 'NODES=3', 'KUBERNETES=1.33.13', 'FAMILY=dual', 'PROXY=none', 'OVERLAY=restricted'];
    expect(parseSettings([...argv, 'LOAD_BALANCER=yes', 'MEMORY=3500M'])).toEqual({
      cluster: 'a',
      nodes: 3,
      kubernetes: '1.33.13',
      families: ['ipv4', 'ipv6'],
      proxy: 'none',
      overlay: 'restricted',
      loadBalancer: true,
      memory: '3500M',
    });
  });

  test.each([
    ['ipv4', ['ipv4']],
    ['ipv6', ['ipv6']],
    ['ipv4,ipv6', ['ipv4', 'ipv6']],
    ['ipv6,ipv4', ['ipv6', 'ipv4']],
  ])('FAMILY=%s is %j', (value, families) => {
    expect(parseSettings([`FAMILY=${value}`]).families).toEqual(families);
  });

  test('kube-proxy without a mode is that in ipvs mode', () => {
    expect(parseSettings(['PROXY=kube-proxy']).proxy).toBe('kube-proxy-ipvs');
    expect(parseSettings(['PROXY=kube-proxy-iptables']).proxy).toBe('kube-proxy-iptables');
  });

  test.each([
    ['CLUSTER=../x', /CLUSTER=\.\.\/x is not up to 20/],
    ['CLUSTER=-x', /CLUSTER=-x is not/],
    ['NODES=0', /NODES=0 is not a number from 1 to 9/],
    ['NODES=10', /NODES=10 is not/],
    ['KUBERNETES=v1.35.4', /is not a version like 1\.35\.4/],
    ['FAMILY=ipv5', /FAMILY=ipv5 is not ipv4 or ipv6 or dual/],
    ['FAMILY=constructor', /FAMILY=constructor is not/],
    ['PROXY=cilium', /PROXY=cilium is not ours or ours-nftables or/],
    ['OVERLAY=none', /OVERLAY=none is not privileged or restricted/],
    ['MEMORY=4', /MEMORY=4 is not a size/],
    ['NODE=2', /NODE=2: the settings are CLUSTER, NODES,/],
    ['two', /two: the settings are/],
    ['toString=2', /toString=2: the settings are/],
  ])('%s is refused', (argument, message) => {
    expect(() => parseSettings([argument])).toThrow(message);
  });
});
